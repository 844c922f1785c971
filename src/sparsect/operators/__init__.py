"""Linear operators: dense, sparse, matrix-free and subsampled fast transforms, with their pseudo-inverses."""

from .base import Operator
from .convert import as_operator
from .dense import DenseOperator
from .matrix_free import MatrixFree
from .repeated import Repeated
from .sparse import SparseOperator
from .subsampled import SubsampledDCT, SubsampledFourier

__all__ = [
    "DenseOperator",
    "MatrixFree",
    "Operator",
    "Repeated",
    "SparseOperator",
    "SubsampledDCT",
    "SubsampledFourier",
    "as_operator",
]
