"""The affine set B = {x : Phi x = y}, as in the paper: P_B(x) = x - Phi^+ (Phi x - y)."""

from __future__ import annotations

from dataclasses import dataclass

from .base import DataSet


@dataclass(frozen=True)
class Affine(DataSet):
    """The affine set B = {x : Phi x = y}.

    Where no x satisfies Phi x = y, the set consists of the least-squares solutions.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> Phi, y = np.array([[1.0, 1.0]]), np.array([2.0])
    >>> sparsect.project_data([0.0, 0.0], Phi, y, data_set=sparsect.Affine()).round(6)
    array([1., 1.])
    """

    alpha = 0.0
