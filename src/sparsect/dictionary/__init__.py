"""Learning Phi from data: sparse-code, update, repeat."""

from .learning import Progress, Statistics, learn
from .sources import ArraySource, PatchSource, Source
from .store import Dictionary, load_dictionary

__all__ = [
    "ArraySource",
    "Dictionary",
    "PatchSource",
    "Progress",
    "Source",
    "Statistics",
    "learn",
    "load_dictionary",
]
