"""Problems with few supports: the exact posterior distribution over all of them."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import to_numpy
from ...kernels.supports import posterior_of_all
from ...kernels.thresholding import keep_largest
from ...operators.least_squares import MANY
from ...operators.polishing import correlations, gram_in_memory
from ...problems import Problem
from ..support_sampler import noise_floor
from .easy import Easy
from .most_probable import WORSE, mean_given_support

# Of many columns, only so many are looked at: others are far less probable places of the one nonzero.
BEST = 1024


def solve_exactly(problem: Problem) -> Easy:
    """Solve all rows by comparing all supports; if Phi has very many columns, only those that correlate most with y.

    The entries of x are zero or normal, and so is the noise; their variances are the most likely ones. The answer is
    the posterior mean with its s largest entries. If these do not explain y, because columns are almost the same and
    the mean is spread over them, it is the mean given the most probable support.

    Parameters
    ----------
    problem : Problem
        A problem with a dense Phi and few supports.

    Returns
    -------
    Easy
        The solutions; rows are not solved if all columns depend on each other.
    """
    operator, (batch, n) = problem.operator, (problem.batch, problem.operator.shape[1])
    if n <= MANY:
        return _look_at_all(problem)
    norms = np.where(operator.column_norms > 0, operator.column_norms, np.inf)
    cosines = np.abs(to_numpy(operator.adjoint(problem.y))) / norms
    deviation, inclusion, solved = np.zeros((batch, n)), np.zeros((batch, n)), np.zeros(batch, dtype=bool)
    x = np.zeros((batch, n), dtype=to_numpy(problem.y).dtype)
    for row in range(batch):
        columns = np.sort(np.argpartition(-cosines[row], BEST)[:BEST])
        some = _look_at_all(problem.take(np.array([row])).on(operator.among(columns)))
        x[row, columns], solved[row] = some.x[0], some.solved[0]
        deviation[row, columns], inclusion[row, columns] = some.deviation[0], some.inclusion[0]
    return Easy(x, deviation, inclusion, solved)


def _look_at_all(problem: Problem) -> Easy:
    """Solve all rows by looking at all supports."""
    operator, s, m = problem.operator, problem.sparsity, problem.operator.shape[0]
    gram, squares = (to_numpy(array) for array in gram_in_memory(operator))
    b, energy = (to_numpy(array) for array in correlations(operator, problem.y))
    floor, variance = noise_floor(energy, m), None
    if problem.noise_norm is not None:
        variance = np.maximum(to_numpy(problem.noise_norm).astype(np.float64) ** 2 / m, floor)
    found = posterior_of_all(gram, squares, b, energy, s, m, floor, variance)
    x = to_numpy(keep_largest(found.mean, s))
    left = energy + np.sum((x.conj() * (x @ gram.T - 2 * b)).real, axis=1)
    poor = left > WORSE**2 * found.misfit
    inside = np.zeros(b.shape, dtype=bool)
    np.put_along_axis(inside, found.support, True, axis=1)
    x[poor] = mean_given_support(problem, b, found.square, found.misfit, inside[None])[poor]
    deviation = np.sqrt(np.maximum(found.square - np.abs(found.mean) ** 2, 0.0))
    return Easy(x, deviation, found.inclusion, np.isfinite(found.misfit) & (energy > 0))
