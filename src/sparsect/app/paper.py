"""The page with the figures of the paper, whose rows can be read by pointing at them."""

from __future__ import annotations

import csv
from html import escape
from pathlib import Path
from typing import Any

from nicegui import ui

from ..backend.checks import InputError
from ..paper.claims import judge
from ..paper.contenders import ORDER
from ..paper.experiments import experiments
from ..paper.rows import Row
from ..paper.summary import LIMITS, names, relative_error, where
from ..paper.tables import snr_table
from .frame import frame, marked, number, numbers
from .jobs import Jobs, Work
from .parts import Chart, line
from .runner import Runner
from .tabs import Tab
from .work import paper as work

SUMMARY = (
    "The figures of Landecker, Chartrand and DeDeo, “Robust Compressed Sensing and Sparse Coding with the Difference "
    "Map”, with every row of data to point at: from a folder, or computed now in a shorter version."
)
# The experiments that can be computed here; those on photographs take too long.
COMPUTED = ("vary-sparsity", "vary-noise", "vary-size", "beta")
FIRST = ["difference-map", "admm", "omp", "auto"]
NOW = "computed now, on this page"
# The largest table that is read.
MOST_BYTES = 64 * 2**20


def read_table(path: Path) -> list[Row]:
    """Read rows that ``sparsect experiment`` has written.

    Parameters
    ----------
    path : Path
        The file ``table.csv`` of an experiment.

    Returns
    -------
    list of Row
        The rows; numbers are numbers, and empty cells are left out.
    """
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path}: too large to be shown")
    with path.open(newline="", encoding="utf-8") as stream:
        return [{name: _value(cell) for name, cell in row.items() if cell} for row in csv.DictReader(stream)]


def _value(cell: str) -> Any:
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if number.is_integer() and "." not in cell and "e" not in cell.lower() else number


