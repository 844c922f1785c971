"""One file per algorithm; this one lists them by the name that ``recover(method=...)`` takes."""

from .alternating_map import AlternatingMap
from .difference_map import DifferenceMap

METHODS = {solver.name: solver for solver in (DifferenceMap, AlternatingMap)}

__all__ = ["METHODS", "AlternatingMap", "DifferenceMap"]
