"""Operator with scaled columns, and the norms of the columns of operators that are not stored as arrays."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..backend.arrays import Array, from_numpy, namespace, real_dtype, to_numpy
from ..backend.rng import generator
from .base import Operator

# Up to this many columns, norms are computed from the images of unit vectors; beyond, they are estimated.
COUNTED = 2048
# Number of random vectors of an estimate, and the size of blocks of unit vectors.
PROBES, BLOCK = 64, 256
# Estimated norms are used if the standard deviation of the logarithms of their squares exceeds this; otherwise it is
# due to the estimate itself.
SPREAD = 0.5


class ScaledColumns(Operator):
    """Operator whose columns are those of another one, divided by numbers.

    Parameters
    ----------
    operator : Operator
        The other operator.
    divisors : float or array, shape (n,)
        What its columns are divided by.
    """

    def __init__(self, operator: Operator, divisors: float | np.ndarray[Any, Any]) -> None:
        self._operator, self._divisors, self.shape = operator, divisors, operator.shape
        if operator.frame_bound is not None and isinstance(divisors, float):
            self.frame_bound = operator.frame_bound / divisors**2

    def forward(self, x: Array) -> Array:
        """Compute Phi x for every row of ``x``."""
        return self._operator.forward(x / self._like(x))

    def adjoint(self, r: Array) -> Array:
        """Compute Phi^H r for every row of ``r``."""
        x = self._operator.adjoint(r)
        return x / self._like(x)

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Convert ``y`` to the dtype of the operator."""
        _, y = self._operator.prepared(y)
        return self, y

    def _like(self, x: Array) -> Array | float:
        """The divisors in the library, device and precision of an array."""
        if isinstance(self._divisors, float):
            return self._divisors
        key = f"{type(x).__module__} {x.dtype} {x.device}"
        if key not in self._placed:
            self._placed[key] = namespace(x).astype(from_numpy(self._divisors, x), real_dtype(x))
        return self._placed[key]

    @cached_property
    def _placed(self) -> dict[str, Array]:
        return {}

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        return self._operator._probe(generate, size)


def column_norms(operator: Operator) -> np.ndarray[Any, Any]:
    """Compute or estimate the norms of the columns of an operator from its products.

    Parameters
    ----------
    operator : Operator
        The operator.

    Returns
    -------
    array, shape (n,)
        The norms in double precision. They are all equal where an estimate cannot tell them apart.
    """
    m, n = operator.shape
    generate = generator(0)
    like = operator._probe(generate, n)
    if n <= COUNTED:
        parts = []
        for first in range(0, n, BLOCK):
            rows = np.eye(min(BLOCK, n - first), n, first)
            image = operator.forward(namespace(like).astype(from_numpy(rows, like), like.dtype))
            parts.append(np.sum(np.abs(to_numpy(image)) ** 2, axis=-1, dtype=np.float64))
        return np.asarray(np.sqrt(np.concatenate(parts)))
    squares = np.zeros(n)
    for _ in range(PROBES):
        squares += np.abs(to_numpy(operator.adjoint(operator._probe(generate, m)))[0]).astype(np.float64) ** 2
    squares /= PROBES
    positive = squares[squares > 0]
    if positive.size and np.std(np.log(positive)) > SPREAD:
        return np.asarray(np.sqrt(squares))
    return np.full(n, np.sqrt(np.mean(squares)))
