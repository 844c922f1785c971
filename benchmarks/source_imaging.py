"""Where in the brain: sources of MEG with joint supports, beside the sparse solvers of MNE-Python.

Run ``OMP_NUM_THREADS=1 python benchmarks/source_imaging.py`` after ``pip install sparsect[peers]``. A table is printed
and written to results/source-imaging.md, and a picture to results/source-imaging.png. The lead field is read from
``--data``. Takes about twenty minutes of a core.

Sources are dipoles of random places, with independent normal amplitudes at all times; their strength does not depend on
depth, so deep ones are measured weakly. Every method sees columns of norm 1, and the noise whitened. Where nothing else
is said, solvers of MNE-Python have the best of several settings for each line of the table: those with the highest mean
F1, which nobody could choose without the truth. Their own rules are SURE, the default of MNE-Python's ``mixed_norm``,
and, for Gamma-MAP, all sources that remain. Both are told the variance of the noise, which sparsect is not.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import machine
import matplotlib
import matrices
import numpy as np
from scipy.optimize import linear_sum_assignment

import sparsect
from sparsect import sets

matplotlib.use("agg")
from matplotlib import pyplot

HERE = Path(__file__).parent
PROBLEMS, SEED, NEAR = 10, 20, 0.015
# Settings of the solvers of MNE-Python: penalties relative to the largest one, variances of the noise relative to the
# true one, and the smallest amplitudes that count, relative to the largest one.
PENALTIES, VARIANCES, SMALLEST = (0.8, 0.6, 0.4, 0.2, 0.1), (1, 10), (0.0, 0.01, 0.03, 0.1, 0.3)
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


def largest(found, count):
    """The places of the largest amplitudes."""
    amplitudes, places = found
    return places[np.argsort(-np.linalg.norm(amplitudes, axis=1))[:count]]


def above(found, share):
    """The places of amplitudes of at least a share of the largest one."""
    amplitudes, places = found
    sizes = np.linalg.norm(amplitudes, axis=1)
    return places[sizes >= share * sizes.max(initial=0)]


def mixed_norm(field, data, share):
    """Amplitudes and places of the mixed norm, reweighted five times."""
    from mne.inverse_sparse.mxne_optim import iterative_mixed_norm_solver

    alpha = share * np.max(np.linalg.norm(data @ field, axis=0))
    limits = {"maxit": 3000, "tol": 1e-4 * np.sum(data**2), "verbose": False}
    amplitudes, active, _ = iterative_mixed_norm_solver(data.T, field, alpha, 5, **limits)
    return amplitudes, np.flatnonzero(active)


def mixed_norm_by_sure(field, data, deviation):
    """Places of the mixed norm, reweighted five times, with the penalty chosen by Stein's unbiased risk estimate."""
    from mne.inverse_sparse.mxne_inverse import _compute_mxne_sure

    data = data.T / deviation
    field = field * 100 / np.max(np.linalg.norm(field.T @ data, axis=1))
    limits = {"n_mxne_iter": 5, "maxit": 3000, "tol": 1e-4 * np.sum(data**2), "n_orient": 1, "active_set_size": 10}
    rest = {"debias": True, "solver": "auto", "dgap_freq": 10, "rng": np.random.default_rng(0), "verbose": False}
    return np.flatnonzero(_compute_mxne_sure(data, field, np.geomspace(100, 10, 15), 1.0, **limits, **rest)[1])


def gamma_map(field, data, variance):
    """Amplitudes and places of Gamma-MAP."""
    from mne.inverse_sparse._gamma_map import _gamma_map_opt

    return _gamma_map_opt(data.T, field, alpha=variance, maxit=2000, tol=1e-5, verbose=False)


def minimum_norm(field, data, count):
    """The largest amplitudes of the regularized minimum-norm estimate, at the usual signal-to-noise ratio of 3."""
    gram = field @ field.T
    ridge = np.trace(gram) / len(gram) / 9
    amplitudes = field.T @ np.linalg.solve(gram + ridge * np.eye(len(gram)), data.T)
    return largest((amplitudes, np.arange(field.shape[1])), count)


def joint_support(field, y, size, method="auto"):
    """The places that sparsect finds in each problem."""
    found = sparsect.recover(field, y, sets.JointSparse(size), method, check_fit=False).x
    return [np.flatnonzero(part.any(axis=0)) for part in found]


