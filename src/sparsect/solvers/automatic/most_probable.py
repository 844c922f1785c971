"""The mean of x given the most probable of several supports."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import FloatArray, IntArray, NumpyArray, to_numpy
from ...operators.polishing import gram_in_memory
from ...problems import Problem
from ..support_sampler import TINY, in_main_memory

# A posterior mean with s entries whose residual exceeds this multiple of that of the supports does not explain y. It is
# spread over columns that are almost the same, and the mean given one support is taken instead. If the probabilities of
# its entries add up to this part of s or more, few nonzeros are in doubt, and the second, smaller multiple decides.
WORSE, SURE, WORSE_IF_SURE = 2.0, 0.9, 1.1
# The smallest ridge, relative to the largest squared norm of a column: the level of rounding errors.
RIDGE = 1e-12


def mean_given_support(
    problem: Problem, b: NumpyArray, square: FloatArray, misfit: FloatArray, supports: IntArray
) -> NumpyArray:
    """Return the posterior mean given the most probable of several supports.

    Parameters
    ----------
    problem : Problem
        The problem, with a dense Phi.
    b : array, shape (batch, n)
        Phi^H y.
    square : array, shape (batch, n)
        The posterior means of ``|x|^2``, which give the variance of the nonzeros.
    misfit : array, shape (batch,)
        The posterior means of the squared residual, which give the variance of the noise.
    supports : array of int, shape (number, batch, s)
        The supports.

    Returns
    -------
    array, shape (batch, n)
        The means.
    """
    (m, n), s = problem.operator.shape, supports.shape[2]
    gram = to_numpy(gram_in_memory(problem.operator, in_main_memory(problem))[0])
    rows, half = np.arange(len(b)), 1.0 if np.iscomplexobj(b) else 0.5
    noise = np.maximum(misfit / max(m - s, 1), TINY)
    slab = np.maximum(np.sum(square, axis=1) / s, TINY)
    ridge = np.maximum(noise / slab, RIDGE * np.abs(gram).max())
    equations = gram[supports[..., :, None], supports[..., None, :]] + ridge[:, None, None] * np.eye(s)
    data = b[rows[:, None], supports]
    values = np.linalg.solve(equations, data[..., None])[..., 0]
    explained = np.sum((data.conj() * values).real, axis=-1) / noise
    best = np.argmax(half * (explained - np.linalg.slogdet(equations)[1]), axis=0)
    x = np.zeros((len(b), n), dtype=b.dtype)
    np.put_along_axis(x, supports[best, rows], values[best, rows], axis=1)
    return x
