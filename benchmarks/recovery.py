"""The core's numbers: recovery on the paper's random problems, speed of one iteration, a matrix-free giant.

Run ``python benchmarks/recovery.py`` (``make bench``); the table is printed and written to results/recovery.md.
Takes about three minutes on two cores. Nothing else should run beside it.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import machine
import numpy as np

import sparsect
from sparsect import AlternatingMap, DifferenceMap

SEEDS = range(1000, 1005)
BATCH = 10


def outcome(sparsity, snr, method, max_iter, ball=False):
    """Mean SNR over all seeds, its smallest and largest seed mean, rows above 60 dB and rows with gap below 1e-3."""
    means, exact, closed = [], [], []
    for seed in SEEDS:
        problem = sparsect.random_problem(400, 1000, sparsity, snr, BATCH, rng=seed)
        noise_norm = problem.noise_norm if ball else None
        result = sparsect.recover(problem.Phi, problem.y, sparsity, method, max_iter=max_iter, noise_norm=noise_norm)
        snr_of_x = sparsect.snr_db(problem.x, result.x)
        means.append(snr_of_x.mean())
        exact.append(int((snr_of_x > 60).sum()))
        closed.append(int((result.gap < 1e-3).sum()))
    return f"{np.mean(means):.1f} ({min(means):.1f} to {max(means):.1f})", exact, closed


def recovery_table():
    yield "| problem | method | SNR of x in dB, mean over seeds (range) | over 60 dB, of 10, per seed | gap < 1e-3 |"
    yield "|---|---|---|---|---|"
    rows = [
        (
            f"s = {s}, {'noiseless' if snr is None else f'{snr} dB'}, {max_iter} iterations",
            s,
            snr,
            max_iter,
            ball,
            method,
        )
        for s, snr, max_iter, ball, methods in (
            (150, 20, 500, False, (AlternatingMap(), DifferenceMap(0.14), DifferenceMap(-0.14))),
            (175, None, 1000, False, (AlternatingMap(), DifferenceMap(0.14), DifferenceMap(0.5), DifferenceMap(-0.14))),
            (50, 20, 500, False, (AlternatingMap(), DifferenceMap(0.14))),
            (50, 20, 500, True, (AlternatingMap(), DifferenceMap(0.5))),
        )
        for method in methods
    ]
    for label, s, snr, max_iter, ball, method in rows:
        where = ", exact ball" if ball else ", affine"
        snr_text, exact, closed = outcome(s, snr, method, max_iter, ball)
        beta = f", beta = {method.beta}" if isinstance(method, DifferenceMap) else ""
        yield f"| {label}{where} | {method.name}{beta} | {snr_text} | {exact} | {closed} |"


def product_rate(rows, dtype):
    """Measured rate of (rows x 1000) @ (1000 x 400) in flop/s, the best of several."""
    generate = np.random.default_rng(0)
    left, right = (
        generate.standard_normal((rows, 1000)).astype(dtype),
        generate.standard_normal((1000, 400)).astype(dtype),
    )
    best = np.inf
    for _ in range(20):
        start = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - start)
    return 2 * rows * 1000 * 400 / best


def speed_table():
    yield "| batch | dtype | beta | time per iteration and row | floor | fraction of the product rate |"
    yield "|---|---|---|---|---|---|"
    for batch, dtype, max_iter in ((1, "float64", 500), (1, "float32", 500), (2000, "float32", 30)):
        for beta in (0.14, 1.0):
            problem = sparsect.random_problem(400, 1000, 150, 20, batch, rng=0, dtype=dtype)
            result = sparsect.recover(
                problem.Phi, problem.y, 150, DifferenceMap(beta), max_iter=max_iter, tol=0, record=()
            )
            seconds = result.seconds / max_iter / batch
            products = 4 if beta != 1 else 2
            stacked = batch * products // 2  # rows that enter one product
            floor = products * 2 * 399 * 1000 / product_rate(stacked, dtype)
            times = f"{seconds * 1e6:.1f} us | {floor * 1e6:.1f} us"
            yield f"| {batch} | {dtype} | {beta} | {times} | {floor / seconds:.0%} |"


def giant():
    """A 2^20-point signal from 2^18 Fourier samples; run in a process of its own so that its peak memory is its own."""
    n, m, s = 2**20, 2**18, 2**13
    operator = sparsect.SubsampledFourier.random(n, m, rng=0)
    generate = np.random.default_rng(1)
    x = np.zeros(n, dtype=np.complex128)
    x[generate.choice(n, s, replace=False)] = generate.standard_normal(s) + 1j * generate.standard_normal(s)
    y = operator.forward(x)
    for method in (AlternatingMap(), DifferenceMap(0.7)):
        result = sparsect.recover(operator, y, s, method, max_iter=400)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"| {method.name} | {result.n_iter} | {float(sparsect.snr_db(x, result.x)):.0f} dB "
            f"| {result.seconds:.1f} s | {peak:.2f} GiB |"
        )


def giant_table():
    yield "| method | iterations | SNR of x | time | peak memory of the process so far |"
    yield "|---|---|---|---|---|"
    done = subprocess.run([sys.executable, __file__, "giant"], capture_output=True, text=True, check=True)
    yield from done.stdout.splitlines()


def main():
    if sys.argv[1:] == ["giant"]:
        giant()
        return
    path = Path(__file__).parent / "results" / "recovery.md"
    with machine.Report(path, "Recovery and speed of the core") as report:
        report.section(
            "Recovery",
            f"400x1000, {BATCH} problems a seed, {len(SEEDS)} seeds. The affine Alternating Map at s = 50 is the "
            "one to compare with the exact ball's Difference Map.",
            recovery_table(),
        )
        report.section(
            "Time of one iteration",
            "400x1000, s = 150, affine. The floor is the time of the four dense products with the 399-dimensional row "
            "space that a step stands for (two at beta = 1), stacked in pairs, at the rate of a plain NumPy product of "
            "that shape measured in the same run. Single rows do half of them sparsely.",
            speed_table(),
        )
        report.section(
            "Matrix-free: 2^20 points from 2^18 random Fourier samples, 2^13 nonzeros",
            "complex128; Phi would take 4 TiB as a matrix.",
            giant_table(),
        )


if __name__ == "__main__":
    main()
