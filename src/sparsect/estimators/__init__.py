"""Estimators for scikit-learn: sparse coding, dictionary learning, and regression on few features."""

from .coder import SparseCoder
from .learner import DictionaryLearner
from .regressor import SparseRegressor
from .regressor_cv import SparseRegressorCV

__all__ = ["DictionaryLearner", "SparseCoder", "SparseRegressor", "SparseRegressorCV"]
