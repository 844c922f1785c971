"""The page on which one looks at atoms and learns a small dictionary."""

from __future__ import annotations

import asyncio
import math
import shlex
from html import escape
from typing import Any

from nicegui import ui

from .. import images
from ..backend.arrays import Array, to_numpy
from ..backend.checks import InputError
from ..dictionary import Dictionary, load_dictionary
from ..dictionary.pictures import atom_order
from ..dictionary.store import BUNDLED
from ..images.samples import FILES as SAMPLES
from .frame import frame, number
from .jobs import Jobs, Work
from .parts import Chart, Drop, Viewer, line
from .pictures import atom_pictures, data_url, decoded
from .runner import Runner
from .tabs import Tab
from .work import dictionary as work

SUMMARY = (
    "A dictionary is a set of atoms, small patterns; a patch of a photograph is a sum of few of them. Look at those of "
    "the package, or learn one from photographs of your own and watch it change by rounds."
)
# At most this many photographs, each scaled down to this many pixels on its longer side.
MOST, LONGEST = 24, 1024
# The name of the dictionary that is learned here, in the list of dictionaries.
OWN = "learned here"


class DictionaryPage:
    """The page of one tab.

    Parameters
    ----------
    jobs : Jobs
        The queue for its work.
    """

    def __init__(self, jobs: Jobs) -> None:
        self.tab = Tab(jobs)
        self.tab.upload = self.uploaded
        self.photographs: list[Array] = []
        self.rounds: list[work.Round] = []
        self.asked_for: dict[str, Any] = {}

    def build(self) -> None:
        """Draw the page."""
        with frame("/dictionary", SUMMARY), ui.element("div").classes("columns"):
            with ui.element("div"):
                with ui.element("section").classes("panel").props('aria-label="dictionary"'):
                    self.which = ui.select([*BUNDLED], value="8x8", label="Dictionary").props("dense outlined")
                    self.sort = ui.select(
                        {"frequency": "low frequencies first", "use": "those used most first"},
                        value="frequency",
                        label="Order",
                    ).props("dense outlined")
                    for control in (self.which, self.sort):
                        control.on_value_change(self.show)
                with ui.element("section").classes("panel").props('aria-label="learning"'):
                    ui.html("<h2>Learn one</h2>", sanitize=False)
                    drop = Drop(self.tab.upload_url, "Drop photographs here, or click to choose", multiple=True)
                    drop.on("refused", lambda event: self.tab.warn(event.args))
                    self.samples = ui.select(
                        list(SAMPLES), value=["camera", "chelsea"], label="Samples", multiple=True
                    ).props("dense outlined use-chips options-dense")
                    self.count = ui.label("No photographs of your own.").classes("note photographs")
                    self.patch = number("Side of a patch, pixels", 4, 16, 8)
                    self.atoms = number("Atoms", 16, 256, 64, 8)
                    self.sparsity = number("Atoms per patch while learning", 1, 20, 5)
                    self.number_of_rounds = number("Rounds", 2, 40, 12)
                    self.patches = number("Patches", 1000, 50000, 10000, 1000)
                    self.runner = Runner(self.tab, self.asked, self.received, self.finished, "Learn")
            with ui.element("div").classes("stack").style("min-width: 0"):
                self.viewer = Viewer("Atoms of the dictionary. Plus and minus zoom, arrows move, Enter picks an atom.")
                self.viewer.on("pick", self.picked)
                self.caption = ui.label("").classes("note")
                with ui.element("div").classes("row") as self.history:
                    self.round = ui.label("").classes("note round")
                    self.back = ui.slider(min=1, max=2, value=1).props('dense aria-label="round shown"')
                    self.back.classes("back").on_value_change(self.show)
                with ui.element("div").classes("pair"):
                    self.errors = Chart("round", "relative error (%)", "Error of each round of learning")
                    self.atom = ui.html("", sanitize=False).classes("atom")
                self.downloads = ui.element("section").props('aria-label="downloads"')
        self.show()

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary that is shown."""
        if self.which.value == OWN and self.rounds:
            return self.rounds[min(int(self.back.value), len(self.rounds)) - 1].dictionary
        return load_dictionary(self.which.value if self.which.value in BUNDLED else None)

    async def uploaded(self, data: bytes) -> None:
        """Take a photograph from the browser.

        Parameters
        ----------
        data : bytes
            The contents of the file.
        """
        if len(self.photographs) >= MOST:
            raise InputError(f"At most {MOST} photographs can be used here; sparsect learn takes a folder of any size.")

        def small() -> Array:
            grey = images.to_gray(decoded(data))
            return images.resize(grey, LONGEST) if max(grey.shape) > LONGEST else grey

        self.photographs.append(await asyncio.to_thread(small))
        count = len(self.photographs)
        self.count.text = f"{count} photograph{'s' if count > 1 else ''} of your own."
        self.samples.value = []

    async def asked(self) -> tuple[Work, dict[str, Any]]:
        """Return the work that the settings ask for.

        Returns
        -------
        work : callable
            Learning.
        arguments : dict
            Its arguments.
        """
        photographs = [*self.photographs, *(images.to_gray(images.sample(name)) for name in self.samples.value)]
        if not photographs:
            raise InputError("Choose a sample or more, or drop photographs of your own.")
        self.rounds = []
        self.downloads.clear()
        self.tab.forget("dictionary.npz")
        names = ("atoms", "patch", "sparsity", "rounds", "patches")
        controls = (self.atoms, self.patch, self.sparsity, self.number_of_rounds, self.patches)
        self.asked_for = {name: int(control.value) for name, control in zip(names, controls, strict=True)}
        return work.teach, {"photographs": photographs, "seed": 0, **self.asked_for}

    async def received(self, message: Any) -> None:
        """Show what the work has sent.

        Parameters
        ----------
        message : object
            A message of :mod:`sparsect.app.work.dictionary`.
        """
        match message:
            case work.Round():
                self.rounds.append(message)
                self.back.props(f"max={max(2, len(self.rounds))}")
                self.back.value = len(self.rounds)
                self.which.set_options([*BUNDLED, OWN], value=OWN)
                self.show()
            case work.Learned(file=file):
                self.tab.put("dictionary.npz", file, "application/octet-stream")

    def finished(self) -> None:
        """Offer what was learned for download."""
        if self.tab.file("dictionary.npz") is None or not self.rounds:
            return
        words = ["sparsect", "learn", "photos/"]
        words += [part for name, value in self.asked_for.items() for part in (f"--{name}", value)]
        with self.downloads:
            ui.html("<h2>Download</h2>", sanitize=False)
            with ui.element("div").classes("links"):
                for label, name in {"dictionary": "dictionary.npz", "picture of the atoms": "atoms.png"}.items():
                    ui.link(label, f"{self.tab.upload_url}/{name}").props(f'download="{name}"')
            ui.html("<h2>The same from a shell, with the photographs in a folder</h2>", sanitize=False)
            ui.label(shlex.join(map(str, [*words, "--out", "dictionary.npz"]))).classes("command")

    def show(self) -> None:
        """Draw the atoms and the errors of the dictionary that is chosen."""
        dictionary = self.dictionary
        m, n = dictionary.Phi.shape
        side = dictionary.patch
        sort = "frequency" if dictionary.usage is None else self.sort.value
        across = math.ceil(math.sqrt(1.6 * n))
        size = {"width": across * (side + 1) + 1, "height": math.ceil(n / across) * (side + 1) + 1}
        url = self.tab.put("atoms.png", work.tiles(dictionary, sort))
        self.viewer.set(sharp=True, before=url, beforeName=f"{n} atoms of {side}x{side} pixels", box=None, **size)
        rounds, own = dictionary.rounds, self.which.value == OWN
        told = "" if not rounds else f", after {len(rounds)} rounds of learning"
        self.caption.text = f"{n} atoms of {side}x{side} pixels (Phi is {m}x{n}){told}. Click an atom to look at it."
        self.errors.draw(
            [
                line(look, [(number + 1, 100 * one[name]) for number, one in enumerate(rounds)], label)
                for name, label, look in (
                    ("error", "training patches", "annealed-difference-map"),
                    ("validation_error", "held-out patches", "difference-map"),
                )
                if rounds and name in rounds[0]
            ]
        )
        self.errors.set_visibility(bool(rounds))
        self.history.set_visibility(own and len(self.rounds) > 1)
        self.round.text = f"Round {len(rounds)} of {len(self.rounds)}"
        self._draw_atom(0)

    def picked(self, event: Any) -> None:
        """Draw the atom that was clicked.

        Parameters
        ----------
        event : event
            The pixel.
        """
        dictionary = self.dictionary
        side, n = dictionary.patch, dictionary.Phi.shape[1]
        across = math.ceil(math.sqrt(1.6 * n))
        column, row = (int(float(part) // (side + 1)) for part in event.args)
        place = row * across + column
        if 0 <= column < across and 0 <= place < n:
            self.viewer.set(box=[1 + column * (side + 1), 1 + row * (side + 1), side])
            self._draw_atom(place)

    def _draw_atom(self, place: int) -> None:
        dictionary = self.dictionary
        sort = "frequency" if dictionary.usage is None else self.sort.value
        atom = int(atom_order(dictionary, sort)[place])
        picture = atom_pictures(to_numpy(dictionary.Phi)[:, [atom]].T, dictionary.patch, dictionary.channels)[0]
        use = "" if dictionary.usage is None else f", used by {dictionary.usage[atom]:.1%} of the patches"
        words = f"Atom {atom}{use}"
        self.atom.content = (
            f'<figure class=one><img src="{data_url(picture, max(1, 240 // picture.shape[0]))}" '
            f'alt="{escape(words)}"><figcaption class=note>{escape(words)}.</figcaption></figure>'
        )
