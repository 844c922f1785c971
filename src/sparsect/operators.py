"""What is Phi? Dense, sparse or matrix-free; its adjoint, and the view of its row space that projections need.

Signals are rows: ``forward`` maps (..., n) to (..., m) and ``adjoint`` maps (..., m) to (..., n).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from .arrays import Array, conj, floating, from_numpy, generator, is_complex, is_numpy, namespace, norm
from .checks import InputError, real_number, reject, whole_number
from .kernels import transforms
from .row_space import ConjugateGradients, RowSpace, SingularVectors, TightFrame


class Operator(ABC):
    """A linear map Phi of shape (m, n) that acts on rows.

    Attributes
    ----------
    shape : (m, n)
    frame_bound : c where Phi Phi^H = c I is known to hold (a tight frame), otherwise None.
    factor_seconds : time spent so far on what depends on Phi alone.
    """

    shape: tuple[int, int]
    frame_bound: float | None = None
    factor_seconds: float = 0.0

    @abstractmethod
    def forward(self, x: Array) -> Array:
        """Phi x for every row of ``x``, shape (..., n) to (..., m)."""

    @abstractmethod
    def adjoint(self, r: Array) -> Array:
        """Phi^H r for every row of ``r``, shape (..., m) to (..., n)."""

    @abstractmethod
    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """This operator and ``y`` brought to one dtype, the one that answers will have."""

    @cached_property
    def row_space(self) -> RowSpace:
        """The row space of Phi, factored on first use and kept (see ``row_space.py``)."""
        start = time.perf_counter()
        space = self._factor()
        self.factor_seconds += time.perf_counter() - start
        return space

    def _factor(self) -> RowSpace:
        if self.frame_bound is not None:
            return TightFrame(self.forward, self.adjoint, self.frame_bound)
        return ConjugateGradients(self.forward, self.adjoint, self.shape)

    def dot_test(self, rng: Any = 0) -> float:
        """Relative mismatch of <Phi x, r> and <x, Phi^H r> on random x and r; at rounding level if all is well."""
        generate = generator(rng)
        m, n = self.shape
        x, r = (self._probe(generate, size) for size in (n, m))
        image, back = self.forward(x), self.adjoint(r)
        xp = namespace(image, back)
        mismatch = xp.abs(xp.vecdot(r, image) - xp.vecdot(back, x))
        scale = norm(image) * norm(r) + norm(x) * norm(back)
        return float(mismatch[0]) / max(float(scale[0]), 1e-300)

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        """One random row that this operator accepts."""
        return generate.standard_normal((1, size))


class DenseOperator(Operator):
    """Phi as a two-dimensional array of any array library.

    Parameters
    ----------
    Phi : array (m, n)
    rank_tol : singular values up to ``rank_tol`` times the largest count as zero. Default: max(m, n) times the
        machine epsilon of Phi's dtype, so the paper's zero-mean columns (rank m - 1) are seen for what they are.
    """

    def __init__(self, Phi: Array, rank_tol: float | None = None) -> None:
        self.Phi = floating("Phi", Phi, dimensions=(2,))
        m, n = self.Phi.shape
        if m == 0 or n == 0:
            raise reject("Phi", f"shape {(m, n)}", "at least one row and one column")
        self.shape = (m, n)
        self.rank_tol = (
            None if rank_tol is None else real_number("rank_tol", rank_tol, "a number of at least 0", low=0.0)
        )
        self._conjugate = conj(self.Phi)

    def forward(self, x: Array) -> Array:
        return x @ self.Phi.T

    def adjoint(self, r: Array) -> Array:
        return r @ self._conjugate

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        xp = namespace(self.Phi, y)
        if self.Phi.device != y.device:
            raise InputError(f"Phi, y: got arrays on {self.Phi.device} and {y.device}, accepted is one device for both")
        dtype = xp.result_type(self.Phi.dtype, y.dtype)
        same = self.Phi.dtype == dtype
        return self if same else DenseOperator(xp.astype(self.Phi, dtype), self.rank_tol), xp.astype(
            y, dtype, copy=False
        )

    def _factor(self) -> RowSpace:
        return SingularVectors(self.Phi, self.rank_tol)

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        xp = namespace(self.Phi)
        return xp.astype(from_numpy(super()._probe(generate, size), self.Phi), self.Phi.dtype)


class _NumPyOperator(Operator):
    """Shared by the operators that multiply NumPy arrays only."""

    dtype: Any

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        if not is_numpy(namespace(y)):
            library = type(y).__module__.split(".")[0]
            raise reject("y", f"an array of {library}", "a NumPy array, because Phi is a SciPy object")
        return self, y.astype(np.result_type(self.dtype, y.dtype), copy=False)


class SparseOperator(_NumPyOperator):
    """Phi as a ``scipy.sparse`` matrix or array."""

    def __init__(self, Phi: Any) -> None:
        floating("Phi", Phi.data if hasattr(Phi, "data") and not callable(Phi.data) else Phi.toarray())
        self.Phi = Phi.tocsr()
        if self.Phi.dtype.kind in "biu":
            self.Phi = self.Phi.astype(np.float64)
        self.dtype = self.Phi.dtype
        self.shape = self.Phi.shape
        self._adjoint = self.Phi.conj().T.tocsr()

    def forward(self, x: Array) -> Array:
        return _through_columns(self.Phi.__matmul__, x)

    def adjoint(self, r: Array) -> Array:
        return _through_columns(self._adjoint.__matmul__, r)


class MatrixFree(_NumPyOperator):
    """Phi as a ``scipy.sparse.linalg.LinearOperator`` (a PyLops operator, for example).

    Parameters
    ----------
    Phi : LinearOperator with ``matvec`` and ``rmatvec``; the adjoint is checked by a dot-test.
    frame_bound : c, if Phi Phi^H = c I is known: projections then cost one product instead of a conjugate-gradient run.
    """

    def __init__(self, Phi: Any, frame_bound: float | None = None) -> None:
        self.Phi = Phi
        self.shape = tuple(Phi.shape)
        self.dtype = np.dtype(Phi.dtype or np.float64)
        if self.dtype.kind in "biu":
            self.dtype = np.dtype(np.float64)
        self._check_adjoint()
        if frame_bound is not None:
            self.frame_bound = real_number("frame_bound", frame_bound, "a positive number", low=np.finfo(float).tiny)
            self._check_frame()

    def forward(self, x: Array) -> Array:
        return _through_columns(self.Phi.matmat, x)

    def adjoint(self, r: Array) -> Array:
        return _through_columns(self.Phi.rmatmat, r)

    def _check_adjoint(self) -> None:
        try:
            mismatch = self.dot_test()
        except (NotImplementedError, TypeError):
            raise reject("Phi", "a LinearOperator without rmatvec", "one with both matvec and rmatvec") from None
        if not mismatch < 1e-3:
            received = f"a LinearOperator whose rmatvec is not the adjoint of matvec (dot-test {mismatch:.1e})"
            raise reject("Phi", received, "a matching pair")

    def _check_frame(self) -> None:
        r = self._probe(generator(0), self.shape[0])
        mismatch = float((norm(self.forward(self.adjoint(r)) - self.frame_bound * r) / norm(self.frame_bound * r))[0])
        if not mismatch < 1e-3:
            received = f"{self.frame_bound:g}, which Phi Phi^H differs from by {mismatch:.1e}"
            raise reject("frame_bound", received, "c with Phi Phi^H = c I")


class _Subsampled(Operator):
    """Chosen samples of an orthonormal transform of a signal of the given shape, never formed as a matrix.

    Parameters
    ----------
    shape_of_signal : length of the signal, or its (rows, columns); signals come flattened, n is their product.
    samples : distinct indices, below n, of the transform coefficients that are measured.
    """

    frame_bound = 1.0

    def __init__(self, shape_of_signal: int | tuple[int, ...], samples: Any) -> None:
        sides = shape_of_signal if isinstance(shape_of_signal, tuple) else (shape_of_signal,)
        self.shape_of_signal = tuple(whole_number("shape_of_signal", side, 1) for side in sides)
        n = math.prod(self.shape_of_signal)
        self.samples = np.asarray(samples)
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
    def random(cls, shape_of_signal: int | tuple[int, ...], m: int, rng: Any = None) -> Any:
        """``m`` samples drawn at random without repetition."""
        n = math.prod(shape_of_signal if isinstance(shape_of_signal, tuple) else (shape_of_signal,))
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


def as_operator(Phi: Any, frame_bound: float | None = None) -> Operator:
    """Phi as an :class:`Operator`: an operator as it is, a SciPy sparse matrix or LinearOperator, or any array.

    Wrap Phi once and pass the operator to several calls to factor it only once.
    """
    if isinstance(Phi, Operator):
        return Phi
    if hasattr(Phi, "matmat") and hasattr(Phi, "rmatmat"):
        return MatrixFree(Phi, frame_bound)
    if hasattr(Phi, "tocsr"):
        return SparseOperator(Phi)
    return DenseOperator(Phi)


def _through_columns(product: Any, rows: Array) -> Array:
    """Apply a product that acts on columns to every row of a (..., k) array."""
    columns = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1]).T
    return product(columns).T.reshape(*rows.shape[:-1], -1)
