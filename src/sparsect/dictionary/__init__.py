"""Learning Phi from data: sparse-code, update, repeat."""

from .learning import LearnedDictionary, Statistics, learn
from .sources import ArraySource, PatchSource, Source

__all__ = ["ArraySource", "LearnedDictionary", "PatchSource", "Source", "Statistics", "learn"]
