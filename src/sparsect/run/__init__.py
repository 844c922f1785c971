"""The loop shared by all solvers: start, step, stop, record, save, check the fit; and its result."""

from .loop import solve
from .result import Result, load_result
from .snapshot import Snapshot

__all__ = ["Result", "Snapshot", "load_result", "solve"]
