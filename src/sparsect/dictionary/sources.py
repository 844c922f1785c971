"""Where do training signals come from? Batches that can be drawn again, so the data need not fit in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from ..backend.arrays import Array, floating, to_numpy
from ..backend.checks import reject, whole_number
from ..backend.devices import place


class Batches(Protocol):
    """Signals in numbered batches: the same number always gives the same batch."""

    batches: int

    def batch(self, index: int) -> Array:
        """(rows, m), one signal a row; may be asked for by another thread than the one that made the source."""


class Source(Batches, Protocol):
    """Training signals in batches, with a name for what they are."""

    size: int

    def on_device(self, device: str | None) -> Source:
        """The same signals, put on a device before they are coded; None leaves them where they are."""

    @property
    def provenance(self) -> dict[str, Any]:
        """What the signals are, in plain values; equal for equal signals."""


class ArraySource:
    """Signals that are already there as rows of an array, taken as they are.

    Parameters
    ----------
    signals : (rows, m)
    batch_size : rows in a batch
    device : where batches are put (see :func:`sparsect.backend.devices.place`); default where the signals are
    """

    BATCH = 10_000

    def __init__(self, signals: Any, batch_size: int = BATCH, device: str | None = None) -> None:
        self._signals = floating("signals", signals, dimensions=(2,))
        self.size = int(self._signals.shape[0])
        if self.size == 0:
            raise reject("signals", f"shape {tuple(self._signals.shape)}", "at least one row")
        self._batch_size = whole_number("batch_size", batch_size, 1)
        self._device = device
        self.batches = -(-self.size // self._batch_size)

    def batch(self, index: int) -> Array:
        """Consecutive rows."""
        start = index * self._batch_size
        return place(self._signals[start : min(start + self._batch_size, self.size), :], self._device)

    def on_device(self, device: str | None) -> ArraySource:
        """The same signals, their batches put on a device."""
        return self if device is None else ArraySource(self._signals, self._batch_size, device)

    @property
    def provenance(self) -> dict[str, Any]:
        """The number of signals and a digest of them."""
        return {"signals": self.size, "batch_size": self._batch_size, "digest": digest([to_numpy(self._signals)])}


class DaskSource:
    """The rows of a Dask array, one batch for each of its chunks of rows; they are computed where they are coded.

    ``signals`` is the array as it is used: of floating-point numbers, its columns in one chunk.
    """

    def __init__(self, signals: Any) -> None:
        if signals.ndim != 2:
            raise reject("signals", f"a Dask array of {signals.ndim} dimensions", "2 dimensions")
        if signals.dtype.kind in "iub":
            signals = signals.astype(np.float64)
        if signals.dtype not in (np.float32, np.float64):
            raise reject("signals", f"a Dask array of {signals.dtype}", "real numbers: float32, float64 or integers")
        self.signals = signals.rechunk({1: -1})
        rows = self.signals.chunks[0]
        if not all(count > 0 for count in rows):
            raise reject("signals", f"chunks of {rows} rows", "chunks of known sizes (compute_chunk_sizes), none empty")
        self.size, self.batches = sum(rows), len(rows)

    def batch(self, index: int) -> Array:
        """The chunk, computed and brought here."""
        return self.checked(self.signals.blocks[index].compute(), index)

    @staticmethod
    def checked(chunk: Any, index: int) -> Array:
        """The chunk once it has been computed, wherever that was."""
        return floating(f"signals, chunk {index}", chunk, dimensions=(2,))

    def delayed(self, index: int) -> Any:
        """The chunk as a task that others can depend on."""
        return self.signals.blocks[index].to_delayed().item()

    def on_device(self, device: str | None) -> DaskSource:
        """The array as it is: chunks are put on a device where they are coded."""
        return self

    @property
    def provenance(self) -> dict[str, Any]:
        """The number of signals, the chunks, and Dask's own name for how they are computed."""
        from dask.base import tokenize

        return {"signals": self.size, "chunks": list(self.signals.chunks[0]), "token": tokenize(self.signals)}


def digest(arrays: Iterable[np.ndarray[Any, Any]]) -> str:
    """A short name for the contents of some arrays, the same in every process."""
    hashed = hashlib.blake2b(digest_size=8)
    for array in arrays:
        hashed.update(repr((array.shape, array.dtype.str)).encode())
        hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()
