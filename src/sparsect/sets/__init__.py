"""The sets whose intersection contains the solutions: A, the allowed signals, and B, the points that fit the data."""

from .affine import Affine
from .ball import Ball
from .base import DataSet, SignalSet
from .groups import GroupSparse
from .joint import JointSparse
from .levels import LevelSparse
from .relaxed import Relaxed
from .sparse import Sparse

__all__ = [
    "Affine",
    "Ball",
    "DataSet",
    "GroupSparse",
    "JointSparse",
    "LevelSparse",
    "Relaxed",
    "SignalSet",
    "Sparse",
]
