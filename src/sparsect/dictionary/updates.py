"""Updates of a dictionary for given codes. Atoms are rows here, and all updates use the same statistics."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..backend.arrays import Array, from_numpy, namespace, to_numpy
from ..backend.norms import norm
from .statistics import Statistics

# Atoms used by fewer than this fraction of the signals are replaced.
RARE = 1e-5
# Atoms with a larger absolute inner product are nearly the same.
SAME = 0.95
# Atoms whose distances from their optima are computed in one matrix product.
BLOCK = 32


def optimal_directions(statistics: Statistics) -> Array:
    """Update all atoms at once by the method of optimal directions.

    Minimizes ``||X D - Y||`` over D and scales its rows to norm 1.

    Parameters
    ----------
    statistics : Statistics
        Statistics of all signals Y and their codes X.

    Returns
    -------
    array, shape (n, m)
        The new atoms D; zero where an atom has no direction.
    """
    xp = namespace(statistics.codes_codes)
    n = statistics.codes_codes.shape[0]
    scale = float(xp.max(xp.abs(statistics.codes_codes))) or 1.0
    ridge = 1e-10 * scale * xp.eye(n, dtype=xp.float64, device=statistics.codes_codes.device)
    atoms = xp.linalg.solve(statistics.codes_codes + ridge, statistics.codes_signals)
    length = norm(atoms)[:, None]
    return atoms / xp.where(length > 0, length, xp.ones_like(length))


def coordinate_descent(statistics: Statistics, atoms: Array, nonnegative: bool = False, sweeps: int = 1) -> Array:
    """Update one atom after the other, with the others fixed, by block coordinate descent.

    With few signals per atom, a sweep moves atoms less than the method of optimal directions, which fits their noise.

    Parameters
    ----------
    statistics : Statistics
        Statistics of signals Y and their codes X.
    atoms : array, shape (n, m)
        The atoms that coded them, of norm 1.
    nonnegative : bool, optional
        Whether the entries of the new atoms are nonnegative.
    sweeps : int, optional
        Number of sweeps over all atoms.

    Returns
    -------
    array, shape (n, m)
        The new atoms, of norm 1.
    """
    from ..kernels.atoms import sweep

    # Atoms do not depend on the unit, and squares of these sums might overflow.
    unit = 2.0 ** -math.frexp(float(np.abs(to_numpy(statistics.codes_codes)).max(initial=0.0)))[1]
    A, B = (unit * to_numpy(sums) for sums in (statistics.codes_codes, statistics.codes_signals))
    moved = np.array(to_numpy(atoms), dtype=np.float64, order="C")
    for _ in range(sweeps):
        for start in range(0, moved.shape[0], BLOCK):
            block = slice(start, start + BLOCK)
            sweep(np.ascontiguousarray(A[block, block]), B[block] - A[block] @ moved, moved[block], nonnegative)
    return from_numpy(moved, atoms)


def with_replacements(
    atoms: Array, statistics: Statistics, spare: Array, max_coherence: float = 1.0, seldom: float = 0.0
) -> tuple[Array, Statistics]:
    """Replace atoms that few signals use and, of two atoms that are nearly the same, the one used less.

    Parameters
    ----------
    atoms : array, shape (n, m)
        The atoms, of norm 1, or zero.
    statistics : Statistics
        Statistics of the signals that the atoms coded.
    spare : array, shape (n, m)
        Atom j is replaced by row j, which has norm 1.
    max_coherence : float, optional
        The largest absolute inner product that two atoms may have.
    seldom : float, optional
        Atoms used less than this fraction of the mean are replaced. By default, only those that almost no signal uses.

    Returns
    -------
    atoms : array, shape (n, m)
        The new atoms.
    statistics : Statistics
        The statistics, without the codes of the atoms that were replaced.
    """
    xp = namespace(atoms)
    usage = to_numpy(statistics.usage)
    rare = max(1.0, RARE * statistics.count, seldom * usage.mean())
    replaced = (usage < rare) | (to_numpy(norm(atoms)) == 0)
    if max_coherence < 1:
        similar = np.triu(np.abs(to_numpy(atoms @ atoms.T)) > max_coherence, 1)
        for first, second in zip(*np.nonzero(similar), strict=True):
            if not replaced[first] and not replaced[second]:
                replaced[first if usage[first] < usage[second] else second] = True
    if not replaced.any():
        return atoms, statistics
    new = xp.where(from_numpy(replaced[:, None], atoms), xp.astype(spare, atoms.dtype), atoms)
    stays = from_numpy(np.where(replaced, 0.0, 1.0), statistics.usage)
    return new, replace(
        statistics,
        codes_codes=statistics.codes_codes * stays[:, None] * stays[None, :],
        codes_signals=statistics.codes_signals * stays[:, None],
        usage=statistics.usage * stays,
    )


def turned_apart(atoms: Array, limit: float, nonnegative: bool = False, sweeps: int = 100) -> Array:
    """Turn atoms apart, as little as necessary, until no two of them have an absolute inner product above a limit.

    Parameters
    ----------
    atoms : array, shape (n, m)
        The atoms, of norm 1.
    limit : float
        The limit. A number near or below ``sqrt((n - m) / (m (n - 1)))``, the Welch bound, may be exceeded.
    nonnegative : bool, optional
        Whether the entries of the atoms are nonnegative, and stay so.
    sweeps : int, optional
        How often all pairs of atoms are visited at most.

    Returns
    -------
    array, shape (n, m)
        The atoms, of norm 1.
    """
    from ..kernels.atoms import turn_apart

    turned = np.array(to_numpy(atoms), dtype=np.float64, order="C")
    turn_apart(turned, limit, nonnegative, sweeps)
    return namespace(atoms).astype(from_numpy(turned, atoms), atoms.dtype)
