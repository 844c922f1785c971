"""What is asked of x? One small file for each set, with its projection."""

from .affine import Affine
from .ball import Ball
from .base import DataSet, check_data_set
from .data import DataProjection, project_data
from .relaxed import ProximalStep
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
