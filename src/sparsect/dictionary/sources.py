"""Sources of training signals: batches that can be drawn repeatedly, so that the data need not fit in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from ..backend.array_checks import floating
from ..backend.arrays import Array, NumpyArray, is_complex, namespace, to_numpy
from ..backend.checks import choice, reject, whole_number
from ..backend.devices import place


class Batches(Protocol):
    """Protocol of signals in numbered batches; the same number always gives the same batch.

    Attributes
    ----------
    batches : int
        Number of batches.
    """

    batches: int

    def batch(self, index: int) -> Array:
        """Return one batch.

        The method may be called from another thread than the one that created the source.

        Parameters
        ----------
        index : int
            Number of the batch, from 0.

        Returns
        -------
        array, shape (rows, m)
            The signals, one per row.
        """


class Source(Batches, Protocol):
    """Protocol of training signals in batches, with a description of their origin.

    :func:`learn` accepts any object with these attributes and methods.

    Attributes
    ----------
    batches : int
        Number of batches, all of one length but for the last one.
    size : int
        Number of signals.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> class Noise:
    ...     size, batches = 1000, 10
    ...
    ...     def batch(self, index):
    ...         return np.random.default_rng(index).standard_normal((100, 16))
    ...
    ...     def on_device(self, device):
    ...         return self
    ...
    ...     @property
    ...     def provenance(self):
    ...         return {"signals": self.size, "kind": "noise"}
    >>> sparsect.dictionary.learn(Noise(), n_atoms=20, rounds=2)
    Dictionary(16x20, 2 rounds)
    """

    size: int

    def on_device(self, device: str | None) -> Source:
        """Return the same signals, to be placed on a device before they are coded.

        Parameters
        ----------
        device : str or None
            The device, see :func:`sparsect.backend.devices.place`; None leaves the signals where they are.

        Returns
        -------
        Source
            The source with its signals on ``device``.
        """

    @property
    def provenance(self) -> dict[str, Any]:
        """Description of the signals in plain values, equal for equal signals."""


class ArraySource:
    """Training signals from the rows of an array, used unchanged.

    Parameters
    ----------
    signals : array, shape (rows, m)
        The signals, one per row.
    batch_size : int, optional
        Number of rows in a batch.
    device : str, optional
        Device on which batches are placed, see :func:`sparsect.backend.devices.place`. By default they stay where the
        signals are.
    missing : {'nan'}, optional
        With 'nan', NaN marks entries that were not measured. By default, NaN is refused.

    Attributes
    ----------
    size : int
        Number of signals.
    batches : int
        Number of batches.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> signals = np.random.default_rng(0).standard_normal((500, 16))
    >>> source = sparsect.dictionary.ArraySource(signals, batch_size=200)
    >>> source.batches, source.batch(2).shape
    (3, (100, 16))
    """

    BATCH = 10_000

    def __init__(
        self, signals: Any, batch_size: int = BATCH, device: str | None = None, missing: str | None = None
    ) -> None:
        self._missing = missing
        self._signals = checked_rows("signals", signals, missing)
        if is_complex(self._signals):
            raise reject("signals", f"dtype {self._signals.dtype}", "be real; complex signals are not learned from")
        self.size = int(self._signals.shape[0])
        if self.size == 0:
            raise reject("signals", f"shape {tuple(self._signals.shape)}", "have at least one row")
        self._batch_size = whole_number("batch_size", batch_size, 1)
        self._device = device
        self.batches = -(-self.size // self._batch_size)

    def batch(self, index: int) -> Array:
        """Return consecutive rows of the array.

        Parameters
        ----------
        index : int
            Number of the batch, from 0.

        Returns
        -------
        array, shape (rows, m)
            The signals, one per row.
        """
        start = index * self._batch_size
        return place(self._signals[start : min(start + self._batch_size, self.size), :], self._device)

    def on_device(self, device: str | None) -> ArraySource:
        """Return the same signals, with batches placed on a device.

        Parameters
        ----------
        device : str or None
            The device, see :func:`sparsect.backend.devices.place`; None returns the source itself.

        Returns
        -------
        ArraySource
            The source with its batches on ``device``.
        """
        return self if device is None else ArraySource(self._signals, self._batch_size, device, self._missing)

    @property
    def provenance(self) -> dict[str, Any]:
        """Number of signals, the batch size, and a digest of the signals."""
        return {"signals": self.size, "batch_size": self._batch_size, "digest": digest([to_numpy(self._signals)])}


class DaskSource:
    """Training signals from the rows of a Dask array, one batch for each chunk of rows.

    Chunks are computed where they are coded.

    Parameters
    ----------
    signals : dask.array.Array, shape (rows, m)
        The signals, real numbers. The chunks must have known sizes.
    missing : {'nan'}, optional
        With 'nan', NaN marks entries that were not measured. By default, NaN is refused.

    Attributes
    ----------
    signals : dask.array.Array, shape (rows, m)
        The array as it is used: floating-point numbers, with all columns in one chunk.
    missing : str or None
        What marks entries that were not measured.
    size : int
        Number of signals.
    batches : int
        Number of batches.

    Examples
    --------
    >>> import dask.array as da
    >>> import sparsect
    >>> source = sparsect.dictionary.DaskSource(da.ones((500, 16), chunks=(200, 8)))
    >>> source.batches, source.size
    (3, 500)
    """

    def __init__(self, signals: Any, missing: str | None = None) -> None:
        self.missing = missing if missing is None else choice("missing", missing, ("nan",))
        if not hasattr(signals, "rechunk"):
            raise reject("signals", f"an object of type {type(signals).__name__}", "a Dask array")
        if signals.ndim != 2:
            raise reject("signals", f"a Dask array of {signals.ndim} dimensions", "have 2 dimensions")
        if signals.dtype.kind in "iub":
            signals = signals.astype(np.float64)
        if signals.dtype not in (np.float32, np.float64):
            raise reject(
                "signals", f"a Dask array of {signals.dtype}", "hold real numbers: float32, float64 or integers"
            )
        self.signals = signals.rechunk({1: -1})
        rows = self.signals.chunks[0]
        if not all(count > 0 for count in rows):
            raise reject(
                "signals", f"chunks of {rows} rows", "have chunks of known sizes (compute_chunk_sizes), none empty"
            )
        self.size, self.batches = sum(rows), len(rows)

    def batch(self, index: int) -> Array:
        """Compute one chunk and return it as an array in this process.

        Parameters
        ----------
        index : int
            Number of the batch, from 0.

        Returns
        -------
        array, shape (rows, m)
            The signals, one per row.
        """
        return self.checked(self.signals.blocks[index].compute(), index, self.missing)

    @staticmethod
    def checked(chunk: Any, index: int, missing: str | None = None) -> Array:
        """Check a computed chunk.

        Parameters
        ----------
        chunk : array, shape (rows, m)
            The chunk, wherever it was computed.
        index : int
            Number of the batch, for error messages.
        missing : {'nan'}, optional
            What marks entries that were not measured.

        Returns
        -------
        array, shape (rows, m)
            The chunk as floating-point numbers.
        """
        return checked_rows(f"signals, chunk {index}", chunk, missing)

    def delayed(self, index: int) -> Any:
        """Return one chunk as a Dask task on which other tasks can depend.

        Parameters
        ----------
        index : int
            Number of the batch, from 0.

        Returns
        -------
        dask.delayed.Delayed
            The chunk.
        """
        return self.signals.blocks[index].to_delayed().item()

    def on_device(self, device: str | None) -> DaskSource:
        """Return the source itself: chunks are placed on a device where they are coded.

        Parameters
        ----------
        device : str or None
            Ignored.

        Returns
        -------
        DaskSource
            The source itself.
        """
        return self

    @property
    def provenance(self) -> dict[str, Any]:
        """Number of signals, the chunk sizes, and Dask's token of the computation."""
        from dask.base import tokenize

        return {"signals": self.size, "chunks": list(self.signals.chunks[0]), "token": tokenize(self.signals)}


