"""Least angle regression with the lasso modification (Efron, Hastie, Johnstone and Tibshirani 2004)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backend.arrays import Array, FloatArray, epsilon, is_single
from ..backend.checks import settle_number, within
from ..backend.norms import squared_norm
from ..kernels.thresholding import keep_largest
from ..problems import Problem
from .base import Requirement, Solver, State


@dataclass(frozen=True, kw_only=True)
class LeastAngleState(State):
    """The state of :class:`LeastAngleRegression`; ``kernels/least_angle.py`` gives the details.

    Attributes
    ----------
    x : array, shape (batch, n)
        The coefficients.
    correlation : array, shape (batch, n)
        The correlations Phi^T (y - Phi x).
    L : array, shape (batch, capacity (capacity + 1) / 2)
        The Cholesky factor of the Gram matrix of the active columns, packed by rows.
    order : array of int, shape (batch, capacity)
        The active columns in the order in which they joined.
    size : array of int, shape (batch,)
        The number of active columns.
    status : array of int, shape (batch, n)
        0 for a free column, 1 for an active one, 2 for one that cannot join.
    skip : array of int, shape (batch,)
        The column that left in the last step and must not rejoin in the next, or -1.
    energy : array, shape (batch,)
        The squared norm of the residual.
    floor : array, shape (batch,)
        The largest correlation at which a row is finished.
    """

    x: Array
    correlation: Array
    L: Array
    order: Array
    size: Array
    status: Array
    skip: Array
    energy: Array
    floor: Array

    growing: ClassVar[frozenset[str]] = frozenset({"L", "order"})

    def check(self, problem: Problem) -> None:
        """Check that the active columns exist, each once, and that L is a Cholesky factor."""
        n, capacity = problem.operator.shape[1], self.order.shape[1]
        if self.L.shape[1] != capacity * (capacity + 1) // 2:
            raise ValueError(f"L has {self.L.shape[1]} entries a row for {capacity} columns")
        within("size", self.size, 0, min(n, capacity))
        within("order", self.order, 0, n - 1)
        within("skip", self.skip, -1, n - 1)
        within("status", self.status, 0, 2)
        steps = np.arange(capacity)
        used = steps < self.size[:, None]
        rows, places = np.nonzero(used)
        active = np.zeros(self.status.shape, dtype=np.int64)
        np.add.at(active, (rows, self.order[rows, places]), 1)
        if not np.array_equal(active, self.status == 1):
            raise ValueError("order and status do not name the same columns")
        filled = np.arange(self.L.shape[1]) < (self.size * (self.size + 1) // 2)[:, None]
        if not np.isfinite(self.L[filled]).all() or not (self.L[:, steps * (steps + 3) // 2] > 0)[used].all():
            raise ValueError("L is no Cholesky factor")


@dataclass(frozen=True)
class LeastAngleRegression(Solver):
    """Least angle regression with the lasso modification.

    It follows the lasso path from x = 0; in each step, one column joins or leaves the active set [1]_. After k steps, x
    is the minimizer of 1/2 ||Phi x - y||^2 + alpha ||x||_1 for the alpha at which the k-th change happens
    (``alphas(state)``). A row settles at the end of the path. The stopping criterion is the norm of the residual of x.

    Parameters
    ----------
    alpha : float, optional
        The weight at which the path ends: x is then the solution of the lasso. The default, 0, is a least-squares fit.

    Notes
    -----
    Phi and y are used as they are: nothing is centered, and columns are not scaled. As with any implementation of LARS,
    exactly tied correlations (in data of small integers) can make the iteration leave the path; real measurements do
    not tie.

    References
    ----------
    .. [1] B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, "Least angle regression", Annals of Statistics 32
       (2004).

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.LeastAngleRegression())
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "lars"
    needs: ClassVar[frozenset[Requirement]] = frozenset({Requirement.DENSE, Requirement.REAL, Requirement.HOST})
    criterion: ClassVar[str] = "iterate_residual"
    compiled: ClassVar[bool] = True
    steps_at_once: ClassVar[int] = 100
    ends_by_itself: ClassVar[bool] = True

    alpha: float = 0.0

    def __post_init__(self) -> None:
        settle_number(self, "alpha", "a number of at least 0", low=0.0)

    @property
    def scale_free(self) -> bool:
        """Whether the path goes to its end, which does not depend on units."""
        return self.alpha == 0

    def init(self, problem: Problem) -> LeastAngleState:
        """Start from x = 0."""
        correlation = problem.operator.adjoint(problem.y)
        problem.operator.gram_matrix  # noqa: B018  computed here so that it counts as set-up
        batch, energy = problem.batch, squared_norm(problem.y)
        largest = np.abs(correlation).max(axis=1)
        return LeastAngleState(
            x=np.zeros_like(correlation),
            correlation=correlation,
            L=np.zeros((batch, 0), dtype=correlation.dtype),
            order=np.zeros((batch, 0), dtype=np.int64),
            size=np.zeros(batch, dtype=np.int64),
            status=np.zeros(correlation.shape, dtype=np.int8),
            skip=np.full(batch, -1),
            energy=energy,
            floor=np.maximum(100 * epsilon(energy) * largest, self.alpha * (1 + 100 * epsilon(energy))),
            criterion=np.sqrt(energy),
            scale=np.sqrt(energy),
            settled=largest <= self.alpha,
            taken=np.zeros(batch, dtype=np.int64),
        )

    def step(self, problem: Problem, state: Any) -> Any:
        """Take one step of the path in every row."""
        return self.steps(problem, state, np.zeros(problem.batch), [0.0])

    def steps(self, problem: Problem, state: Any, goal: FloatArray, fractions: Sequence[float]) -> Any:
        """Take one step of the path for each of ``fractions``, until the residual is at most ``goal``."""
        from ..backend.parallel import over_rows
        from ..kernels import least_angle

        gram, batch, count = problem.operator.gram_matrix, problem.batch, len(fractions)
        state = _with_room(state, min(int(state.size.max(initial=0)) + count, *problem.operator.shape))
        names = ("x", "correlation", "L", "order", "size", "status", "skip", "energy", "taken")
        fresh = {name: getattr(state, name).copy() for name in names}
        dependent = 1e-5 if is_single(gram) else 1e-10
        over_rows(
            least_angle.walk, batch, count, dependent, self.alpha, state.floor, gram, fresh["x"], fresh["correlation"],
            fresh["L"], fresh["order"], fresh["size"], fresh["status"], fresh["skip"], fresh["energy"],
            np.maximum(goal, 0) ** 2, fresh["taken"],
            work=count * (int(state.size.max(initial=0)) + 4) * gram.shape[0],
        )  # fmt: skip
        residual = np.sqrt(np.maximum(fresh["energy"], 0))
        return dataclasses.replace(state, **fresh, criterion=residual, settled=fresh["taken"] < state.taken + count)

    def estimate(self, problem: Problem, state: LeastAngleState) -> Array:
        """Return P_A(x), the s largest entries of x."""
        return keep_largest(state.x, problem.sparsity)

    def alphas(self, state: LeastAngleState) -> Array:
        """Return the penalty weight that each row has reached.

        Parameters
        ----------
        state : LeastAngleState
            The current state.

        Returns
        -------
        array, shape (batch,)
            The weight alpha of the l1 norm.
        """
        return np.abs(state.correlation).max(axis=1)


def _with_room(state: LeastAngleState, capacity: int) -> LeastAngleState:
    """Make room for ``capacity`` active columns; it grows by at least half, so that copies are rare."""
    now = state.order.shape[1]
    if capacity <= now:
        return state
    batch, more = state.order.shape[0], max(capacity, now + now // 2, 16)
    L = np.zeros((batch, more * (more + 1) // 2), dtype=state.L.dtype)
    L[:, : state.L.shape[1]] = state.L
    order = np.zeros((batch, more), dtype=np.int64)
    order[:, :now] = state.order
    return dataclasses.replace(state, L=L, order=order)
