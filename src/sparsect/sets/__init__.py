"""The sets whose intersection contains the solutions, and the projections onto them."""

from .affine import Affine
from .ball import Ball
from .base import DataSet, check_data_set
from .data import DataProjection, project_data
from .proximal_step import ProximalStep
from .sparse import project_sparse

__all__ = [
    "Affine",
    "Ball",
    "DataProjection",
    "DataSet",
    "ProximalStep",
    "check_data_set",
    "project_data",
    "project_sparse",
]
