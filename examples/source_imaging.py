"""
Where in the brain
==================

Sources of a magnetoencephalogram, found as a joint support of all times.

Run ``python examples/source_imaging.py``. Dipoles on a surface in a conducting sphere are measured by magnetometers
around it (the field of J. Sarvas, Phys. Med. Biol. 32, 1987), with noise. The picture, source_imaging.png, shows where
they are, true and found, and how their amplitudes change. ``--data lead_field.npz`` uses a lead field of your own, with
arrays ``lead_field``, shape (sensors, sources), and ``src_coords``, shape (sources, 3), in metres.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from scipy.optimize import linear_sum_assignment

import sparsect
from sparsect import sets

matplotlib.use("agg")
from matplotlib import pyplot

SENSORS, SOURCES, TIMES, ACTIVE, SNR_DB = 150, 2000, 20, 3, 15
# Radii in metres: of the sensors, and of the valleys and ridges of the surface with the sources.
AROUND, VALLEY, RIDGE = 0.12, 0.065, 0.085


def cap(count, lowest):
    """Evenly spread points of a unit sphere above a height, shape (count, 3)."""
    z = 1 - (1 - lowest) * (np.arange(count) + 0.5) / count
    angle = np.pi * (3 - 5**0.5) * np.arange(count)
    return np.stack([np.sqrt(1 - z**2) * np.cos(angle), np.sqrt(1 - z**2) * np.sin(angle), z], axis=1)


def sphere_lead_field(places, moments, sensors):
    """The radial field of dipoles in a conducting sphere, by Sarvas's formula, in tesla, shape (sensors, dipoles)."""
    r, r0 = sensors[:, None], places[None]
    a = r - r0
    length, radius = np.linalg.norm(a, axis=2, keepdims=True), np.linalg.norm(r, axis=2, keepdims=True)
    product = np.sum(a * r, axis=2, keepdims=True)
    F = length * (radius * length + radius**2 - np.sum(r0 * r, axis=2, keepdims=True))
    gradient = (length**2 / radius + product / length + 2 * length + 2 * radius) * r
    gradient = gradient - (length + 2 * radius + product / length) * r0
    turned = np.cross(moments, places)[None]
    field = 1e-7 * (F * turned - np.sum(turned * r, axis=2, keepdims=True) * gradient) / F**2
    return np.sum(field * r / radius, axis=2)


def simulated_head(rng):
    """A lead field and the places of its sources: tangential dipoles on a surface with folds."""
    directions = cap(SOURCES, -0.2)
    folds = 0.5 + 0.5 * np.sin(9 * directions[:, :1] + 3 * directions[:, 1:2]) * np.sin(8 * directions[:, 1:2])
    places = directions * (VALLEY + (RIDGE - VALLEY) * folds)
    moments = np.cross(places, rng.standard_normal(places.shape))
    moments /= np.linalg.norm(moments, axis=1, keepdims=True)
    return sphere_lead_field(places, moments, AROUND * cap(SENSORS, 0.0)), places


def head_from_file(path):
    with np.load(path) as file:
        return file["lead_field"].astype(np.float64), file["src_coords"]


def picture(path, places, true, found, amplitudes, estimated):
    figure = pyplot.figure(figsize=(11, 4.8), layout="constrained")
    axes = figure.add_subplot(1, 2, 1, projection="3d")
    axes.scatter(*places.T, s=5, color="0.5", alpha=0.6, linewidths=0)
    style = {"facecolors": "none", "edgecolors": "tab:blue", "linewidths": 2}
    axes.scatter(*places[true].T, s=190, depthshade=False, label="true", **style)
    axes.scatter(*places[found].T, s=40, depthshade=False, color="tab:red", label="found")
    axes.set_box_aspect(np.ptp(places, axis=0), zoom=1.4)
    axes.set_axis_off()
    axes.view_init(elev=50, azim=-80)
    axes.legend(loc="upper left")
    axes = figure.add_subplot(1, 2, 2)
    for number, place in enumerate(true):
        axes.plot(amplitudes[:, place], color=f"C{number}", linestyle="--", label=f"source {number + 1}, true")
    for place in found:
        nearest = int(np.argmin(np.linalg.norm(places[true] - places[place], axis=1)))
        axes.plot(estimated[:, place], color=f"C{nearest}", label=f"found, nearest to source {nearest + 1}")
    axes.set(xlabel="time", ylabel="amplitude (nA m)")
    axes.legend(fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a lead field; a sphere is simulated without one")
    parser.add_argument("--out", type=Path, default=Path("source_imaging.png"))
    options = parser.parse_args()

    rng = np.random.default_rng(4)
    field, places = simulated_head(rng) if options.data is None else head_from_file(options.data)
    m, n = field.shape
    true = rng.choice(n, ACTIVE, replace=False)
    amplitudes = np.zeros((TIMES, n))
    phases, rates = rng.uniform(0, 2 * np.pi, ACTIVE), rng.uniform(0.2, 0.6, ACTIVE)
    amplitudes[:, true] = 20 * np.sin(np.outer(np.arange(TIMES), rates) + phases)
    clean = amplitudes @ field.T
    # Sensors differ in noise; their deviations are known.
    deviations = np.exp(rng.uniform(-0.5, 0.5, m))
    deviations *= np.sqrt(np.mean(clean**2) / np.mean(deviations**2)) * 10 ** (-SNR_DB / 20)
    y = clean + deviations * rng.standard_normal((TIMES, m))

    result = sparsect.recover(field, y, sets.JointSparse("auto"), noise_std=deviations, refit=True)
    found = np.flatnonzero(result.x.any(axis=0))
    print(f"{found.size} sources found, {ACTIVE} true ones")
    pursuit = sparsect.recover(field, y, sets.JointSparse(ACTIVE), "omp", noise_std=deviations, check_fit=False)
    for name, x in (("sparsect, number unknown", result.x), ("simultaneous OMP, number known", pursuit.x)):
        distances = 1e3 * np.linalg.norm(places[true][:, None] - places[x.any(axis=0)][None], axis=2)
        shown = ", ".join(f"{value:.0f}" for value in distances[linear_sum_assignment(distances)])
        print(f"{name}: {shown} mm from the true places")
    picture(options.out, places, true, found, amplitudes, result.x)
    print(f"Written: {options.out}")


if __name__ == "__main__":
    main()
