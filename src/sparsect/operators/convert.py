"""Anything that can be Phi as an Operator."""

from __future__ import annotations

from typing import Any

from ..backend.checks import reject, shown
from .base import Operator
from .dense import DenseOperator
from .matrix_free import MatrixFree
from .sparse import SparseOperator


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
