"""The default method: easy rows, the plan of a run, and the solver."""

from .solver import Automatic

__all__ = ["Automatic"]
