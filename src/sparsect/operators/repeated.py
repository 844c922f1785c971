"""The same operator for several measurements at a time: a block-diagonal matrix, each block of which is Phi."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from ..backend.arrays import Array, FloatArray, namespace
from ..backend.norms import norm
from .base import Operator
from .pseudo_inverse import PseudoInverse, SingularVectors


class Repeated(Operator):
    """The operator that applies Phi to each of several parts of a row.

    Parameters
    ----------
    operator : Operator
        The operator Phi, of shape (m, n).
    times : int
        The number of parts. The shape is (times m, times n).

    Attributes
    ----------
    times : int
        The number of parts.
    """

    def __init__(self, operator: Operator, times: int) -> None:
        m, n = operator.shape
        self._inner, self.times, self.shape = operator, times, (times * m, times * n)
        self.frame_bound = operator.frame_bound

    @property
    def inner(self) -> Operator:
        """The operator Phi."""
        return self._inner

    @property
    def Phi(self) -> Any:
        """The array, sparse matrix or LinearOperator that is applied to each part."""
        return self.inner.Phi

    def forward(self, x: Array) -> Array:
        """Compute Phi x for every part of every row of ``x``."""
        return joined(self.inner.forward(split(x, self.times)))

    def adjoint(self, r: Array) -> Array:
        """Compute Phi^H r for every part of every row of ``r``."""
        return joined(self.inner.adjoint(split(r, self.times)))

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Convert Phi and ``y`` to a common dtype."""
        xp = namespace(y)
        operator, _ = self.inner.prepared(xp.reshape(y, (-1, self.inner.shape[0])))
        converted = self if operator is self.inner else Repeated(operator, self.times)
        return converted, xp.astype(y, operator.prepared(y[:1, : operator.shape[0]])[1].dtype, copy=False)

    @property
    def factor_seconds(self) -> float:
        """Time spent so far on computations that depend on Phi alone, in seconds."""
        return self.inner.factor_seconds

    @cached_property
    def column_energy(self) -> float:
        """Mean squared norm of the columns of Phi, or 1 if Phi is zero."""
        return self.inner.column_energy

    @cached_property
    def column_norms(self) -> FloatArray:
        """Norms of the columns, those of Phi once for each part."""
        return np.tile(self.inner.column_norms, self.times)

    @cached_property
    def unit_columns(self) -> Operator:
        """The operator with columns of norm 1."""
        scaled = self.inner.unit_columns
        return self if scaled is self.inner else Repeated(scaled, self.times)

    @cached_property
    def to_scale(self) -> Operator:
        """The operator divided by its unit."""
        scaled = self.inner.to_scale
        return self if scaled is self.inner else Repeated(scaled, self.times)

    def _factor(self) -> PseudoInverse:
        inverse = self.inner.pseudo_inverse
        return RepeatedVectors(inverse, self.times) if isinstance(inverse, SingularVectors) else super()._factor()

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        parts = [self.inner._probe(generate, size // self.times) for _ in range(self.times)]
        return namespace(parts[0]).concat(parts, axis=-1)


class RepeatedVectors(SingularVectors):
    """The pseudo-inverse of the repeated operator, by the singular vectors of Phi.

    Parameters
    ----------
    inverse : SingularVectors
        The pseudo-inverse of Phi.
    times : int
        The number of parts of a row.
    """

    def __init__(self, inverse: SingularVectors, times: int) -> None:
        self._inverse, self._times = inverse, times
        self.rank = times * inverse.rank
        self.singular_values = namespace(inverse.singular_values).tile(inverse.singular_values, (times,))

    @property
    def basis(self) -> tuple[Array, Array, Array]:
        """The basis for one part, and the singular values of all parts."""
        analysis, synthesis, _ = self._inverse.basis
        return analysis, synthesis, self.singular_values

    def image(self, x: Array) -> Array:
        """Compute V^H x for every part of every row of ``x``."""
        return joined(self._inverse.image(split(x, self._times)))

    def image_of_sparse(self, x: Array, nonzeros: int) -> Array:
        """Compute V^H x for sparse rows."""
        return joined(self._inverse.image_of_sparse(split(x, self._times), nonzeros // self._times))

    def synthesis(self, image: Array) -> Array:
        """Compute the points of the row space with the given coordinates."""
        return joined(self._inverse.synthesis(split(image, self._times)))

    def target(self, y: Array) -> Array:
        """Compute U^H y for every part of every row of ``y``."""
        return joined(self._inverse.target(split(y, self._times)))

    def distance_to_range(self, y: Array, target: Array) -> Array:
        """Compute the norm of the part of every row outside the range."""
        return norm(self._inverse.distance_to_range(split(y, self._times), split(target, self._times)))


def split(rows: Array, times: int) -> Array:
    """Split every row into parts of equal length.

    Parameters
    ----------
    rows : array, shape (..., times length)
        The rows.
    times : int
        The number of parts.

    Returns
    -------
    array, shape (..., times, length)
        The parts.
    """
    return namespace(rows).reshape(rows, (*rows.shape[:-1], times, rows.shape[-1] // times))


def joined(parts: Array) -> Array:
    """Join the parts of every row.

    Parameters
    ----------
    parts : array, shape (..., times, length)
        The parts.

    Returns
    -------
    array, shape (..., times length)
        The rows.
    """
    return namespace(parts).reshape(parts, (*parts.shape[:-2], math.prod(parts.shape[-2:])))
