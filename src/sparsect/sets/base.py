"""Base classes of the two kinds of sets: A, the allowed signals, and B, the points that agree with the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from ..backend.array_checks import floating
from ..backend.arrays import Array, is_complex, namespace, real_dtype
from ..backend.checks import reject
from ..kernels.thresholding import Structure, project
from ..operators import Operator
from ..operators.pseudo_inverse import PseudoInverse


class SignalSet(ABC):
    """Base class of the sets A, which contain the allowed signals.

    A set of your own need not derive from this class: it is any object with a method ``project(x)``, which returns the
    nearest point of the set for every row of x, and an attribute ``size``, the largest number of nonzeros.

    Examples
    --------
    >>> import sparsect
    >>> from sparsect import sets
    >>> isinstance(sets.Sparse(3, nonnegative=True), sparsect.SignalSet)
    True
    """

    @abstractmethod
    def structure(self, n: int) -> Structure:
        """Return the form of the set that the kernels use.

        Parameters
        ----------
        n : int
            The number of entries of x.

        Returns
        -------
        Structure
            The structure of its points.

        Raises
        ------
        InputError
            If the set does not fit vectors of this length.
        """

    def project(self, x: Any) -> Array:
        """Project every row of ``x`` onto the set.

        Among points that are equally near, the one that keeps the entries with the lowest indices is chosen.

        Parameters
        ----------
        x : array, shape (..., n)
            Points to project, one per row.

        Returns
        -------
        array, shape (..., n)
            The nearest points of the set.
        """
        x = floating("x", x)
        if x.ndim == 0:
            raise reject("x", "a number", "an array with at least one dimension")
        structure, xp = self.structure(x.shape[-1]), namespace(x)
        if structure.bounded and is_complex(x):
            raise reject("x", "complex numbers", "real numbers, because entries have bounds")
        if not structure.grouped:
            return project(x, structure)
        # Squares of very large or small entries leave the range of the dtype.
        largest = xp.max(xp.abs(x), axis=-1, keepdims=True)
        unit = xp.where(largest > 0, largest, xp.ones_like(largest))
        return xp.where(project(x / unit, structure) != 0, x, xp.zeros_like(x))


class OwnSignalSet(Protocol):
    """A set of the user's own that contains x."""

    @property
    def size(self) -> int:
        """The largest number of nonzeros."""

    def project(self, x: Any, /) -> Any:
        """Return the nearest point of the set for every row of ``x``."""


class OwnDataSet(Protocol):
    """A set of the user's own of points that agree with the data."""

    def project(self, x: Any, y: Any, /) -> Any:
        """Return the nearest point that agrees with ``y`` for every row of ``x``.

        For joint supports, x has shape (batch, times, n) and y has shape (batch, times, m).
        """


class Measurements(Protocol):
    """The parts of a problem that data sets can use.

    Attributes
    ----------
    operator : Operator
        Phi.
    y : array, shape (batch, m)
        The data.
    noise_norm : array, shape (batch,), or None
        The norm of the noise.
    times : int or None
        The number of measurements with the same support, for joint supports.
    """

    operator: Operator
    y: Array
    noise_norm: Array | None
    times: int | None

    @property
    def sparsity(self) -> int:
        """The largest number of nonzeros."""


class DataSet:
    """Base class of the data sets B.

    Data sets hold parameters only; :func:`project_data` and the solvers apply them to a problem.

    Attributes
    ----------
    alpha : float or None
        Damping of the correction if it is the same for all rows, otherwise None.

    Examples
    --------
    >>> from sparsect import sets
    >>> kinds = [sets.Affine(), sets.Relaxed(alpha=0.1), sets.Ball()]
    >>> all(isinstance(data_set, sets.DataSet) for data_set in kinds)
    True
    >>> [data_set.alpha for data_set in kinds]
    [0.0, 0.1, None]
    """

    alpha: float | None = None

    def radius(self, problem: Measurements, target: Array) -> Array:
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
