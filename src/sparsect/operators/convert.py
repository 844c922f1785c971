"""Conversion of arrays, sparse matrices and LinearOperators to Operator."""

from __future__ import annotations

import math
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike

from ..backend.checks import reject, shown
from .base import Operator
from .dense import DenseOperator
from .matrix_free import MatrixFree
from .sparse import SparseOperator


class LinearMap(Protocol):
    """A linear map of SciPy or PyLops, of which only products are known."""

    @property
    def shape(self) -> Any:
        """Numbers of rows and columns."""

    def matmat(self, x: Any, /) -> Any:
        """Return the products with the columns of ``x``."""

    def rmatmat(self, r: Any, /) -> Any:
        """Return the products of the adjoint with the columns of ``r``."""


class SparseMatrix(Protocol):
    """A sparse matrix of SciPy."""

    def tocsr(self) -> Any:
        """Return the matrix in compressed rows."""


Matrix: TypeAlias = Operator | ArrayLike | LinearMap | SparseMatrix


def as_operator(Phi: Matrix, frame_bound: float | None = None) -> Operator:
    """Convert Phi to an :class:`Operator`.

    Wrap Phi once and pass the operator to several calls to factor it only once. A sparse matrix of up to
    ``SparseOperator.SMALL`` entries, zeros included, becomes a dense one, for which more methods exist.

    Parameters
    ----------
    Phi : array, SciPy sparse matrix, LinearOperator or Operator, shape (m, n)
        The linear map. An Operator is returned unchanged.
    frame_bound : float, optional
        The constant c if Phi Phi^H = c I holds. Accepted for a LinearOperator only.

    Returns
    -------
    Operator
        A :class:`MatrixFree`, :class:`SparseOperator` or :class:`DenseOperator`, or ``Phi`` itself.

    Raises
    ------
    InputError
        If Phi is none of these, or if ``frame_bound`` is given for something other than a LinearOperator.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> operator = sparsect.as_operator(np.eye(3, 5))
    >>> type(operator).__name__, operator.shape
    ('DenseOperator', (3, 5))
    >>> sparsect.as_operator(operator) is operator
    True
    """
    if isinstance(Phi, Operator):
        return Phi
    if hasattr(Phi, "matmat") and hasattr(Phi, "rmatmat"):
        return MatrixFree(Phi, frame_bound)
    if frame_bound is not None:
        raise reject(
            "frame_bound", f"{shown(frame_bound)} with {type(Phi).__name__}", "given for a LinearOperator only"
        )
    if not hasattr(Phi, "tocsr"):
        return DenseOperator(Phi)
    operator = SparseOperator(Phi)
    return DenseOperator(operator.Phi.toarray()) if math.prod(operator.shape) <= SparseOperator.SMALL else operator
