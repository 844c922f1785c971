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

from .arrays import (
    Array,
    check_indices,
    check_magnitude,
    conj,
    contiguous,
    epsilon,
    floating,
    from_numpy,
    generator,
    is_complex,
    is_numpy,
    is_single,
    namespace,
    norm,
    units,
)
from .checks import InputError, real_number, reject, shown
from .row_space import ConjugateGradients, RowSpace, SingularVectors, TightFrame


class Operator(ABC):
    """A linear map Phi of shape (m, n) that acts on rows.

    Attributes
    ----------
    shape : (m, n)
    is_dense : whether Phi is there as an array; only then there is a ``gram_matrix``
    frame_bound : c where Phi Phi^H = c I is known to hold (a tight frame), otherwise None.
    factor_seconds : time spent so far on what depends on Phi alone.
    """

    shape: tuple[int, int]
    is_dense: bool = False
    gram_matrix: Array
    double_gram_matrix: Array
    columns: Array
    rank_tol: float
    Phi: Array
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

    @cached_property
    def column_energy(self) -> float:
        """Mean squared norm of Phi's columns, estimated from random rows where Phi is not there as an array; or 1."""
        generate = generator(0)
        energies = [float(norm(self.forward(self._probe(generate, self.shape[1])))[0]) ** 2 for _ in range(16)]
        return sum(energies) / len(energies) / self.shape[1] or 1.0

    @cached_property
    def unit(self) -> float:
        """The power of two near the norm of Phi's columns (root mean square); 1 if that is near 1."""
        return float(units(np.asarray(self.column_energy**0.5)))

    @cached_property
    def to_scale(self) -> Operator:
        """Phi / unit, whose columns have norms near 1: this operator itself if they have already."""
        return self if self.unit == 1 else self._divided(self.unit)

    def _divided(self, unit: float) -> Operator:
        return _Divided(self, unit)

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
    rank_tol : singular values up to ``rank_tol`` times the largest count as zero. Default: max(m, n) times the machine
        epsilon of the dtype Phi came in, so the paper's zero-mean columns (rank m - 1) are seen for what they are.
    """

    is_dense = True

    def __init__(self, Phi: Array, rank_tol: float | None = None) -> None:
        self.Phi = floating("Phi", Phi, dimensions=(2,))
        m, n = self.Phi.shape
        if m == 0 or n == 0:
            raise reject("Phi", f"shape {(m, n)}", "at least one row and one column")
        check_magnitude("Phi", self.Phi)
        self.shape = (m, n)
        default = max(m, n) * epsilon(self.Phi)
        self.rank_tol = real_number("rank_tol", default if rank_tol is None else rank_tol, "0 to 1", low=0.0, high=1.0)
        self._conjugate = conj(self.Phi)
        self._promoted: dict[str, DenseOperator] = {}

    def forward(self, x: Array) -> Array:
        return x @ self.Phi.T

    def adjoint(self, r: Array) -> Array:
        return r @ self._conjugate

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        xp = namespace(self.Phi, y)
        if self.Phi.device != y.device:
            raise InputError(f"Phi, y: got arrays on {self.Phi.device} and {y.device}, accepted is one device for both")
        dtype = xp.result_type(self.Phi.dtype, y.dtype)
        y = xp.astype(y, dtype, copy=False)
        if self.Phi.dtype == dtype:
            return self, y
        # Kept, so that Phi is factored once in every precision too; the rank stays that of the Phi that came in.
        if str(dtype) not in self._promoted:
            self._promoted[str(dtype)] = DenseOperator(xp.astype(self.Phi, dtype), self.rank_tol)
        return self._promoted[str(dtype)], y

    @cached_property
    def column_energy(self) -> float:
        xp = namespace(self.Phi)
        return float(xp.sum(xp.abs(self.Phi) ** 2)) / self.shape[1] or 1.0

    def _divided(self, unit: float) -> Operator:
        return DenseOperator(self.Phi / unit, self.rank_tol)

    def _factor(self) -> RowSpace:
        return SingularVectors(self.Phi, self.rank_tol)

    @cached_property
    def gram_matrix(self) -> Array:
        """Phi^H Phi, (n, n), computed on first use and kept."""
        start = time.perf_counter()
        gram = self._conjugate.T @ self.Phi
        self.factor_seconds += time.perf_counter() - start
        return gram

    @cached_property
    def columns(self) -> Array:
        """Phi transposed and laid out column after column, as compiled kernels read it."""
        return contiguous(self.Phi.T)

    @cached_property
    def double_gram_matrix(self) -> Array:
        """The Gram matrix with products and sums in double precision, whatever Phi's dtype."""
        if not is_single(self.Phi):
            return self.gram_matrix
        xp = namespace(self.Phi)
        start = time.perf_counter()
        wide = xp.astype(self.Phi, xp.complex128 if is_complex(self.Phi) else xp.float64)
        gram = conj(wide).T @ wide
        self.factor_seconds += time.perf_counter() - start
        return gram

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        xp = namespace(self.Phi)
        return xp.astype(from_numpy(super()._probe(generate, size), self.Phi), self.Phi.dtype)


