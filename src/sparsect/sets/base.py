"""Base class of the data sets B. Projections onto them use the image coordinates of Phi's row space."""

from __future__ import annotations

from typing import Any

from ..backend.arrays import Array, namespace, real_dtype
from ..backend.checks import reject, shown
from ..operators.pseudo_inverse import PseudoInverse
from ..problems import Problem


class DataSet:
    """Base class of the data sets B.

    Data sets hold parameters only; :func:`project_data` and the solvers apply them to a problem.

    Attributes
    ----------
    alpha : float or None
        Damping of the correction if it is the same for all rows, otherwise None.

    Examples
    --------
    >>> import sparsect
    >>> sets = [sparsect.Affine(), sparsect.ProximalStep(alpha=0.1), sparsect.Ball()]
    >>> all(isinstance(data_set, sparsect.DataSet) for data_set in sets)
    True
    >>> [data_set.alpha for data_set in sets]
    [0.0, 0.1, None]
    """

    alpha: float | None = None

    def radius(self, problem: Problem, target: Array) -> Array:
        """Compute the residual norm allowed in each row within the range of Phi.

        Parameters
        ----------
        problem : Problem
            Problem to be solved.
        target : array, shape (batch, k)
            The data in image coordinates.

        Returns
        -------
        array, shape (batch,)
            The radii; zero unless a subclass allows a residual.
        """
        return namespace(target).zeros(target.shape[:-1], dtype=real_dtype(target), device=target.device)

    def damping(self, inverse: PseudoInverse, residual: Array, radius: Array) -> Any:
        """Compute the damping alpha of the correction.

        Parameters
        ----------
        inverse : PseudoInverse
            Pseudo-inverse of Phi.
        residual : array, shape (batch, k)
            Residual in image coordinates.
        radius : array, shape (batch,)
            Residual norm allowed in each row.

        Returns
        -------
        float or array, shape (batch, 1)
            The damping, one number for all rows or one for each row.

        Notes
        -----
        The damping is alpha in::

            P_B(x) = x - Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y)
        """
        return self.alpha


def check_data_set(data_set: Any) -> None:
    """Check that ``data_set`` is a data set or None.

    Parameters
    ----------
    data_set : object
        The value to check.

    Raises
    ------
    InputError
        If it is neither.
    """
    if data_set is not None and not isinstance(data_set, DataSet):
        raise reject("data_set", shown(data_set), "Affine(), ProximalStep(alpha), Ball() or None")