def answers(field, y, deviations, sources):
    """What every method finds, by name: for each of its settings, the places in each problem."""
    mixed = [[mixed_norm(field, data, share) for data in y] for share in PENALTIES]
    pairs = list(zip(y, deviations, strict=True))
    gamma = [[gamma_map(field, data, times * d**2) for data, d in pairs] for times in VARIANCES]
    return {
        "joint": [joint_support(field, y, sources)],
        "mixed norm": [[largest(found, sources) for found in setting] for setting in mixed],
        "Gamma-MAP": [[largest(found, sources) for found in setting] for setting in gamma],
        "simultaneous OMP": [joint_support(field, y, sources, "omp")],
        "minimum norm": [[minimum_norm(field, data, sources) for data in y]],
        "joint, auto": [joint_support(field, y, "auto")],
        "mixed norm, SURE": [[mixed_norm_by_sure(field, *pair) for pair in pairs]],
        "mixed norm, best": [[places for _, places in setting] for setting in mixed],
        "Gamma-MAP, all": [[places for _, places in gamma[0]]],
        "Gamma-MAP, best": [[above(found, share) for found in setting] for setting in gamma for share in SMALLEST],
    }


def table(head):
    names = None
    for times, decibels, correlated in SETTINGS:
        for sources in (1, 2, 3, 5):
            generate = np.random.default_rng([SEED, times, decibels, correlated, sources])
            x, y, covariance, size = head.draw(sources, times, decibels, correlated, generate)
            W = np.linalg.inv(np.linalg.cholesky(covariance))
            field = W @ head.field
            found = answers(field / np.linalg.norm(field, axis=0), y @ W.T, size, sources)
            if names is None:
                names = list(found)
                yield f"| times, noise | sources | {' | '.join(names)} |"
                yield "|---|---|" + "---|" * len(names)
            cells = []
            for settings in found.values():
                scored = [
                    head.scores(x, [marked(*pair) for pair in zip(places, x, strict=True)]) for places in settings
                ]
                f1, near, distance = max(scored, key=lambda score: score[0])
                cells.append(f"{f1:.2f}, {near:.0%}, {distance:.0f} mm")
            noise = f"{times}, {decibels} dB{', correlated' if correlated else ''}"
            yield f"| {noise} | {sources} | {' | '.join(cells)} |"


def picture(head, path):
    """Sources of one problem on the cortex, true and found, with their number unknown."""
    x, y, _, size = head.draw(5, 1, 20, False, np.random.default_rng(SEED))
    panels = {
        "sparsect, joint support": joint_support(head.field, y[:1], "auto")[0],
        "mixed norm of MNE-Python, SURE": mixed_norm_by_sure(head.field, y[0], size[0]),
    }
    true, places = np.flatnonzero(x[0].any(axis=0)), 1e3 * head.places
    figure = pyplot.figure(figsize=(11, 5.2), layout="constrained")
    for number, (title, found) in enumerate(panels.items()):
        axes = figure.add_subplot(1, 2, number + 1, projection="3d")
        axes.scatter(*places.T, s=4, color="0.55", alpha=0.5, linewidths=0)
        circles = {"facecolors": "none", "edgecolors": "tab:blue", "linewidths": 2, "depthshade": False}
        axes.scatter(*places[true].T, s=190, label="true", **circles)
        axes.scatter(*places[found].T, s=40, color="tab:red", depthshade=False, label="found")
        axes.set_title(f"{title}: {np.intersect1d(true, found).size} of {true.size} sources, {found.size} found")
        axes.set_box_aspect(np.ptp(places, axis=0), zoom=1.5)
        axes.set_axis_off()
        axes.view_init(elev=50, azim=-80)
        axes.legend(loc="lower left")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=matrices.SHARED, help="folder with data/meg")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    packages, head = ("numpy", "scipy", "numba", "mne"), Head(options.data)
    picture(head, HERE / "results" / "source-imaging.png")
    with machine.Report(HERE / "results" / "source-imaging.md", "MEG source imaging", packages) as report:
        text = (
            "F1 of the places, share of sources with a found one within 15 mm, mean distance. The first five are told "
            f"the number of sources, the others are not. {PROBLEMS} problems each. Solvers of MNE-Python have the "
            "setting that is best for each line, except *SURE* and *all*, which are rules of their own."
        )
        report.section("Sources found", text, table(head))


if __name__ == "__main__":
    main()
