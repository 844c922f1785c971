"""What is asked of x? One file a set, each with its projection."""

from .projections import (
    Affine,
    Ball,
    DataProjection,
    DataSet,
    Relaxed,
    advance,
    keep_largest,
    project_data,
    project_sparse,
)

__all__ = [
    "Affine",
    "Ball",
    "DataProjection",
    "DataSet",
    "Relaxed",
    "advance",
    "keep_largest",
    "project_data",
    "project_sparse",
]
