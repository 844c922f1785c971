"""How sure the answers of message passing are: probabilities of nonzeros, and standard deviations."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import Array, epsilon, from_numpy, is_complex, namespace
from ...kernels.posterior import posterior
from ...kernels.thresholding import Structure
from ..vamp import expected_share
from .state import AnnealedState

# Newton steps for the odds of nonzeros given their number, and the longest step of the log odds: enough to cross twice
# the range of the log odds of a double.
NEWTON, STRIDE = 30, 3.0
# Answers are corrected up to this expected number of nonzeros, relative to the known one: rows that expect more have
# not found x.
EXCESS = 1.25


def of_messages(
    search: AnnealedState, x: Array, structure: Structure, sized: bool = True
) -> tuple[Array, Array, Array]:
    """Return the answer of the messages, inclusion probabilities and standard deviations; NaN where none were passed.

    Messages learn a density, and their probabilities need not add up to the number of nonzeros. Where that is known,
    all odds are multiplied by the number for which they do. So is the answer where it is the posterior mean, unless the
    row expects far too many nonzeros.

    Parameters
    ----------
    search : AnnealedState
        The state of the search, after messages.
    x : array, shape (batch, n)
        Its answer.
    structure : Structure
        What x may look like.
    sized : bool, optional
        Whether the number of nonzeros is that of the structure.

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
    # In single precision, nothing would be left of the small difference of two moments.
    double, single = xp.complex128 if is_complex(x) else xp.float64, unknown.dtype
    gamma, density, variance = (xp.astype(part, xp.float64) for part in (search.gamma, search.density, search.variance))
    mean, _, active, power = posterior(xp.astype(search.r, double), gamma, density, variance, kappa, structure)
    share, sound = xp.ones_like(active), xp.ones_like(active, dtype=xp.bool)
    if sized and 0 < sum(structure.counts) < structure.layout.count:
        share, sound = _share_given_size(active, structure)
    rows = search.passes_messages[:, None]
    is_mean = rows & xp.all(x == search.sparse, axis=-1)[:, None]
    spread = xp.sqrt(xp.clip(share * power - xp.abs(share * mean) ** 2, 0.0, None))
    # A point of both sets has found the places of its nonzeros, unless as many of more columns fit any y.
    rank = search.image.shape[-1]
    found = search.closed[:, None] & (structure.size < rank or rank == x.shape[-1])
    certain = xp.where(found, xp.astype(x != 0, unknown.dtype), unknown)
    exact = xp.where(found, xp.zeros_like(unknown), unknown)
    corrected = xp.where(is_mean & sound, xp.astype(share, single) * x, x)
    inclusion, deviation = xp.clip(xp.astype(share * active, single), 0.0, 1.0), xp.astype(spread, single)
    return corrected, xp.where(rows, inclusion, certain), xp.where(rows, deviation, exact)


def expects_few(search: AnnealedState, structure: Structure) -> Array:
    """Whether the messages of each row expect about as many nonzeros as there are.

    Parameters
    ----------
    search : AnnealedState
        The state of the search.
    structure : Structure
        What x may look like.

    Returns
    -------
    array of bool, shape (batch,)
        False for rows that have not found x.
    """
    share = sum(structure.counts) / structure.layout.count
    return expected_share(structure, search.density) <= EXCESS * share


def _share_given_size(active: Array, structure: Structure) -> tuple[Array, Array]:
    """Return the factors by which inclusion probabilities change if the number of nonzero units is known.

    The odds of all units of a level are multiplied by the number for which the probabilities add up to the size of the
    level's part of the set, by Newton's method. The second array tells which entries belong to levels that did not
    expect far more nonzeros than that.
    """
    xp, layout = namespace(active), structure.layout
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
    sound = xp.broadcast_to(structure.of_units(expected <= EXCESS * size), units.shape)
    return structure.of_entries(chance / units), structure.of_entries(sound)
