"""Chosen samples of a fast orthonormal transform: operators that are never formed as a matrix."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend.arrays import Array, from_numpy, generator, is_complex, namespace
from ..backend.checks import reject, shown, whole_number
from . import transforms
from .base import Operator

# Numbers in a signal that no machine has room for.
LARGEST = 2**40


class _Subsampled(Operator):
    """Chosen samples of an orthonormal transform of a signal of the given shape, never formed as a matrix.

    Parameters
    ----------
    shape_of_signal : length of the signal, or its (rows, columns); signals come flattened, n is their product.
    samples : distinct indices, below n, of the transform coefficients that are measured.
    """

    frame_bound = 1.0

    def __init__(self, shape_of_signal: int | Sequence[int], samples: Any) -> None:
        self.shape_of_signal = _sides(shape_of_signal)
        n = math.prod(self.shape_of_signal)
        try:
            self.samples = np.asarray(samples)
        except ValueError:
            raise reject("samples", "a ragged list", "a non-empty list of integers") from None
        if self.samples.ndim != 1 or self.samples.dtype.kind not in "iu" or self.samples.size == 0:
            raise reject(
                "samples", f"{self.samples.dtype} of shape {self.samples.shape}", "a non-empty list of integers"
            )
        if self.samples.min() < 0 or self.samples.max() >= n or np.unique(self.samples).size < self.samples.size:
            raise reject("samples", "indices out of range or repeated", f"distinct indices from 0 to {n - 1}")
        self.shape = (self.samples.size, n)
        # Position of every coefficient among the measured ones; those not measured point at an appended zero.
        self._position = np.full(n, self.samples.size)
        self._position[self.samples] = np.arange(self.samples.size)

    @classmethod
    def random(cls, shape_of_signal: int | Sequence[int], m: int, rng: Any = None) -> Any:
        """``m`` samples drawn at random without repetition."""
        n = math.prod(_sides(shape_of_signal))
        m = whole_number("m", m, 1, n)
        return cls(shape_of_signal, np.sort(generator(rng).choice(n, m, replace=False)))

    @staticmethod
    @abstractmethod
    def _transform(x: Array, ndim: int) -> Array: ...

    @staticmethod
    @abstractmethod
    def _inverse(x: Array, ndim: int) -> Array: ...

    def forward(self, x: Array) -> Array:
        spectrum = self._reshaped(self._transform, x)
        return namespace(x).take(spectrum, from_numpy(self.samples, x), axis=-1)

    def adjoint(self, r: Array) -> Array:
        xp = namespace(r)
        padded = xp.concat([r, xp.zeros_like(r[..., :1])], axis=-1)
        return self._reshaped(self._inverse, xp.take(padded, from_numpy(self._position, r), axis=-1))

    def _reshaped(self, transform: Any, x: Array) -> Array:
        xp = namespace(x)
        shaped = xp.reshape(x, (*x.shape[:-1], *self.shape_of_signal))
        return xp.reshape(transform(shaped, len(self.shape_of_signal)), x.shape)

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        return self, y


class SubsampledDCT(_Subsampled):
    """Chosen coefficients of the orthonormal cosine transform (DCT-II) of a one- or two-dimensional signal."""

    _transform = staticmethod(transforms.cosine)
    _inverse = staticmethod(transforms.inverse_cosine)


class SubsampledFourier(_Subsampled):
    """Chosen coefficients of the unitary Fourier transform; signals and samples are complex."""

    _transform = staticmethod(transforms.fourier)
    _inverse = staticmethod(transforms.inverse_fourier)

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        xp = namespace(y)
        if is_complex(y):
            return self, y
        return self, xp.astype(y, xp.complex64 if y.dtype == xp.float32 else xp.complex128)

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        return generate.standard_normal((1, size)) + 1j * generate.standard_normal((1, size))


def _sides(shape_of_signal: Any) -> tuple[int, ...]:
    """The sides of a signal given as a length or as a sequence of lengths."""
    sides = tuple(shape_of_signal) if isinstance(shape_of_signal, Sequence) else (shape_of_signal,)
    if not sides or isinstance(shape_of_signal, str):
        raise reject("shape_of_signal", shown(shape_of_signal), "a length, or a tuple of lengths")
    lengths = tuple(whole_number("shape_of_signal", side, 1) for side in sides)
    if math.prod(lengths) > LARGEST:
        raise reject("shape_of_signal", shown(shape_of_signal), f"a signal of at most {LARGEST} numbers")
    return lengths