class _Divided(Operator):
    """An operator that is not there as an array, divided by a number."""

    def __init__(self, operator: Operator, unit: float) -> None:
        self._operator, self._unit, self.shape = operator, unit, operator.shape
        if operator.frame_bound is not None:
            self.frame_bound = operator.frame_bound / unit**2

    def forward(self, x: Array) -> Array:
        return self._operator.forward(x) / self._unit

    def adjoint(self, r: Array) -> Array:
        return self._operator.adjoint(r) / self._unit

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        _, y = self._operator.prepared(y)
        return self, y

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        return self._operator._probe(generate, size)


class _NumPyOperator(Operator):
    """Shared by the operators that multiply NumPy arrays only."""

    dtype: Any

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        if not is_numpy(namespace(y)):
            library = type(y).__module__.split(".")[0]
            raise reject("y", f"an array of {library}", "a NumPy array, because Phi is a SciPy object")
        return self, y.astype(np.result_type(self.dtype, y.dtype), copy=False)


class SparseOperator(_NumPyOperator):
    """Phi as a ``scipy.sparse`` matrix or array.

    Up to ``SMALL`` entries, zeros included, it is factored like a dense one: that is faster than iterating.
    """

    SMALL = 2**20

    def __init__(self, Phi: Any) -> None:
        if not hasattr(Phi, "tocsr") or len(Phi.shape) != 2 or 0 in Phi.shape:
            received = f"{type(Phi).__name__} of shape {getattr(Phi, 'shape', None)}"
            raise reject("Phi", received, "a SciPy sparse matrix with at least one row and one column")
        try:
            check_indices(Phi)
        except ValueError as error:
            raise reject("Phi", f"a damaged sparse matrix ({error})", "indices within its shape") from None
        rows = Phi.tocsr()
        # A matrix of its own around the numbers, since a CSR matrix of the caller's comes back as it is.
        self.Phi = type(rows)((floating("Phi", rows.data), rows.indices, rows.indptr), shape=rows.shape)
        if self.Phi.nnz:
            check_magnitude("Phi", self.Phi.data[None, :])
        self.dtype = self.Phi.data.dtype
        self.shape = self.Phi.shape
        self._adjoint = self.Phi.conj().T.tocsr()
        self._promoted: dict[str, SparseOperator] = {}

    def forward(self, x: Array) -> Array:
        return _through_columns(self.Phi.__matmul__, x)

    def adjoint(self, r: Array) -> Array:
        return _through_columns(self._adjoint.__matmul__, r)

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        _, y = super().prepared(y)
        if y.dtype == self.dtype:
            return self, y
        if y.dtype.name not in self._promoted:
            self._promoted[y.dtype.name] = SparseOperator(self.Phi.astype(y.dtype))
        return self._promoted[y.dtype.name], y

    @cached_property
    def column_energy(self) -> float:
        return float(np.sum(np.abs(self.Phi.data) ** 2)) / self.shape[1] or 1.0

    def _divided(self, unit: float) -> Operator:
        # SciPy divides by numbers in double precision.
        return SparseOperator(self.Phi * self.dtype.type(1 / unit))

    def _factor(self) -> RowSpace:
        if math.prod(self.shape) > self.SMALL:
            return super()._factor()
        return SingularVectors(self.Phi.toarray(), max(self.shape) * epsilon(self.Phi.data))


