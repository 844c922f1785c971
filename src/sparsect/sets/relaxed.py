"""A proximal step towards {Phi x = y}: x - Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y)."""

from __future__ import annotations

from dataclasses import dataclass

from ..backend.checks import settle_number
from .base import DataSet


@dataclass(frozen=True)
class Relaxed(DataSet):
    """Proximal step towards {x : Phi x = y}, a relaxed form of the affine set.

    The step is not a projection but the proximal map of ||Phi x - y||^2 / (2 alpha). It changes x little in
    directions where Phi is weak, that is, whose squared singular values are below ``alpha``.

    Parameters
    ----------
    alpha : float
        Damping, at least 0. At 0 the step is the projection onto the affine set.

    Notes
    -----
    The step is::

        x - Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y)

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> Phi, y = np.array([[1.0, 0.0]]), np.array([4.0])
    >>> sparsect.project_data([0.0, 0.0], Phi, y, data_set=sparsect.Relaxed(alpha=1.0)).round(6)
    array([2., 0.])
    """

    alpha: float

    def __post_init__(self) -> None:
        settle_number(self, "alpha", "a number of at least 0", low=0.0)
