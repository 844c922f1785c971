"""The solvers, one module each, and ``METHODS``, which maps the names for ``recover(method=...)`` to them."""

from typing import Literal

from .admm import ADMM
from .aiht import AcceleratedIHT, NormalizedIHT
from .alternating_map import AlternatingMap
from .annealed.solver import AnnealedDifferenceMap
from .automatic import Automatic
from .base import Solver
from .difference_map import DifferenceMap
from .irls import IRLS
from .lars import LeastAngleRegression
from .omp import OrderRecursiveMatchingPursuit, OrthogonalMatchingPursuit
from .stomp import FalseAlarmRate, FalseDiscoveryRate, StagewiseOMP
from .subspace_pursuit import SubspacePursuit
from .support_sampler import SupportSampler
from .vamp import VectorAMP

# The names of the methods, for type checkers and completion.
MethodName = Literal[
    "auto",
    "annealed-difference-map",
    "difference-map",
    "alternating-map",
    "admm",
    "irls",
    "lars",
    "stomp",
    "aiht",
    "niht",
    "subspace-pursuit",
    "omp",
    "ormp",
    "vamp",
    "support-sampler",
]

METHODS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        Automatic,
        AnnealedDifferenceMap,
        DifferenceMap,
        AlternatingMap,
        ADMM,
        IRLS,
        LeastAngleRegression,
        StagewiseOMP,
        AcceleratedIHT,
        NormalizedIHT,
        SubspacePursuit,
        OrthogonalMatchingPursuit,
        OrderRecursiveMatchingPursuit,
        VectorAMP,
        SupportSampler,
    )
}

__all__ = [
    "ADMM",
    "IRLS",
    "METHODS",
    "AcceleratedIHT",
    "AlternatingMap",
    "AnnealedDifferenceMap",
    "Automatic",
    "DifferenceMap",
    "FalseAlarmRate",
    "FalseDiscoveryRate",
    "LeastAngleRegression",
    "MethodName",
    "NormalizedIHT",
    "OrderRecursiveMatchingPursuit",
    "OrthogonalMatchingPursuit",
    "StagewiseOMP",
    "SubspacePursuit",
    "SupportSampler",
    "VectorAMP",
]
