"""The page on which a photograph is reconstructed, denoised or inpainted."""

from __future__ import annotations

import asyncio
import shlex
from html import escape
from typing import Any

import numpy as np
from nicegui import ui

from .. import images
from ..backend.arrays import Array, to_numpy
from ..backend.checks import InputError
from ..dictionary import load_dictionary
from ..dictionary.store import BUNDLED
from ..images.denoise import QUALITIES
from ..images.samples import FILES as SAMPLES
from ..images.settings import METHOD, UNSUITED
from ..kernels.groups import starts
from ..solvers import METHODS
from .frame import frame, marked, number, numbers
from .jobs import Jobs, Work
from .parts import Chart, Drop, Viewer, line
from .pictures import atom_pictures, data_url, decoded, decoded_mask, png, prepared
from .runner import Runner
from .tabs import Tab
from .work import photograph as work

SUMMARY = (
    "Drop a photograph or take a sample. It is reconstructed from few atoms per patch, freed of noise, or completed "
    "where pixels are missing, and you watch it getting better. Photographs stay on this machine."
)
TASKS = {"reconstruct": "Reconstruct", "denoise": "Denoise", "inpaint": "Inpaint"}
SIZES = {
    192: "192 pixels",
    256: "256 pixels",
    320: "320 pixels",
    512: "512 pixels",
    768: "768 pixels",
    1024: "1024 pixels",
}
# Methods that are compared at first, and all that can be chosen.
FIRST, OFFERED = [METHOD, "omp"], [name for name in METHODS if name not in UNSUITED]
SEED = 0
# Atoms of a patch that are drawn.
ATOMS = 24
# Missing pixels are drawn in this grey.
MISSING = 128


