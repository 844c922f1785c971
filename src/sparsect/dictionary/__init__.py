"""Learning Phi from data: sparse-code, update, repeat."""

from .learning import Progress, Statistics, learn
from .sources import ArraySource, DaskSource, PatchSource, Source
from .store import Dictionary, as_dictionary, load_dictionary

__all__ = [
    "ArraySource",
    "DaskSource",
    "Dictionary",
    "PatchSource",
    "Progress",
    "Source",
    "Statistics",
    "as_dictionary",
    "learn",
    "load_dictionary",
]
