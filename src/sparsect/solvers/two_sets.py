"""What the Difference Map and the Alternating Map have in common: the set B, and what depends on its kind."""

from __future__ import annotations

from ..backend.arrays import Array
from ..backend.norms import norm
from ..problems import Problem
from ..sets import DataSet, Relaxed
from ..sets.own import OwnData, as_data_set
from .base import Solver


class TwoSetMap(Solver):
    """Base class of maps that project onto both sets.

    Attributes
    ----------
    data_set : DataSet or None
        The set B; None for Ball if the problem has a ``noise_norm``, otherwise Affine.
    """

    data_set: DataSet | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_set", as_data_set("data_set", self.data_set))

    @property
    def scale_free(self) -> bool:
        """Whether the settings of B do not depend on the units of the data."""
        return not isinstance(self.data_set, Relaxed | OwnData)

    @property
    def scales_columns(self) -> bool:
        """Whether B does not have units of its own."""
        return not isinstance(self.data_set, OwnData)

    def misfit(self, problem: Problem, x: Array) -> Array:
        """Return the norm of the residual or, for a set B of the user's own, the distance of x to it."""
        if not isinstance(self.data_set, OwnData):
            return super().misfit(problem, x)
        return norm(x - self.data_set.nearest(x, problem.y, problem.times))
