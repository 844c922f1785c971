"""Image patches at sparsity s: every method within the paper's time and without limit, beside SPAMS.

Run ``python benchmarks/images.py FOLDER`` with a folder of photographs that no dictionary was learned from; tables are
printed and written to results/images.md. Takes about twenty minutes on two cores. Nothing else should run beside it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import machine
import numpy as np
import spams
from patches import IMAGES, signals

import sparsect
from sparsect.images.settings import tuned_for_images
from sparsect.operators.least_squares import refit
from sparsect.paper.report import PAPER_DOG

BUDGETS = (0.05, 0.1)
SPARSITIES = (100, 200)


def solvers():
    """Label, solver, iterations without a limit of time."""
    for method in sparsect.METHODS:
        yield method, tuned_for_images(method), 50 if method == "irls" else 1000
    yield "difference-map, relaxed 0.3, beta = 1", sparsect.DifferenceMap(1.0, sparsect.Relaxed(0.3)), 400


def at_moments(problem, solver, max_iter):
    """Estimates when each budget is spent and at the end, and the seconds taken."""
    if solver.steps_at_once > 1:
        # These do not look the same when somebody watches, or follow the time they are given: a run for each budget.
        limits = [budget * problem.batch for budget in BUDGETS] + [None]
        runs = [sparsect.solve(problem, solver, max_iter=max_iter, max_seconds=limit, record=()) for limit in limits]
        return [run.x for run in runs], runs[-1].seconds
    caught = {}

    def catch(run):
        for budget in BUDGETS:
            if budget not in caught and run.seconds >= budget * problem.batch:
                caught[budget] = run.x

    result = sparsect.solve(problem, solver, max_iter=max_iter, record=(), callback=catch)
    return [caught.get(budget, result.x) for budget in BUDGETS] + [result.x], result.seconds


def snr(problem, x):
    error = problem.operator.forward(x) - problem.y
    return 10 * np.log10((problem.y**2).sum() / (error**2).sum())


def quality_table(problems):
    moments = [f"{budget:g} s a patch" for budget in BUDGETS] + ["no limit"]
    yield (
        "| | "
        + " | ".join(f"s = {p.sparsity}, {moment}" for p in problems for moment in moments)
        + " | ms a patch |"
        + (" the paper's dog: s = 100, s = 200, at 0.05 / 0.1 s |")
    )
    yield "|---|" + "---|" * (len(problems) * len(moments) + 2)
    for label, solver, max_iter in solvers():
        cells, times = [], []
        for problem in problems:
            estimates, seconds = at_moments(problem, solver, max_iter)
            cells += [
                f"{snr(problem, x):.1f} / {snr(problem, refit(problem.operator, problem.y, x)):.1f}" for x in estimates
            ]
            times.append(f"{1e3 * seconds / problem.batch:.1f}")
        paper = PAPER_DOG.get(label)
        beside = "" if paper is None else "{} / {}, {} / {}".format(*paper)
        yield f"| {label} | {' | '.join(cells)} | {', '.join(times)} | {beside} |"
    cells, times = [], []
    for problem in problems:
        columns, Phi = (np.asfortranarray(a, dtype=np.float64) for a in (problem.y.T, problem.operator.Phi))
        start = time.perf_counter()
        codes = spams.omp(columns, Phi, L=problem.sparsity, eps=0.0, numThreads=os.cpu_count())
        times.append(f"{1e3 * (time.perf_counter() - start) / problem.batch:.1f}")
        cells += ["", "", f"{snr(problem, codes.toarray().T.astype(np.float32)):.1f}"]
    yield f"| SPAMS omp (order-recursive) | {' | '.join(cells)} | {', '.join(times)} | |"


def main():
    folder = sys.argv[1]
    path = Path(__file__).parent / "results" / "images.md"
    packages = ("numpy", "scipy", "numba", "spams-bin")
    with machine.Report(path, "Image patches", packages) as report:
        dictionary, rows = sparsect.load_dictionary(), signals(folder)
        problems = [sparsect.Problem(dictionary.operator, rows, s) for s in SPARSITIES]
        dictionary.operator.pseudo_inverse  # noqa: B018  factored before anything is timed, as amortised in the paper
        dictionary.operator.gram_matrix  # noqa: B018
        report.section(
            "Reconstruction",
            f"{rows.shape[0]} patches of 20x20, every fourth of {IMAGES} photographs at 320x240, the bundled 400x1000 "
            "dictionary, float32. SNR in dB over all patches with their means removed, plain / refitted by least "
            "squares on the support. Difference-map, admm and irls have the parameters that ship for images, tuned on "
            "training photographs. Without limit: 1,000 iterations (irls 50). Time: that without limit, no refit.",
            quality_table(problems),
        )


if __name__ == "__main__":
    main()
