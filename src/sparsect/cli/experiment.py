"""The command ``sparsect experiment``."""

from __future__ import annotations

import os
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ..backend.checks import choice, reject
from ..paper import contenders, experiments, run
from ..paper.claims import judge
from ..paper.machine import Usage
from ..paper.measurements import SEED, settings_of
from ..paper.report import write
from ..paper.rows import Rows
from ..paper.tables import snr_table
from ..tuning import Training
from .common import progress_bar, table_of

EXAMPLES = """\b
Examples:
  sparsect experiment list
  sparsect experiment vary-sparsity
  sparsect experiment all --quick                             # minutes, for a first look
  sparsect experiment vary-sparsity --with my_package:MySolver
"""


@click.command(epilog=EXAMPLES)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--quick", is_flag=True, help="Use few runs and short times, which takes minutes.")
@click.option("--with", "extra", metavar="PACKAGE:CLASS", multiple=True, help="A solver of your own; repeatable.")
@click.option("--out", metavar="FOLDER", help="Rows, figures and report.  [default: out/experiments, or -quick]")
@click.option("--report-only", is_flag=True, help="Make figures and report from the existing rows.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress bar and no table.")
def experiment(
    names: tuple[str, ...], quick: bool, extra: tuple[str, ...], out: str | None, report_only: bool, quiet: bool
) -> None:
    """Run an experiment of the paper, or all of them, and write a report.

    NAME is 'list', 'all', or one or more of: vary-sparsity, vary-noise, vary-size, beta, photograph, gallery.
    Finished runs are kept. After Ctrl-C, the same command continues.
    """
    folder = Path(out or f"out/experiments{'-quick' if quick else ''}")
    known = experiments(folder, quick)
    if names == ("list",):
        for name, one in known.items():
            click.echo(f"{name:16}{one.title}")
        return
    asked = [choice("NAME", name, [*known, "all"]) for name in dict.fromkeys(names)]
    chosen = list(known) if "all" in asked else asked
    solvers = contenders(extra)
    started, tables = Usage.now(), {}
    bar = progress_bar(quiet)
    task = bar.add_task("")

    def watch(name: str, doing: str, done: int, total: int) -> None:
        bar.update(task, description=f"{name}: {doing}", completed=done, total=total)

    if report_only and not any((folder / name / "rows.jsonl").exists() for name in chosen):
        raise reject("--report-only", f"no rows in {folder}", "a folder that an experiment has written to")
    with bar:
        for name in chosen:
            rows = Rows(folder / name, settings_of(known[name]))
            if report_only:
                tables[name] = rows.ordered(key for key, _ in known[name].tasks(solvers))
            else:
                tables[name] = run(known[name], rows, solvers, watch)
    ended = Usage.now()
    about = [
        "Timed runs were made one after the other, each with all cores; those of the beta experiment ran in parallel, "
        "with one process per core.",
        _load(None if report_only else ended.cores_used_by_others(started)),
        "Times on random measurements include factoring the matrix; the dictionary of photographs was factored before.",
        "Parameters of admm and irls were tuned on other problems; the Difference Map has beta = 0.14 everywhere.",
        f"The seed of a problem consists of {SEED}, its sizes and the number of the run, so that every solver gets the "
        f"same problems; seeds for tuning start at {Training.seed}.",
        f"This call took {(ended.clock - started.clock) / 60:.1f} minutes; rows of earlier calls are kept and not "
        "computed again." + (" Quick settings: few runs, short times." if quick else ""),
    ]
    path = write({name: rows for name, rows in tables.items() if rows}, known, folder, about)
    if quiet:
        return
    console = Console()
    for name, found in tables.items():
        head, lines = snr_table(name, found)
        if lines:
            console.print(table_of(known[name].title, head, lines))
    table = Table("claim", "measured", "verdict", title="claims of the paper", show_lines=True)
    for claim in judge(tables):
        table.add_row(claim.claim, claim.measured, claim.verdict)
    console.print(table)
    failed = sum("failed" in row for rows in tables.values() for row in rows)
    if failed:
        console.print(f"{failed} runs failed; their rows contain the reasons")
    console.print(f"written: {path} (report), tables and figures next to it", soft_wrap=True)


def _load(cores: float | None) -> str:
    """Describe the load from other programs, which may have disturbed the times."""
    if cores is None:
        return "The load from other programs during the measurements is not known."
    return (
        f"While this call ran, other programs kept {cores:.1f} of {os.cpu_count()} cores busy on average. Times are "
        "reliable if this number is near 0. For rows of earlier calls it is not known."
    )
