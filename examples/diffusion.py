"""
Directions of nerve fibres
==========================

Diffusion MRI: in every voxel, a few of many possible responses, all positive.

Run ``python examples/diffusion.py``. Two bundles that cross are simulated, and one to three fibres are found in each
voxel. The picture, diffusion.png, shows their directions, true and found. ``Fibres`` works for any gradient scheme;
benchmarks/diffusion.py compares it with DIPY on real data.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np

import sparsect
from sparsect import sets

matplotlib.use("agg")
from matplotlib import pyplot

# Diffusivities in mm2/s: along fibres and across them, and of tissues without a direction.
ALONG, ACROSS, ISOTROPIC = 0.0017, 0.0003, (0.0003, 0.001, 0.003)
# The largest number of fibres in a voxel, and steps of the refinement of their directions.
MOST, STEPS = 3, 5


def hemisphere(count):
    """Evenly spread directions, one of each pair of opposite ones, shape (count, 3)."""
    z = (np.arange(count) + 0.5) / count
    angle = np.pi * (3 - 5**0.5) * np.arange(count)
    return np.stack([np.sqrt(1 - z**2) * np.cos(angle), np.sqrt(1 - z**2) * np.sin(angle), z], axis=1)


class Fibres:
    """A model of the signals of voxels: positive responses of a few fibres, and any signal of isotropic tissues.

    ``bvals`` and ``bvecs`` are those of the measurements, shapes (m,) and (m, 3), without the unweighted ones.
    """

    def __init__(self, bvals, bvecs, along=ALONG, across=ACROSS, directions=120):
        self.bvals, self.bvecs, self.diffusivities = bvals, bvecs, (along, across)
        self.grid = hemisphere(directions)
        isotropic = np.exp(-np.outer(bvals, ISOTROPIC))
        left, sizes, _ = np.linalg.svd(isotropic, full_matrices=False)
        # What isotropic tissues can look like: one shape if all b-values are the same.
        self.isotropic = left[:, sizes > 1e-3 * sizes[0]]
        self.Phi = self.without_isotropic(self.responses(self.grid)).T

    def responses(self, directions, bvals=None, bvecs=None):
        """Signals of fibres with these directions, shape (..., m)."""
        bvals, bvecs = (self.bvals, self.bvecs) if bvals is None else (bvals, bvecs)
        along, across = self.diffusivities
        return np.exp(-bvals * (across + (along - across) * (directions @ bvecs.T) ** 2))

    def without_isotropic(self, signals):
        return signals - (signals @ self.isotropic) @ self.isotropic.T

    def fit(self, signals, most=MOST):
        """Directions and weights of the fibres of every voxel, shapes (voxels, most, 3) and (voxels, most).

        Signals, shape (voxels, m), are relative to the unweighted ones. Another fibre is added as long as that lowers
        the Bayesian information criterion. Voxels with fewer fibres than ``most`` have weights of zero.
        """
        y, m = self.without_isotropic(signals), len(self.bvals)
        directions, weights = np.zeros((len(y), most, 3)), np.zeros((len(y), most))
        rows, criterion = np.arange(len(y)), m * np.log(np.maximum(np.sum(y * y, axis=1), 1e-300))
        for size in range(1, most + 1):
            # One fibre is found without exchanges.
            options = {"polish": size > 1, "check_fit": False, "record": ()}
            found = sparsect.recover(self.Phi, y[rows], sets.Sparse(size, nonnegative=True), "omp", **options).x
            places = np.argsort(-found, axis=1)[:, :size]
            amounts = np.take_along_axis(found, places, axis=1)
            some, amounts, left = self.refined(y[rows], self.grid[places], amounts)
            score = m * np.log(left) + 3 * size * np.log(m)
            better = score < criterion[rows]
            rows = rows[better]
            if rows.size == 0:
                break
            criterion[rows] = score[better]
            directions[rows, :size], weights[rows, :size] = some[better], amounts[better]
        return directions, weights

    def refined(self, y, directions, weights):
        """Move directions between the points of the grid (Gauss-Newton); also return the squared residuals."""
        along, across = self.diffusivities
        count, size = weights.shape
        best, least = (directions, weights), np.full(count, np.inf)
        for step in range(STEPS + 1):
            cosines, signals = directions @ self.bvecs.T, self.responses(directions)
            residual = y - self.without_isotropic(np.einsum("vk,vkm->vm", weights, signals))
            left = np.sum(residual**2, axis=1)
            better = left < least
            least = np.where(better, left, least)
            best = tuple(
                np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip((directions, weights), best, strict=True)
            )
            if step == STEPS:
                return *best, least
            # Two directions that are orthogonal to the fibre, and the slopes of its signal along them.
            helper = np.where(np.abs(directions[..., :1]) < 0.9, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
            first = np.cross(directions, helper)
            first /= np.linalg.norm(first, axis=-1, keepdims=True)
            second = np.cross(directions, first)
            slope = -2 * self.bvals * (along - across) * cosines * signals * weights[..., None]
            parts = [signals, slope * (first @ self.bvecs.T), slope * (second @ self.bvecs.T)]
            slopes = self.without_isotropic(np.concatenate(parts, axis=1))
            gram = slopes @ slopes.transpose(0, 2, 1)
            damping = 1e-3 * np.trace(gram, axis1=1, axis2=2) / (3 * size) + 1e-12
            gram += damping[:, None, None] * np.eye(3 * size)
            change = np.linalg.solve(gram, np.einsum("vpm,vm->vp", slopes, residual)[..., None])[..., 0]
            more, one, other = (change[:, size * part : size * (part + 1)] for part in range(3))
            length = np.minimum(1, 0.2 / np.maximum(np.hypot(one, other), 1e-12))
            directions = directions + (length * one)[..., None] * first + (length * other)[..., None] * second
            directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
            weights = np.maximum(weights + more, 0)

    def predict(self, signals, directions, weights, bvals, bvecs):
        """Signals of other measurements of voxels whose ``signals`` were fitted."""
        columns = np.exp(-np.outer(self.bvals, ISOTROPIC))
        rest = signals - np.einsum("vk,vkm->vm", weights, self.responses(directions))
        amounts = rest @ np.linalg.pinv(columns, rcond=1e-3).T
        fibres = np.einsum("vk,vkm->vm", weights, self.responses(directions, bvals, bvecs))
        return fibres + amounts @ np.exp(-np.outer(bvals, ISOTROPIC)).T


def crossing_bundles(width=24):
    """Directions and fractions of the fibres of a square of voxels, an arc and a band that crosses it."""
    row, column = np.mgrid[:width, :width] + 0.5
    radius = np.hypot(row, column) / width
    arc = np.stack([row, -column, 0 * row], axis=-1) / np.hypot(row, column)[..., None]
    band = np.broadcast_to([1.0, 1.0, 0.0], arc.shape) / 2**0.5
    share = np.stack([(radius > 0.45) & (radius < 0.8), np.abs(row - column) < 0.22 * width], axis=-1).astype(float)
    share *= 0.8 / np.maximum(share.sum(axis=-1, keepdims=True), 1)
    return np.stack([arc, band], axis=-2).reshape(-1, 2, 3), share.reshape(-1, 2)


def angles(true, share, found, weights):
    """The angle between each true fibre and the nearest one found, in degrees."""
    cosines = np.abs(np.einsum("vid,vjd->vij", true, found)) * (weights > 0)[:, None, :]
    return np.rad2deg(np.arccos(np.clip(cosines.max(axis=2), 0, 1)))[share > 0]


def picture(path, width, panels):
    figure, axes = pyplot.subplots(1, len(panels), figsize=(5 * len(panels), 5.3), layout="constrained")
    column, row = (part.ravel() for part in np.meshgrid(np.arange(width), np.arange(width)))
    for axis, (title, directions, weights) in zip(axes, panels, strict=True):
        for fibre in range(weights.shape[1]):
            shown = weights[:, fibre] > 0
            ends = 0.45 * directions[shown, fibre]
            at = np.stack([column[shown], row[shown]])
            lines = np.stack([at - ends[:, :2].T, at + ends[:, :2].T]).transpose(2, 0, 1)
            colours = np.abs(directions[shown, fibre])
            axis.add_collection(matplotlib.collections.LineCollection(lines, colors=np.clip(colours, 0, 1), lw=1.6))
        axis.set(title=title, aspect="equal", xlim=(-1, width), ylim=(-1, width), xticks=[], yticks=[])
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("diffusion.png"))
    options = parser.parse_args()

    rng, width = np.random.default_rng(0), 24
    model = Fibres(np.full(90, 2000.0), hemisphere(90))
    true, share = crossing_bundles(width)
    clean = np.einsum("vk,vkm->vm", share, model.responses(true))
    clean += (1 - share.sum(axis=1, keepdims=True)) * np.exp(-0.001 * model.bvals)
    noise = rng.standard_normal((2, *clean.shape)) / 20
    signals = np.hypot(clean + noise[0], noise[1])  # Rician noise, as of magnitudes; SNR 20

    start = time.perf_counter()
    directions, weights = model.fit(signals)
    seconds = time.perf_counter() - start
    print(f"{len(signals)} voxels in {seconds:.2f} s")
    error = angles(true, share, directions, weights)
    right = np.mean(np.count_nonzero(weights, axis=1) == np.count_nonzero(share, axis=1))
    print(f"Median angle to the true direction: {np.median(error):.1f} degrees; right number of fibres: {right:.0%}")
    picture(options.out, width, [("true", true, share), ("found", directions, weights)])
    print(f"Written: {options.out}")


if __name__ == "__main__":
    main()
