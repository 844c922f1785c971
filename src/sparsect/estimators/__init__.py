"""Estimators for scikit-learn: sparse coding with a dictionary, and dictionary learning."""

from .coder import SparseCoder
from .learner import DictionaryLearner

__all__ = ["DictionaryLearner", "SparseCoder"]
