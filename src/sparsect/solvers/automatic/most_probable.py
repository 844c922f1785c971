"""The mean of x given the most probable of several supports."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import BoolArray, FloatArray, NumpyArray, to_numpy
from ...operators.polishing import gram_in_memory
from ...problems import Problem
from ..support_sampler import TINY, in_main_memory

# A posterior mean with s entries whose residual exceeds this multiple of that of the supports does not explain y. It is
# spread over columns that are almost the same, and the mean given one support is taken instead. The second, smaller
# multiple decides if few nonzeros are in doubt: an expected number of at most this part of s, and at most so many.
WORSE, WORSE_IF_FEW, FEW_IN_DOUBT = 2.0, 1.1, (0.1, 1.0)
# The smallest ridge, relative to the largest squared norm of a column: the level of rounding errors.
RIDGE = 1e-12


def mean_given_support(
    problem: Problem, b: NumpyArray, square: FloatArray, misfit: FloatArray, supports: BoolArray
) -> NumpyArray:
    """Return the posterior mean given the most probable of several supports.

    Parameters
    ----------
    problem : Problem
        The problem, with a dense Phi and without bounds.
    b : array, shape (batch, n)
        Phi^H y, for joint supports at one time after the other.
    square : array, shape (batch, n)
        The posterior means of ``|x|^2``, which give the variance of the nonzeros.
    misfit : array, shape (batch,)
        The posterior means of the squared residual, which give the variance of the noise.
    supports : array of bool, shape (number, batch, n)
        The supports, the same at all times.

    Returns
    -------
    array, shape (batch, n)
        The means.
    """
    gram = to_numpy(gram_in_memory(problem.operator, in_main_memory(problem))[0])
    batch, n = len(b), len(gram)
    times, rows = b.shape[1] // n, np.arange(batch)
    inside = supports[..., :n]
    count = int(np.max(np.count_nonzero(inside, axis=-1), initial=1))
    # Supports with fewer columns are filled up with a column of zeros, which changes nothing.
    order = np.argsort(~inside, axis=-1, kind="stable")[..., :count]
    places = np.where(np.take_along_axis(inside, order, axis=-1), order, n)
    gram = np.pad(gram, ((0, 1), (0, 1)))
    data = np.pad(b.reshape(batch, times, n), ((0, 0), (0, 0), (0, 1))).swapaxes(1, 2)[rows[:, None], places]
    half, s = 1.0 if np.iscomplexobj(b) else 0.5, times * np.count_nonzero(inside, axis=-1).max(axis=0).clip(1)
    noise = np.maximum(misfit / np.maximum(problem.operator.shape[0] - s, 1), TINY)
    slab = np.maximum(np.sum(square, axis=1) / s, TINY)
    ridge = np.maximum(noise / slab, RIDGE * np.abs(gram).max())
    equations = gram[places[..., :, None], places[..., None, :]] + ridge[:, None, None] * np.eye(count)
    values = np.linalg.solve(equations, data)
    explained = np.sum((data.conj() * values).real, axis=(-2, -1)) / noise
    best = np.argmax(half * (explained - times * np.linalg.slogdet(equations)[1]), axis=0)
    x = np.zeros((batch, n + 1, times), dtype=b.dtype)
    np.put_along_axis(x, places[best, rows][..., None], values[best, rows], axis=1)
    return x[:, :n].swapaxes(1, 2).reshape(b.shape)
