"""Sparse recovery and sparse coding as a search for a point in the intersection of two sets."""

from .algorithm import Need, Solver, State
from .checks import ConvergenceWarning, InputError
from .metrics import mse, snr_db, support_recovery
from .operators import (
    DenseOperator,
    MatrixFree,
    Operator,
    SparseOperator,
    as_operator,
)
from .problems import Problem, random_problem
from .projections import Affine, Ball, DataSet, Relaxed, project_data, project_sparse
from .recover import recover
from .result import Result, load_result
from .solve import Snapshot, solve
from .solvers import (
    ADMM,
    IRLS,
    METHODS,
    AcceleratedHardThresholding,
    AlternatingMap,
    DifferenceMap,
    FalseAlarm,
    FalseDiscovery,
    LeastAngleRegression,
    NormalizedHardThresholding,
    OrderRecursiveMatchingPursuit,
    OrthogonalMatchingPursuit,
    StagewiseOMP,
    SubspacePursuit,
    VectorAMP,
)
from .subsampled import SubsampledDCT, SubsampledFourier

__version__ = "0.1.0"

__all__ = [
    "ADMM",
    "IRLS",
    "METHODS",
    "AcceleratedHardThresholding",
    "Affine",
    "AlternatingMap",
    "Ball",
    "ConvergenceWarning",
    "DataSet",
    "DenseOperator",
    "DifferenceMap",
    "FalseAlarm",
    "FalseDiscovery",
    "InputError",
    "LeastAngleRegression",
    "MatrixFree",
    "Need",
    "NormalizedHardThresholding",
    "Operator",
    "OrderRecursiveMatchingPursuit",
    "OrthogonalMatchingPursuit",
    "Problem",
    "Relaxed",
    "Result",
    "Snapshot",
    "Solver",
    "SparseOperator",
    "StagewiseOMP",
    "State",
    "SubsampledDCT",
    "SubsampledFourier",
    "SubspacePursuit",
    "VectorAMP",
    "as_operator",
    "load_result",
    "mse",
    "project_data",
    "project_sparse",
    "random_problem",
    "recover",
    "snr_db",
    "solve",
    "support_recovery",
]
