"""The report made from rows: summary, claims, figures, tables, and the machine that was used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..images import read_image
from ..images.compare import DIFFERENCE_SCALE
from ..reporting.differences import enlarged
from ..reporting.page import Page
from . import claims, machine, plots
from .photographs import photograph
from .rows import Row
from .summary import LIMITS, names, where
from .tables import snr_table

# The numbers that the paper prints for its photograph of a dog (s = 100 and 200, 0.05 and 0.1 s per patch).
PAPER_DOG = {
    "difference-map": ("17.02", "17.55", "22.44", "23.73"),
    "admm": ("15.27", "16.59", "19.37", "21.71"),
    "irls": ("13.39", "14.87", "18.14", "20.57"),
    "subspace-pursuit": ("16.58", "16.67", "16.99", "16.97"),
    "lars": ("11.35", "13.88", "11.30", "13.93"),
    "aiht": ("14.78", "15.70", "18.79", "19.94"),
    "stomp": ("15.40", "15.39", "17.84", "17.91"),
}


def write(tables: dict[str, list[Row]], experiments: dict[str, Any], folder: Path, about: list[str]) -> Path:
    """Make all figures and the page of the report from rows.

    Parameters
    ----------
    tables : dict of str to list of Row
        The rows of each experiment, by its name.
    experiments : dict of str to experiment
        The experiments, as :func:`experiments` returns them.
    folder : Path
        Where figures and page are written.
    about : list of str
        Sentences on how the rows were measured.

    Returns
    -------
    Path
        The HTML file.
    """
    page = Page("Sparse recovery with the Difference Map: the paper's experiments repeated")
    judged = list(claims.judge(tables))
    verdicts = [claim.verdict for claim in judged if claim.printed]
    count = {verdict: verdicts.count(verdict) for verdict in (claims.HOLDS, claims.PARTLY, claims.NOT)}
    page.text(
        "Landecker, Chartrand and DeDeo, “Robust Compressed Sensing and Sparse Coding with the Difference Map”, "
        f"checked claim by claim: {count[claims.HOLDS]} hold, {count[claims.PARTLY]} hold in part, "
        f"{count[claims.NOT]} do not. Every solver got the same problems, the same knowledge (the matrix, the data "
        "and s) and parameters tuned on other problems."
    )
    page.section("Claims")
    page.table(["claim", "measured", "verdict"], [[c.claim, c.measured, c.verdict] for c in judged], words=True)
    for name, rows in tables.items():
        page.section(experiments[name].title)
        {"beta": _beta, "photograph": _photographs, "gallery": _photographs}.get(name, _measurements)(
            page, name, rows, folder
        )
        failed = [row for row in rows if "failed" in row]
        for row in failed[:5]:
            page.text(f"Failed: {row['solver']} on {row['setting']} ({row['failed']})")
        if len(failed) > 5:
            page.text(f"and {len(failed) - 5} more failures")
    page.section("How it was measured")
    page.points([*about, *machine.described()])
    path = folder / "index.html"
    page.write(path)
    return path


def _measurements(page: Page, name: str, rows: list[Row], folder: Path) -> None:
    """Add figure and table of an experiment on random measurements."""
    if not any("seconds" in row for row in where(rows)):
        page.text("No run is finished yet.")
        return
    figure = plots.error_against_time(rows)
    plots.save(figure, folder, name)
    page.chart(
        "Relative error of the s largest entries of each solver's estimate, geometric mean over runs, with the range "
        "of all runs shaded. Lower is better. Horizontal lines: the Bayes-optimal estimate, its prediction by state "
        "evolution, and least squares on the true support.",
        "Relative error of x against time, one panel for each setting; the table has the values at the end.",
        figure,
        whole=True,
    )
    page.text("SNR of x at the time limit, in dB: mean ± standard deviation over runs.")
    page.table(*snr_table(name, rows), methods=set(names(rows, "solver")).difference(LIMITS))


def _beta(page: Page, name: str, rows: list[Row], folder: Path) -> None:
    """Add figure and table of the experiment on beta."""
    if not where(rows):
        page.text("No run is finished yet.")
        return
    figure = plots.over_beta(rows)
    plots.save(figure, folder, name)
    page.chart(
        "SNR of x after the last iteration against beta: mean and range over runs. Shaded: 0.1 to 0.9.",
        "SNR of x against beta, one panel for each setting; the table has the same values.",
        figure,
        whole=True,
    )
    page.table(*snr_table(name, rows))


def _photographs(page: Page, name: str, rows: list[Row], folder: Path) -> None:
    """Add table and difference images of an experiment on photographs."""
    if not where(rows):
        page.text("No run is finished yet.")
        return
    head, lines = snr_table(name, rows)
    if name == "photograph":
        head = [*head, "the paper's dog, the same columns"]
        lines = [[*line, ", ".join(PAPER_DOG.get(line[0], ()))] for line in lines]
    page.table(head, lines, methods=names(rows, "solver"))
    page.text(
        "SNR over all patches, with the mean of each patch removed, and time limits per patch of 20x20 pixels. The "
        "paper's photographs are not available, so sample photographs are used; its table is consistent with this SNR."
    )
    sparsity, limit = max(names(rows, "sparsity")), max(names(rows, "limit"))
    for image in names(rows, "image"):
        original = photograph(image)
        chosen = {row["solver"]: row for row in where(rows, image=image, sparsity=sparsity, limit=limit)}
        shown = []
        for solver, row in chosen.items():
            path = folder / name / f"{image}-{sparsity}-{solver}-difference.png"
            if path.exists():
                found = 2 * DIFFERENCE_SCALE * (read_image(path) - 0.5)
                shown.append((f"{solver}, {row['snr_db']:.1f} dB", original, original + found))
        if shown:
            scale, pictures = enlarged(shown)
            page.text(f"{image}, s = {sparsity}: differences, {scale}.")
            page.pictures([("original", original), *pictures])
