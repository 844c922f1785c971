"""Write the table and the plot of runs to ../results: ``python report.py outputs/NAME.parquet...``."""

import argparse
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import machine  # noqa: E402

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

from sparsect.reporting.look import COLOURS, PAGE  # noqa: E402

PACKAGES = ("numpy", "scikit-learn", "spams-bin", "skglm", "abess", "pylops", "pyproximal", "sporco", "benchopt")
SPARCO = {
    3: "cosspike", 5: "gcosspike", 7: "sgnspike", 9: "blkheavi", 10: "blknheavi", 11: "gausspike", 902: "jitter",
    903: "spiketrn",
}  # fmt: skip


def dataset(row):
    """Return a short name of the dataset of a row."""

    def given(name):
        return row.get(f"p_dataset_{name}")

    kind = row["dataset_name"].partition("[")[0]
    if kind == "SPARCO":
        return f"SPARCO {int(given('problem'))}: {SPARCO[int(given('problem'))]}"
    noise = 20 if kind == "Paper" else given("snr_db")
    noise = "no noise" if noise is None or np.isnan(noise) else f"{noise:g} dB"
    rho = f" {given('rho'):g}" if kind == "Correlated" else ""
    return f"{kind}{rho}, s = {int(given('sparsity'))}, {noise}"


def tables(rows, names, solvers):
    """Yield the lines of a table for each score."""
    titles = {
        "snr_db": ("SNR of x in dB", "{:.1f}"),
        "f1": ("F1 of the support", "{:.2f}"),
        "residual": ("Residual at s, relative to the norm of y", "{:.1g}"),
        "milliseconds": ("Milliseconds a signal", "{:.3g}"),
    }
    for score, (title, form) in titles.items():
        yield from ("", f"## {title}", "", "| | " + " | ".join(solvers) + " |", "|---" * (len(solvers) + 1) + "|")
        for name in names:
            cells = [rows.get((name, solver)) for solver in solvers]
            values = [np.nan if cell is None else cell[score] for cell in cells]
            known = [value for value in values if not np.isnan(value)]
            best = (max if score in ("snr_db", "f1") else min)(known)
            texts = ["" if np.isnan(value) else form.format(value) for value in values]
            marked = [f"**{text}**" if text == form.format(best) and score == "snr_db" else text for text in texts]
            yield f"| {name} | " + " | ".join(marked) + " |"


def draw(rows, names, solvers, path):
    """Draw the mean SNR of x of each solver over the median time of a signal, and the SNR of every dataset."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.4), layout="constrained", width_ratios=(1, 1.6))
    grid = np.array([[rows[name, solver]["snr_db"] for name in names] for solver in solvers])
    # Solvers are in the order of their SNR, so that lines from the points to names in a column hardly cross.
    heights = np.linspace(0.97, 0.03, len(solvers))
    line = {"arrowstyle": "-", "color": PAGE["faint"][0], "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    for solver, values, height in zip(solvers, grid, heights, strict=True):
        x, y = np.median([rows[name, solver]["milliseconds"] for name in names]), np.mean(values)
        mine = solver.startswith("sparsect")
        colour = COLOURS["blue"][0] if mine else PAGE["faint"][0]
        left.plot(x, y, "o" if mine else "s", color=colour)
        left.annotate(
            solver, (x, y), xytext=(1.04, height), textcoords="axes fraction", va="center", fontsize=8, arrowprops=line,
            color=colour if mine else "black",
        )  # fmt: skip
    left.set_xscale("log")
    left.set(xlabel="median of milliseconds a signal", ylabel=f"mean SNR of x over {len(names)} datasets, dB")
    left.spines[["top", "right"]].set_visible(False)
    picture = right.imshow(grid, aspect="auto", vmin=0, vmax=60, cmap="viridis")
    right.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    right.set_yticks(range(len(solvers)), solvers, fontsize=8)
    figure.colorbar(picture, ax=right, label="SNR of x, dB (60 and more alike)")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--note", default="", help="what else a reader must know about these runs")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results")
    options = parser.parse_args()
    rows = {}
    for row in (row for run in options.runs for row in pd.read_parquet(run).to_dict("records")):
        scores = {name: row[f"objective_{name}"] for name in ("snr_db", "f1", "residual")}
        signals = int(row["p_dataset_problems"])
        rows[dataset(row), row["solver_name"]] = scores | {"milliseconds": 1e3 * row["time"] / signals}
    names = list(dict.fromkeys(name for name, _ in rows))
    present = list(dict.fromkeys(solver for _, solver in rows))
    # Means are over datasets that everybody has solved.
    common = [name for name in names if all((name, solver) in rows for solver in present)]
    solvers = sorted(present, key=lambda solver: -sum(rows[name, solver]["snr_db"] for name in common))
    draw(rows, common, solvers, options.out / "sparse-recovery.png")
    text = [
        "# Sparse recovery with known truth",
        "",
        "A run of [the Benchopt benchmark](../benchopt/README.md), which says what the datasets are and how settings",
        "were chosen. Means over the signals of a dataset; answers are cut to s entries; exact answers count as 100",
        "dB. Time includes everything but the choice of settings and a first call that compiles; one thread. Solvers",
        f"are in the order of their mean SNR on the {len(common)} datasets that all of them have solved, and the best",
        "of each line is bold.",
        *(["", options.note] if options.note else []),
        "",
        "![SNR of x of each solver on each dataset, and over time](sparse-recovery.png)",
        *tables(rows, names, solvers),
        "",
        f"{machine.described(PACKAGES)}.",
        "",
    ]
    (options.out / "sparse-recovery.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
