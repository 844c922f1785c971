"""Where in the brain: sources of MEG with joint supports, beside the sparse solvers of MNE-Python.

Run ``python benchmarks/source_imaging.py`` after ``pip install sparsect[peers]``. Tables are printed and written to
results/source-imaging.md. The lead field is read from ``--data``. Takes about fifteen minutes.

Sources are dipoles of random places, with independent normal amplitudes at all times; their strength does not depend on
depth, so deep ones are measured weakly. Every method sees columns of norm 1, and the noise whitened. The penalty of the
mixed norm, where nothing else is said, is the one of several whose answer has the best F1: no user could choose better.
Gamma-MAP is told the variance of the noise.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import machine
import matrices
import numpy as np
from scipy.optimize import linear_sum_assignment

import sparsect
from sparsect import sets

HERE = Path(__file__).parent
PROBLEMS, SEED, NEAR = 20, 20, 0.015
PENALTIES = (0.8, 0.6, 0.4, 0.2, 0.1)
SETTINGS = ((1, 20, False), (10, 20, False), (30, 20, False), (10, 5, False), (10, 40, False), (10, 20, True))


class Head:
    """A lead field with columns of norm 1, and the places of its sources in metres."""

    def __init__(self, folder):
        with np.load(folder / "data" / "meg" / "lead_field.npz") as file:
            field, self.places = file["lead_field"].astype(np.float64), file["src_coords"]
        self.norms = np.linalg.norm(field, axis=0) / np.median(np.linalg.norm(field, axis=0))
        self.field = field / np.linalg.norm(field, axis=0)

    def draw(self, sources, times, decibels, correlated, generate):
        """Amplitudes, measurements, and the covariance of their noise, up to a factor."""
        m, n = self.field.shape
        x = np.zeros((PROBLEMS, times, n))
        for signal in x:
            places = generate.permutation(n)[:sources]
            signal[:, places] = generate.standard_normal((times, sources)) * self.norms[places]
        clean, noise, covariance = x @ self.field.T, generate.standard_normal((PROBLEMS, times, m)), np.eye(m)
        if correlated:
            mixing = generate.standard_normal((m, m // 10)) * 3 / np.sqrt(m // 10)
            covariance = np.eye(m) + mixing @ mixing.T
            noise = noise @ np.linalg.cholesky(covariance).T
        size = np.linalg.norm(clean, axis=(1, 2)) / np.linalg.norm(noise, axis=(1, 2)) * 10 ** (-decibels / 20)
        return x, clean + noise * size[:, None, None], covariance, size

    def scores(self, x, found):
        """F1 of the places, share of sources with a found one within 15 mm, and the mean distance in mm."""
        rows = []
        for truth, answer in zip(x, found, strict=True):
            true, other = (np.flatnonzero(part.any(axis=0)) for part in (truth, answer))
            hits = np.intersect1d(true, other).size
            if other.size == 0:
                rows.append((0.0, 0.0, 100.0))
                continue
            distances = np.linalg.norm(self.places[true, None] - self.places[None, other], axis=2)
            pairs = linear_sum_assignment(distances)
            near = np.mean(distances.min(axis=1) <= NEAR)
            rows.append((2 * hits / (true.size + other.size), near, 1e3 * np.mean(distances[pairs])))
        return np.mean(rows, axis=0)


def marked(places, like):
    """An answer that is nonzero at some places."""
    found = np.zeros_like(like)
    found[:, places] = 1.0
    return found


def largest(amplitudes, places, count):
    """The places of the largest amplitudes."""
    return np.asarray(places)[np.argsort(-np.linalg.norm(amplitudes, axis=1))[:count]]


def mixed_norm(field, data, share, count=None):
    from mne.inverse_sparse.mxne_optim import iterative_mixed_norm_solver

    alpha = share * np.max(np.linalg.norm(data @ field, axis=0))
    limits = {"maxit": 200, "tol": 1e-3, "verbose": False}
    amplitudes, active, _ = iterative_mixed_norm_solver(data.T, field, alpha, 5, **limits)
    return largest(amplitudes, np.flatnonzero(active), count)


def gamma_map(field, data, variance, count=None):
    from mne.inverse_sparse._gamma_map import _gamma_map_opt

    found = _gamma_map_opt(data.T, field, alpha=variance, maxit=1000, tol=1e-5, update_mode=2, verbose=False)
    return largest(found[0], found[1], count)


def minimum_norm(field, data, count):
    """The largest amplitudes of the regularized minimum-norm estimate, at the usual signal-to-noise ratio of 3."""
    gram = field @ field.T
    ridge = np.trace(gram) / len(gram) / 9
    amplitudes = field.T @ np.linalg.solve(gram + ridge * np.eye(len(gram)), data.T)
    return largest(amplitudes, np.arange(field.shape[1]), count)


def answers(field, y, x, deviations, sources):
    """What every method finds, by name: for each problem the places, or several sets of places to choose from."""
    joint = [sparsect.recover(field, y, sets.JointSparse(size), check_fit=False).x for size in (sources, "auto")]
    pursuit = sparsect.recover(field, y, sets.JointSparse(sources), "omp", check_fit=False).x
    found = {
        "joint": [[np.flatnonzero(part.any(axis=0))] for part in joint[0]],
        "mixed norm": [[mixed_norm(field, data, share, sources) for share in PENALTIES] for data in y],
        "Gamma-MAP": [[gamma_map(field, data, d**2, sources)] for data, d in zip(y, deviations, strict=True)],
        "simultaneous OMP": [[np.flatnonzero(part.any(axis=0))] for part in pursuit],
        "minimum norm": [[minimum_norm(field, data, sources)] for data in y],
        "joint, auto": [[np.flatnonzero(part.any(axis=0))] for part in joint[1]],
        "mixed norm, 0.6": [[mixed_norm(field, data, 0.6)] for data in y],
        "mixed norm, best": [[mixed_norm(field, data, share) for share in PENALTIES] for data in y],
        "Gamma-MAP, own": [[gamma_map(field, data, d**2)] for data, d in zip(y, deviations, strict=True)],
    }
    return found


def table(head):
    names = None
    for times, decibels, correlated in SETTINGS:
        for sources in (1, 2, 3, 5):
            generate = np.random.default_rng([SEED, times, decibels, correlated, sources])
            x, y, covariance, size = head.draw(sources, times, decibels, correlated, generate)
            W = np.linalg.inv(np.linalg.cholesky(covariance))
            field = W @ head.field
            scale = np.linalg.norm(field, axis=0)
            found = answers(field / scale, y @ W.T, x, size, sources)
            if names is None:
                names = list(found)
                yield f"| times, noise | sources | {' | '.join(names)} |"
                yield "|---|---|" + "---|" * len(names)
            cells = []
            for choices in found.values():
                best = []
                for truth, options in zip(x, choices, strict=True):
                    scored = [head.scores(truth[None], marked(option, truth)[None]) for option in options]
                    best.append(max(scored, key=lambda score: score[0]))
                f1, near, distance = np.mean(best, axis=0)
                cells.append(f"{f1:.2f}, {near:.0%}, {distance:.0f} mm")
            noise = f"{times}, {decibels} dB{', correlated' if correlated else ''}"
            yield f"| {noise} | {sources} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=matrices.SHARED, help="folder with data/meg")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    packages = ("numpy", "scipy", "numba", "mne")
    with machine.Report(HERE / "results" / "source-imaging.md", "MEG source imaging", packages) as report:
        text = (
            "F1 of the places, share of sources with a found one within 15 mm, mean distance. The first five are told "
            f"the number of sources, the others are not. {PROBLEMS} problems each."
        )
        report.section("Sources found", text, table(Head(options.data)))


if __name__ == "__main__":
    main()
