"""The loop shared by all solvers: start, step, stop, record, save, check the fit; and its result."""

from .loop import Snapshot, solve
from .result import Result, load_result

__all__ = ["Result", "Snapshot", "load_result", "solve"]
