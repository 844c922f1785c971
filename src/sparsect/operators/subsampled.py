"""Subsampled fast orthonormal transforms, never formed as a matrix."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend.arrays import Array, from_numpy, is_complex, namespace
from ..backend.checks import reject, shown, whole_number
from ..backend.rng import generator
from . import transforms
from .base import Operator

# Largest accepted number of entries of a signal; no machine has memory for more.
LARGEST = 2**40


class _Subsampled(Operator):
    """Subsampled orthonormal transform of a signal of the given shape, never formed as a matrix."""

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
        # Position of every coefficient among the measured ones; unmeasured coefficients point at an appended zero.
        self._position = np.full(n, self.samples.size)
        self._position[self.samples] = np.arange(self.samples.size)

    @classmethod
    def random(cls, shape_of_signal: int | Sequence[int], m: int, rng: Any = None) -> Any:
        """Draw ``m`` distinct samples at random.

        Parameters
        ----------
        shape_of_signal : int or sequence of int
            Length of the signal, or its shape.
        m : int
            Number of samples, from 1 to n.
        rng : int, numpy.random.Generator or None, optional
            Seed or random generator.

        Returns
        -------
        Operator
            An operator of this class, with the samples in ascending order.
        """
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
        """Compute the selected transform coefficients of every row of ``x``."""
        spectrum = self._reshaped(self._transform, x)
        return namespace(x).take(spectrum, from_numpy(self.samples, x), axis=-1)

    def adjoint(self, r: Array) -> Array:
        """Compute the inverse transform of every row of ``r``, with zeros for the other coefficients."""
        xp = namespace(r)
        padded = xp.concat([r, xp.zeros_like(r[..., :1])], axis=-1)
        return self._reshaped(self._inverse, xp.take(padded, from_numpy(self._position, r), axis=-1))

    def _reshaped(self, transform: Any, x: Array) -> Array:
        xp = namespace(x)
        shaped = xp.reshape(x, (*x.shape[:-1], *self.shape_of_signal))
        return xp.reshape(transform(shaped, len(self.shape_of_signal)), x.shape)

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Return the operator and ``y`` unchanged, since the transform works in any dtype."""
        return self, y


class SubsampledDCT(_Subsampled):
    """Selected coefficients of the orthonormal discrete cosine transform (DCT-II) of a signal.

    The operator is a tight frame (Phi Phi^T = I), so projections need no factorization.

    Parameters
    ----------
    shape_of_signal : int or sequence of int
        Length of the signal, or its shape, such as (rows, columns). Signals are passed flattened; n is the product
        of the sides.
    samples : array of int, shape (m,)
        Distinct indices, from 0 to n - 1, of the transform coefficients that are measured.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> operator = sparsect.SubsampledDCT((8, 8), samples=[0, 3, 10])
    >>> operator.shape
    (3, 64)
    >>> operator.forward(np.ones((1, 64))).round(6) + 0.0
    array([[8., 0., 0.]])
    >>> sparsect.SubsampledDCT.random(100, m=20, rng=0).shape
    (20, 100)
    """

    _transform = staticmethod(transforms.cosine)
    _inverse = staticmethod(transforms.inverse_cosine)


class SubsampledFourier(_Subsampled):
    """Selected coefficients of the unitary discrete Fourier transform of a signal.

    Signals and samples are complex. The operator is a tight frame (Phi Phi^H = I), so projections need no
    factorization.

    Parameters
    ----------
    shape_of_signal : int or sequence of int
        Length of the signal, or its shape, such as (rows, columns). Signals are passed flattened; n is the product
        of the sides.
    samples : array of int, shape (m,)
        Distinct indices, from 0 to n - 1, of the transform coefficients that are measured.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> operator = sparsect.SubsampledFourier(16, samples=[0, 1, 5])
    >>> operator.shape
    (3, 16)
    >>> operator.forward(np.ones((1, 16), dtype=complex)).real.round(6)
    array([[4., 0., 0.]])
    >>> operator.dot_test() < 1e-12
    True
    """

    _transform = staticmethod(transforms.fourier)
    _inverse = staticmethod(transforms.inverse_fourier)

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Convert ``y`` to a complex dtype."""
        xp = namespace(y)
        if is_complex(y):
            return self, y
        return self, xp.astype(y, xp.complex64 if y.dtype == xp.float32 else xp.complex128)

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        return generate.standard_normal((1, size)) + 1j * generate.standard_normal((1, size))


def _sides(shape_of_signal: Any) -> tuple[int, ...]:
    """Sides of a signal given as a length or as a sequence of lengths."""
    sides = tuple(shape_of_signal) if isinstance(shape_of_signal, Sequence) else (shape_of_signal,)
    if not sides or isinstance(shape_of_signal, str):
        raise reject("shape_of_signal", shown(shape_of_signal), "a length, or a tuple of lengths")
    lengths = tuple(whole_number("shape_of_signal", side, 1) for side in sides)
    if math.prod(lengths) > LARGEST:
        raise reject("shape_of_signal", shown(shape_of_signal), f"the shape of at most {LARGEST} numbers")
    return lengths