class MatrixFree(_NumPyOperator):
    """Phi as a ``scipy.sparse.linalg.LinearOperator`` (a PyLops operator, for example).

    Parameters
    ----------
    Phi : has ``matmat`` and ``rmatmat``; that they are adjoint to each other is checked on a random vector.
    frame_bound : c, if Phi Phi^H = c I is known: projections then cost one product instead of a conjugate-gradient run.
    """

    def __init__(self, Phi: Any, frame_bound: float | None = None) -> None:
        if not hasattr(Phi, "matmat") or len(Phi.shape) != 2 or 0 in Phi.shape:
            received = f"{type(Phi).__name__} of shape {getattr(Phi, 'shape', None)}"
            raise reject("Phi", received, "a LinearOperator with at least one row and one column")
        self.Phi = Phi
        self.shape = (int(Phi.shape[0]), int(Phi.shape[1]))
        self.dtype = floating("Phi", np.zeros(1, dtype=Phi.dtype or np.float64)).dtype
        self._checked: set[str] = set()
        if frame_bound is not None:
            self.frame_bound = real_number("frame_bound", frame_bound, "a positive number", low=1e-300)

    def forward(self, x: Array) -> Array:
        return _through_columns(self.Phi.matmat, x)

    def adjoint(self, r: Array) -> Array:
        return _through_columns(self.Phi.rmatmat, r)

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        operator, y = super().prepared(y)
        if y.dtype.name not in self._checked:
            self._check(y.dtype)
            self._checked.add(y.dtype.name)
        return operator, y

    def _check(self, dtype: Any) -> None:
        """Try the operator on random vectors of the dtype it is about to be used with."""
        probe, r = (self._probe(generator(0), size).astype(dtype) for size in self.shape[::-1])
        if dtype.kind == "c":
            probe, r = probe * (1 + 0.5j), r * (1 - 2j)
        try:
            image, back = self.forward(probe), self.adjoint(r)
        except Exception as error:
            reason = "has no rmatvec" if isinstance(error, NotImplementedError) else f"failed: {error}"
            raise reject(
                "Phi", f"a LinearOperator whose matvec or rmatvec {reason}", f"one that takes {dtype}"
            ) from None
        if image.dtype.kind != dtype.kind or back.dtype.kind != dtype.kind:
            raise reject(
                "Phi", f"a LinearOperator that turns {dtype} into {image.dtype}", "one that keeps complex numbers"
            )
        mismatch = abs(np.vdot(r, image) - np.vdot(back, probe)) / float((norm(image) * norm(r))[0] or 1)
        if not mismatch < 1e-3:
            received = f"a LinearOperator whose rmatvec is not the adjoint of matvec (dot-test {mismatch:.1e})"
            raise reject("Phi", received, "a matching pair")
        if self.frame_bound is not None:
            twice = self.forward(back)
            mismatch = float((norm(twice - self.frame_bound * r) / norm(self.frame_bound * r))[0])
            if not mismatch < 1e-3:
                received = f"{self.frame_bound:g}, which Phi Phi^H differs from by {mismatch:.1e}"
                raise reject("frame_bound", received, "c with Phi Phi^H = c I")


def as_operator(Phi: Any, frame_bound: float | None = None) -> Operator:
    """Phi as an :class:`Operator`: an operator as it is, a SciPy sparse matrix or LinearOperator, or any array.

    Wrap Phi once and pass the operator to several calls to factor it only once.
    """
    if isinstance(Phi, Operator):
        return Phi
    if hasattr(Phi, "matmat") and hasattr(Phi, "rmatmat"):
        return MatrixFree(Phi, frame_bound)
    if frame_bound is not None:
        raise reject(
            "frame_bound", f"{shown(frame_bound)} with {type(Phi).__name__}", "a frame_bound for a LinearOperator only"
        )
    if hasattr(Phi, "tocsr"):
        return SparseOperator(Phi)
    return DenseOperator(Phi)


def _through_columns(product: Any, rows: Array) -> Array:
    """Apply a product that acts on columns to every row of a (..., k) array."""
    columns = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1]).T
    return product(columns).T.reshape(*rows.shape[:-1], -1)