class PaperPage:
    """The page of one tab.

    Parameters
    ----------
    jobs : Jobs
        The queue for its work.
    folder : Path or None
        Folder with the rows of experiments.
    """

    def __init__(self, jobs: Jobs, folder: Path | None) -> None:
        self.tab = Tab(jobs)
        self.folder = folder
        self.titles = {name: one.title for name, one in experiments(Path()).items()}
        self.rows: list[Row] = []
        self.charts: dict[str, Chart] = {}

    def build(self) -> None:
        """Draw the page."""
        found = [name for name in self.titles if self.folder and (self.folder / name / "table.csv").exists()]
        sources = [*([str(self.folder)] if found else []), NOW]
        with frame("/paper", SUMMARY), ui.element("div").classes("columns"):
            with ui.element("section").classes("panel").props('aria-label="experiment"'):
                self.source = ui.select(sources, value=sources[0], label="Rows").props("dense outlined")
                self.name = ui.select(self.titles, value="vary-sparsity", label="Experiment").props("dense outlined")
                with ui.element("div").classes("stack") as self.computing:
                    self.methods = ui.select(list(ORDER), value=FIRST, label="Solvers", multiple=True).props(
                        "dense outlined use-chips options-dense"
                    )
                    self.runs = number("Problems of each kind", 1, 10, 1)
                    self.seconds = number("Seconds for each run", 0.2, 4, 0.5, 0.1)
                    self.runner = Runner(self.tab, self.asked, self.received, words="Compute")
                self.run = ui.select([0], value=0, label="Problem shown").props("dense outlined")
                self.run.on_value_change(self.draw)
            with ui.element("div").classes("stack").style("min-width: 0"):
                self.origin = ui.label("").classes("note origin")
                self.figures = ui.element("div").classes("pair figures")
                self.table = ui.html("", sanitize=False).classes("wide results")
                self.claims = ui.html("", sanitize=False).classes("wide claims")
        for control in (self.source, self.name):
            control.on_value_change(self.load)
        self.load()

    def load(self) -> None:
        """Read the rows of the experiment that is chosen."""
        live = self.source.value == NOW
        self.computing.set_visibility(live)
        self.tab.stop()
        self._forget()
        name = self.name.value
        if live:
            self.origin.text = (
                "Rows are computed on this machine when you press Compute: the paper's problems, but fewer of them and "
                "with less time, so that verdicts on them are not those of the report. Times depend on what else runs."
            )
        else:
            path = Path(self.source.value) / name / "table.csv"
            self.rows = read_table(path) if path.exists() else []
            missing = f"There are no rows of this experiment; call sparsect experiment {name}."
            self.origin.text = f"Rows are from {path}, {len(self.rows):,} of them." if self.rows else missing
        self.draw()

    def _forget(self) -> None:
        self.rows, self.charts = [], {}
        self.figures.clear()

    async def asked(self) -> tuple[Work, dict[str, Any]]:
        """Return the work that the settings ask for.

        Returns
        -------
        work : callable
            The experiment.
        arguments : dict
            Its arguments.
        """
        if self.name.value not in COMPUTED:
            raise InputError(
                "This experiment takes too long for a page. Call sparsect experiment "
                f"{self.name.value} --out FOLDER, then sparsect app --rows FOLDER."
            )
        if not self.methods.value:
            raise InputError("Choose one solver or more.")
        self._forget()
        self.draw()
        chosen = {"methods": list(self.methods.value), "runs": int(self.runs.value)}
        return work.compute, {"name": self.name.value, **chosen, "seconds": float(self.seconds.value)}

    async def received(self, message: Any) -> None:
        """Add rows to the figures.

        Parameters
        ----------
        message : object
            A message of :mod:`sparsect.app.work.paper`.
        """
        self.rows += message.rows
        self.draw()

    def draw(self) -> None:
        """Draw the figures and the tables from the rows."""
        name, rows = self.name.value, self.rows
        runs = sorted(names(rows, "run")) or [0]
        if self.run.options != runs:
            self.run.set_options(runs, value=self.run.value if self.run.value in runs else runs[0])
        for setting in names(rows, "setting"):
            (self._over_beta if name == "beta" else self._against_time)(setting)
        head, lines = snr_table(name, rows) if where(rows) else ([], [])
        known = {one[0]: (marked(one[0]) if one[0] in ORDER else escape(one[0])) for one in lines}
        failed = [f"{row['solver']} failed: {row['failed']}" for row in rows if "failed" in row]
        self.table.content = numbers(head, {known[one[0]]: one[1:] for one in lines}, None, failed[:5]) if lines else ""
        judged = list(judge({name: rows})) if rows else []
        body = "".join(
            f"<tr><td>{escape(one.claim)}</td><td>{escape(one.measured)}</td><td>{escape(one.verdict)}</td></tr>"
            for one in judged
        )
        self.claims.content = (
            "<h2>What the rows say about the paper's claims</h2><table class='numbers words'><thead><tr><th>claim</th>"
            f"<th>measured</th><th>verdict</th></tr></thead><tbody>{body}</tbody></table>"
            if judged
            else ""
        )

    def _against_time(self, setting: str) -> None:
        chosen = where(self.rows, setting=setting, run=self.run.value)
        lines = []
        for solver in names(chosen, "solver"):
            if solver in LIMITS:
                continue
            points = [
                (row["seconds"], float(relative_error(row["snr_db"])), _row_in_words(row))
                for row in where(chosen, solver=solver)
            ]
            lines.append(line(solver, points))
        levels = [
            (row["solver"], float(relative_error(row["snr_db"]))) for row in chosen if row["solver"] in LIMITS[:1]
        ]
        self._chart(setting, "seconds", "relative error of x", True).draw(lines, levels=levels)

    def _over_beta(self, setting: str) -> None:
        chosen = where(self.rows, setting=setting, run=self.run.value)
        ordered = sorted(chosen, key=lambda row: float(row["beta"]))
        points = [(row["beta"], row["snr_db"], f"beta {row['beta']:+.1f}: {row['snr_db']:.2f} dB") for row in ordered]
        self._chart(setting, "beta", "SNR of x (dB)", False).draw([line("difference-map", points)])

    def _chart(self, setting: str, xlabel: str, ylabel: str, log: bool) -> Chart:
        """Return the chart of a setting, which is made once and then changed."""
        if setting not in self.charts:
            with self.figures, ui.element("div"):
                ui.html(f"<h2>{escape(setting)}</h2>", sanitize=False)
                words = f"{ylabel} against {xlabel}, {setting}"
                self.charts[setting] = Chart(xlabel, ylabel, words, xlog=log, ylog=log)
        return self.charts[setting]


def _row_in_words(row: Row) -> str:
    return (
        f"{row['solver']}, problem {row['run']}, iteration {row['iteration']}, {row['seconds']:.3f} s: "
        f"SNR {row['snr_db']:.2f} dB, mean squared error {row['mse']:.2e}"
    )
