"""Regression on few features beside abess, skglm, scikit-learn and pysindy: drawn data, real data, equations, time.

Run ``OMP_NUM_THREADS=1 python benchmarks/regression.py`` after ``pip install sparsect[peers]``; packages that
are not installed are left out. Tables are printed and written to results/regression.md. Takes about twelve minutes on
one core, which should have nothing else to do: times are reported. ``--seeds 1`` is for a quick look.
"""

from __future__ import annotations

import argparse
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import machine
import numpy as np
from scipy.integrate import solve_ivp
from scipy.signal import savgol_filter
from sklearn.datasets import fetch_california_housing, load_breast_cancer, load_diabetes
from sklearn.linear_model import LassoCV, OrthogonalMatchingPursuit, OrthogonalMatchingPursuitCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from sparsect import SparseRegressor, SparseRegressorCV

HERE = Path(__file__).parent
SEED = 21_000_000
# Points of a path of penalties of skglm, the smallest penalty relative to the largest, and where a path ends.
POINTS, SMALLEST, MOST = 25, 1e-2, 60
# Ridges that are compared by cross-validation.
RIDGES = (0.03, 0.1, 0.3, 1.0)
# Numbers of terms of Lorenz's equations.
TERMS = (2, 3, 2)
# Subsets whose bounds are computed before a proof is given up.
NODES = 30_000


