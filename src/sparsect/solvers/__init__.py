"""One file per algorithm; this one lists them by the name that ``recover(method=...)`` takes."""

from typing import Any

from .admm import ADMM
from .aiht import AcceleratedHardThresholding, NormalizedHardThresholding
from .alternating_map import AlternatingMap
from .annealed.solver import AnnealedDifferenceMap
from .difference_map import DifferenceMap
from .irls import IRLS
from .lars import LeastAngleRegression
from .omp import OrderRecursiveMatchingPursuit, OrthogonalMatchingPursuit
from .stomp import FalseAlarm, FalseDiscovery, StagewiseOMP
from .subspace_pursuit import SubspacePursuit
from .vamp import VectorAMP

METHODS: dict[str, Any] = {
    solver.name: solver
    for solver in (
        AnnealedDifferenceMap,
        DifferenceMap,
        AlternatingMap,
        ADMM,
        IRLS,
        LeastAngleRegression,
        StagewiseOMP,
        AcceleratedHardThresholding,
        NormalizedHardThresholding,
        SubspacePursuit,
        OrthogonalMatchingPursuit,
        OrderRecursiveMatchingPursuit,
        VectorAMP,
    )
}

__all__ = [
    "ADMM",
    "IRLS",
    "METHODS",
    "AcceleratedHardThresholding",
    "AlternatingMap",
    "AnnealedDifferenceMap",
    "DifferenceMap",
    "FalseAlarm",
    "FalseDiscovery",
    "LeastAngleRegression",
    "NormalizedHardThresholding",
    "OrderRecursiveMatchingPursuit",
    "OrthogonalMatchingPursuit",
    "StagewiseOMP",
    "SubspacePursuit",
    "VectorAMP",
]
