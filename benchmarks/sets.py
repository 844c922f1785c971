"""What sets are worth: nonnegative, grouped and joint nonzeros beside methods made for them, and what a step costs.

Run ``python benchmarks/sets.py`` after ``pip install sparsect[peers]``. Tables are printed and written to
results/sets.md; with ``--cost`` or ``--gpu`` the cost of a step is measured instead, which needs a quiet machine, and
written to results/sets-cost.md or results/sets-gpu.md. The lead field is read from ``--data``. Takes ten minutes.

Every method is told the number of nonzeros (groups, sources). Where a method has a penalty instead, all penalties of a
path are tried, and the one whose answer is closest to the truth is taken: no user could choose better.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import machine
import matrices
import numpy as np
from scipy.optimize import nnls

import sparsect
from sparsect import sets

HERE = Path(__file__).parent
PROBLEMS, SEED = 10, 2026
# Penalties relative to the smallest one at which everything is zero; mne suggests 0.2 to 0.8 for its own.
PATH, REWEIGHTED = np.logspace(-0.1, -2.5, 25), (0.8, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)


def noisy(clean, decibels, generate):
    """Add noise of a given level to every problem."""
    axes = tuple(range(1, clean.ndim))
    noise = generate.standard_normal(clean.shape)
    size = np.sqrt(np.sum(clean**2, axis=axes, keepdims=True) / np.sum(noise**2, axis=axes, keepdims=True))
    return clean + noise * size * 10 ** (-decibels / 20)


def error(x, found):
    """SNR of each problem, in dB."""
    return sparsect.snr_db(x.reshape(len(x), -1), found.reshape(len(x), -1))


def mean(values):
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}"


def difference(ours, theirs):
    return mean(np.asarray(ours) - np.asarray(theirs))


def best_of_path(x, answers):
    """The answer closest to the truth, for each problem."""
    scores = np.array([error(x, found) for found in answers])
    return np.choose(np.argmax(scores, axis=0)[(...,) + (None,) * (x.ndim - 1)], answers)


def refitted(Phi, y, places, positive=False):
    """Least squares on the given places, with positive coefficients if asked for."""
    x = np.zeros((*y.shape[:-1], Phi.shape[1]))
    if positive:
        x[places] = nnls(Phi[:, places], y)[0]
    else:
        x[..., places] = np.linalg.lstsq(Phi[:, places], y.T, rcond=None)[0].T
    return x


def lasso_positive(Phi, y, s, x):
    """The lasso with positive coefficients: as it is, and its s largest places refitted."""
    from sklearn.linear_model import lasso_path

    rows, refits = [], []
    for row in y:
        top = np.max(np.abs(row @ Phi)) / len(row)
        _, coefs, _ = lasso_path(Phi, row, alphas=top * PATH, positive=True, max_iter=5000)
        rows.append(coefs.T)
        refits.append([refitted(Phi, row, np.argsort(-c)[:s], positive=True) for c in coefs.T])
    return [best_of_path(x, list(np.swapaxes(np.array(values), 0, 1))) for values in (rows, refits)]


def largest_of_nnls(Phi, y, s):
    found = []
    for row in y:
        places = np.argsort(-nnls(Phi, row)[0])[:s]
        found.append(refitted(Phi, row, places, positive=True))
    return np.array(found)


def nonnegative_table():
    names = ("none", "lasso", "lasso, refitted", "nnls, s largest", "nonnegative OMP")
    yield f"| s | constraint | {' | '.join(names)} | ahead of the best of these |"
    yield "|---|---|---|---|---|---|---|---|"
    for s in (50, 75, 100, 125, 150):
        generate = np.random.default_rng([SEED, s])
        Phi = sparsect.random_problem(400, 1000, s, rng=generate).Phi
        x = np.zeros((PROBLEMS, 1000))
        for row in x:
            row[generate.permutation(1000)[:s]] = np.abs(generate.standard_normal(s))
        y = noisy(x @ Phi.T, 20, generate)
        chosen = sets.Sparse(s, nonnegative=True)
        ours = error(x, sparsect.recover(Phi, y, chosen).x)
        others = [error(x, sparsect.recover(Phi, y, s, check_fit=False).x)]
        others += [error(x, found) for found in lasso_positive(Phi, y, s, x)]
        others.append(error(x, largest_of_nnls(Phi, y, s)))
        others.append(error(x, sparsect.recover(Phi, y, chosen, "omp", check_fit=False).x))
        best = max(others, key=np.mean)
        yield f"| {s} | {mean(ours)} | {' | '.join(mean(other) for other in others)} | {difference(ours, best)} |"


def regression_table():
    from abess.linear import LinearRegression
    from sklearn.linear_model import LassoCV

    found = {name: [] for name in ("abess, s known", "abess", "lasso, cross-validated", "nnls")}
    for problem in range(PROBLEMS):
        generate = np.random.default_rng([SEED, 7, problem])
        Phi = np.sqrt(0.3) * generate.standard_normal((1000, 500)) + np.sqrt(0.7) * generate.standard_normal((1000, 1))
        x = np.zeros(500)
        x[generate.permutation(500)[:50]] = generate.uniform(0.5, 1.5, 50)
        y = noisy((Phi @ x)[None], 10, generate)[0]
        answers = {
            "abess, s known": LinearRegression(support_size=50, fit_intercept=False).fit(Phi, y).coef_,
            "abess": LinearRegression(support_size=range(150), fit_intercept=False).fit(Phi, y).coef_,
            "lasso, cross-validated": LassoCV(positive=True, fit_intercept=False, cv=5).fit(Phi, y).coef_,
            "nnls": nnls(Phi, y)[0],
        }
        for name, theirs in answers.items():
            size = int(np.count_nonzero(theirs))
            ours = sparsect.recover(Phi, y, sets.Sparse(size, nonnegative=True), check_fit=False).x
            hits = [np.count_nonzero((x != 0) & (answer != 0)) for answer in (theirs, ours)]
            found[name].append([size, hits[0] / size, hits[1] / size, hits[0] / 50, hits[1] / 50])
    yield "| beside | nonzeros | precision: theirs | ours | recall: theirs | ours |"
    yield "|---|---|---|---|---|---|"
    for name, rows in found.items():
        size, *rates = np.mean(rows, axis=0)
        yield f"| {name} | {size:.0f} | {' | '.join(f'{rate:.3f}' for rate in rates)} |"


def neighbours(generate, correlation):
    """Columns each of which resembles the one before (AR(1))."""
    Phi = generate.standard_normal((200, 1000))
    for column in range(1, 1000):
        Phi[:, column] = correlation * Phi[:, column - 1] + np.sqrt(1 - correlation**2) * Phi[:, column]
    return Phi / np.linalg.norm(Phi, axis=0)


def joint_cases(folder):
    """Coherent and random matrices with the number of sources and the noise: Phi in units of columns of norm 1."""
    generate = np.random.default_rng([SEED, 3])
    cosines = np.cos(np.pi * np.outer(np.arange(256) + 0.5, np.arange(1024)) / 1024)
    with np.load(folder / "data" / "meg" / "lead_field.npz") as file:
        field = file["lead_field"].astype(np.float64)
    cases = [
        ("AR(1) 0.99, 200x1000", neighbours(generate, 0.99), 10, 20),
        ("overcomplete cosines, 256x1024", cosines, 16, 20),
        ("MEG lead field, 204x4686", field, 3, 15),
        ("Gaussian, 100x400", generate.standard_normal((100, 400)), 25, 15),
    ]
    return [(name, Phi / np.linalg.norm(Phi, axis=0), s, decibels) for name, Phi, s, decibels in cases]


def mixed_norms(Phi, y, s, x):
    """The group lasso over times (scikit-learn) and mne's reweighted mixed norm: s largest sources, refitted."""
    from mne.inverse_sparse.mxne_optim import iterative_mixed_norm_solver
    from sklearn.linear_model import MultiTaskLasso

    lassos, reweighted = [], []
    for data in y:
        top = np.max(np.linalg.norm(data @ Phi, axis=0))
        model = MultiTaskLasso(fit_intercept=False, warm_start=True, max_iter=1000, tol=1e-3)
        lassos.append([])
        reweighted.append([])
        for share in PATH[::3]:
            coefs = model.set_params(alpha=top * share / len(Phi)).fit(Phi, data.T).coef_
            lassos[-1].append(refitted(Phi, data, np.argsort(-np.linalg.norm(coefs, axis=0))[:s]))
        for share in REWEIGHTED:
            limits = {"maxit": 500, "tol": 1e-4, "verbose": False}
            sources, active, _ = iterative_mixed_norm_solver(data.T, Phi, top * share, 10, **limits)
            places = np.flatnonzero(active)[np.argsort(-np.linalg.norm(sources, axis=1))[:s]]
            reweighted[-1].append(refitted(Phi, data, places))
    return [best_of_path(x, list(np.swapaxes(np.array(values), 0, 1))) for values in (lassos, reweighted)]


