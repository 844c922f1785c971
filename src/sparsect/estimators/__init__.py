"""scikit-learn estimators: code signals with a dictionary, learn one."""

from .coder import SparseCoder
from .learner import DictionaryLearner

__all__ = ["DictionaryLearner", "SparseCoder"]
