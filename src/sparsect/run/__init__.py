"""The one loop: start, step, stop, record, save, judge; and what comes out of it."""

from .loop import Snapshot, solve
from .result import Result, load_result

__all__ = ["Result", "Snapshot", "load_result", "solve"]
