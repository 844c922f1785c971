"""Sums over coded signals that the dictionary update needs. Workers of a cluster return them instead of codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..backend.arrays import Array, NumpyArray, namespace, on_host, to_numpy
from ..backend.devices import memory_errors, rows_at_a_time, summing
from ..backend.norms import squared_norm
from ..operators import Operator
from ..problems import Problem
from ..recover import recover
from ..sets import SignalSet
from ..solvers.base import Solver
from .samples import completed
from .sources import Batches
from .store import Dictionary

# Maximum number of nonzeros per code, or the set that contains the codes.
Limit = int | SignalSet
# How often entries that were not measured are estimated from codes.
FILLS = 4
# The fields of Statistics that are arrays.
ARRAYS = ("codes_codes", "codes_signals", "usage")


@dataclass(frozen=True)
class Statistics:
    """The sums over signals that the dictionary update needs.

    For signals Y and their codes X, one per row. Statistics of several batches can be added.

    Attributes
    ----------
    codes_codes : array, shape (n, n)
        ``X^T X``.
    codes_signals : array, shape (n, m)
        ``X^T Y``.
    usage : array, shape (n,)
        Number of signals that use each atom.
    error : float
        Sum of ``||Phi x - y||^2``.
    energy : float
        Sum of ``||y||^2``.
    count : float
        Number of signals, or the sum of their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsect.dictionary import Statistics
    >>> batch = Statistics(np.eye(3), np.ones((3, 2)), np.array([4.0, 4.0, 2.0]), error=1.0, energy=100.0, count=5)
    >>> total = batch + batch
    >>> total.count, round(total.relative_error, 2), total.mean_nonzeros
    (10, 0.1, 2.0)
    """

    codes_codes: Array
    codes_signals: Array
    usage: Array
    error: float
    energy: float
    count: float

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    def faded(self, factor: float) -> Statistics:
        """Return the statistics with every sum multiplied by a number.

        Parameters
        ----------
        factor : float
            Below 1 to give earlier signals less weight; -1 to subtract signals from a sum.

        Returns
        -------
        Statistics
            The scaled statistics.
        """
        return Statistics(*(factor * getattr(self, part.name) for part in fields(self)))

    def moved(self, move: Callable[[Array], Array]) -> Statistics:
        """Return the same statistics with the arrays moved to another place.

        Parameters
        ----------
        move : callable
            Takes an array and returns it in the new place, for example on a device.

        Returns
        -------
        Statistics
            The statistics with moved arrays.
        """
        moved: dict[str, Any] = {name: move(getattr(self, name)) for name in ARRAYS}
        return replace(self, **moved)

    def __sizeof__(self) -> int:
        """Size in bytes, from which Dask decides where to add statistics."""
        return object.__sizeof__(self) + sum(int(getattr(self, name).nbytes) for name in ARRAYS)

    @property
    def relative_error(self) -> float:
        """Relative error ``||Phi X - Y|| / ||Y||`` over all signals."""
        return (self.error / self.energy) ** 0.5 if self.energy else 0.0

    @property
    def fractions(self) -> NumpyArray:
        """The fraction of the signals that use each atom."""
        return np.clip(to_numpy(self.usage) / self.count, 0.0, 1.0)

    @property
    def mean_nonzeros(self) -> float:
        """Mean number of atoms used per signal."""
        return float(namespace(self.usage).sum(self.usage)) / self.count


def gather(
    operator: Operator,
    signals: Array,
    coder: Solver,
    sparsity: Limit,
    code_iter: int,
    means: NumpyArray | None = None,
) -> Statistics:
    """Code one batch and compute its statistics.

    Parameters
    ----------
    operator : Operator
        Phi, shape (m, n).
    signals : array, shape (rows, m)
        The batch, one signal per row. NaN marks entries that were not measured: they are set to their means, and then
        a few times to their values in ``Phi x``, for the codes x of the completed signals.
    coder : Solver
        The solver that codes.
    sparsity : int or SignalSet
        Maximum number of nonzeros per code, or the set that contains the codes.
    code_iter : int
        Number of iterations of the coder.
    means : numpy.ndarray, shape (m,), optional
        The means of all signals; the default is those of the batch.

    Returns
    -------
    Statistics
        The statistics of the batch, in double precision.
    """
    nonzeros = sparsity if isinstance(sparsity, int) else getattr(sparsity, "size", 0)
    block = rows_at_a_time(signals, operator.shape, signals.shape[0], coder.further_vectors(nonzeros))
    parts = [
        _gather_block(operator, signals[start : start + block, :], coder, sparsity, code_iter, means)
        for start in range(0, signals.shape[0], block)
    ]
    return sum(parts[1:], start=parts[0])


def _gather_block(
    operator: Operator, signals: Array, coder: Solver, sparsity: Limit, code_iter: int, means: NumpyArray | None
) -> Statistics:
    xp = namespace(signals)
    measured = filled = completed(signals, means)
    with summing(signals):
        codes = _codes(operator, filled, coder, sparsity, code_iter)
        fits = xp.astype(operator.forward(codes), signals.dtype)
        if filled is not signals:
            absent = xp.isnan(signals)
            for _ in range(FILLS):
                filled = xp.where(absent, fits, signals)
                codes = _codes(operator, filled, coder, sparsity, code_iter)
                fits = xp.astype(operator.forward(codes), signals.dtype)
            filled = xp.where(absent, fits, signals)
            measured = xp.where(absent, xp.zeros_like(signals), signals)
        codes_codes = xp.astype(codes.T @ codes, xp.float64)
        codes_signals = xp.astype(codes.T @ filled, xp.float64)
    # Correct the row sums, so that rounding does not give atoms a mean that the signals do not have.
    sums = xp.astype(codes.T @ xp.sum(filled, axis=1), xp.float64)
    codes_signals += ((sums - xp.sum(codes_signals, axis=1)) / signals.shape[1])[:, None]
    return Statistics(
        codes_codes=codes_codes,
        codes_signals=codes_signals,
        usage=xp.astype(xp.count_nonzero(codes, axis=0), xp.float64),
        error=float(xp.sum(xp.astype(squared_norm(filled - fits), xp.float64))),
        energy=float(xp.sum(squared_norm(measured))),
        count=int(signals.shape[0]),
    )


def _codes(operator: Operator, signals: Array, coder: Solver, sparsity: Limit, code_iter: int) -> Array:
    """Return the codes of signals without NaN."""
    if not coder.ends_by_itself:
        options: dict[str, Any] = {"max_iter": code_iter, "tol": 0.0, "record": (), "check_fit": False}
        return recover(operator, signals, sparsity, coder, **options).x
    # Stopping and recording would take as long as small batches.
    problem = Problem(operator, signals, sparsity)
    state = coder.steps(problem, coder.init(problem), np.full(problem.batch, -1.0), [0.0] * code_iter)
    return coder.estimate(problem, state)


def gather_all(
    dictionary: Dictionary,
    source: Batches,
    coder: Solver,
    limit: Limit,
    code_iter: int,
    means: NumpyArray,
    report: Callable[[int], None],
) -> Statistics:
    """Code all batches and compute their statistics.

    On a CPU, batches are coded in parallel, one per core; on a GPU, one after the other.

    Parameters
    ----------
    dictionary : Dictionary
        The current dictionary.
    source : Batches
        The signals.
    coder : Solver
        The solver that codes.
    limit : int or SignalSet
        Maximum number of nonzeros per code, or the set that contains the codes.
    code_iter : int
        Number of iterations of the coder for each signal.
    means : numpy.ndarray, shape (m,)
        The first values of entries that were not measured, see :func:`gather`.
    report : callable
        Called with the number of batches done so far.

    Returns
    -------
    Statistics
        The sums over all batches.
    """
    operator = dictionary.operator
    # Computed here, before several threads need the factorization at once.
    operator.pseudo_inverse  # noqa: B018
    if on_host(dictionary.Phi):
        from ..backend.parallel import side_by_side

        parts = side_by_side(
            lambda index: gather(operator, _drawn(source, index), coder, limit, code_iter, means), source.batches
        )
    else:
        parts = (gather(operator, signals, coder, limit, code_iter, means) for signals in _drawn_ahead(source))
    total = next(parts)
    report(1)
    for done, part in enumerate(parts, start=2):
        total += part
        report(done)
    return total


def _drawn_ahead(source: Batches) -> Iterator[Array]:
    """Iterate over the batches of a source; the next batch is drawn while the current one is coded."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(_drawn, source, 0)
        for index in range(1, source.batches + 1):
            signals = following.result()
            if index < source.batches:
                following = thread.submit(_drawn, source, index)
            yield signals


def _drawn(source: Batches, index: int) -> Array:
    with memory_errors("batch_size", "larger batches", "smaller"):
        return source.batch(index)