def found_places(x, answer):
    return np.mean(np.sum((x != 0).any(1) & (answer != 0).any(1), axis=1) / np.sum((x != 0).any(1), axis=1))


def joint_table(folder):
    names = ("joint", "simultaneous OMP", "multi-task lasso", "mixed norm")
    yield f"| | times | {' | '.join(names)} | ahead of the best | places found: {', '.join(names)} |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, Phi, s, decibels in joint_cases(folder):
        for times in (1, 4, 16):
            generate = np.random.default_rng([SEED, 4, times])
            x = np.zeros((PROBLEMS, times, Phi.shape[1]))
            for signal in x:
                signal[:, generate.permutation(Phi.shape[1])[:s]] = generate.standard_normal((times, s))
            y = noisy(x @ Phi.T, decibels, generate)
            answers = [sparsect.recover(Phi, y, sets.JointSparse(s)).x]
            answers.append(sparsect.recover(Phi, y, sets.JointSparse(s), "omp", check_fit=False).x)
            answers += mixed_norms(Phi, y, s, x)
            errors = [error(x, answer) for answer in answers]
            ahead = difference(errors[0], max(errors[1:], key=np.mean))
            places = ", ".join(f"{found_places(x, answer):.0%}" for answer in answers)
            label = f"{name}, s = {s}, {decibels} dB"
            yield f"| {label} | {times} | {' | '.join(mean(values) for values in errors)} | {ahead} | {places} |"


