"""The sets whose intersection contains the solutions: A, what x may look like, and B, the points that fit the data."""

from .affine import Affine
from .ball import Ball
from .base import DataSet, SignalSet
from .data import DataProjection, data_projection
from .groups import GroupSparse
from .joint import JointSparse
from .levels import LevelSparse
from .own import OwnData, as_data_set, as_structure
from .relaxed import Relaxed
from .sparse import Sparse

__all__ = [
    "Affine",
    "Ball",
    "DataProjection",
    "DataSet",
    "GroupSparse",
    "JointSparse",
    "LevelSparse",
    "OwnData",
    "Relaxed",
    "SignalSet",
    "Sparse",
    "as_data_set",
    "as_structure",
    "data_projection",
]
