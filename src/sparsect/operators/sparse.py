"""Operator given as a SciPy sparse matrix."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from ..backend.array_checks import check_indices, check_magnitude, floating
from ..backend.arrays import Array, FloatArray, epsilon
from ..backend.checks import reject
from .base import Operator
from .host import HostOperator, through_columns
from .pseudo_inverse import PseudoInverse, SingularVectors


class SparseOperator(HostOperator):
    """Operator given as a ``scipy.sparse`` matrix or array.

    A matrix of up to ``SMALL`` entries, zeros included, is factored like a dense one, which is faster than an
    iterative solver.

    Parameters
    ----------
    Phi : SciPy sparse matrix or array, shape (m, n)
        The matrix, in any sparse format.
    rank_tol : float, optional
        Singular values up to ``rank_tol`` times the largest one count as zero. The default is max(m, n) times the
        machine epsilon of the dtype of ``Phi``.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> import sparsect
    >>> operator = sparsect.SparseOperator(scipy.sparse.eye_array(3, 5, format="csr"))
    >>> operator.adjoint(np.ones((1, 3)))
    array([[1., 1., 1., 0., 0.]])
    """

    SMALL = 2**20

    def __init__(self, Phi: Any, rank_tol: float | None = None) -> None:
        if not hasattr(Phi, "tocsr") or len(Phi.shape) != 2 or 0 in Phi.shape:
            received = f"{type(Phi).__name__} of shape {getattr(Phi, 'shape', None)}"
            raise reject("Phi", received, "a SciPy sparse matrix with at least one row and one column")
        try:
            check_indices(Phi)
        except ValueError as error:
            raise reject("Phi", f"a damaged sparse matrix ({error})", "have indices within its shape") from None
        rows = Phi.tocsr()
        # tocsr returns a CSR matrix itself, not a copy: build a new matrix so that the caller's is not changed.
        self.Phi = type(rows)((floating("Phi", rows.data), rows.indices, rows.indptr), shape=rows.shape)
        if self.Phi.nnz:
            check_magnitude("Phi", self.Phi.data[None, :])
        self.dtype = self.Phi.data.dtype
        self.shape = self.Phi.shape
        self._adjoint = self.Phi.conj().T.tocsr()
        # The rank is that of the original Phi, whatever the working precision.
        self.rank_tol = max(self.shape) * epsilon(self.Phi.data) if rank_tol is None else rank_tol
        self._promoted: dict[str, SparseOperator] = {}

    def forward(self, x: Array) -> Array:
        """Compute Phi x for every row of ``x``, as a sparse product."""
        return through_columns(self.Phi.__matmul__, x)

    def adjoint(self, r: Array) -> Array:
        """Compute Phi^H r for every row of ``r``, as a sparse product."""
        return through_columns(self._adjoint.__matmul__, r)

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Convert Phi and ``y`` to a common dtype.

        The converted operator is cached, so that Phi is factored only once per dtype.
        """
        _, y = super().prepared(y)
        if y.dtype == self.dtype:
            return self, y
        if y.dtype.name not in self._promoted:
            self._promoted[y.dtype.name] = SparseOperator(self.Phi.astype(y.dtype), self.rank_tol)
        return self._promoted[y.dtype.name], y

    @cached_property
    def column_energy(self) -> float:
        """Mean squared norm of the columns of Phi, or 1 if Phi is zero."""
        return float(np.sum(np.abs(self.Phi.data) ** 2)) / self.shape[1] or 1.0

    @cached_property
    def column_norms(self) -> FloatArray:
        """Norms of the columns of Phi in double precision, shape (n,)."""
        squares = np.abs(self.Phi.data).astype(np.float64) ** 2
        return np.sqrt(np.bincount(self.Phi.indices, weights=squares, minlength=self.shape[1]))

    def _divided(self, by: float | FloatArray) -> Operator:
        divisors = np.broadcast_to(np.asarray(by), self.shape[1])[self.Phi.indices]
        data = (self.Phi.data / divisors).astype(self.dtype)
        scaled = type(self.Phi)((data, self.Phi.indices, self.Phi.indptr), shape=self.shape)
        return SparseOperator(scaled, self.rank_tol)

    def _factor(self) -> PseudoInverse:
        if math.prod(self.shape) > self.SMALL:
            return super()._factor()
        return SingularVectors(self.Phi.toarray(), self.rank_tol)