class PhotographPage:
    """The page of one tab.

    Parameters
    ----------
    jobs : Jobs
        The queue for its work.
    """

    def __init__(self, jobs: Jobs) -> None:
        self.tab = Tab(jobs)
        self.tab.upload = self.uploaded
        self.photograph: Array = images.sample("chelsea")
        self.clean: Array = np.zeros((1, 1), np.uint8)
        self.given: Array = self.clean
        self.painted: Array | None = None
        self.shown: dict[str, work.Shown] = {}
        self.coded: dict[str, work.Coded] = {}
        self.curves: dict[str, list[tuple[float, float]]] = {}
        self.failures: list[work.Failed] = []
        self.settings: dict[str, Any] = {}
        self.current: str | None = None
        self.preparing = asyncio.Lock()

    async def build(self) -> None:
        """Draw the page."""
        with frame("/", SUMMARY), ui.element("div").classes("columns"):
            with ui.element("div").classes("stack"):
                self._source()
                self._task()
            with ui.element("div").classes("stack").style("min-width: 0"):
                self._pictures()
        await self.task_changed()

    def _source(self) -> None:
        with ui.element("section").classes("panel").props('aria-label="photograph"'):
            drop = Drop(self.tab.upload_url, "Drop a photograph here, or click to choose one")
            drop.on("refused", lambda event: self.tab.warn(event.args))
            self.sample = ui.select(
                {"": "your photograph", **{name: name for name in SAMPLES}}, value="chelsea", label="Sample"
            ).props("dense outlined options-dense")
            self.sample.on_value_change(self.sampled)
            self.size = ui.select(SIZES, value=320, label="Longer side scaled down to").props("dense outlined")
            self.grey = ui.switch("Grey")
            for control in (self.size, self.grey):
                control.on_value_change(self.prepare)

    def _task(self) -> None:
        with ui.element("section").classes("panel").props('aria-label="task"'):
            self.task = ui.toggle(TASKS, value="reconstruct").props("no-caps spread unelevated").classes("fit-words")
            with ui.element("div").classes("stack") as self.reconstructing:
                self.methods = ui.select(OFFERED, value=FIRST, label="Methods", multiple=True).props(
                    "dense outlined use-chips options-dense"
                )
                self.dictionary = ui.select(list(BUNDLED), value="20x20", label="Dictionary").props("dense outlined")
                self.sparsity = number("Atoms per patch, s", 1, 200, 20)
                self.stride = number("Stride in pixels", 2, 20, 20, help="Smaller: patches overlap and are averaged.")
                self.budget = number("Budget: iterations", 10, 1000, 100, 10)
            with ui.element("div").classes("stack") as self.denoising:
                self.noise = number("Noise added, of 255", 0, 80, 25, help="0 if your photograph is noisy already.")
                self.noise.on_value_change(self.prepare)
                self.sigma = number("Noise assumed, of 255", 0, 80, 25, help="0: estimated from the picture.")
                self.quality = ui.select(list(QUALITIES), value="best", label="Quality").props("dense outlined")
            with ui.element("div").classes("stack") as self.inpainting:
                self.painting = ui.switch("Paint what is missing", value=True)
                self.painting.on_value_change(self._show)
                self.brush = number("Brush in pixels", 2, 60, 12)
                self.brush.on_value_change(lambda: self.viewer.set(brush=self.brush.value))
                self.scattered = number("Missing at random, %", 0, 90, 0)
                self.scattered.on_value_change(self.prepare)
                self.passes = number("Budget: passes", 1, 200, 50)
                ui.button("Clear the mask", on_click=self.clear).props("flat no-caps dense")
            self.runner = Runner(self.tab, self.asked, self.received, self.finished)
            self.task.on_value_change(self.task_changed)

    def _pictures(self) -> None:
        with ui.element("section").props('aria-label="pictures"'):
            with ui.element("div").classes("row").style("margin-bottom: .6rem"):
                self.view = ui.toggle({"result": "Before / after", "difference": "Difference"}, value="result").props(
                    "no-caps dense unelevated padding='4px 12px'"
                )
                self.view.on_value_change(self._show)
                self.which = (
                    ui.select([], label="Shown").props("dense outlined options-dense").style("min-width: 14rem")
                )
                self.which.on_value_change(self._chosen)
            self.viewer = Viewer("Picture before and after. Plus and minus zoom, arrows move, Enter picks a patch.")
            self.viewer.on("mask", self.masked)
            self.viewer.on("pick", self.picked)
            self.caption = ui.label("").classes("note")
        self.table = ui.html("", sanitize=False).classes("wide results")
        self.chart = Chart("seconds", "SNR (dB)", "Quality against time, one line for each method", xlog=True)
        self.atoms = ui.element("section").props('aria-label="atoms of a patch"')
        self.downloads = ui.element("section").classes("downloads").props('aria-label="downloads"')

    async def task_changed(self) -> None:
        """Show the settings of the task that is chosen."""
        for name, part in zip(TASKS, (self.reconstructing, self.denoising, self.inpainting), strict=True):
            part.set_visibility(name == self.task.value)
        await self.prepare()

    async def sampled(self) -> None:
        """Take a sample photograph."""
        if self.sample.value:
            self.photograph = await asyncio.to_thread(images.sample, self.sample.value)
            await self.prepare()

    async def uploaded(self, data: bytes) -> None:
        """Take a photograph from the browser.

        Parameters
        ----------
        data : bytes
            The contents of the file.
        """
        self.photograph = await asyncio.to_thread(decoded, data)
        self.sample.value = ""
        await self.prepare()

    async def prepare(self) -> None:
        """Make the picture to work on from the photograph and the settings, and drop old results."""
        async with self.preparing:
            noise = self.noise.value / 255 if self.task.value == "denoise" else 0.0
            asked = (self.photograph, self.size.value, self.grey.value, noise, SEED)
            self.clean, self.given = await asyncio.to_thread(prepared, *asked)
            if self.painted is not None and self.painted.shape != self.clean.shape[:2]:
                self.painted = None
            self.tab.stop()
            self._reset()
            encoded = await asyncio.to_thread(png, self._torn())
            height, width = self.clean.shape[:2]
            self.viewer.set(before=self.tab.put("input.png", encoded), width=width, height=height, box=None)
            self._show()
            self.runner.say(f"{width}x{height} pixels, ready.")

    def _reset(self) -> None:
        self.shown, self.coded, self.curves, self.failures = {}, {}, {}, []
        self.current = None
        self.which.set_options([], value=None)
        self.view.value = "result"
        self.table.content = ""
        self.chart.draw([])
        self.chart.set_visibility(False)
        self.atoms.clear()
        self.downloads.clear()
        self.runner.bar.value = 0

    def mask(self) -> Array:
        """Return what is missing: painted pixels, and pixels at random.

        Returns
        -------
        array of bool, shape (height, width)
            True where a pixel is missing.
        """
        shape = self.clean.shape[:2]
        lost: Array = np.random.default_rng(SEED).random(shape) < self.scattered.value / 100
        return lost if self.painted is None else lost | self.painted

    def _torn(self) -> Array:
        """The picture as it is given: with noise, or with missing pixels."""
        if self.task.value != "inpaint":
            return self.given
        missing = self.mask()
        return np.where(missing if self.clean.ndim == 2 else missing[..., None], np.uint8(MISSING), self.clean)

    async def masked(self, event: Any) -> None:
        """Take the mask that was painted.

        Parameters
        ----------
        event : event
            The mask as a data URL.
        """
        with self.runner.shown_errors():
            self.painted = await asyncio.to_thread(decoded_mask, str(event.args), self.clean.shape[:2])
            self.runner.say(f"{self.mask().mean():.1%} of the pixels are missing.")

    async def clear(self) -> None:
        """Forget what was painted."""
        self.painted = None
        self.scattered.value = 0
        self.viewer.run_method("clear")

    async def asked(self) -> tuple[Work, dict[str, Any]]:
        """Return the work that the settings ask for, and forget the results of earlier work.

        Returns
        -------
        work : callable
            A function of :mod:`sparsect.app.work.photograph`.
        arguments : dict
            Its arguments.
        """
        # Settings changed just before are in force first.
        async with self.preparing:
            self._reset()
            return {"reconstruct": self._to_reconstruct, "denoise": self._to_denoise}.get(
                self.task.value, self._to_inpaint
            )()

    def _to_reconstruct(self) -> tuple[Work, dict[str, Any]]:
        if not self.methods.value:
            raise InputError("Choose one method or more.")
        self.stride.value = min(self.stride.value, load_dictionary(self.dictionary.value).patch)
        # Methods that select one atom at a time need as many iterations as atoms.
        self.budget.value = max(self.budget.value, self.sparsity.value)
        self.settings = {
            "methods": list(self.methods.value),
            "sparsity": int(self.sparsity.value),
            "dictionary": self.dictionary.value,
            "stride": int(self.stride.value),
            "max_iter": int(self.budget.value),
        }
        return work.reconstruct, {"image": self.given, **self.settings}

    def _to_denoise(self) -> tuple[Work, dict[str, Any]]:
        known = self.noise.value > 0
        asked = {"sigma": self.sigma.value / 255 or None, "quality": self.quality.value, "known": known}
        self.settings = asked
        return work.denoise, {"image": self.given, "reference": self.clean, **asked}

    def _to_inpaint(self) -> tuple[Work, dict[str, Any]]:
        mask = self.mask()
        if not mask.any():
            raise InputError("No pixels are missing: paint on the picture, or let some be missing at random.")
        self.painting.value = False
        self.settings = {"passes": int(self.passes.value)}
        self.viewer.set(before=self.tab.put("input.png", png(self._torn())))
        return work.inpaint, {"image": self.clean, "reference": self.clean, "mask": mask, **self.settings}

    async def received(self, message: Any) -> None:
        """Show what the work has sent.

        Parameters
        ----------
        message : object
            A message of :mod:`sparsect.app.work.photograph`.
        """
        match message:
            case work.Shown(method=method):
                self.shown[method] = message
                if message.snr_db is not None:
                    self.curves.setdefault(method, []).append((max(message.seconds, 1e-3), message.snr_db))
                self.which.set_options(list(self.shown), value=method)
                self.current = method
                self._show()
                self._tabulate()
            case work.Coded(method=method):
                self.coded[method] = message
            case work.Failed():
                self.failures.append(message)
                self._tabulate()

    def finished(self) -> None:
        """Show the best result, and what can be downloaded."""
        if not self.shown:
            return
        if self.curves:
            self.which.value = max(self.curves, key=lambda method: self.curves[method][-1][1])
        self._downloads()
        if self.coded:
            height, width = self.clean.shape[:2]
            self._draw_atoms(width / 2, height / 2)

    def _chosen(self) -> None:
        self.current = self.which.value
        self._show()

    def _show(self) -> None:
        """Show the chosen result."""
        inpainting = self.task.value == "inpaint"
        paint = inpainting and bool(self.painting.value)
        before = {"reconstruct": "original", "denoise": "with noise", "inpaint": "missing pixels in grey"}
        names: dict[str, Any] = {"beforeName": before[self.task.value], "paint": paint, "brush": self.brush.value}
        result = self.shown.get(self.current or "")
        for control in (self.view, self.which):
            control.set_visibility(result is not None)
        if result is None:
            self.viewer.set(after=None, **names)
            words = "Paint on the picture with the mouse or a finger." if paint else "Press Run to begin."
            self.caption.text = words
            return
        url = self.tab.put(f"{result.method}.png".replace(" ", "-"), result.png)
        other = self.tab.put(f"{result.method}-difference.png".replace(" ", "-"), result.difference)
        different = self.view.value == "difference"
        self.viewer.set(
            after=other if different else url, afterName="difference" if different else result.method, **names
        )
        compared = "the picture without noise" if self.settings.get("known") else "the picture as given"
        reference = {"reconstruct": "the original", "denoise": compared, "inpaint": "the original"}[self.task.value]
        quality = "" if result.snr_db is None else f", {result.snr_db:.2f} dB"
        self.caption.text = (
            f"{result.method}{quality}, after {result.seconds:.2f} s{'' if result.final else ', still running'}. "
            + (
                f"Difference from {reference}, {result.scale}; mid-grey where there is none."
                if different
                else "Drag the boundary; scroll to zoom, both pictures move together."
            )
        )

    def _tabulate(self) -> None:
        """Draw the table of the methods, and their quality against time."""
        kind = {"reconstruct": "SNR", "denoise": "PSNR", "inpaint": "PSNR of missing pixels"}[self.task.value]
        # Stages have no lines of their own in the chart, and no markers.
        first, named = ("method", marked) if self.task.value == "reconstruct" else ("stage", escape)
        head = [first, f"{kind} (dB)", *(("patch SNR (dB)", "atoms per patch") if self.coded else ()), "seconds"]
        rows: dict[str, list[str]] = {}
        for method, one in self.shown.items():
            cells = ["" if one.snr_db is None else f"{one.snr_db:.2f}"]
            if self.coded:
                coded = self.coded.get(method)
                cells += ["", ""] if coded is None else [f"{coded.patch_snr_db:.2f}", f"{coded.atoms_per_patch:.1f}"]
            rows[named(method)] = [*cells, f"{one.seconds:.2f}{'' if one.final else ' …'}"]
        leading = max(self.curves, key=lambda method: self.curves[method][-1][1]) if len(self.curves) > 1 else None
        notes = [f"{one.method}: {one.reason}" for one in self.failures]
        self.table.content = numbers(head, rows, leading and named(leading), notes)
        self.chart.set_visibility(bool(self.curves))
        if self.task.value == "reconstruct":
            lines = [line(method, points) for method, points in self.curves.items()]
        else:
            # Stages of one method: one line through all of them.
            points = [
                (*point, f"{stage}: {point[1]:.2f} dB after {point[0]:.2f} s")
                for stage in self.curves
                for point in self.curves[stage]
            ]
            lines = [line("annealed-difference-map", points, self.task.value)] if points else []
        self.chart.draw(lines, ylabel=f"{kind} (dB)")

    def _downloads(self) -> None:
        """List what can be downloaded, and the command line that does the same."""
        self.downloads.clear()
        files = {"input picture": "input.png"}
        if self.task.value == "inpaint":
            self.tab.put("mask.png", png(np.where(self.mask(), np.uint8(255), np.uint8(0))))
            files["mask"] = "mask.png"
        if self.settings.get("known"):
            self.tab.put("clean.png", png(self.clean))
            files["picture without noise"] = "clean.png"
        for method, one in self.shown.items():
            stem = method.replace(" ", "-")
            files[method] = f"{stem}.png"
            self.tab.put(f"{stem}.png", one.png)
            if method in self.coded:
                files[f"codes of {method}"] = f"{stem}-codes.npz"
                self.tab.put(f"{stem}-codes.npz", self.coded[method].file, "application/octet-stream")
        with self.downloads:
            ui.html("<h2>Download</h2>", sanitize=False)
            with ui.element("div").classes("links"):
                for words, name in files.items():
                    ui.link(words, f"{self.tab.upload_url}/{name}").props(f'download="{name}"')
            ui.html("<h2 style='margin-top: 1rem'>The same from a shell</h2>", sanitize=False)
            ended = [name for name, one in self.shown.items() if one.final and name != work.FIRST]
            stopped = [name for name in self.shown if name not in ended and (not ended or name != work.FIRST)]
            if ended:
                ui.label(self._command(ended)).classes("command")
            if stopped:
                ui.label(f"Stopped: no command gives what is shown as {', '.join(stopped)}.").classes("note stopped")

    def _command(self, ended: list[str]) -> str:
        """Return the command line that does the same with the files downloaded, for methods or stages that ended."""
        asked = self.settings
        if self.task.value == "reconstruct":
            words = ["sparsect", "reconstruct", "input.png", "--sparsity", asked["sparsity"]]
            words += ["--dictionary", asked["dictionary"], "--stride", asked["stride"], "--max-iter", asked["max_iter"]]
            words += [part for method in ended for part in ("--method", method)]
        elif self.task.value == "denoise":
            words = ["sparsect", "denoise", "input.png", "--quality", ended[-1]]
            words += ["--sigma", f"{255 * asked['sigma']:g}/255"] if asked["sigma"] else []
            words += ["--truth", "clean.png"] if asked["known"] else []
        else:
            words = ["sparsect", "inpaint", "input.png", "--mask", "mask.png", "--passes", ended[-1].split()[0]]
        return shlex.join(map(str, words))

    def picked(self, event: Any) -> None:
        """Draw the atoms of the patch that was clicked.

        Parameters
        ----------
        event : event
            The pixel.
        """
        if self.coded:
            self._draw_atoms(*(float(part) for part in event.args))

    def _draw_atoms(self, x: float, y: float) -> None:
        coded = self.coded.get(self.current or "") or next(iter(self.coded.values()))
        codes, dictionary = coded.codes, load_dictionary(self.settings["dictionary"])
        side, Phi = codes.patch, to_numpy(dictionary.Phi)
        down, across = (starts(length, side, codes.stride) for length in codes.shape[:2])
        row, column = (int(np.abs(first + side / 2 - at).argmin()) for first, at in ((down, y), (across, x)))
        top, left = int(down[row]), int(across[column])
        self.viewer.set(box=[left, top, side])
        self.atoms.clear()
        with self.atoms:
            ui.html(f"<h2>Atoms of a patch, {escape(coded.method)}</h2>", sanitize=False)
            ui.label(
                f"The patch at row {top} and column {left} is the sum of its mean and these atoms, each times the "
                "number below it, the largest first. Click another patch in the picture."
            ).classes("note")
            channels = [""] if len(codes.shape) == 2 else ["red", "green", "blue"]
            for place, channel in enumerate(channels):
                number = place * len(down) * len(across) + row * len(across) + column
                code = codes.matrix[[number]]
                fit = (code @ Phi.T + codes.means[number]).reshape(side, side)
                plane = self.clean if not channel else self.clean[..., place]
                patch = plane[top : top + side, left : left + side] / np.float32(255)
                shown = [("patch", patch), ("sum", np.clip(fit, 0, 1))]
                order = np.argsort(-np.abs(code.data))
                pictures = atom_pictures(Phi[:, code.indices[order[:ATOMS]]].T, side, 1)
                weights = zip(code.indices[order], code.data[order], strict=True)
                shown += [(f"{weight:+.2f}", one) for (_, weight), one in zip(weights, pictures, strict=False)]
                figures = "".join(
                    f'<figure><img src="{data_url(one, 2)}" alt="{escape(channel)} {escape(words)}">'
                    f"{escape(words)}</figure>"
                    for words, one in shown
                )
                left_out = f"<p class=note>and {order.size - ATOMS} more</p>" if order.size > ATOMS else ""
                head = f"<h3 class=note>{channel}, {order.size} atoms</h3>"
                ui.html(f"{head}<div class=atoms>{figures}</div>{left_out}", sanitize=False)
