"""Sparse recovery and sparse coding as a search for a point in the intersection of two sets.

Given a matrix Phi and data y, :func:`recover` finds x with at most s nonzeros and Phi x close to y. A batch of
signals is an array with one signal in each row.

Examples
--------
>>> import sparsect
>>> problem = sparsect.random_problem(100, 200, 5, batch=3, rng=0)
>>> result = sparsect.recover(problem.Phi, problem.y, 5)
>>> result.x.shape
(3, 200)
>>> float(sparsect.support_recall(problem.x, result.x).min())
1.0
"""

from .backend import interrupts  # noqa: F401  imported first, so that Ctrl-C is handled during the other imports

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .backend.checks import ConvergenceWarning, InputError, PoorFitWarning
from .backend.devices import gpu_options
from .dictionary import Dictionary, list_dictionaries, load_dictionary
from .metrics import mse, snr_db, support_recall
from .operators import DenseOperator, MatrixFree, Operator, SparseOperator, as_operator
from .operators.subsampled import SubsampledDCT, SubsampledFourier
from .problems import Problem, random_problem
from .projections import project_data, project_sparse
from .recover import recover
from .run import Snapshot, solve
from .run.result import Result, load_result
from .sets import Affine, Ball, DataSet, Relaxed, SignalSet
from .solvers import (
    ADMM,
    IRLS,
    METHODS,
    AcceleratedIHT,
    AlternatingMap,
    AnnealedDifferenceMap,
    Automatic,
    DifferenceMap,
    FalseAlarmRate,
    FalseDiscoveryRate,
    LeastAngleRegression,
    NormalizedIHT,
    OrderRecursiveMatchingPursuit,
    OrthogonalMatchingPursuit,
    StagewiseOMP,
    SubspacePursuit,
    SupportSampler,
    VectorAMP,
)
from .solvers.base import Requirement, Solver, State

if TYPE_CHECKING:
    from . import dictionary, images, sets, tuning

__version__ = "0.2.0"

__all__ = [
    "ADMM",
    "IRLS",
    "METHODS",
    "AcceleratedIHT",
    "Affine",
    "AlternatingMap",
    "AnnealedDifferenceMap",
    "Automatic",
    "Ball",
    "ConvergenceWarning",
    "DataSet",
    "DenseOperator",
    "Dictionary",
    "DictionaryLearner",
    "DifferenceMap",
    "FalseAlarmRate",
    "FalseDiscoveryRate",
    "InputError",
    "LeastAngleRegression",
    "MatrixFree",
    "NormalizedIHT",
    "Operator",
    "OrderRecursiveMatchingPursuit",
    "OrthogonalMatchingPursuit",
    "PoorFitWarning",
    "Problem",
    "Relaxed",
    "Requirement",
    "Result",
    "SignalSet",
    "Snapshot",
    "Solver",
    "SparseCoder",
    "SparseOperator",
    "SparseRegressor",
    "SparseRegressorCV",
    "StagewiseOMP",
    "State",
    "SubsampledDCT",
    "SubsampledFourier",
    "SubspacePursuit",
    "SupportSampler",
    "VectorAMP",
    "as_operator",
    "dictionary",
    "gpu_options",
    "images",
    "list_dictionaries",
    "load_dictionary",
    "load_result",
    "mse",
    "project_data",
    "project_sparse",
    "random_problem",
    "recover",
    "sets",
    "snr_db",
    "solve",
    "support_recall",
    "tuning",
]


def __getattr__(name: str) -> Any:
    """Load images, tuning and the estimators on first use; the estimators import scikit-learn."""
    if name in ("images", "tuning"):
        return import_module(f".{name}", __name__)
    if name in ("DictionaryLearner", "SparseCoder", "SparseRegressor", "SparseRegressorCV"):
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, those loaded on first use included, and no names that this module imports for itself."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__") and name.endswith("__"))})
