"""What is Phi? Dense, sparse or matrix-free; its adjoint, and the view of its row space that projections need.

Signals are rows: ``forward`` maps (..., n) to (..., m) and ``adjoint`` maps (..., m) to (..., n).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from ..backend.arrays import (
    Array,
    generator,
    namespace,
    norm,
    to_numpy,
    units,
)
from .row_space import ConjugateGradients, RowSpace, TightFrame


class Operator(ABC):
    """A linear map Phi of shape (m, n) that acts on rows.

    Attributes
    ----------
    shape : (m, n)
    is_dense : whether Phi is there as an array; only then there is a ``gram_matrix``
    frame_bound : c where Phi Phi^H = c I is known to hold (a tight frame), otherwise None.
    factor_seconds : time spent so far on what depends on Phi alone.
    """

    shape: tuple[int, int]
    is_dense: bool = False
    gram_matrix: Array
    double_gram_matrix: Array
    columns: Array
    rank_tol: float
    Phi: Array
    frame_bound: float | None = None
    factor_seconds: float = 0.0

    @abstractmethod
    def forward(self, x: Array) -> Array:
        """Phi x for every row of ``x``, shape (..., n) to (..., m)."""

    @abstractmethod
    def adjoint(self, r: Array) -> Array:
        """Phi^H r for every row of ``r``, shape (..., m) to (..., n)."""

    @abstractmethod
    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """This operator and ``y`` brought to one dtype, the one that answers will have."""

    @cached_property
    def row_space(self) -> RowSpace:
        """The row space of Phi, factored on first use and kept (see ``row_space.py``)."""
        start = time.perf_counter()
        space = self._factor()
        self.factor_seconds += time.perf_counter() - start
        return space

    @cached_property
    def column_energy(self) -> float:
        """Mean squared norm of Phi's columns, estimated from random rows where Phi is not there as an array; or 1."""
        generate = generator(0)
        each = [self._probe(generate, self.shape[1]) for _ in range(16)]
        probes = namespace(each[0]).concat(each, axis=0)
        return float(sum(to_numpy(norm(self.forward(probes))) ** 2)) / 16 / self.shape[1] or 1.0

    @cached_property
    def unit(self) -> float:
        """The power of two near the norm of Phi's columns (root mean square); 1 if that is near 1."""
        return float(units(np.asarray(self.column_energy**0.5)))

    @cached_property
    def to_scale(self) -> Operator:
        """Phi / unit, whose columns have norms near 1: this operator itself if they have already."""
        return self if self.unit == 1 else self._divided(self.unit)

    def _divided(self, unit: float) -> Operator:
        return _Divided(self, unit)

    def _factor(self) -> RowSpace:
        if self.frame_bound is not None:
            return TightFrame(self.forward, self.adjoint, self.frame_bound)
        return ConjugateGradients(self.forward, self.adjoint, self.shape)

    def dot_test(self, rng: Any = 0) -> float:
        """Relative mismatch of <Phi x, r> and <x, Phi^H r> on random x and r; at rounding level if all is well."""
        generate = generator(rng)
        m, n = self.shape
        x, r = (self._probe(generate, size) for size in (n, m))
        image, back = self.forward(x), self.adjoint(r)
        xp = namespace(image, back)
        mismatch = xp.abs(xp.vecdot(r, image) - xp.vecdot(back, x))
        scale = norm(image) * norm(r) + norm(x) * norm(back)
        return float(mismatch[0]) / max(float(scale[0]), 1e-300)

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        """One random row that this operator accepts."""
        return generate.standard_normal((1, size))


class _Divided(Operator):
    """An operator that is not there as an array, divided by a number."""

    def __init__(self, operator: Operator, unit: float) -> None:
        self._operator, self._unit, self.shape = operator, unit, operator.shape
        if operator.frame_bound is not None:
            self.frame_bound = operator.frame_bound / unit**2

    def forward(self, x: Array) -> Array:
        return self._operator.forward(x) / self._unit

    def adjoint(self, r: Array) -> Array:
        return self._operator.adjoint(r) / self._unit

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        _, y = self._operator.prepared(y)
        return self, y

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        return self._operator._probe(generate, size)
