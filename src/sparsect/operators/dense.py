"""Operator given as a two-dimensional array of any array library."""

from __future__ import annotations

import time
from functools import cached_property

import numpy as np

from ..backend.array_checks import check_magnitude, floating
from ..backend.arrays import (
    Array,
    FloatArray,
    IntArray,
    contiguous,
    epsilon,
    from_numpy,
    is_complex,
    is_single,
    namespace,
    real_dtype,
    take_rows,
    to_numpy,
)
from ..backend.checks import real_number, reject
from ..backend.files import check_size
from ..backend.norms import conj, row_norms
from .base import Operator
from .pseudo_inverse import PseudoInverse, SingularVectors

# Columns with a larger cosine are similar.
SIMILAR = 0.5
# Number of columns whose cosines with all others are computed to estimate the coherence.
COMPARED = 256
# The largest number of columns that are compared with each other to find copies.
ALIKE = 4096
# Squared norms from this value to its inverse are computed directly; others may overflow or underflow.
SMALLEST = 1e-200


class DenseOperator(Operator):
    """Operator given as a two-dimensional array of any array library.

    Parameters
    ----------
    Phi : array, shape (m, n)
        The matrix, real or complex.
    rank_tol : float, optional
        Singular values up to ``rank_tol`` times the largest one count as zero. The default is max(m, n) times the
        machine epsilon of the dtype of ``Phi``, so that a matrix with zero-mean columns, as in the paper, is
        recognized as having rank m - 1.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> operator = sparsect.DenseOperator(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> operator.forward(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[1., 3.],
           [2., 4.]])
    >>> operator.gram_matrix.shape
    (2, 2)
    """

    is_dense = True

    def __init__(self, Phi: Array, rank_tol: float | None = None) -> None:
        self.Phi = floating("Phi", Phi, dimensions=(2,))
        m, n = self.Phi.shape
        if m == 0 or n == 0:
            raise reject("Phi", f"shape {(m, n)}", "have at least one row and one column")
        check_magnitude("Phi", self.Phi)
        self.shape = (m, n)
        default = max(m, n) * epsilon(self.Phi)
        self.rank_tol = real_number("rank_tol", default if rank_tol is None else rank_tol, "0 to 1", low=0.0, high=1.0)
        self._conjugate = conj(self.Phi)
        self._promoted: dict[str, DenseOperator] = {}

    def forward(self, x: Array) -> Array:
        """Compute Phi x for every row of ``x``, as a matrix product."""
        return x @ self.Phi.T

    def adjoint(self, r: Array) -> Array:
        """Compute Phi^H r for every row of ``r``, as a matrix product."""
        return r @ self._conjugate

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Convert Phi and ``y`` to a common dtype.

        The converted operator is cached, so that Phi is factored only once per dtype.
        """
        xp = namespace(self.Phi, y)
        if self.Phi.device != y.device:
            raise reject("Phi, y", f"{self.Phi.device} and {y.device}", "be on one device")
        dtype = xp.result_type(self.Phi.dtype, y.dtype)
        y = xp.astype(y, dtype, copy=False)
        if self.Phi.dtype == dtype:
            return self, y
        # Cached, so that Phi is factored only once per precision. The rank is that of the original Phi.
        if str(dtype) not in self._promoted:
            self._promoted[str(dtype)] = DenseOperator(xp.astype(self.Phi, dtype), self.rank_tol)
        return self._promoted[str(dtype)], y

    @cached_property
    def column_energy(self) -> float:
        """Mean squared norm of the columns of Phi, or 1 if Phi is zero."""
        return float(np.mean(self.column_norms**2)) or 1.0

    @cached_property
    def column_norms(self) -> FloatArray:
        """Norms of the columns of Phi in double precision, shape (n,)."""
        if type(self.Phi) is np.ndarray and self.Phi.dtype == np.float64:
            squares = np.einsum("ij,ij->j", self.Phi, self.Phi)
            if SMALLEST < squares.min() <= squares.max() < 1 / SMALLEST:
                return np.asarray(np.sqrt(squares))
        return row_norms(self.Phi.T)

    @cached_property
    def nonzero_columns(self) -> Operator:
        """Phi without its columns of zeros; the operator itself if it has none, or nothing else."""
        kept = np.flatnonzero(self.column_norms > 0)
        return self if kept.size in (0, self.shape[1]) else self.among(kept)

    def among(self, columns: IntArray) -> Operator:
        """Return the operator of some of the columns."""
        return DenseOperator(take_rows(self.Phi.T, columns).T, self.rank_tol)

    @cached_property
    def coherence(self) -> float:
        """Largest absolute cosine between two columns of Phi, estimated from 256 of them where there are more."""
        return self._cosines[0]

    @property
    def similar(self) -> tuple[int, int]:
        """How many pairs of columns have an absolute cosine above 0.5, and how many pairs were compared."""
        return self._cosines[1:]

    @cached_property
    def _cosines(self) -> tuple[float, int, int]:
        start = time.perf_counter()
        xp, norms, n = namespace(self.Phi), self.column_norms, self.shape[1]
        chosen = np.unique(np.linspace(0, n - 1, min(n, COMPARED)).astype(np.int64))
        some = take_rows(self.Phi.T, chosen).T
        cosines = to_numpy(xp.abs(conj(some).T @ self.Phi)).astype(np.float64)
        cosines[np.arange(chosen.size), chosen] = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            cosines /= norms * norms[chosen, None]
        cosines[~np.isfinite(cosines)] = 0
        self._seconds += time.perf_counter() - start
        return float(cosines.max()), int(np.count_nonzero(cosines > SIMILAR)), cosines.size

    @cached_property
    def copies(self) -> IntArray:
        """The first of the columns that are multiples of each column, shape (n,), up to rounding errors."""
        start = time.perf_counter()
        norms, first = np.where(self.column_norms > 0, self.column_norms, 1.0), np.arange(self.shape[1])
        rounding = 4 * np.sqrt(self.shape[0]) * epsilon(self.Phi)
        # Multiples have the same cosine with any vector; only columns with equal ones are compared further.
        probe = np.sin(np.arange(1.0, self.shape[0] + 1) ** 2)
        probe /= np.linalg.norm(probe)
        products = namespace(self.Phi).astype(from_numpy(probe, self.Phi), self.Phi.dtype) @ self.Phi
        cosines = np.abs(to_numpy(products)) / norms
        order = np.argsort(cosines, kind="stable")
        apart = np.diff(cosines[order]) > rounding
        alike = [] if apart.all() else np.split(order, np.flatnonzero(apart) + 1)
        for columns in (np.sort(part) for part in alike if 1 < part.size <= ALIKE):
            some = to_numpy(take_rows(self.Phi.T, columns)) / norms[columns, None]
            equal = np.abs(some.conj() @ some.T) >= 1 - rounding
            np.fill_diagonal(equal, True)
            first[columns] = columns[np.argmax(equal, axis=1)]
        self._seconds += time.perf_counter() - start
        return first

    def _divided(self, by: float | FloatArray) -> Operator:
        narrow = by
        if isinstance(by, np.ndarray):
            narrow = namespace(self.Phi).astype(from_numpy(by, self.Phi), real_dtype(self.Phi))
        divided = DenseOperator(self.Phi / narrow, self.rank_tol)
        divided.column_norms = self.column_norms / by
        return divided

    def _factor(self) -> PseudoInverse:
        return SingularVectors(self.Phi, self.rank_tol)

    @cached_property
    def gram_matrix(self) -> Array:
        """Gram matrix Phi^H Phi, shape (n, n), computed on first use and cached."""
        self._check_memory()
        start = time.perf_counter()
        gram = self._conjugate.T @ self.Phi
        self._seconds += time.perf_counter() - start
        return gram

    def _check_memory(self) -> None:
        n = self.shape[1]
        hint = f"This method needs the products of all pairs of its {n} columns; 'vamp' and 'aiht' do not."
        check_size("Phi", (16 if is_complex(self.Phi) else 8) * n * n, hint)

    @cached_property
    def columns(self) -> Array:
        """Transpose of Phi, stored contiguously column after column, as the compiled kernels read it."""
        return contiguous(self.Phi.T)

    @cached_property
    def double_gram_matrix(self) -> Array:
        """Gram matrix computed in double precision, whatever the dtype of Phi."""
        if not is_single(self.Phi):
            return self.gram_matrix
        self._check_memory()
        xp = namespace(self.Phi)
        start = time.perf_counter()
        wide = xp.astype(self.Phi, xp.complex128 if is_complex(self.Phi) else xp.float64)
        gram = conj(wide).T @ wide
        self._seconds += time.perf_counter() - start
        return gram

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        xp = namespace(self.Phi)
        return xp.astype(from_numpy(to_numpy(super()._probe(generate, size)), self.Phi), self.Phi.dtype)
