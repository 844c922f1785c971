"""How sure the answers of the default method are: probabilities of nonzeros, and standard deviations."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import Array, epsilon, from_numpy, is_complex, namespace, to_numpy
from ...kernels.posterior import posterior
from ...kernels.thresholding import Structure
from ...problems import Problem
from ..annealed.state import AnnealedState
from ..support_sampler import narrow

# Newton steps for the odds of nonzeros given their number, the longest step of the log odds, and the largest expected
# number of nonzeros, relative to the known one, at which a row is corrected.
NEWTON, STRIDE, EXCESS = 12, 3.0, 1.25


def of_messages(search: AnnealedState, x: Array, structure: Structure) -> tuple[Array, Array, Array]:
    """Return the answer of the messages, inclusion probabilities and standard deviations; NaN where none were passed.

    Where the answer is the posterior mean, it is corrected for the number of nonzeros, which is known.

    Parameters
    ----------
    search : AnnealedState
        The state of the search, after messages.
    x : array, shape (batch, n)
        Its answer.
    structure : Structure
        What x may look like.

    Returns
    -------
    x : array, shape (batch, n)
        The answer.
    inclusion, deviation : array, shape (batch, n)
        The probability of each entry of being nonzero, and its standard deviation.
    """
    xp = namespace(x)
    unknown = xp.full_like(xp.abs(x), float("nan"))
    if search.gamma is None:
        return x, unknown, unknown
    kappa = 1.0 if is_complex(x) else 0.5
    mean, _, active, power = posterior(search.r, search.gamma, search.density, search.variance, kappa, structure)
    rows = search.passes_messages[:, None]
    is_mean = rows & xp.all(x == search.sparse, axis=-1)[:, None]
    share = xp.where(is_mean, _share_given_size(active, structure), xp.ones_like(active))
    variance = xp.clip(share * power - xp.abs(share * mean) ** 2, 0.0, None)
    # A point of both sets has found the places of its nonzeros.
    certain = xp.where(search.closed[:, None], xp.astype(x != 0, unknown.dtype), unknown)
    exact = xp.where(search.closed[:, None], xp.zeros_like(unknown), unknown)
    return share * x, xp.where(rows, share * active, certain), xp.where(rows, xp.sqrt(variance), exact)


def _share_given_size(active: Array, structure: Structure) -> Array:
    """Return the factors by which inclusion probabilities change if the number of nonzero units is known.

    The odds of all units of a level are multiplied by the number for which the probabilities add up to the size of the
    level's part of the set, by Newton's method. Rows that expect far more nonzeros than that have not found x; they are
    left alone.
    """
    xp, layout = namespace(active), structure.layout
    if not 0 < sum(structure.counts) < layout.count:
        return xp.ones_like(active)
    units = active if layout.units is None else xp.take(active, layout.like("first", active), axis=-1)
    expected = structure.level_sums(units)
    counts = structure.counts if structure.leveled else [sum(structure.counts)]
    size = xp.astype(from_numpy(np.array(counts), active), active.dtype)
    least = epsilon(active)
    units = xp.clip(units, least, 1 - least)
    odds, shift = xp.log(units / (1 - units)), 0 * expected
    for _ in range(NEWTON):
        chance = 1 / (1 + xp.exp(-(odds + structure.of_units(shift))))
        slope = xp.clip(structure.level_sums(chance * (1 - chance)), least, None)
        shift = shift + xp.clip((size - structure.level_sums(chance)) / slope, -STRIDE, STRIDE)
    chance = 1 / (1 + xp.exp(-(odds + structure.of_units(shift))))
    sound = structure.of_units(expected <= EXCESS * size)
    return structure.of_entries(xp.where(sound, chance / units, xp.ones_like(units)))


def among_copies(problem: Problem, x: Array, inclusion: Array, deviation: Array) -> tuple[Array, Array]:
    """Share the probability of a nonzero equally among the columns that are multiples of its own.

    Data cannot tell such columns apart; what chains or messages make of them differs by chance alone.

    Parameters
    ----------
    problem : Problem
        The problem.
    x : array, shape (batch, n)
        The answer.
    inclusion, deviation : array, shape (batch, n)
        The probability of each entry of being nonzero, and its standard deviation.

    Returns
    -------
    inclusion, deviation : array, shape (batch, n)
        The same, shared.
    """
    operator = problem.operator
    if not (problem.structure.plain and operator.is_dense):
        return inclusion, deviation
    first = operator.copies
    copied = np.bincount(first, minlength=first.size)[first]
    if copied.max(initial=1) == 1:
        return inclusion, deviation
    values, shares, spread = (to_numpy(array).copy() for array in (x, inclusion, deviation))
    lengths = operator.column_norms
    for column in np.unique(first[(copied > 1) & (lengths > 0)]):
        alike = np.flatnonzero(first == column)
        certain = ((shares[:, alike] == 1) & (spread[:, alike] == 0)).any(axis=1, keepdims=True)
        size = np.sum(np.abs(values[:, alike]) * lengths[alike], axis=1, keepdims=True)
        share = 1 / alike.size
        mean_square = np.mean((spread[:, alike] * lengths[alike]) ** 2, axis=1, keepdims=True)
        width = np.where(certain, (share * (1 - share)) ** 0.5 * size, np.sqrt(mean_square))
        shares[:, alike] = np.mean(shares[:, alike], axis=1, keepdims=True)
        spread[:, alike] = width / lengths[alike]
    return narrow(shares, x), narrow(spread, x)
