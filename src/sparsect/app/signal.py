"""The page on which solvers race for a sparse signal, and the Difference Map wanders in the plane."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from nicegui import ui

from ..backend.arrays import FloatArray
from ..backend.checks import InputError
from ..metrics import snr_db
from ..paper.contenders import ORDER
from ..paper.summary import relative_error
from ..reporting.look import MARKERS
from ..solvers import METHODS
from .frame import frame, marked, number, numbers
from .jobs import Jobs, Work
from .parts import Chart, line
from .runner import Runner
from .tabs import Tab
from .wandering import REACH, Plane, Step, drawing
from .work import signal as work

SUMMARY = (
    "A signal with s nonzeros is measured m times; solvers race to find it. They take turns on one core, and each has "
    "its own clock. Settings of the solvers are those that were tuned for random measurements."
)
FIRST = ["auto", "difference-map", "admm", "omp"]
# A relative error below this is drawn as this, because rounding is all that is left; SNRs above this are "exact".
FLOOR, EXACT = 1e-10, 200.0
# At this gap the map has arrived, and after this many steps it rests.
ARRIVED, LONGEST = 1e-9, 400


class SignalPage:
    """The page of one tab.

    Parameters
    ----------
    jobs : Jobs
        The queue for its work.
    """

    def __init__(self, jobs: Jobs) -> None:
        self.tab = Tab(jobs)
        self.truth: FloatArray | None = None
        self.points: dict[str, list[tuple[int, float, float, float]]] = {}
        self.estimates: dict[str, FloatArray] = {}
        self.arrived: dict[str, work.Arrived] = {}

    def build(self) -> None:
        """Draw the page."""
        with frame("/signal", SUMMARY):
            with ui.element("div").classes("columns"):
                with ui.element("section").classes("panel").props('aria-label="problem"'):
                    self.m = number("Measurements, m", 10, 800, 100, 10)
                    self.n = number("Unknowns, n", 20, 2000, 250, 10)
                    self.s = number("Nonzeros, s", 1, 400, 30)
                    self.noise = number("SNR of the measurements, dB", 5, 100, 100, 5, help="100: no noise.")
                    self.kind = ui.select(work.KINDS, value="gaussian", label="Matrix").props("dense outlined")
                    self.methods = ui.select(list(ORDER), value=FIRST, label="Solvers", multiple=True).props(
                        "dense outlined use-chips options-dense"
                    )
                    self.budget = number("Budget: seconds for each", 0.2, 10, 2, 0.2)
                    self.seed = number("Seed", 0, 99, 0)
                    self.runner = Runner(self.tab, self.asked, self.received, words="Race")
                with ui.element("div").classes("stack").style("min-width: 0"):
                    with ui.element("div").classes("row"):
                        self.which = ui.select([], label="Estimate shown").props("dense outlined options-dense")
                        self.which.style("min-width: 14rem").on_value_change(self._draw_signal)
                    self.signal = Chart("place", "value", "True signal and estimate as stems", stems=True)
                    self.table = ui.html("", sanitize=False).classes("wide results")
                    with ui.element("div").classes("pair"):
                        self.errors = Chart(
                            "seconds", "relative error of x", "Error of each solver against time", xlog=True, ylog=True
                        )
                        self.gaps = Chart(
                            "iteration",
                            "gap, or stopping criterion",
                            "Gap between the sets, or stopping criterion, along the run",
                            xlog=True,
                            ylog=True,
                        )
            Wandering().build()

    async def asked(self) -> tuple[Work, dict[str, Any]]:
        """Return the work that the settings ask for, and forget the last race.

        Returns
        -------
        work : callable
            The race.
        arguments : dict
            Its arguments.
        """
        m, n, s = (int(one.value) for one in (self.m, self.n, self.s))
        if s > min(m, n):
            raise InputError(f"With {m} measurements of {n} unknowns, s is at most {min(m, n)}, not {s}.")
        if not self.methods.value:
            raise InputError("Choose one solver or more.")
        self.truth, self.points, self.estimates, self.arrived = None, {}, {}, {}
        self.which.set_options([], value=None)
        noise = None if self.noise.value >= 100 else float(self.noise.value)
        return work.race, {
            "m": m,
            "n": n,
            "sparsity": s,
            "noise_db": noise,
            "kind": self.kind.value,
            "methods": list(self.methods.value),
            "max_iter": 20000,
            "max_seconds": float(self.budget.value),
            "seed": int(self.seed.value),
        }

    async def received(self, message: Any) -> None:
        """Show what the work has sent.

        Parameters
        ----------
        message : object
            A message of :mod:`sparsect.app.work.signal`.
        """
        match message:
            case work.Drawn(x=x):
                self.truth = x
            case work.Turn(method=method, points=points, x=x):
                self.points.setdefault(method, []).extend(points)
                self.estimates[method] = x
                if self.which.options != list(self.estimates):
                    self.which.set_options(list(self.estimates), value=self.which.value or method)
            case work.Arrived(method=method):
                self.arrived[method] = message
        self._draw()

    def _draw(self) -> None:
        self._draw_signal()
        self.errors.draw(
            [
                line(method, [(seconds, max(float(relative_error(snr)), FLOOR)) for _, seconds, snr, _ in thin(points)])
                for method, points in self.points.items()
            ]
        )
        self.gaps.draw(
            [
                line(
                    method,
                    [
                        (
                            step,
                            gap,
                            f"{method}, iteration {step}: {METHODS[method].criterion.replace('_', ' ')} {gap:.3g}",
                        )
                        for step, _, _, gap in thin(points)
                        if math.isfinite(gap)
                    ],
                )
                for method, points in self.points.items()
            ]
        )
        rows, failures = {}, []
        for method, points in self.points.items():
            end = self.arrived.get(method)
            step, seconds, snr, _ = points[-1]
            cells = [_ratio(snr), "", "", f"{step:,}", f"{seconds:.2f}", "…"]
            if end is not None:
                cells[1:3] = [f"{end.recall:.0%}", f"{end.residual:.1e}"]
                cells[5] = "yes" if end.converged else "no"
            rows[marked(method)] = cells
        failures = [f"{method}: {end.failed}" for method, end in self.arrived.items() if end.failed]
        head = ["solver", "SNR of x", "support found", "residual", "iterations", "seconds", "converged"]
        self.table.content = numbers(head, rows, None, failures)

    def _draw_signal(self) -> None:
        if self.truth is None:
            return
        series = [_stems("truth", self.truth, "var(--faint)", "o", False)]
        method = self.which.value
        if method in self.estimates:
            found = self.estimates[method]
            series.append(line(method, _nonzeros(found, method)))
            quality = float(snr_db(self.truth, found))
            self.signal.draw(series, hint=f"{method}: SNR {_ratio(quality)}")
        else:
            self.signal.draw(series)


class Wandering:
    """The part of the page about the Difference Map in the plane."""

    def __init__(self) -> None:
        self.start = np.array([-2.0, -1.0])
        self.path: list[Step] = []

    def build(self) -> None:
        """Draw it."""
        ui.html(
            "<h2 class=later>How the Difference Map wanders</h2><p class=summary>Set A: points with one nonzero, the "
            "two axes. Set B: points that agree with one measurement, a line. The map looks for a point of both. Click "
            "into the picture to start elsewhere.</p>",
            sanitize=False,
        )
        with ui.element("div").classes("columns"):
            with ui.element("section").classes("panel").props('aria-label="plane"'):
                self.angle = number("Angle of the line, degrees", 5, 85, 10)
                self.offset = number("Distance of the line", 0.1, 2, 0.5, 0.1)
                self.beta = number("beta", 0.05, 1.2, 0.2, 0.05)
                for control in (self.angle, self.offset, self.beta):
                    control.on_value_change(self.restart)
                with ui.element("div").classes("row"):
                    ui.button("Step", on_click=self.step).props("unelevated no-caps")
                    self.play = ui.switch("Play", on_change=self._played)
                    ui.button("Restart", on_click=self.restart).props("flat no-caps")
                self.words = ui.label("").classes("note wandered").props('aria-live="polite"')
            self.picture = ui.html("", sanitize=False)
            self.picture.on(
                "click",
                self.placed,
                js_handler="""(event) => {
                    const box = event.currentTarget.querySelector("svg").getBoundingClientRect();
                    emit([(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height]);
                }""",
            )
        self.timer = ui.timer(0.25, self.step, active=False)
        self.restart()

    @property
    def plane(self) -> Plane:
        """The two sets and the map."""
        return Plane(float(self.angle.value), float(self.offset.value), float(self.beta.value))

    def _played(self) -> None:
        self.timer.active = bool(self.play.value)

    def placed(self, event: Any) -> None:
        """Start where the picture was clicked.

        Parameters
        ----------
        event : event
            The place, in shares of the picture.
        """
        across, down = (float(part) for part in event.args)
        self.start = np.array([(2 * across - 1) * REACH, (1 - 2 * down) * REACH])
        self.restart()

    def restart(self) -> None:
        """Go back to the start."""
        self.path = [self.plane.at(self.start)]
        self._draw()

    def step(self) -> None:
        """Take a step, unless the map has arrived."""
        if self.path[-1].gap > ARRIVED and len(self.path) <= LONGEST:
            self.path.append(self.plane.after(self.path[-1]))
            self._draw()
        else:
            self.play.value = False

    def _draw(self) -> None:
        now = self.path[-1]
        where = f"Step {len(self.path) - 1}: x = ({now.x[0]:.3f}, {now.x[1]:.3f}), gap {now.gap:.2g}."
        found = f" Found: ({now.in_A[0]:.3f}, {now.in_A[1]:.3f}) lies in both sets." if now.gap <= ARRIVED else ""
        self.words.text = where + found
        self.picture.content = drawing(self.plane, self.path)


def thin(points: list[Any], most: int = 150) -> list[Any]:
    """Leave out points of a long line, but not the last one.

    Parameters
    ----------
    points : list
        The points.
    most : int, optional
        About how many to keep.

    Returns
    -------
    list
        The points that are kept.
    """
    kept = sorted({int(place) for place in np.geomspace(1, len(points), most)}) if len(points) > most else []
    return [points[place - 1] for place in kept] if kept else points


def _ratio(snr: float) -> str:
    return "exact" if snr > EXACT else f"{snr:.1f} dB"


def _nonzeros(x: FloatArray, name: str) -> list[tuple[Any, ...]]:
    return [(int(place), float(x[place]), f"{name}: x[{place}] = {x[place]:.4g}") for place in np.flatnonzero(x)]


def _stems(name: str, x: FloatArray, colour: str, marker: str, filled: bool) -> dict[str, Any]:
    points = _nonzeros(x, name)
    # Larger than the markers of estimates, so that both are seen where they agree.
    about = {"name": name, "colour": colour, "marker": MARKERS[marker], "filled": filled}
    return about | {"points": points, "size": 6}
