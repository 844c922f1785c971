"""What is Phi? Dense, sparse, matrix-free, samples of a fast transform; and how a residual goes back through it."""

from .base import DenseOperator, MatrixFree, Operator, SparseOperator, as_operator
from .subsampled import SubsampledDCT, SubsampledFourier

__all__ = [
    "DenseOperator",
    "MatrixFree",
    "Operator",
    "SparseOperator",
    "SubsampledDCT",
    "SubsampledFourier",
    "as_operator",
]
