"""Dictionaries: sources of signals, learning, sparse coding and files."""

from .learning import Progress, learn
from .sources import ArraySource, DaskSource, Source
from .statistics import Statistics
from .store import Dictionary, as_dictionary, list_dictionaries, load_dictionary

__all__ = [
    "ArraySource",
    "DaskSource",
    "Dictionary",
    "Progress",
    "Source",
    "Statistics",
    "as_dictionary",
    "learn",
    "list_dictionaries",
    "load_dictionary",
]
