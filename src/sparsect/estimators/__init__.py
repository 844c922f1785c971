"""scikit-learn estimators."""

from .estimators import DictionaryLearner, SparseCoder

__all__ = ["DictionaryLearner", "SparseCoder"]
