"""Matrices of many kinds, and sparse problems with them: for benchmarks that ask whether a method generalizes.

Nonzeros are normal in units in which all columns have norm 1, unless said otherwise; noise is normal, of a given norm.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from patches import signals
from scipy.stats import norm as normal

import sparsect

HERE = Path(__file__).parent
SHARED = HERE.parents[1] / "shared"
# What is measured: the error of x, the error of Phi x, or the share of sources with a found one nearby.
SIGNAL, FIT, PLACES = "SNR of x, dB", "SNR of Phi x, dB", "sources found, %"
# Sources count as found within this distance (metres); exact answers count as this many decibels.
NEAR, EXACT = 0.015, 100.0


@dataclass(frozen=True)
class Kind:
    """A kind of problem: where Phi comes from, how many nonzeros, how much noise (None: none)."""

    name: str
    group: str
    developed: bool
    sparsity: int
    decibels: float | None
    matrix: Callable
    measure: str = SIGNAL

    @property
    def label(self):
        noise = "" if self.measure == FIT else ", no noise" if self.decibels is None else f", {self.decibels:g} dB"
        return f"{self.name}, s = {self.sparsity}{noise}"

    def draw(self, seed, problems, folder=SHARED):
        """Problems of this kind; each seed gives others, whatever other kinds there are."""
        generate = np.random.default_rng([seed, zlib.crc32(self.label.encode())])
        if self.measure == FIT:
            Phi = np.asarray(sparsect.load_dictionary().Phi, dtype=np.float64)
            rows = signals(Path(folder) / "images" / "val", 20, 1).astype(np.float64)
            # Patches without any structure have nothing to approximate.
            rows = rows[np.linalg.norm(rows, axis=1) > 0.1]
            return Case(self, Phi, rows[generate.permutation(len(rows))[:problems]])
        coordinates = None
        if self.measure == PLACES:
            with np.load(Path(folder) / "data" / "meg" / "lead_field.npz") as file:
                Phi, coordinates = file["lead_field"].astype(np.float64), file["src_coords"]
            Phi /= np.median(np.linalg.norm(Phi, axis=0))
        else:
            Phi = self.matrix(generate)
        norms = np.linalg.norm(Phi, axis=0)
        # Deep sources are as strong as others, and so their fields are weaker.
        deviation = norms if self.measure == PLACES else np.ones_like(norms)
        z = np.zeros((problems, Phi.shape[1]))
        for row in z:
            places = generate.permutation(row.size)[: self.sparsity]
            row[places] = deviation[places] * generate.standard_normal(self.sparsity)
        clean = z @ (Phi / norms).T
        if self.decibels is None:
            return Case(self, Phi, clean, z, deviation, np.zeros(problems), coordinates)
        noise = generate.standard_normal(clean.shape)
        size = np.linalg.norm(clean, axis=1) * 10 ** (-self.decibels / 20)
        noise *= (size / np.linalg.norm(noise, axis=1))[:, None]
        return Case(self, Phi, clean + noise, z, deviation, size**2 / Phi.shape[0], coordinates)


@dataclass(frozen=True)
class Case:
    """Problems with one Phi. Codes z, their deviation and the answers of methods are in units of columns of norm 1."""

    kind: Kind
    Phi: np.ndarray
    y: np.ndarray
    z: np.ndarray | None = None
    deviation: np.ndarray | None = None
    noise_variance: np.ndarray | None = None
    coordinates: np.ndarray | None = None

    @cached_property
    def operator(self):
        return sparsect.as_operator(self.Phi)

    @cached_property
    def norms(self):
        return np.linalg.norm(self.Phi, axis=0)

    @cached_property
    def unit(self):
        """Phi with columns of norm 1, in the order of memory that the others want."""
        return np.asfortranarray(self.Phi / self.norms)

    def score(self, z):
        """One number for each problem; more is better."""
        if self.kind.measure == PLACES:
            return [round(100 * self._found(*rows), 3) for rows in zip(self.z, z, strict=True)]
        truth, estimate = (self.y, z @ self.unit.T) if self.kind.measure == FIT else (self.z, z)
        return np.round(np.minimum(sparsect.snr_db(truth, estimate), EXACT), 3).tolist()

    def _found(self, truth, z):
        sources, found = (self.coordinates[row != 0] for row in (truth, z))
        if not len(found):
            return 0.0
        distances = np.linalg.norm(sources[:, None] - found[None], axis=2)
        return float(np.mean(distances.min(axis=1) <= NEAR))


def gaussian(generate, m, n):
    return generate.standard_normal((m, n))


def autoregressive(generate, m, n, correlation):
    """Each column resembles the one before it."""
    Phi = generate.standard_normal((m, n))
    for j in range(1, n):
        Phi[:, j] = correlation * Phi[:, j - 1] + (1 - correlation**2) ** 0.5 * Phi[:, j]
    return Phi


def scaled_columns(generate, m, n, decades):
    return gaussian(generate, m, n) * 10 ** generate.uniform(-decades / 2, decades / 2, n)


def conditioned(generate, m, n, condition):
    U, _, V = np.linalg.svd(gaussian(generate, m, n), full_matrices=False)
    return (U * np.geomspace(1, 1 / condition, m)) @ V


def sparse_binary(generate, m, n, ones):
    Phi = np.zeros((m, n))
    for column in Phi.T:
        column[generate.permutation(m)[:ones]] = 1.0
    return Phi


def partial_circulant(generate, m, n):
    row = generate.standard_normal(n)
    return np.array([np.roll(row, shift) for shift in generate.permutation(n)[:m]])


def spikes_and_cosines(generate, m):
    places = np.arange(m)
    cosines = np.cos(np.pi / m * (places[:, None] + 0.5) * places)
    return np.hstack([np.eye(m), cosines / np.linalg.norm(cosines, axis=0)])


def fine_cosines(generate, m, n):
    return np.cos(np.pi / n * (np.arange(m)[:, None] + 0.5) * np.arange(n))


def blocks(generate, m, n, size, correlation):
    """Columns of a group share a part."""
    shared = np.repeat(gaussian(generate, m, n // size), size, axis=1)
    return correlation**0.5 * shared + (1 - correlation) ** 0.5 * gaussian(generate, m, n)


def blur(generate, n, width):
    """Convolution with a Gaussian."""
    places = np.arange(n)
    return np.exp(-0.5 * ((places[:, None] - places) / width) ** 2)


def decays(generate, m, n):
    """Exponentials with rates over two decades."""
    return np.exp(-np.linspace(0, 1, m)[:, None] * np.geomspace(1, 100, n))


def resonances(generate, m, n):
    """Damped cosines, which a Vandermonde matrix holds: frequencies by four lengths."""
    times, frequencies = np.arange(m)[:, None], np.linspace(0.02, 0.48, n // 4)
    return np.hstack(
        [np.exp(-times / (rate * m)) * np.cos(2 * np.pi * times * frequencies) for rate in (0.1, 0.3, 1, 3)]
    )


def gabor(generate, m):
    """Wave packets of four widths, one width apart in time, and a quarter of its inverse in frequency."""
    times, atoms = np.arange(m)[:, None], []
    for width in (4, 8, 16, 32):
        for centre in np.arange(width / 2, m, width):
            frequencies = np.arange(2 * width) / (4 * width)
            window = np.exp(-0.5 * ((times - centre) / width) ** 2)
            atoms.append(window * np.cos(2 * np.pi * frequencies * (times - centre)))
    return np.hstack(atoms)


def polynomials(generate, m, variables, degree):
    """All products of up to so many variables, which lie between 0 and 1."""
    from sklearn.preprocessing import PolynomialFeatures

    return PolynomialFeatures(degree, include_bias=False).fit_transform(generate.random((m, variables)))


def heavy_tailed(generate, m, n, degrees):
    return generate.standard_t(degrees, (m, n))


def low_rank(generate, m, n, rank, noise):
    return gaussian(generate, m, rank) @ gaussian(generate, rank, n) / rank**0.5 + noise * gaussian(generate, m, n)


def shifted(generate, m, n, mean):
    return mean + gaussian(generate, m, n)


def genotypes(generate, m, n, linkage):
    """Numbers of rare alleles: 0, 1 or 2, neighbours linked, frequencies from 5 % to 50 %."""
    thresholds = normal.ppf(generate.uniform(0.05, 0.5, n))
    return sum((autoregressive(generate, m, n, linkage) < thresholds).astype(np.float64) for _ in range(2))


def centred(generate, m, n, linkage):
    Phi = genotypes(generate, m, n, linkage)
    return Phi - Phi.mean(axis=0)


RANDOM, SCALES, COHERENT, TALL = "Random-like", "Scales and conditioning", "Coherent columns", "More rows than columns"
MEG, PATCHES = "MEG lead field", "Patches of photographs"


def _kinds():
    """Name, group, whether methods were developed on it, matrix, and pairs of nonzeros and decibels."""
    table = [
        ("Gaussian 256x1024", RANDOM, True, lambda g: gaussian(g, 256, 1024),
         ((8, 30), (32, 10), (48, 25), (64, 20), (64, None), (80, None))),
        ("Gaussian 400x1000", RANDOM, True, lambda g: gaussian(g, 400, 1000), ((20, 30), (100, 20))),
        ("sparse binary 256x1024", RANDOM, False, lambda g: sparse_binary(g, 256, 1024, 8), ((32, 25),)),
        ("partial circulant 256x1024", RANDOM, False, lambda g: partial_circulant(g, 256, 1024), ((48, 25),)),
        ("spikes and cosines 256x512", RANDOM, False, lambda g: spikes_and_cosines(g, 256), ((40, 25), (64, None))),
        ("Student t, 2 degrees, 256x1024", RANDOM, False, lambda g: heavy_tailed(g, 256, 1024, 2), ((32, 25),)),
        ("mean 1, deviation 1, 256x1024", RANDOM, False, lambda g: shifted(g, 256, 1024, 1.0), ((32, 25),)),
        ("column norms over four decades 256x1024", SCALES, True, lambda g: scaled_columns(g, 256, 1024, 4),
         ((32, 30),)),
        ("condition 1e2, 256x1024", SCALES, True, lambda g: conditioned(g, 256, 1024, 1e2), ((20, 30), (40, None))),
        ("condition 1e4, 256x1024", SCALES, True, lambda g: conditioned(g, 256, 1024, 1e4), ((20, 30), (20, None))),
        ("rank 8 and noise 256x1024", SCALES, False, lambda g: low_rank(g, 256, 1024, 8, 0.3), ((16, 30), (48, 30))),
        ("AR(1) 0.9, 200x1000", COHERENT, True, lambda g: autoregressive(g, 200, 1000, 0.9), ((10, 30), (40, 20))),
        ("AR(1) 0.99, 200x1000", COHERENT, True, lambda g: autoregressive(g, 200, 1000, 0.99), ((10, 30), (30, 30))),
        ("fine cosines 256x1024", COHERENT, True, lambda g: fine_cosines(g, 256, 1024), ((16, 25), (40, 25))),
        ("groups of ten, 0.95, 200x1000", COHERENT, False, lambda g: blocks(g, 200, 1000, 10, 0.95),
         ((10, 30), (30, 20))),
        ("blur 300x300", COHERENT, False, lambda g: blur(g, 300, 2.5), ((12, 40), (30, 30))),
        ("decays 120x100", COHERENT, False, lambda g: decays(g, 120, 100), ((3, 50),)),
        ("damped cosines 200x800", COHERENT, False, lambda g: resonances(g, 200, 800), ((8, 30),)),
        ("Gabor 256x2048", COHERENT, False, lambda g: gabor(g, 256), ((12, 25), (40, 20))),
        ("genotypes 300x1500", COHERENT, False, lambda g: genotypes(g, 300, 1500, 0.95), ((12, 20),)),
        ("Gaussian 400x300", TALL, True, lambda g: gaussian(g, 400, 300), ((60, 10),)),
        ("AR(1) 0.9, 500x100", TALL, True, lambda g: autoregressive(g, 500, 100, 0.9), ((10, 10),)),
        ("polynomials 300x209", TALL, False, lambda g: polynomials(g, 300, 6, 4), ((8, 30), (8, 10))),
        ("genotypes, centred, 800x400", TALL, False, lambda g: centred(g, 800, 400, 0.9), ((30, 5),)),
    ]  # fmt: skip
    for name, group, developed, matrix, settings in table:
        for sparsity, decibels in settings:
            yield Kind(name, group, developed, sparsity, decibels, matrix)
    for sparsity in (1, 2, 3, 5):
        yield Kind("MEG 204x4686", MEG, True, sparsity, 30, None, PLACES)
    for sparsity in (1, 2, 5, 10, 20, 40, 100, 200):
        yield Kind("learned dictionary 400x1000", PATCHES, True, sparsity, None, None, FIT)


KINDS = {kind.label: kind for kind in _kinds()}
