"""The samples of a regression, centred, weighted and standardized."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..backend.arrays import FloatArray, IntArray

# Centred columns smaller than this, relative to their largest entry before, are rounding errors of constant columns.
CONSTANT = 1e-13


class Standardized:
    """The columns of an array, centred and divided by their norms, with rows multiplied by the roots of their weights.

    Parameters
    ----------
    array : array, shape (m, k)
        The columns.
    weights : array, shape (m,)
        The weights of the rows.
    centred : bool
        Whether weighted means are subtracted.

    Attributes
    ----------
    means, norms : array, shape (k,)
        The numbers that are subtracted from the columns, and those by which they are divided.
    columns : array, shape (m, k)
        The columns, of norm 1; constant ones are zero.
    """

    def __init__(self, array: FloatArray, weights: FloatArray, centred: bool) -> None:
        self.means = np.average(array, axis=0, weights=weights) if centred else np.zeros(array.shape[1])
        self.columns = np.sqrt(weights)[:, None] * (array - self.means)
        self.norms = np.sqrt(np.einsum("ij,ij->j", self.columns, self.columns))
        constant = self.norms <= CONSTANT * weights.sum() ** 0.5 * np.max(np.abs(array), axis=0)
        self.norms[constant] = 1.0
        self.columns /= self.norms
        self.columns[:, constant] = 0.0


@dataclass(frozen=True, eq=False)
class Samples:
    """Features and targets with the weights of the samples.

    Attributes
    ----------
    X : array, shape (m, n)
        The features.
    Y : array, shape (m, targets)
        The targets.
    weights : array, shape (m,)
        The weights, which count as repetitions of samples.
    intercept : bool
        Whether the model has an intercept.
    """

    X: FloatArray
    Y: FloatArray
    weights: FloatArray
    intercept: bool

    @cached_property
    def features(self) -> Standardized:
        """The standardized features."""
        return Standardized(self.X, self.weights, self.intercept)

    @cached_property
    def targets(self) -> Standardized:
        """The standardized targets."""
        return Standardized(self.Y, self.weights, self.intercept)

    def take(self, rows: IntArray) -> Samples:
        """Return some of the samples.

        Parameters
        ----------
        rows : array of int
            Their numbers.

        Returns
        -------
        Samples
            These samples.
        """
        return Samples(self.X[rows], self.Y[rows], self.weights[rows], self.intercept)

    def model(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and intercepts in the units of the samples.

        Parameters
        ----------
        x : array, shape (..., targets, n)
            Coefficients of the standardized features for the standardized targets.

        Returns
        -------
        coef : array, shape (..., targets, n)
            The coefficients.
        intercept : array, shape (..., targets)
            The intercepts.
        """
        coef = x * self.targets.norms[:, None] / self.features.norms
        return coef, self.targets.means - coef @ self.features.means
