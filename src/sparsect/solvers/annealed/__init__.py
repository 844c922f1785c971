"""The annealed Difference Map: schedule, search, message passing and solver."""

from .solver import AnnealedDifferenceMap

__all__ = ["AnnealedDifferenceMap"]