def installed(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


class Folded:
    """A penalty of skglm, chosen on a path by five-fold cross-validation."""

    def __init__(self, penalty):
        self.penalty = penalty

    def fit(self, X, y):
        strengths = np.max(np.abs((X - X.mean(axis=0)).T @ (y - y.mean()))) / len(y) / X.std(axis=0).max()
        strengths = strengths / y.std() * np.geomspace(0.95, SMALLEST, POINTS)
        errors = np.full((5, POINTS), np.inf)
        for fold, (train, test) in enumerate(KFold(5).split(X)):
            for place, (coef, intercept) in enumerate(self.path(X[train], y[train], strengths)):
                errors[fold, place] = np.mean((y[test] - X[test] @ coef - intercept) ** 2)
        best = int(np.argmin(errors.mean(axis=0)))
        *_, (self.coef_, self.intercept_) = self.path(X, y, strengths[: best + 1])
        return self

    def path(self, X, y, strengths):
        """Coefficients and intercept for each strength, with columns and y of deviation 1."""
        from skglm import penalties
        from skglm.datafits import Quadratic
        from skglm.solvers import AndersonCD

        means, scales, mean, scale = X.mean(axis=0), X.std(axis=0), y.mean(), y.std()
        scales = np.where(scales > 0, scales, 1.0)
        X, y, w = np.asfortranarray((X - means) / scales), (y - mean) / scale, np.zeros(X.shape[1])
        solver, gamma = AndersonCD(fit_intercept=False, tol=1e-4), {"MCPenalty": 3.0, "SCAD": 3.7}[self.penalty]
        for strength in strengths:
            penalty = getattr(penalties, self.penalty)(strength, gamma)
            w = solver.solve(X, y, Quadratic(), penalty, w, X @ w)[0]
            coef = w * scale / scales
            yield coef, mean - coef @ means
            if np.count_nonzero(w) > MOST:
                return

    def predict(self, X):
        return X @ self.coef_ + self.intercept_


def abess(**options):
    from abess.linear import LinearRegression

    return LinearRegression(**options)


OURS = {
    "SparseRegressor()": SparseRegressor,
    "SparseRegressorCV()": SparseRegressorCV,
    'SparseRegressorCV(rule="one standard error")': lambda: SparseRegressorCV(rule="one standard error"),
    'SparseRegressorCV(rule="significant")': lambda: SparseRegressorCV(rule="significant"),
    "SparseRegressorCV(ridges=...)": lambda: SparseRegressorCV(ridges=RIDGES),
}
RIVALS = {
    "abess": ("abess", abess),
    "abess, cv=5": ("abess", lambda: abess(cv=5)),
    "skglm MCP, CV": ("skglm", lambda: Folded("MCPenalty")),
    "skglm SCAD, CV": ("skglm", lambda: Folded("SCAD")),
    "scikit-learn LassoCV": ("scikit-learn", lambda: LassoCV(alphas=30, tol=1e-3)),
    "scikit-learn OMP, CV": ("scikit-learn", OrthogonalMatchingPursuitCV),
}


def contenders():
    return OURS | {name: make for name, (package, make) in RIVALS.items() if installed(package)}


def fitted(make, X, y):
    """A model, its coefficients, and the seconds that it took."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = make().fit(X, y)
        return model, np.ravel(model.coef_), time.perf_counter() - start


def features(rng, m, n, kind, correlation):
    noise = rng.standard_normal((m, n))
    if kind == "constant":
        return (1 - correlation) ** 0.5 * noise + correlation**0.5 * rng.standard_normal((m, 1))
    if kind == "ten factors":
        return noise + rng.standard_normal((m, 10)) @ rng.standard_normal((10, n))
    for k in range(1, n):
        noise[:, k] = correlation * noise[:, k - 1] + (1 - correlation**2) ** 0.5 * noise[:, k]
    return noise


def cells(rows):
    """Mean and standard error of every column."""
    rows = np.array(rows, dtype=float)
    errors = np.std(rows, axis=0, ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else np.full(rows.shape[1], np.nan)
    return [f"{mean:.3g} ± {error:.1g}" for mean, error in zip(rows.mean(axis=0), errors, strict=True)]


def drawn(seeds, m=500, n=1000, size=10):
    yield "| correlations | SNR | | true positives | false positives | prediction error | seconds |"
    yield "|---|---|---|---|---|---|---|"
    for kind, correlation in (("powers of", 0.1), ("constant", 0.7)):
        for snr in (1, 5, 10):
            found = {name: [] for name in contenders()}
            for seed in range(seeds):
                rng = np.random.default_rng([SEED, seed])
                X, true = features(rng, 2 * m, n, kind, correlation), np.zeros(n)
                true[rng.choice(n, size, replace=False)] = rng.choice([-1, 1], size) * rng.uniform(0.5, 1.5, size)
                signal = X @ true + 3
                deviation = np.std(signal) / snr**0.5
                y = signal + deviation * rng.standard_normal(2 * m)
                for name, make in contenders().items():
                    model, coef, seconds = fitted(make, X[:m], y[:m])
                    error = np.mean((np.ravel(model.predict(X[m:])) - signal[m:]) ** 2) / deviation**2
                    right = coef[true != 0] != 0
                    found[name].append((right.sum(), np.count_nonzero(coef) - right.sum(), error, seconds))
            for name, rows in found.items():
                yield f"| {kind} {correlation} | {snr} | {name} | {' | '.join(cells(rows))} |"


def least_residual(X, y, size, known):
    """The smallest squared residual of any subset (leaps and bounds); None if that takes too long to prove.

    A node has columns that may be used, the first of which must be. Of these, so many have to go; each costs at least
    what it costs to remove it alone.
    """
    H = np.linalg.inv(X.T @ X)
    x = H @ (X.T @ y)
    waiting, nodes = [(np.arange(X.shape[1]), 0, H, x, y @ y - (X.T @ y) @ x)], 0
    while waiting:
        columns, fixed, H, x, left = waiting.pop()
        nodes += 1
        if nodes > NODES:
            return None
        for kept in range(fixed, size + 1):
            loss, spare = x * x / np.diag(H), columns.size - size
            if spare == 0 or kept == size:
                chosen = X[:, columns[:size]]
                known = min(known, np.sum((y - chosen @ np.linalg.lstsq(chosen, y)[0]) ** 2))
                break
            if left + np.partition(loss[kept:], spare - 1)[spare - 1] >= known * (1 - 1e-10):
                break
            place = kept + int(np.argmax(loss[kept:]))
            others = np.delete(np.arange(columns.size), place)
            h, pivot = H[others, place], H[place, place]
            if left + loss[place] < known * (1 - 1e-10):
                rest = H[np.ix_(others, others)] - np.outer(h, h) / pivot
                waiting.append((columns[others], kept, rest, x[others] - h * x[place] / pivot, left + loss[place]))
            order = np.insert(others, 0, place)
            columns, H, x = columns[order], H[np.ix_(order, order)], x[order]
    return known


def proven(seeds, m=100, n=50, size=5):
    makers = {"SparseRegressor(s)": lambda: SparseRegressor(size)}
    if installed("abess"):
        makers["abess"] = lambda: abess(support_size=range(1, size + 1), ic_type="aic", ic_coef=0.0)
    makers["scikit-learn OMP"] = lambda: OrthogonalMatchingPursuit(n_nonzero_coefs=size)
    yield f"| correlations | proven | {' | '.join(makers)} |"
    yield "|---|---|" + "---|" * len(makers)
    for kind, correlation in (("none", 0.0), ("powers of", 0.9), ("constant", 0.7), ("ten factors", 0.0)):
        hits = []
        for seed in range(seeds):
            rng = np.random.default_rng([SEED, 2, seed])
            X = features(rng, m, n, kind, correlation)
            signal = X[:, rng.choice(n, size, replace=False)] @ rng.standard_normal(size)
            for snr in (1, 5):
                y = signal + np.std(signal) / snr**0.5 * rng.standard_normal(m)
                y *= 1e3 / np.linalg.norm(y)
                models = (fitted(make, X, y)[0] for make in makers.values())
                residuals = np.array([np.sum((y - np.ravel(model.predict(X))) ** 2) for model in models])
                least = least_residual(X - X.mean(axis=0), y - y.mean(), size, residuals.min() * (1 + 1e-9))
                if least is not None:
                    hits.append(residuals <= least * (1 + 1e-6))
        label = f"{kind} {correlation}" if correlation else kind
        shares = " | ".join(f"{100 * hit:.0f} %" for hit in np.mean(hits, axis=0))
        yield f"| {label} | {len(hits)} of {2 * seeds} | {shares} |"


def tables():
    """Name, features and target of real data."""
    yield "diabetes", *load_diabetes(return_X_y=True)
    yield "breast cancer", *load_breast_cancer(return_X_y=True)
    try:
        X, y = fetch_california_housing(return_X_y=True, download_if_missing=False)
    except OSError:
        return
    some = np.random.default_rng(SEED).permutation(len(y))[:2000]
    yield "California housing, 2,000 rows", X[some], y[some]


def real(repetitions):
    yield "| data | features | | 1 - R2 | selected | seconds |"
    yield "|---|---|---|---|---|---|"
    for label, X, y in tables():
        products = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), StandardScaler())
        found = {name: [] for name in contenders()}
        for repetition in range(repetitions):
            for train, test in KFold(5, shuffle=True, random_state=1000 + repetition).split(X):
                A, B = products.fit_transform(X[train]), products.transform(X[test])
                for name, make in contenders().items():
                    model, coef, seconds = fitted(make, A, y[train].astype(float))
                    error = np.mean((np.ravel(model.predict(B)) - y[test]) ** 2) / np.var(y)
                    found[name].append((error, np.count_nonzero(coef), seconds))
        for name, rows in found.items():
            yield f"| {label} | {A.shape[1]} | {name} | {' | '.join(cells(rows))} |"


def lorenz(rng, noise, samples=5000, step=0.002):
    """Polynomials of noisy states, their derivatives, and which terms the equations have."""

    def derivative(_, state):
        x, y, z = state
        return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z

    times = step * np.arange(samples)
    start = solve_ivp(derivative, (0, 10), rng.normal([0, 0, 25], 8.0), rtol=1e-8).y[:, -1]
    states = solve_ivp(derivative, times[[0, -1]], start, t_eval=times, rtol=1e-9, atol=1e-9).y.T
    states = states + noise * np.std(states, axis=0) * rng.standard_normal(states.shape)
    window, inside = 41, slice(20, -20)
    smooth, slopes = (savgol_filter(states, window, 3, deriv=k, delta=step, axis=0)[inside] for k in (0, 1))
    library = PolynomialFeatures(5)
    columns = library.fit_transform(smooth)
    names = list(library.get_feature_names_out(["x", "y", "z"]))
    terms = (("x", "y"), ("x", "y", "x z"), ("z", "x y"))
    return columns, slopes, np.array([[name in row for name in names] for row in terms])


def alone(fit):
    """A fit of each equation alone."""
    return lambda X, Y: np.array([np.ravel(fit(X, y)) for y in Y.T])


def equations(seeds):
    """Each contender has one or several settings, of which the best one for each level of noise is shown."""

    def cross_validated(rule):
        return alone(lambda X, y: SparseRegressorCV(range(16), rule=rule, fit_intercept=False).fit(X, y).coef_)

    makers = {"SparseRegressor()": [lambda X, Y: SparseRegressor(fit_intercept=False).fit(X, Y).coef_]}
    for rule in ("one standard error", "significant"):
        makers[f'SparseRegressorCV(rule="{rule}")'] = [cross_validated(rule)]
    makers["SparseRegressor(s), told the numbers of terms"] = [
        lambda X, Y: [SparseRegressor(s, fit_intercept=False).fit(X, y).coef_ for s, y in zip(TERMS, Y.T, strict=True)]
    ]
    if installed("pysindy"):
        from pysindy.optimizers import SSR, STLSQ

        def threshold(value):
            return lambda X, Y: STLSQ(threshold=value).fit(X, Y).coef_

        def stepwise(kappa):
            return alone(lambda X, y: SSR(max_iter=X.shape[1], kappa=kappa).fit(X, y[:, None]).coef_)

        makers["pysindy STLSQ, its default"] = [threshold(0.1)]
        makers["pysindy STLSQ, best threshold"] = [threshold(value) for value in (0.1, 0.2, 0.3, 0.5, 0.8)]
        makers["pysindy SSR, its rule"] = [stepwise(None)]
        if installed("gurobipy"):
            from pysindy.optimizers import MIOSR

            makers["pysindy MIOSR, told the numbers of terms"] = [
                lambda X, Y: MIOSR(target_sparsity=None, group_sparsity=TERMS).fit(X, Y).coef_
            ]
        makers["pysindy SSR, best kappa"] = [stepwise(kappa) for kappa in (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)]
    yield "| noise | | equations with the right terms | terms missed | wrong terms |"
    yield "|---|---|---|---|---|"
    for noise in (0.01, 0.02, 0.05, 0.1):
        found = {name: [[] for _ in fits] for name, fits in makers.items()}
        for seed in range(seeds):
            X, slopes, terms = lorenz(np.random.default_rng([SEED, 4, seed]), noise)
            for name, fits in makers.items():
                for fit, rows in zip(fits, found[name], strict=True):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        used = np.asarray(fit(X, slopes)) != 0
                    right = 100 * np.mean((used == terms).all(axis=1))
                    rows.append((right, np.sum(terms & ~used), np.sum(used & ~terms)))
        for name, settings in found.items():
            right, *others = cells(max(settings, key=lambda rows: np.mean(rows, axis=0)[0]))
            yield f"| {noise:.0%} | {name} | {right} % | {' | '.join(others)} |"


def times(repetitions):
    makers = {"SparseRegressor(10)": lambda: SparseRegressor(10), "SparseRegressor()": SparseRegressor}
    if installed("abess"):
        makers["abess, support_size=10"] = lambda: abess(support_size=10)
    makers["scikit-learn LassoCV"] = lambda: LassoCV(alphas=30, tol=1e-3)
    yield f"| | {' | '.join(makers)} |"
    yield "|---|" + "---|" * len(makers)
    for m, n in ((10_000, 1_000), (500, 20_000)):
        rng = np.random.default_rng([SEED, 5])
        X, true = rng.standard_normal((m, n)), np.zeros(n)
        true[rng.choice(n, 10, replace=False)] = 1.0
        y = X @ true + rng.standard_normal(m)
        shown = []
        for name, make in makers.items():
            runs = [fitted(make, X, y)[2] for _ in range(1 if "Lasso" in name else repetitions)]
            shown.append(f"{np.median(runs):.2f} s")
        yield f"| {m:,} x {n:,} | {' | '.join(shown)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=tuple(TEXTS), default=tuple(TEXTS), help="sections")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "regression.md")
    options = parser.parse_args()
    seeds = options.seeds
    known = [name for name in ("abess", "skglm", "scikit-learn", "pysindy") if installed(name)]
    for make in OURS.values():  # compiled code is loaded before anything is measured
        fitted(make, np.eye(20), np.arange(20.0))
    with machine.Report(options.out, "Regression on few features", ("numpy", *known)) as report:
        sections = {
            "drawn": ("Drawn data", lambda: drawn(seeds)),
            "proven": ("The best subset", lambda: proven(seeds)),
            "real": ("Real data", lambda: real(max(1, seeds // 5))),
            "equations": ("Equations from data", lambda: equations(seeds)),
            "times": ("Time", lambda: times(3)),
        }
        for name in options.only:
            title, lines = sections[name]
            report.section(title, TEXTS[name].format(seeds=seeds), lines())


TEXTS = {
    "drawn": "500 samples, 1,000 features of which 10 matter, intercept 3. Prediction error: mean square of the error "
    "of 500 further samples without noise, relative to the variance of the noise. Means of {seeds} draws and their "
    "standard errors. Correlations are 0.1 to the distance of two features, or 0.7 for all. Ridges: 0.03, 0.1, 0.3 and "
    "1. LassoCV: 30 penalties, tolerance 1e-3.",
    "proven": "100 samples, 50 features, 5 selected, SNR 1 and 5: how often the squared error is the smallest of all "
    "subsets, which branch and bound has proven. *Proven*: problems for which that took less than 30,000 nodes. abess "
    "goes through all sizes up to 5, and y has norm 1,000, as its threshold for exchanges expects large numbers.",
    "real": "All features, their squares and products, standardized; five-fold cross-validation, repeated with other "
    "folds. Breast cancer: the class as a number; a few samples have products far beyond all others, and a fit "
    "that is not shrunk may miss such a sample by several units. California housing takes part if scikit-learn has it; "
    "it is not in its package. 1 - R2 and number of features: means over the folds.",
    "equations": "Lorenz's system: 5,000 states at steps of 0.002 with noise relative to their deviations, smoothed "
    "and differentiated by cubic polynomials in windows of 41 states, for all in the same way. The seven terms of "
    "three equations are sought among the 56 polynomials of degree up to 5, without an intercept. *Best*: of five "
    "settings, the one with most right equations at this level of noise, which nobody knows beforehand; SSR fits each "
    "equation alone and goes on until one term is left. Errors of the states make errors of the slopes that are not "
    "white, so that a criterion for white noise, as in SparseRegressor(), takes too many terms.",
    "times": "Normal features, 10 of them with coefficient 1, noise of variance 1. Medians of three runs.",
}


if __name__ == "__main__":
    main()
