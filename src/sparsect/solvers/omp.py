"""Orthogonal matching pursuit, textbook (Pati et al. 1993) and order-recursive (Gharavi-Alkhansari and Huang 1998)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from ..backend.arrays import Array, contiguous, epsilon, squared_norm
from ..backend.checks import within
from ..problems import Problem
from .base import Requirement, Solver, State

# A column nearer than this, squared, to the span of those taken, all at unit norm, is one of their combinations: what
# products of columns can tell in double precision.
DEPENDENT = 1e-10
# A column that keeps less than this part of its squared norm is orthogonalised twice.
NEARLY_DEPENDENT = 1e-3
# A fit whose residual keeps more than this of a column taken, both y and columns at unit norm, is none.
UNFITTED = 1e-6


@dataclass(frozen=True, kw_only=True)
class PursuitState(State):
    """What ``kernels/pursuit.py`` carries for each row; W, order and a only ever grow at the end.

    W, a and energy are in double precision whatever the dtype of the data.
    """

    correlation: Array
    freedom: Array
    W: Array
    order: Array
    a: Array
    energy: Array
    goal: Array

    def check(self, problem: Problem) -> None:
        """Columns taken have to exist."""
        within("taken", self.taken, 0, problem.sparsity)
        within("order", self.order, 0, problem.operator.shape[1] - 1)


@dataclass(frozen=True)
class OrthogonalMatchingPursuit(Solver):
    """Take one column a step, the one best correlated with the residual, and fit by least squares on all taken.

    One selection is one iteration. A row settles after s selections, when its residual is at most ``noise_norm`` (if
    given), when what is left of its correlations is rounding, or when no independent column is left. The *gap* is the
    norm of the residual.

    Rows run on all cores with one Gram matrix, and correlations are updated, not recomputed (``kernels/pursuit.py``).
    """

    name: ClassVar[str] = "omp"
    needs: ClassVar[frozenset[Requirement]] = frozenset({Requirement.DENSE, Requirement.HOST})
    scale_free = True
    gap_is_residual: ClassVar[bool] = True
    uses_noise_norm: ClassVar[bool] = True
    compiled: ClassVar[bool] = True
    leaps: ClassVar[bool] = True
    fitted = True
    follow_freedom: ClassVar[bool] = False

    def init(self, problem: Problem) -> PursuitState:
        """No columns taken."""
        operator, s, batch = problem.operator, problem.sparsity, problem.batch
        gram, exact = operator.gram_matrix, operator.double_gram_matrix
        correlation = operator.adjoint(problem.y)
        energy = squared_norm(problem.y.astype(exact.dtype, copy=False))
        goal = np.zeros(batch) if problem.noise_norm is None else problem.noise_norm.astype(np.float64) ** 2
        count = np.zeros(batch, dtype=np.int64)
        return PursuitState(
            correlation=correlation,
            freedom=np.tile(np.diag(gram).real, (batch, 1)),
            W=np.zeros((batch, s * (s + 1) // 2), dtype=exact.dtype),
            order=np.zeros((batch, s), dtype=np.int64),
            a=np.zeros((batch, s), dtype=exact.dtype),
            energy=energy,
            goal=goal,
            gap=np.sqrt(energy).astype(problem.y.real.dtype),
            scale=np.sqrt(energy).astype(problem.y.real.dtype),
            settled=(energy <= goal) | (s == 0),
            taken=count,
        )

    def step(self, problem: Problem, state: Any) -> Any:
        """One selection in every row."""
        return self.steps(problem, state, np.zeros(problem.batch), [0.0])

    def steps(self, problem: Problem, state: Any, goal: Array, fractions: Sequence[float]) -> Any:
        """A selection for each of the fractions in every row, until the gap is at most ``goal``."""
        from ..backend.parallel import over_rows
        from ..kernels import pursuit

        operator, batch = problem.operator, problem.batch
        gram, exact = operator.gram_matrix, operator.double_gram_matrix
        count = len(fractions)
        limit = min(problem.sparsity, int(state.taken.max(initial=0)) + count)
        correlation, freedom, energy, taken = (
            array.copy() for array in (state.correlation, state.freedom, state.energy, state.taken)
        )
        dependent = max(operator.rank_tol**2, DEPENDENT)
        # What is left of the correlations of an exactly sparse signal is rounding; none of it is taken.
        quiet = (50 * epsilon(gram) * state.scale.astype(np.float64)) ** 2
        enough = np.maximum(state.goal, np.maximum(goal, 0) ** 2)
        over_rows(
            pursuit.select, batch, limit, dependent, NEARLY_DEPENDENT, self.follow_freedom, gram, exact,
            operator.columns, contiguous(problem.y), correlation, freedom, state.W, state.order, state.a, taken, energy,
            enough, quiet, work=count * (limit + 4) * gram.shape[0],
        )  # fmt: skip
        self._measure_residuals(problem, dataclasses.replace(state, taken=taken), energy)
        return dataclasses.replace(
            state,
            correlation=correlation,
            freedom=freedom,
            energy=energy,
            taken=taken,
            gap=np.sqrt(np.maximum(energy, 0)).astype(state.gap.dtype),
            settled=(taken < limit) | (taken >= problem.sparsity) | (energy <= state.goal),
        )

    def _measure_residuals(self, problem: Problem, state: PursuitState, energy: Array) -> None:
        """Replace ``energy``, kept by differences of squares, where nearly dependent columns make those inexact."""
        steps = np.arange(problem.sparsity)
        lengths = np.sqrt(np.diag(problem.operator.gram_matrix).real)[state.order]
        # The last entry of each w is the inverse of what was left of its column.
        inverses = state.W[:, steps * (steps + 3) // 2].real * lengths
        used = steps < state.taken[:, None]
        rows = np.flatnonzero((used & (inverses > NEARLY_DEPENDENT**-0.5)).any(axis=1))
        if rows.size:
            energy[rows] = self._fit(problem.take(rows), cast(PursuitState, state.take(rows)))[1]

    def estimate(self, problem: Problem, state: PursuitState) -> Array:
        """The least-squares fit on the columns taken."""
        return self._fit(problem, state)[0]

    def _fit(self, problem: Problem, state: PursuitState) -> tuple[Array, Array]:
        """The least-squares fit on the columns taken, and the squared norm of its residual."""
        from ..backend.parallel import over_rows
        from ..kernels import pursuit

        columns, y, s = problem.operator.columns, contiguous(problem.y), problem.sparsity
        x, energy, slant = np.zeros_like(state.correlation), np.empty(problem.batch), np.empty(problem.batch)
        fit = (columns, y, state.W, state.order, state.a, state.taken, x, energy, slant)
        over_rows(pursuit.coefficients, problem.batch, *fit, work=4 * s * (s + columns.shape[1]))
        for row in np.flatnonzero(~(slant <= UNFITTED)):
            # Columns that are nearly dependent as a whole, though none is on the others: products of columns do not
            # tell them apart, singular values do.
            places = state.order[row, : state.taken[row]]
            chosen = columns[places].T.astype(state.a.dtype)
            z, *_ = np.linalg.lstsq(chosen, y[row].astype(state.a.dtype), rcond=problem.operator.rank_tol)
            x[row, places] = z
            energy[row] = squared_norm(chosen @ z - y[row])
        return x, energy


@dataclass(frozen=True)
class OrderRecursiveMatchingPursuit(OrthogonalMatchingPursuit):
    """Take one column a step, the one that leaves the smallest residual after the fit.

    Also known as orthogonal least squares (OLS); SPAMS calls it ``omp``. Correlations are measured with the part of
    each column that is orthogonal to those taken, so that it picks differently from textbook OMP, and better.
    """

    name: ClassVar[str] = "ormp"
    follow_freedom: ClassVar[bool] = True
