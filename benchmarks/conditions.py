"""The default where problems are unlike those anything was tuned on, and where recovery without noise breaks down.

Run ``python benchmarks/conditions.py``; tables are printed and written to results/conditions.md. Takes about an hour
on two cores, most of it IRLS, a process on each. Only qualities are reported, so other work may run beside it.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import machine
import numpy as np

import sparsect
from sparsect.backend.processes import processes
from sparsect.problems import Problem
from sparsect.tuning import tuned

HERE = Path(__file__).parent
SEED, BATCH, TRAINING = 6_000_000, 10, 3
DEFAULT, ANNEALED = "auto", "annealed-difference-map"
N = 1000

# Name, measurements, decibels, law of the nonzeros, kind of Phi; s is m/8, m/4 and 3m/8.
CONDITIONS = (
    ("20 dB", 400, 20, "normal", "gaussian"),
    ("30 dB", 400, 30, "normal", "gaussian"),
    ("10 dB", 400, 10, "normal", "gaussian"),
    ("200x1000", 200, 20, "normal", "gaussian"),
    ("800x1000", 800, 20, "normal", "gaussian"),
    ("nonzeros +-1", 400, 20, "signs", "gaussian"),
    ("heavy-tailed nonzeros (t, 3 degrees)", 400, 20, "heavy", "gaussian"),
    ("rows of a DCT", 400, 20, "normal", "dct"),
    ("neighbouring columns correlated, 0.9", 400, 20, "normal", "correlated"),
    ("learned dictionary", 400, 20, "normal", "dictionary"),
)


def matrix(kind, m, generate):
    if kind == "dictionary":
        return np.asarray(sparsect.load_dictionary().Phi, dtype=np.float64)
    if kind == "dct":
        places = np.arange(N)
        rows = np.cos(np.pi / N * (places + 0.5) * places[1:, None])[generate.permutation(N - 1)[:m]]
        return rows / np.linalg.norm(rows) * N**0.5
    Phi = generate.standard_normal((m, N))
    if kind == "correlated":
        for j in range(1, N):
            Phi[:, j] = 0.9 * Phi[:, j - 1] + 0.19**0.5 * Phi[:, j]
    else:
        Phi -= Phi.mean(axis=0)
    return Phi / np.linalg.norm(Phi, axis=0)


def draw(condition, s, seed, batch):
    """Problems of one condition; a seed of its own for each."""
    _, m, decibels, law, kind = condition
    generate = np.random.default_rng([seed, m, s, decibels, len(law), len(kind)])
    Phi = matrix(kind, m, generate)
    laws = {
        "normal": lambda: generate.standard_normal(s),
        "signs": lambda: generate.choice([-1.0, 1.0], s),
        "heavy": lambda: generate.standard_t(3, s),
    }
    x = np.zeros((batch, N))
    for row in x:
        row[generate.permutation(N)[:s]] = laws[law]()
    clean = x @ Phi.T
    noise = generate.standard_normal(clean.shape)
    noise *= np.linalg.norm(clean, axis=1, keepdims=True) / np.linalg.norm(noise, axis=1, keepdims=True)
    return Problem(sparsect.as_operator(Phi), clean + noise * 10 ** (-decibels / 20), s, x=x)


def score(problem, solver, max_iter):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sparsect.recover(problem.operator, problem.y, problem.sparsity, solver, max_iter=max_iter, record=())
    return sparsect.snr_db(problem.x, result.x)


def best_of(problem, settings, max_iter):
    return max(settings, key=lambda solver: np.mean(score(problem, solver, max_iter)))


def contenders(training):
    """Label, solver and iterations; those with parameters have them tuned at 20 dB, and for the condition itself."""
    for name in (DEFAULT, ANNEALED, "support-sampler"):
        yield name, sparsect.METHODS[name](), 1000
    yield "difference-map", sparsect.DifferenceMap(**tuned("difference-map").values), 1000
    for name in ("alternating-map", "lars", "stomp", "aiht", "niht", "subspace-pursuit", "omp", "ormp", "vamp"):
        yield name, sparsect.METHODS[name](), 1000 if name != "vamp" else 200
    yield "admm", sparsect.ADMM(**tuned("admm").values), 600
    betas = [sparsect.DifferenceMap(beta) for beta in (0.05, 0.14, 0.3, 0.5)]
    yield "difference-map, tuned here", best_of(training, betas, 500), 1000
    grid = [(mu, share) for mu in (0.3, 1.0, 3.0) for share in (0.02, 0.05, 0.1, 0.2)]
    for p in (0.5, 0.0):
        settings = [sparsect.ADMM(mu=mu, lam=mu * share, p=p) for mu, share in grid]
        yield f"admm, p = {p:g}, tuned here", best_of(training, settings, 400), 600
    alphas = [sparsect.IRLS(alpha=alpha) for alpha in (0.0005, 0.003, sparsect.IRLS.alpha, 0.08)]
    yield "irls, tuned here", best_of(training, alphas, 75), 150


def line(condition, s):
    """A line of the table with noise."""
    problem, training = draw(condition, s, SEED, BATCH), draw(condition, s, SEED + 1, TRAINING)
    scores = {label: score(problem, solver, steps) for label, solver, steps in contenders(training)}
    ours = scores.pop(DEFAULT)
    if condition[4] == "gaussian":
        scores.pop("vamp")
    ranked = sorted(scores, key=lambda label: -np.mean(scores[label]))[:3]
    best, *rivals = [f"{np.mean(scores[label]):.1f} {label}" for label in ranked]
    behind = np.mean(scores[ranked[0]]) - np.mean(ours)
    spread = float(np.std(scores[ranked[0]] - ours, ddof=1)) / BATCH**0.5
    noise = np.linalg.norm(problem.operator.forward(problem.x) - problem.y, axis=1)
    automatic = []
    for noise_norm in (None, noise):
        result = sparsect.recover(problem.operator, problem.y, "auto", noise_norm=noise_norm, record=())
        taken = np.mean(result.support.sum(axis=1))
        automatic.append(f"{np.mean(sparsect.snr_db(problem.x, result.x)):.1f} ({taken:.0f})")
    cells = (f"**{np.mean(ours):.1f}**", best, f"{behind:.1f} ± {spread:.1f}", *rivals, *automatic)
    return f"| {condition[0]} | {s} | {' | '.join(cells)} |"


def noisy_table(pool):
    yield "| condition | s | default | best of the others | behind by | second | third | s unknown | noise known |"
    yield "|---|---|---|---|---|---|---|---|---|"
    sizes = [(condition, condition[1] * eighths // 8) for condition in CONDITIONS for eighths in (1, 2, 3)]
    # Those that take longest begin first.
    tasks = {size: pool.submit(line, *size) for size in sorted(sizes, key=lambda size: -size[0][1])}
    for size in sizes:
        yield tasks[size].result()


def success(solver, m, s, max_iter):
    """Part of noiseless problems whose x is found to 60 dB."""
    problem = sparsect.random_problem(m, N, s, batch=BATCH, rng=SEED + 1000 * m + s)
    return float(np.mean(score(problem, solver, max_iter) > 60))


def crossing(solver, m, max_iter):
    """The s at which half of the problems are solved, by bisection over steps of m/80 and interpolation at the end."""
    step = m / 80
    low, high, at_low, at_high = 4, 72, 1.0, 0.0
    while high - low > 1:
        middle = (low + high) // 2
        value = success(solver, m, round(step * middle), max_iter)
        if value >= 0.5:
            low, at_low = middle, value
        else:
            high, at_high = middle, value
    return step * (low + (at_low - 0.5) / (at_low - at_high))


def transition_table(pool):
    solvers = {
        DEFAULT: (sparsect.Automatic(), 1000),
        ANNEALED: (sparsect.AnnealedDifferenceMap(), 1000),
        "difference-map, beta = 0.14": (sparsect.DifferenceMap(0.14), 1000),
        "difference-map, beta = 0.5": (sparsect.DifferenceMap(0.5), 1000),
        "l1 (lars to its end)": (sparsect.LeastAngleRegression(), 2000),
        "omp": (sparsect.OrthogonalMatchingPursuit(), 1000),
        "irls, alpha = 1e-9": (sparsect.IRLS(alpha=1e-9), 200),
        "vamp": (sparsect.VectorAMP(), 1000),
    }
    sizes = (200, 300, 400, 500, 600)
    yield f"| | {' | '.join(f'm/n = {m / N:g}' for m in sizes)} |"
    yield "|---|" + "---|" * len(sizes)
    tasks = {
        (label, m): pool.submit(crossing, solver, m, max_iter)
        for m in reversed(sizes)
        for label, (solver, max_iter) in reversed(solvers.items())
    }
    for label in solvers:
        cells = [f"{tasks[label, m].result() / m:.3f}" for m in sizes]
        yield f"| {label} | {' | '.join(cells)} |"


def main():
    path = HERE / "results" / "conditions.md"
    title, packages = "The default under other conditions", ("numpy", "scipy", "numba")
    with machine.Report(path, title, packages) as report, processes() as pool:
        report.section(
            "With noise",
            f"SNR of x in dB, {BATCH} problems for each line. The default has no settings and 1,000 iterations. "
            "Others: every solver of the package with its shipped settings (tuned at 20 dB, Gaussian), and the "
            f"Difference Map, ADMM (p = 1/2 and 0) and IRLS with settings tuned on {TRAINING} other problems of "
            "the same line; VAMP is left out where Phi is Gaussian, where it is the Bayes optimum. Behind by: mean of "
            "the differences and its standard error, negative where the default is ahead. The last two columns: "
            'the default without s, `sparsity="auto"`, alone and with `noise_norm`; in brackets the mean number '
            "of nonzeros it took.",
            noisy_table(pool),
        )
        report.section(
            "Without noise",
            f"s/m at which half of {BATCH} random problems (n = {N}, as in the paper) are solved to 60 dB; steps of s "
            "are m/80. 1,000 iterations at the most (IRLS 200, LARS as many as its path has).",
            transition_table(pool),
        )


if __name__ == "__main__":
    main()
