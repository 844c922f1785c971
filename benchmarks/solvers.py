"""Every solver on the paper's random problems, on equal terms; and batched OMP beside SPAMS.

Run ``python benchmarks/solvers.py``; tables are printed and written to results/solvers.md. Takes about ten minutes
on two cores, most of them IRLS. Nothing else should run beside it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import machine
import numpy as np
import spams

import sparsect
from sparsect.operators.least_squares import on_support, refit
from sparsect.tuning import tuned

HERE = Path(__file__).parent
SPARSITIES = (50, 100, 150, 175, 200)
SEED, BATCH = 2_000_000, 20

# What was measured before this package existed, on other problems of the same kind (dB; None where not measured).
REFERENCES = {
    "vamp, true prior": (27.0, 22.7, 17.9, 15.7, 10.9),
    "least squares on the true support": (28.4, 24.9, 22.3, 21.0, None),
    "irls": (25.9, 21.1, 16.3, 12.0, 7.9),
    "admm, tuned for each s": (25.2, 20.4, 16.0, 11.6, 7.5),
    "subspace-pursuit": (24.5, 19.6, 9.2, 4.2, 1.6),
    "alternating-map": (22.8, 18.5, 8.5, 5.0, 3.5),
    "difference-map, beta = 0.14": (16.4, 18.8, 15.9, 8.4, 4.4),
    "stomp, false discovery 0.5": (25.1, 17.3, 7.5, 4.7, None),
    "stomp, false alarm 0.01": (24.0, 19.0, 9.6, 5.7, None),
    "lars": (19.4, 14.9, 9.4, 6.9, None),
    "niht": (25.6, 19.3, 7.7, 4.5, None),
}


def solvers():
    """Label, a function from a problem to its solver, and iterations at the most."""
    beta, admm, irls = (tuned(name).values for name in ("difference-map", "admm", "irls"))
    fixed = {
        "annealed-difference-map": (sparsect.AnnealedDifferenceMap(), 1000),
        f"difference-map, beta = {beta['beta']:g} (tuned)": (sparsect.DifferenceMap(**beta), 500),
        "difference-map, beta = 0.14": (sparsect.DifferenceMap(0.14), 500),
        "alternating-map": (sparsect.AlternatingMap(), 500),
        "admm": (sparsect.ADMM(**admm), 600),
        "admm, p = 0, mu = 0.8, lam = 0.1": (sparsect.ADMM(mu=0.8, lam=0.1, p=0.0), 300),
        "irls": (sparsect.IRLS(**irls), 300),
        "lars": (sparsect.LeastAngleRegression(), 399),
        "stomp, false discovery 0.5": (sparsect.StagewiseOMP(), 10),
        "stomp, false alarm 0.01": (sparsect.StagewiseOMP(sparsect.FalseAlarmRate(0.01)), 10),
        "aiht": (sparsect.AcceleratedIHT(), 500),
        "niht": (sparsect.NormalizedIHT(), 500),
        "subspace-pursuit": (sparsect.SubspacePursuit(), 100),
        "omp": (sparsect.OrthogonalMatchingPursuit(), 200),
        "ormp": (sparsect.OrderRecursiveMatchingPursuit(), 200),
        "vamp": (sparsect.VectorAMP(), 200),
    }
    for label, (solver, max_iter) in fixed.items():
        yield label, lambda _, solver=solver: solver, max_iter
    by_sparsity = json.loads((HERE / "results" / "tuned-admm-by-sparsity.json").read_text())
    yield "admm, tuned for each s", lambda problem: sparsect.ADMM(**by_sparsity[str(problem.sparsity)]), 600
    yield "vamp, true prior", true_prior, 200


def true_prior(problem):
    m, n = problem.operator.shape
    noise = float(np.mean(problem.noise_norm**2)) / m
    return sparsect.VectorAMP(density=problem.sparsity / n, variance=1.0, noise_variance=noise)


def quality_table(problems):
    head = " | ".join(f"s = {s}" for s in SPARSITIES)
    yield f"| | {head} | ms a problem, set-up excluded | reference |"
    yield "|---|" + "---|" * (len(SPARSITIES) + 2)
    for label, make, max_iter in solvers():
        cells, times = [], []
        for problem in problems:
            plain = sparsect.recover(
                problem.operator, problem.y, problem.sparsity, make(problem), max_iter=max_iter, record=()
            )
            snr = [sparsect.snr_db(problem.x, x) for x in (plain.x, refit(problem.operator, problem.y, plain.x))]
            spread = float(np.std(snr[0], ddof=1)) / BATCH**0.5
            cells.append(f"{np.mean(snr[0]):.1f} ± {spread:.1f} / {np.mean(snr[1]):.1f}")
            times.append(1e3 * plain.seconds / BATCH)
        yield f"| {label} | {' | '.join(cells)} | {min(times):.1f} to {max(times):.1f} | {reference(label)} |"
    oracle = [on_support(problem.operator, problem.y, problem.x != 0) for problem in problems]
    cells = [f"{np.mean(sparsect.snr_db(p.x, x)):.1f}" for p, x in zip(problems, oracle, strict=True)]
    label = "least squares on the true support"
    yield f"| {label} | {' | '.join(cells)} | | {reference(label)} |"


def reference(label):
    numbers = REFERENCES.get(label, ())
    return ", ".join("-" if number is None else f"{number:.1f}" for number in numbers)


def omp_table(rows=2000, rounds=3):
    yield "| s | dtype | sparsect ormp | SPAMS omp | ratio | same support |"
    yield "|---|---|---|---|---|---|"
    for s, dtype in ((50, "float64"), (100, "float64"), (200, "float64"), (100, "float32")):
        problem = sparsect.random_problem(400, 1000, 150, 20, rows, rng=SEED - 1, dtype=dtype)
        Phi, columns = np.asfortranarray(problem.Phi), np.asfortranarray(problem.y.T)
        ours, theirs = [], []
        for _ in range(rounds):
            # A new operator each time, so that the Gram matrix counts, as it does for SPAMS.
            operator = sparsect.as_operator(problem.Phi)
            start = time.perf_counter()
            result = sparsect.recover(operator, problem.y, s, "ormp", record=())
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            codes = spams.omp(columns, Phi, L=s, eps=0.0, numThreads=os.cpu_count())
            theirs.append(time.perf_counter() - start)
        same = np.mean(((result.x != 0) == (codes.toarray().T != 0)).all(axis=1))
        times = [1e3 * min(seconds) / rows for seconds in (ours, theirs)]
        cells = f"{times[0]:.2f} ms a row | {times[1]:.2f} | {times[0] / times[1]:.2f} | {same:.1%} of rows"
        yield f"| {s} | {dtype} | {cells} |"


def main():
    path = HERE / "results" / "solvers.md"
    with machine.Report(path, "All solvers on random measurements", ("numpy", "scipy", "numba", "spams-bin")) as report:
        problems = [sparsect.random_problem(400, 1000, s, 20, BATCH, rng=SEED + s) for s in SPARSITIES]
        for problem in problems:
            problem.operator.pseudo_inverse  # noqa: B018  factored before anything is timed
            problem.operator.gram_matrix  # noqa: B018
        report.section(
            "Quality",
            f"400x1000, y at 20 dB, {BATCH} problems for each s, seeds of their own. SNR of x in dB, plain (with its "
            "standard error) / refitted by least squares on the support. Parameters of difference-map, admm and irls "
            "are the shipped ones, tuned on other problems of all s (sparsect.tuning), or tuned on other problems of "
            "the same s; those of admm with p = 0 were picked by hand from a scan at s = 150 on other problems "
            "(mu 0.1 to 2, lam / mu 0.05 to 0.17). Noise levels are not told. References: measured before on other "
            "problems, admm at the best of sixteen settings for each s.",
            quality_table(problems),
        )
        report.section(
            "Batched OMP beside SPAMS",
            "2,000 rows of 400x1000, all cores for both, best of three, in turns; the Gram matrix counts for both.",
            omp_table(),
        )


if __name__ == "__main__":
    main()