def group_lasso(Phi, y, s, labels, x):
    """skglm's group lasso: the s largest groups, refitted."""
    from skglm import GroupLasso

    count, answers = int(labels.max()) + 1, []
    groups = [np.flatnonzero(labels == label).tolist() for label in range(count)]
    for row in y:
        top = max(np.linalg.norm(row @ Phi[:, group]) for group in groups) / len(row)
        answers.append([])
        for share in PATH[::3]:
            model = GroupLasso(groups=groups, alpha=top * share, fit_intercept=False, tol=1e-4)
            coefs = model.fit(Phi, row).coef_
            sizes = np.bincount(labels, weights=coefs**2)
            answers[-1].append(refitted(Phi, row, np.isin(labels, np.argsort(-sizes)[:s])))
    return best_of_path(x, list(np.swapaxes(np.array(answers), 0, 1)))


def group_table():
    yield "| | groups | groups known | unknown | group lasso, refitted | group OMP | group OLS | ahead of the best |"
    yield "|---|---|---|---|---|---|---|---|"
    labels = np.arange(1000) // 4
    cases = [("Gaussian, 400x1000", s) for s in (10, 20, 30, 40)]
    cases += [("AR(1) 0.9, 200x1000", 5), ("AR(1) 0.9, 200x1000", 12), ("AR(1) 0.97, 200x1000", 5)]
    for name, s in cases:
        generate = np.random.default_rng([SEED, 5, s])
        if name.startswith("AR"):
            Phi = neighbours(generate, float(name.split()[1][:-1]))
        else:
            Phi = sparsect.random_problem(400, 1000, s, rng=generate).Phi
        x = np.zeros((PROBLEMS, 1000))
        for row in x:
            row[np.isin(labels, generate.permutation(250)[:s])] = generate.standard_normal(4 * s)
        y = noisy(x @ Phi.T, 20, generate)
        chosen = sets.GroupSparse(s, labels)
        ours = error(x, sparsect.recover(Phi, y, chosen).x)
        others = [error(x, sparsect.recover(Phi, y, 4 * s, check_fit=False).x)]
        others.append(error(x, group_lasso(Phi, y, s, labels, x)))
        others += [error(x, sparsect.recover(Phi, y, chosen, each, check_fit=False).x) for each in ("omp", "ormp")]
        ahead = difference(ours, max(others, key=np.mean))
        yield f"| {name} | {s} of 4 | {mean(ours)} | {' | '.join(mean(other) for other in others)} | {ahead} |"


