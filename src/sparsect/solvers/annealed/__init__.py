"""The annealed Difference Map."""

from .solver import AnnealedDifferenceMap

__all__ = ["AnnealedDifferenceMap"]
