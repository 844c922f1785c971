"""Phi as a two-dimensional array of any array library."""

from __future__ import annotations

import time
from functools import cached_property

import numpy as np

from ..backend.arrays import (
    Array,
    check_magnitude,
    conj,
    contiguous,
    epsilon,
    floating,
    from_numpy,
    is_complex,
    is_single,
    namespace,
)
from ..backend.checks import InputError, real_number, reject
from .base import Operator
from .row_space import RowSpace, SingularVectors


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