def seconds_a_step(Phi, y, chosen, steps=200, turns=5):
    """Seconds of a step of the search, without the start and the end of a run."""
    method = sparsect.AnnealedDifferenceMap("approximation")
    problem, _ = sparsect.Problem(Phi, y, chosen).to_scale()
    state, goal = method.init(problem), np.full(problem.batch, -1.0)
    seconds = []
    for _ in range(turns + 1):
        start = time.perf_counter()
        after = method.steps(problem, state, goal, np.linspace(0, 1, steps).tolist())
        float(after.criterion[0])
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:]) / steps


def cost_table(gpu):
    n, times = 1000, 4
    kinds = {
        "at most 100 nonzeros": 100,
        "nonnegative": sets.Sparse(100, nonnegative=True),
        "bounds -1 and 1": sets.Sparse(100, low=-1.0, high=1.0),
        "25 groups of 4": sets.GroupSparse(25, np.random.default_rng(0).permutation(n) // 4),
        "joint, 4 times": sets.JointSparse(100),
        "two levels": sets.LevelSparse([60, 40], np.arange(n) % 2),
    }
    yield "| set | a step | of the plain one |"
    yield "|---|---|---|"
    problem = sparsect.random_problem(400, n, 100, batch=32768 if gpu else 512, rng=0, dtype=np.float32)
    Phi, y = sparsect.as_operator(problem.Phi), problem.y
    if gpu:
        import torch

        Phi, y = sparsect.as_operator(torch.as_tensor(problem.Phi).cuda()), torch.as_tensor(y).cuda()
    plain = None
    for name, chosen in kinds.items():
        data = y.reshape(-1, times, y.shape[1]) if isinstance(chosen, sets.JointSparse) else y
        seconds = seconds_a_step(Phi, data, chosen)
        plain = seconds if plain is None else plain
        yield f"| {name} | {1e3 * seconds:.2f} ms | {seconds / plain:.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=matrices.SHARED, help="folder with data/meg")
    parser.add_argument("--gpu", action="store_true", help="measure the cost of a step on a GPU, and nothing else")
    parser.add_argument("--cost", action="store_true", help="measure the cost of a step, and nothing else")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start = "A step of the annealed map, from the least time of five runs of 200 steps,"
    if options.cost:
        with machine.Report(HERE / "results" / "sets-cost.md", "What a step costs", ("numpy", "numba")) as report:
            text = f"{start} 512 signals, 400x1000, float32, all cores; for joint supports, 128 signals at 4 times."
            report.section("Steps", text, cost_table(gpu=False))
        return
    if options.gpu:
        with machine.Report(HERE / "results" / "sets-gpu.md", "Sets on a GPU", ("numpy", "torch")) as report:
            text = f"{start} 32,768 signals, 400x1000, float32; for joint supports, 8,192 signals at 4 times."
            report.section("What a step costs", text, cost_table(gpu=True))
        return
    packages = ("numpy", "scipy", "numba", "scikit-learn", "abess", "skglm", "mne")
    with machine.Report(HERE / "results" / "sets.md", "Sets", packages) as report:
        text = (
            f"SNR of x in dB, 400x1000 Gaussian Phi, nonzeros |N(0, 1)|, 20 dB, {PROBLEMS} problems, standard errors."
        )
        report.section("Nonnegative x", text, nonnegative_table())
        text = (
            "1,000 rows, 500 columns with correlations of 0.7, 50 positive coefficients from 0.5 to 1.5, 10 dB. Ours "
            "has as many nonzeros as theirs each time, and knows that they are positive; abess does not. "
            f"{PROBLEMS} problems."
        )
        report.section("Positive regression coefficients", text, regression_table())
        text = (
            "SNR of x in dB and share of the places found. The penalties of the multi-task lasso and of mne's "
            "reweighted mixed norm are the best of nine and of eight, and their s largest sources are refitted. "
            f"{PROBLEMS} problems."
        )
        report.section("Joint supports", text, joint_table(options.data))
        text = f"SNR of x in dB, groups of 4 neighbouring columns, 20 dB, {PROBLEMS} problems."
        report.section("Groups", text, group_table())


if __name__ == "__main__":
    main()
