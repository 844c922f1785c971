"""How fast the default is: to the quality of SPAMS on patches, on one easy problem, and what its posterior costs.

Run ``python benchmarks/speed.py`` after ``pip install sparsect[peers]`` on a machine that does nothing else. The table
is printed and written to results/speed.md. Photographs are read from ``--data``. Takes about three minutes.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import machine
import matrices
import numpy as np
from patches import signals
from threadpoolctl import threadpool_limits

import sparsect

HERE = Path(__file__).parent
PATCHES, TURNS = 2000, 3
BUDGETS = (20, 30, 40, 50, 60, 80, 100, 120, 160)


def least(turns, function, *arguments, **options):
    """The least time of several calls, and what the last one returned."""
    seconds = []
    for _ in range(turns):
        start = time.perf_counter()
        result = function(*arguments, **options)
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def quality(rows, fits):
    """SNR of all patches together, in dB."""
    return 10 * np.log10(np.sum(rows.astype(np.float64) ** 2) / np.sum((rows - fits) ** 2))


def patch_table(folder):
    import spams

    found = signals(folder / "images" / "val", 20, 1)
    found = found[np.linalg.norm(found, axis=1) > 0.1]
    found = found[np.random.default_rng(17).permutation(len(found))[:PATCHES]]
    ratios = "of SPAMS | of SPAMS in double"
    yield f"| s | precision | SPAMS omp | | ormp | | {ratios} | map: iterations | | | {ratios} |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for s in (100, 200):
        double = None
        for dtype in (np.float64, np.float32):
            rows, Phi = found.astype(dtype), np.asarray(sparsect.load_dictionary().Phi, dtype=dtype)
            columns, atoms = np.asfortranarray(rows.T), np.asfortranarray(Phi)
            theirs, codes = least(TURNS, spams.omp, columns, atoms, L=s, eps=0.0, numThreads=os.cpu_count())
            goal = quality(rows, codes.toarray().T @ Phi.T)
            double = theirs if double is None else double
            pursuit, result = least(TURNS, sparsect.recover, Phi, rows, s, "ormp", record=())
            cells = [
                f"{theirs:.2f} s",
                f"{goal:.2f} dB",
                f"{pursuit:.2f} s",
                f"{quality(rows, result.x @ Phi.T):.2f} dB",
                f"{pursuit / theirs:.2f}",
                f"{pursuit / double:.2f}",
            ]
            method = sparsect.AnnealedDifferenceMap("approximation")
            for budget in BUDGETS:
                ours, result = least(TURNS, sparsect.recover, Phi, rows, s, method, max_iter=budget, record=())
                reached = quality(rows, result.x @ Phi.T)
                if reached >= goal:
                    break
            cells += [str(budget), f"{ours:.2f} s", f"{reached:.2f} dB", f"{ours / theirs:.2f}", f"{ours / double:.2f}"]
            yield f"| {s} | {np.dtype(dtype).name} | {' | '.join(cells)} |"


def easy_table():
    from sklearn.linear_model import orthogonal_mp

    yield "| noise | recover | | orthogonal_mp | | ratio |"
    yield "|---|---|---|---|---|---|"
    for decibels in (None, 30, 20):
        problem = sparsect.random_problem(400, 1000, 20, snr_db=decibels, rng=17)
        Phi, y, x = problem.Phi, problem.y[0], problem.x[0]
        with threadpool_limits(1):
            ours, result = least(40, sparsect.recover, Phi, y, 20)
            theirs, z = least(40, orthogonal_mp, Phi, y, n_nonzero_coefs=20)
        snr = [min(float(sparsect.snr_db(x, found)), 300.0) for found in (result.x, z)]
        cells = [f"{1e3 * ours:.2f} ms", f"{snr[0]:.1f} dB", f"{1e3 * theirs:.2f} ms", f"{snr[1]:.1f} dB"]
        noise = "none" if decibels is None else f"{decibels} dB"
        yield f"| {noise} | {' | '.join(cells)} | {ours / theirs:.2f} |"


def posterior_table():
    yield "| | s | the map alone | default | samples, of the time | memory of a row |"
    yield "|---|---|---|---|---|---|"
    for name, s, decibels in (
        ("Gaussian 256x1024", 48, 25),
        ("AR(1) 0.99, 200x1000", 10, 30),
        ("AR(1) 0.9, 400x1000", 100, 20),
    ):
        generate = np.random.default_rng(17)
        m, n = (int(part) for part in name.split()[-1].split("x"))
        Phi = matrices.gaussian(generate, m, n)
        if name.startswith("AR"):
            Phi = matrices.autoregressive(generate, m, n, float(name.split()[1].rstrip(",")))
        case = matrices.Kind(name, "", False, s, decibels, lambda g, Phi=Phi: Phi).draw(17, 32)
        operator = sparsect.as_operator(case.Phi)
        alone, _ = least(TURNS, sparsect.recover, operator, case.y, s, "annealed-difference-map", record=())
        whole, result = least(TURNS, sparsect.recover, operator, case.y, s, record=())
        sampled = np.mean(result.source == "samples")
        size = 0
        if sampled:
            state = sparsect.SupportSampler().init(sparsect.Problem(operator, case.y, s))
            size = sum(array.nbytes for array in state.arrays().values()) / len(case.y)
        share = f"{max(0.0, 1 - alone / whole):.0%}" if sampled else "none"
        times = f"{1e3 * alone / 32:.1f} ms | {1e3 * whole / 32:.1f} ms"
        yield f"| {name} | {s} | {times} | {share} | {size / 2**20:.2f} MiB |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=matrices.SHARED, help="folder with images/val")
    arguments = parser.parse_args()
    packages = ("numpy", "scipy", "numba", "spams-bin", "scikit-learn")
    with machine.Report(HERE / "results" / "speed.md", "Speed of the default", packages) as report:
        report.section(
            "Patches of photographs",
            f"{PATCHES} patches of 20x20 pixels, the bundled dictionary (400x1000), all cores; least of {TURNS} times, "
            "with set-up. The map: `AnnealedDifferenceMap('approximation')` with the smallest of "
            f"{', '.join(map(str, BUDGETS))} iterations that reaches the SNR of SPAMS.",
            patch_table(arguments.data),
        )
        report.section(
            "One easy problem",
            "400x1000, s = 20, one thread, with set-up: least of 40 times, and SNR of x.",
            easy_table(),
        )
        report.section(
            "What the posterior costs",
            "Milliseconds for each of 32 signals, 1,000 iterations, all cores. Samples: the part of the time that the "
            "chains of supports take. Memory: what a row of a batch needs for them, in double precision.",
            posterior_table(),
        )


if __name__ == "__main__":
    main()
