"""Moves of nonzeros of a support: sampled from the posterior distribution, or made to improve the fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from ...backend.arrays import (
    Array,
    FloatArray,
    IntArray,
    NumpyArray,
    contiguous,
    from_numpy,
    is_complex,
    namespace,
    to_numpy,
)
from ...backend.engines import has_kernels
from ..thresholding import Structure
from .limits import ROUNDS_OF_PAIRS, SMALLEST_RIDGE

# Added to the diagonal of Gram matrices of unit columns, so that dependent columns do no harm.
RIDGE = 1e-13
# Rounds of expectation maximization in which the posterior distribution over all supports is computed.
ROUNDS = 6


def wide(array: Array, like: Array | None) -> Array:
    """Convert an array to double precision, where the kernels process it.

    Parameters
    ----------
    array : array
        Numbers of any library and precision.
    like : array, shape (..., n), or None
        An array of the problem, such as Phi; None for the kernels that exist for main memory only.

    Returns
    -------
    array
        A contiguous array: on its device if there are kernels for it, otherwise in main memory, of NumPy. It is
        ``array`` itself if nothing has to be converted.
    """
    values = array if like is not None and has_kernels(like) else to_numpy(array)
    xp = namespace(values)
    return contiguous(xp.astype(values, xp.complex128 if is_complex(values) else xp.float64, copy=False))


@dataclass(frozen=True)
class Chains:
    """The arrays of Markov chains of supports, one row for each chain; they are changed in place.

    Attributes
    ----------
    visited : array of int, shape (batch,)
        The number of positions visited so far.
    support : array of int, shape (batch, s)
        The columns of the nonzeros.
    variance : array, shape (batch,)
        The variance of the noise.
    slab : array, shape (batch,)
        The variance of the nonzeros.
    least : array, shape (batch,)
        The smallest squared residual so far.
    best : array of int, shape (batch, s)
        The support that has it.
    mean : array, shape (batch, n)
        The sum of the conditional means of x.
    square : array, shape (batch, n)
        The sum of the conditional means of ``|x|^2``.
    inclusion : array, shape (batch, n)
        The sum of the conditional probabilities of being nonzero.
    misfit : array, shape (batch,)
        The sum of the squared residuals after each sweep.
    H : array, shape (batch, s, s)
        The inverse of the Gram matrix of the support, with a ridge.
    x : array, shape (batch, s)
        The fit on the support.
    c : array, shape (batch, n)
        The correlations of the columns with its residual.
    d : array, shape (batch, n)
        The squared distances of the columns from the span of the support.
    ridge : array, shape (batch,)
        The ridge; 0 if H, x, c and d have to be computed.
    moves : array of int, shape (batch,)
        The number of moves since they were computed.
    """

    visited: Array
    support: Array
    variance: Array
    slab: Array
    least: Array
    best: Array
    mean: Array
    square: Array
    inclusion: Array
    misfit: Array
    H: Array
    x: Array
    c: Array
    d: Array
    ridge: Array
    moves: Array


def sample(
    gram: Array,
    squares: Array,
    b: Array,
    energy: Array,
    measurements: int,
    known: bool,
    heat: Array,
    recorded: Array,
    hot: Array,
    floor: Array,
    chains: Chains,
    structure: Structure,
) -> None:
    """Visit the positions of the support of every row in turn, and move the nonzeros there at random.

    A nonzero goes to column k with its conditional probability given the other nonzeros, with all values integrated
    out: nonzeros are normal with variance ``slab``, and the noise is normal.

    Parameters
    ----------
    gram : array, shape (n, n)
        The Gram matrix in double precision.
    squares : array, shape (n,)
        Its diagonal. Columns for which it is zero are never chosen.
    b : array, shape (batch, n) or (batch, times n)
        Phi^H y. If it has several parts, each belongs to a measurement of its own, and all have their support in
        common.
    energy : array, shape (batch,)
        The squared norm of y.
    measurements : int
        The number of measurements.
    known : bool
        Whether the variance of the noise is known. Otherwise it is estimated.
    heat : numpy.ndarray, shape (sweeps,)
        The temperature of each sweep over the positions: 1 stands for the noise variance ``hot``, 0 for the true one,
        and numbers between them for variances between these on a logarithmic scale.
    recorded : numpy.ndarray of bool, shape (sweeps,)
        Whether conditional means are added to the sums.
    hot, floor : array, shape (batch,)
        The variance of the noise at heat 1, and the smallest one.
    chains : Chains
        The chains.
    structure : Structure
        What signals may look like: nonzeros may be positive, joint, in groups or in levels, on a CPU only.
    """
    if has_kernels(b):
        from . import gpu

        gpu.sample(gram, squares, b, energy, measurements, known, heat, recorded, hot, floor, chains)
        return
    from ...backend.parallel import over_rows
    from . import cpu

    half = 1.0 if is_complex(b) else 0.5
    (batch, s), n = chains.support.shape, gram.shape[0]
    named = {field.name: getattr(chains, field.name) for field in fields(chains)}
    work = 4.0 * heat.size * s * (s + b.shape[1] // n) * n
    if b.shape[1] == n and (structure.grouped or structure.layout.levels is not None):
        from . import grouped

        # The other fields describe a fit that is updated; here it is computed anew.
        kept = list(named.values())[: list(named).index("H")]
        rows = (heat, recorded, b, energy, hot, floor, *kept)
        settings = (*_units(structure, gram), half, measurements, known)
        over_rows(grouped.sample, batch, gram, squares, *settings, *rows, work=work)
        return
    if b.shape[1] == n:
        rows = (structure.nonnegative, heat, recorded, b, energy, hot, floor, *named.values())
        over_rows(cpu.sample, batch, gram, squares, half, measurements, known, *rows, work=work)
        return
    from . import joint

    # The parts of a row lie one after the other, so these are views.
    parts = ("mean", "square", "inclusion", "c")
    named |= {name: named[name].reshape(batch, -1, n) for name in parts} | {"x": named["x"].reshape(batch, -1, s)}
    rows = (heat, recorded, b.reshape(batch, -1, n), energy, hot, floor, *named.values())
    over_rows(joint.sample, batch, gram, squares, half, measurements, known, *rows, work=work)


def sample_sizes(
    gram: Array, squares: Array, b: Array, energy: Array, measurements: int, floor: Array, support: Array, counts: Array
) -> tuple[Array, Array]:
    """Sample the number of nonzeros of every row from its posterior distribution.

    Columns are added, moved and removed at random. The values of the nonzeros and the variance of the noise are
    integrated out; before y is seen, all numbers of nonzeros are equally likely.

    Parameters
    ----------
    gram, squares, b, energy, measurements : array and int
        As for :func:`sample`, as NumPy arrays, for columns of norm 1.
    floor : numpy.ndarray, shape (sweeps,)
        What is added to the squared residuals in each sweep, relative to the squared norm of y. If it falls, chains
        cool down.
    support : numpy.ndarray of int, shape (batch, largest)
        The supports, which are changed in place.
    counts : numpy.ndarray of int, shape (batch,)
        How many entries of each support are used, likewise.

    Returns
    -------
    sizes : numpy.ndarray of int, shape (batch, sweeps)
        The number of nonzeros after each sweep.
    scores : numpy.ndarray, shape (batch, sweeps)
        The log-probability of the support then, up to a constant.
    """
    from ...backend.parallel import over_rows
    from . import sizes as kernels

    half = 1.0 if is_complex(b) else 0.5
    batch, n = b.shape[0], gram.shape[0]
    sizes, scores = np.zeros((batch, floor.size), dtype=np.int64), np.zeros((batch, floor.size))
    work = 4.0 * floor.size * support.shape[1] * b.shape[1]
    settings = (gram, squares, half, measurements, floor, b.reshape(batch, -1, n), energy)
    over_rows(kernels.sample_sizes, batch, *settings, support, counts, sizes, scores, work=work)
    return sizes, scores


def swap(
    gram: Array, squares: Array, b: Array, energy: Array, support: Array, counts: Array, limit: int
) -> tuple[Array, Array]:
    """Exchange columns of the supports, one at a time, as long as that lowers the squared residual.

    Parameters
    ----------
    gram, squares, b, energy : array
        As for :func:`sample`.
    support : array of int, shape (batch, s)
        The supports, which are changed in place.
    counts : array of int, shape (batch,)
        How many entries of each support are used.
    limit : int
        The largest number of exchanges in a row.

    Returns
    -------
    swaps : array of int, shape (batch,)
        The number of exchanges.
    optimal : array of bool, shape (batch,)
        Whether no exchange lowers the residual of the row any more.
    """
    ridge = RIDGE * namespace(squares).max(squares)
    if has_kernels(b):
        from . import gpu

        return gpu.swap(gram, squares, ridge, b, energy, support, counts, limit)
    from ...backend.parallel import over_rows
    from . import cpu

    batch, s = support.shape
    swaps, optimal = np.zeros(batch, dtype=np.int64), np.ones(batch, dtype=bool)
    work = 4.0 * s * s * gram.shape[0]
    over_rows(
        cpu.swap, batch, gram, squares, float(ridge), limit, b, energy, support, counts, swaps, optimal, work=work
    )
    return swaps, optimal


def sample_pairs(
    gram: Array, squares: Array, b: Array, energy: Array, chains: Chains, structure: Structure
) -> tuple[Array, Array, Array]:
    """Move pairs of nonzeros whose values depend on each other, at random, in main memory.

    Parameters
    ----------
    gram, squares, b, energy : array
        As for :func:`sample`.
    chains : Chains
        The chains, which are not changed.
    structure : Structure
        What signals may look like: nonzeros may be positive or joint.

    Returns
    -------
    support, visited, ridge : array
        What changes in the chains.
    """
    from ...backend.parallel import over_rows
    from . import pairs

    batch, s = chains.support.shape
    matrix, diagonal, right, power = (to_numpy(array) for array in (gram, squares, b, energy))
    support, visited, noise = (to_numpy(array).copy() for array in (chains.support, chains.visited, chains.variance))
    ridge = np.maximum(noise / to_numpy(chains.slab), SMALLEST_RIDGE * diagonal.max())
    moved = np.zeros(batch, dtype=np.int64)
    settings = (matrix, diagonal, 1.0 if is_complex(b) else 0.5, structure.nonnegative, ROUNDS_OF_PAIRS)
    rows = (right.reshape(batch, -1, matrix.shape[0]), power, ridge, noise, visited, support, moved)
    over_rows(pairs.sample_pairs, batch, *settings, *rows, work=4.0 * s * s * right.shape[1])
    kept = np.where(moved > 0, 0.0, to_numpy(chains.ridge))
    return from_numpy(support, b), from_numpy(visited, b), from_numpy(kept, b)


def exchange(
    gram: Array,
    squares: Array,
    b: Array,
    energy: Array,
    structure: Structure,
    support: Array,
    counts: Array,
    limit: int,
) -> tuple[Array, Array]:
    """Exchange units of the supports for others of their level, one at a time, as long as that lowers the residual.

    Values stay within their bounds. An exchange is made if a fit lowers the residual in which the values of the other
    units may leave theirs, and if the fit within the bounds does so, too.

    Parameters
    ----------
    gram, squares, b, energy : array
        As for :func:`sample`, as NumPy arrays.
    structure : Structure
        What signals may look like.
    support : array of int, shape (batch, s)
        The units of the supports, which are changed in place.
    counts : array of int, shape (batch,)
        How many entries of each support are used.
    limit : int
        The largest number of exchanges in a row.

    Returns
    -------
    swaps : array of int, shape (batch,)
        The number of exchanges.
    optimal : array of bool, shape (batch,)
        Whether it is certain that no exchange lowers the residual of the row any more; False if a nonzero is at its
        bound.
    """
    from ...backend.parallel import over_rows
    from . import units

    batch, s = support.shape
    swaps, optimal = np.zeros(batch, dtype=np.int64), np.ones(batch, dtype=bool)
    settings = (gram, squares, *_units(structure, gram), structure.low, structure.high)
    rows = (b.reshape(batch, -1, gram.shape[0]), energy, support, counts, swaps, optimal)
    size, ridge = structure.size, RIDGE * float(squares.max())
    over_rows(units.exchange, batch, *settings, ridge, limit, *rows, work=4.0 * (size + s) * size * b.shape[1])
    return swaps, optimal


def gains(gram: Array, squares: Array, c: Array, structure: Structure, x: Array, taken: Array) -> Array:
    """Compute by how much each unit lowers the squared residual if it is put into a fit, and the others adapt to it.

    Parameters
    ----------
    gram, squares : array
        As for :func:`sample`, as NumPy arrays.
    c : array, shape (batch, n) or (batch, times n)
        The correlations of the columns with the residual.
    structure : Structure
        What signals may look like.
    x : array, of the shape of c
        The fits.
    taken : array of bool, shape (batch, number of units)
        The units that they use.

    Returns
    -------
    array, shape (batch, number of units)
        The gains; -1 for units that are taken.
    """
    from ...backend.parallel import over_rows
    from . import units

    batch, n = c.shape[0], gram.shape[0]
    found = np.empty((batch, structure.layout.count))
    members, _ = _units(structure, gram)
    settings = (gram, squares, members, structure.low, structure.high, RIDGE * float(squares.max()))
    rows = (c.reshape(batch, -1, n), x.reshape(batch, -1, n), taken, found)
    over_rows(units.gains, batch, *settings, *rows, work=2.0 * structure.size**2 * n)
    return found


def _units(structure: Structure, gram: Array) -> tuple[Array, Array]:
    """Return the columns of each unit, and its level; the entries of one column at several times are one column."""
    n, layout = gram.shape[0], structure.layout
    members = np.arange(n)[:, None] if layout.n != n else layout.members
    return members, np.zeros(layout.count, dtype=np.int64) if layout.levels is None else layout.levels


def best_pair(gram: Array, squares: Array, b: Array, nonnegative: bool = False) -> Array:
    """Find the two columns that fit each row best, by looking at all pairs.

    Parameters
    ----------
    gram, squares, b : array
        As for :func:`sample`.
    nonnegative : bool, optional
        Whether only pairs with positive coefficients are compared, and single columns, which are returned twice.

    Returns
    -------
    array of int, shape (batch, 2)
        The columns.
    """
    from ...backend.parallel import over_rows
    from . import cpu

    support: np.ndarray[Any, Any] = np.tile(np.arange(2), (b.shape[0], 1))
    matrix, diagonal, right = (to_numpy(array) for array in (gram, squares, b))
    work = 4.0 * gram.shape[0] ** 2
    over_rows(cpu.best_pair, b.shape[0], matrix, diagonal, nonnegative, right, support, work=work)
    return from_numpy(support, b)


def best_of_all(gram: Array, squares: Array, b: Array, size: int) -> Array:
    """Find the columns that fit each row best, by looking at all supports of a given size.

    Parameters
    ----------
    gram, squares, b : array
        As for :func:`sample`.
    size : int
        The number of columns of a support.

    Returns
    -------
    array of int, shape (batch, size)
        The columns.
    """
    from ...backend.parallel import over_rows
    from . import exhaustive

    support: np.ndarray[Any, Any] = np.tile(np.arange(size), (b.shape[0], 1))
    matrix, diagonal, right = (to_numpy(array) for array in (gram, squares, b))
    ridge, work = RIDGE * float(diagonal.max()), 4.0 * math.comb(gram.shape[0], size)
    over_rows(exhaustive.best_of_all, b.shape[0], matrix, diagonal, ridge, right, support, work=work)
    return from_numpy(support, b)


class Posterior(NamedTuple):
    """The posterior distribution over all supports of a given size, for each row.

    Attributes
    ----------
    mean, square, inclusion : array, shape (batch, n)
        The means of x, of ``|x|^2`` and of being nonzero.
    misfit : array, shape (batch,)
        The mean of the squared residual; infinite if no columns are independent.
    variance : array, shape (batch,)
        The variance of the noise.
    support : array of int, shape (batch, size)
        The most probable supports.
    """

    mean: NumpyArray
    square: FloatArray
    inclusion: FloatArray
    misfit: FloatArray
    variance: FloatArray
    support: IntArray


def posterior_of_all(
    gram: Array, squares: Array, b: Array, energy: Array, size: int, m: int, floor: Array, variance: Array | None
) -> Posterior:
    """Compute the posterior distribution over all supports of a given size.

    Parameters
    ----------
    gram, squares, b, energy : array
        As for :func:`sample`.
    size : int
        The number of columns of a support.
    m : int
        The number of measurements.
    floor : array, shape (batch,)
        The smallest variance of the noise.
    variance : array, shape (batch,), optional
        The variance of the noise, if it is known.

    Returns
    -------
    Posterior
        The distribution, in main memory.
    """
    from ...backend.parallel import over_rows
    from . import exhaustive

    matrix, diagonal, right, power, least = (to_numpy(array) for array in (gram, squares, b, energy, floor))
    batch, n = right.shape
    support: IntArray = np.tile(np.arange(size), (batch, 1))
    noise = np.zeros(batch) if variance is None else to_numpy(variance).copy()
    sums, misfit = np.zeros((batch, 3, n), dtype=right.dtype), np.zeros(batch)
    half = 1.0 if np.iscomplexobj(right) else 0.5
    settings = (half, m, variance is not None, ROUNDS, right, power, least, noise, support, sums, misfit)
    work = 4.0 * ROUNDS * math.comb(n, size)
    over_rows(exhaustive.posterior, batch, matrix, diagonal, *settings, work=work)
    return Posterior(sums[:, 0], sums[:, 1].real, sums[:, 2].real, misfit, noise, support)


def grow(gram: Array, b: Array, count: int) -> Array:
    """Select columns for one row, each of which lowers the residual most (orthogonal least squares).

    Parameters
    ----------
    gram : array, shape (n, n)
        The Gram matrix in double precision.
    b : array, shape (n,)
        Phi^H y.
    count : int
        The number of columns.

    Returns
    -------
    array of int
        The columns in the order of their selection; fewer than ``count`` if the others depend on them.
    """
    from . import cpu

    order = np.empty(count, dtype=np.int64)
    return order[: cpu.grow(gram, np.diag(gram).real.copy(), b, count, order)]


def moved_singly(
    half: float,
    ridge: float,
    variance: float,
    coherent: float,
    gram: Array,
    H: Array,
    values: Array,
    correlations: Array,
    squares: FloatArray,
    support: IntArray,
) -> tuple[float, Array, FloatArray, FloatArray]:
    """Average each nonzero of a support over the columns it may belong to, given the others.

    Parameters
    ----------
    half : float
        1/2, or 1 for complex data.
    ridge : float
        The variance of the noise, relative to that of the nonzeros.
    variance : float
        The variance of the noise.
    coherent : float
        The cosine of a selected column and another one above which nothing is computed.
    gram : array, shape (s, n)
        The products of the selected columns with all columns.
    H : array, shape (s, s)
        The inverse of the selected columns' Gram matrix with the ridge.
    values : array, shape (s,)
        The coefficients.
    correlations : array, shape (n,)
        The correlations of the columns with the residual.
    squares : array, shape (n,)
        The squared norms of the columns.
    support : array of int, shape (s,)
        The selected columns.

    Returns
    -------
    elsewhere : float
        The expected number of nonzeros that belong to other columns; infinity if columns are coherent.
    mean, square, inclusion : array, shape (n,)
        The posterior means, second moments and probabilities of being nonzero.
    """
    from . import places

    sums = np.zeros((3, squares.size), dtype=gram.dtype)
    pivots = np.diag(H).real.copy()
    arrays = gram, H @ gram, pivots, values, correlations, squares, support.astype(np.int64), sums
    elsewhere = places.average(half, ridge, variance, coherent, *arrays)
    return elsewhere, sums[0], sums[1].real, sums[2].real


def separate(gram: Array, squares: Array, support: Array) -> Array:
    """Replace columns of supports that depend on others of the same support, up to rounding errors.

    Parameters
    ----------
    gram, squares : array
        As for :func:`sample`.
    support : array of int, shape (batch, s)
        The supports.

    Returns
    -------
    array of int, shape (batch, s)
        Supports of independent columns, as far as Phi has that many.
    """
    from ...backend.parallel import over_rows
    from . import cpu

    apart = to_numpy(support).copy()
    batch, s = apart.shape
    over_rows(cpu.separate, batch, to_numpy(gram), to_numpy(squares), apart, work=float(s**3))
    return from_numpy(apart, support)
