"""Random rows of a source. Which rows are drawn depends on their numbers, not on how they are divided into batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..backend.array_checks import check_magnitude
from ..backend.arrays import Array, IntArray, NumpyArray, from_numpy, namespace, on_host, take_rows, to_numpy
from ..backend.checks import reject
from ..backend.norms import norm
from .sources import DaskSource, Source

# Rows of a sample: at least this number, and this many for each atom, but no more than so many numbers in all.
ROWS, ROWS_PER_ATOM, NUMBERS = 50_000, 500, 2**28
# Signals held out to measure the error: one in so many of a sample, at most this number, and none if that leaves fewer
# than so many signals per atom.
HELD_OUT, MOST_HELD_OUT, ENOUGH = 20, 500, 5
# A signal whose norm is below this fraction of the mean norm makes a poor atom.
WEAK = 0.1


@dataclass(frozen=True)
class Sample:
    """Random signals of a source, and signals on which the error is measured.

    They are NumPy arrays, or on a GPU if the source is.

    Attributes
    ----------
    rows : array, shape (rows, m)
        The signals to learn from.
    held_out : array, shape (some, m), or None
        The signals on which the error is measured; None if there are too few.
    from_source : bool
        Whether these are signals of the source, too.
    like : array
        An array of the library and on the device of the source.
    """

    rows: Array
    held_out: Array | None
    from_source: bool
    like: Array

    @property
    def measured(self) -> Array:
        """The signals on which the error is measured: those held out or, if there are none, some of the others."""
        return self.rows[:MOST_HELD_OUT, :] if self.held_out is None else self.held_out

    @cached_property
    def means(self) -> NumpyArray:
        """The mean of each entry of the signals, over those in which it was measured."""
        return to_numpy(measured_means(self.rows))

    @classmethod
    def drawn(cls, source: Source, validation: Source | None, n_atoms: int, seed: int) -> Sample:
        """Draw a sample of a source.

        Parameters
        ----------
        source : Source
            Training signals.
        validation : Source or None
            Other signals, of which some are drawn to measure the error. By default, some of the source are held out.
        n_atoms : int
            Number of atoms that the sample is for.
        seed : int
            Seed of the random generator.

        Returns
        -------
        Sample
            The sample.
        """
        generate = np.random.default_rng(seed)
        most = NUMBERS // source.batch(0).shape[1]
        like = draw_rows(source, max(ROWS, min(ROWS_PER_ATOM * n_atoms, most)), generate)
        rows = to_numpy(like) if on_host(like) else like
        if validation is not None:
            held_out = draw_rows(validation, MOST_HELD_OUT, generate)
            if held_out.shape[1] != rows.shape[1]:
                wanted = f"have signals of {rows.shape[1]} numbers, as those to learn from"
                raise reject("validation", f"signals of {held_out.shape[1]}", wanted)
            if not to_numpy(norm(completed(held_out))).any():
                raise reject("validation", "zeros only", "have signals that are not zero")
            return cls(rows, to_numpy(held_out) if on_host(like) else held_out, False, like[:1, :])
        count = min(rows.shape[0] // HELD_OUT, MOST_HELD_OUT)
        if rows.shape[0] - count < ENOUGH * n_atoms or count == 0:
            return cls(rows, None, False, like[:1, :])
        order = generate.permutation(rows.shape[0])
        chosen, others = np.sort(order[:count]), np.sort(order[count:])
        return cls(take_rows(rows, others), take_rows(rows, chosen), True, like[:1, :])

    def some(self, count: int, generate: np.random.Generator) -> Array:
        """Draw some of the signals to learn from.

        Parameters
        ----------
        count : int
            The number; all signals are returned if there are not more.
        generate : numpy.random.Generator
            The random generator.

        Returns
        -------
        array, shape (at most count, m)
            The signals.
        """
        if count >= self.rows.shape[0]:
            return self.rows
        return take_rows(self.rows, np.sort(generate.choice(self.rows.shape[0], count, replace=False)))


def draw_rows(source: Source, count: int, generate: np.random.Generator) -> Array:
    """Draw rows of a source at random, without repetition.

    Parameters
    ----------
    source : Source
        The signals.
    count : int
        Number of rows; all rows are returned if there are not more.
    generate : numpy.random.Generator
        The random generator.

    Returns
    -------
    array, shape (at most count, m)
        The rows, in the order of the source.
    """
    if count >= source.size:
        return rows_at(source, np.arange(source.size))
    return rows_at(source, np.sort(generate.choice(source.size, count, replace=False)))


def rows_at(source: Source, numbers: IntArray) -> Array:
    """Read some rows of a source.

    Parameters
    ----------
    source : Source
        The signals.
    numbers : numpy.ndarray of int
        Numbers of the rows, ascending, counted over all batches.

    Returns
    -------
    array, shape (numbers, m)
        The rows.
    """
    if isinstance(source, DaskSource):
        lengths = np.array(source.signals.chunks[0])
    else:
        # All batches but the last have the length of the first.
        lengths = np.full(source.batches, source.batch(0).shape[0])
        lengths[-1] = source.size - lengths[:-1].sum()
    ends = np.cumsum(lengths)
    batches = np.searchsorted(ends, numbers, side="right")
    parts = []
    for index in np.unique(batches):
        batch = source.batch(int(index))
        if batch.shape[0] != lengths[index]:
            got = f"batch {index} of {source.batches} with {batch.shape[0]} signals instead of {lengths[index]}"
            raise reject("source", got, f"have {source.size} signals, in batches of one length but for the last one")
        parts.append(take_rows(batch, numbers[batches == index] - (ends - lengths)[index]))
    return namespace(parts[0]).concat(parts)


def measured_means(signals: Array) -> Array:
    """Compute the mean of each column over the rows in which it is measured.

    Parameters
    ----------
    signals : array, shape (rows, m)
        The signals, with NaN where nothing was measured.

    Returns
    -------
    array, shape (m,)
        The means; zero where nothing was measured in any row.
    """
    xp = namespace(signals)
    absent = xp.isnan(signals)
    measured = xp.astype(xp.count_nonzero(~absent, axis=0), signals.dtype)
    known = xp.where(absent, xp.zeros_like(signals), signals)
    return xp.sum(known, axis=0) / xp.where(measured > 0, measured, xp.ones_like(measured))


def completed(signals: Array, means: NumpyArray | None = None) -> Array:
    """Replace NaN by the mean of the column.

    Parameters
    ----------
    signals : array, shape (rows, m)
        The signals, with NaN where nothing was measured.
    means : numpy.ndarray, shape (m,), optional
        The means; by default those of the rows in which the column is measured.

    Returns
    -------
    array, shape (rows, m)
        The signals without NaN; the array itself if it has none.
    """
    xp = namespace(signals)
    absent = xp.isnan(signals)
    if not bool(xp.any(absent)):
        return signals
    row = measured_means(signals) if means is None else xp.astype(from_numpy(means, signals), signals.dtype)
    return xp.where(absent, xp.broadcast_to(row[None, :], signals.shape), signals)


def starting_atoms(
    signals: Array, count: int, generate: np.random.Generator, nonnegative: bool = False, signed_codes: bool = True
) -> Array:
    """Draw signals that can serve as atoms; random combinations of signals are added if there are too few.

    Parameters
    ----------
    signals : array, shape (rows, m)
        The signals.
    count : int
        Number of atoms.
    generate : numpy.random.Generator
        The random generator.
    nonnegative : bool, optional
        Whether negative entries are set to zero.
    signed_codes : bool, optional
        Whether codes may be negative. Signals whose negative entries are larger then change their sign before.

    Returns
    -------
    array, shape (count, m)
        Atoms of norm 1.

    Raises
    ------
    InputError
        If all signals are zero, or numbers are too large to be squared.
    """
    check_magnitude("signals", signals)
    xp = namespace(signals)
    if nonnegative:
        positive, negative = xp.clip(signals, 0.0, None), xp.clip(-signals, 0.0, None)
        signals = positive
        if signed_codes:
            turned = norm(negative) > norm(positive)
            signals = xp.where(turned[:, None], negative, positive)
    lengths = to_numpy(norm(signals))
    usable = generate.permutation(np.flatnonzero(lengths > WEAK * lengths.mean()))[:count]
    if not usable.size:
        if nonnegative:
            raise reject("signals", "none with positive entries", "have positive entries, for nonnegative atoms")
        raise reject("signals", "zeros only", "not all be zero", "Constant patches are zero without their mean.")
    drawn = take_rows(signals, usable)
    if usable.size < count:
        weights = generate.standard_normal((count - usable.size, usable.size))
        mixing = from_numpy(np.abs(weights) if nonnegative else weights, drawn)
        drawn = xp.concat([drawn, xp.astype(mixing, drawn.dtype) @ drawn])
    return drawn / norm(drawn)[:, None]
