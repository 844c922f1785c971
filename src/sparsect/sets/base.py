"""What is a data set B, and how is it projected onto in the image coordinates of Phi's row space?"""

from __future__ import annotations

from typing import Any

from ..backend.arrays import Array, namespace, real_dtype
from ..backend.checks import reject, shown
from ..operators.row_space import RowSpace
from ..problems import Problem


class DataSet:
    """A form of the set B, as configuration.

    ``alpha`` says how gently a residual is pulled to zero where that is the same for all rows; it is None otherwise.
    """

    alpha: float | None = None

    def radius(self, problem: Problem, target: Array) -> Array:
        """Residual norm each row is left within the range of Phi, the data being ``target`` in image coordinates."""
        return namespace(target).zeros(target.shape[:-1], dtype=real_dtype(target), device=target.device)

    def damping(self, space: RowSpace, residual: Array, radius: Array) -> Any:
        """alpha in P_B(x) = x - Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y): a number, or one for each row."""
        return self.alpha


def check_data_set(data_set: Any) -> None:
    """Refuse what is no form of B."""
    if data_set is not None and not isinstance(data_set, DataSet):
        raise reject("data_set", shown(data_set), "Affine(), ProximalStep(alpha), Ball() or None")
