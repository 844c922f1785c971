"""What is asked of x? One small file for each set, with its projection."""

from .affine import Affine
from .ball import Ball
from .base import DataSet
from .data import DataProjection, project_data
from .relaxed import Relaxed
from .sparse import project_sparse

__all__ = ["Affine", "Ball", "DataProjection", "DataSet", "Relaxed", "project_data", "project_sparse"]