def is_dask(X: Any) -> bool:
    """Whether X is a Dask object.

    Parameters
    ----------
    X : object
        Any object.

    Returns
    -------
    bool
        True for Dask arrays and other Dask collections.
    """
    return type(X).__module__.startswith("dask.")


def checked_rows(name: str, rows: Any, missing: str | None) -> Array:
    """Check signals that may lack entries.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    rows : array, shape (rows, m)
        The signals.
    missing : {'nan'} or None
        What marks entries that were not measured.

    Returns
    -------
    array, shape (rows, m)
        The signals as floating-point numbers.

    Raises
    ------
    InputError
        If entries are infinite, if they are NaN without being marked as missing, or if nothing was measured in a row.
    """
    found = floating(name, rows, dimensions=(2,), finite=False)
    xp = namespace(found)
    if missing is None:
        absent = int(xp.count_nonzero(xp.isnan(found)))
        if absent:
            hint = "Use missing='nan' if NaN stands for entries that were not measured."
            raise reject(name, f"{absent} entries that are NaN", "have finite entries only", hint)
        return floating(name, found)
    choice("missing", missing, ("nan",))
    if bool(xp.any(xp.isinf(found))):
        raise reject(name, "infinite entries", "have entries that are finite, or NaN if not measured")
    nothing = xp.all(xp.isnan(found), axis=1)
    if bool(xp.any(nothing)):
        row = int(xp.argmax(xp.astype(nothing, xp.int8)))
        raise reject(name, f"only NaN in row {row}", "have at least one measured entry in each row")
    return found


def digest(arrays: Iterable[NumpyArray]) -> str:
    """Compute a short digest of the contents of arrays, the same in every process.

    Parameters
    ----------
    arrays : iterable of numpy.ndarray
        The arrays.

    Returns
    -------
    str
        The digest, 16 hexadecimal digits.
    """
    hashed = hashlib.blake2b(digest_size=8)
    for array in arrays:
        hashed.update(repr((array.shape, array.dtype.str)).encode())
        hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()
