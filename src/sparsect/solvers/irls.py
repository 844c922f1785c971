"""Iteratively reweighted least squares for l_p (Chartrand and Yin 2008)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, cast

from ..backend.arrays import Array, is_complex, namespace
from ..backend.checks import settle_number
from ..backend.norms import conj, norm
from ..kernels.thresholding import keep_largest
from ..operators.pseudo_inverse import SingularVectors
from ..problems import Problem
from .base import Requirement, Solver, State


@dataclass(frozen=True, kw_only=True)
class IRLSState(State):
    """The state of :class:`IRLS`.

    Attributes
    ----------
    x : array, shape (batch, n)
        The iterate, in units of ``unit``.
    unit : array, shape (batch,)
        The unit of x, relative to the data.
    epsilon : array, shape (batch,)
        The smoothing parameter.
    target : array, shape (batch, rank)
        The scaled data y in the coordinates of Phi's range.
    """

    x: Array
    unit: Array
    epsilon: Array
    target: Array


@dataclass(frozen=True)
class IRLS(Solver):
    """Iteratively reweighted least squares for the l_p penalty.

    It minimizes the sum of ``(|x_i|^2 + epsilon)^(p/2)`` with Phi x close to y by weighted least squares, while epsilon
    goes to 0 [1]_. The stopping criterion is ||x - P_A(x)||, the distance from the data-consistent x to the
    sparse set, plus the change of x, plus sqrt(epsilon) ||x||, the smoothing that is left.

    Parameters
    ----------
    alpha : float, optional
        The tolerance for noise; 0 enforces Phi x = y exactly. The defaults are tuned for random measurements at 20 dB
        (``sparsect.tuning.tuned("irls")``).
    beta : float, optional
        How accurately an inner problem is solved before epsilon shrinks (1/100 in the reference).
    p : float, optional
        The exponent of the penalty, from 0 to 2. The default is 1/2.

    Notes
    -----
    One iteration is::

        Q <- diag((|x_i|^2 + epsilon)^(1 - p/2))
        x <- Q Phi^H (Phi Q Phi^H + alpha I)^-1 y
        epsilon <- epsilon / 10 where the relative change of x is below beta sqrt(epsilon)

    epsilon goes from 1 to 1e-8. Phi and y are first scaled so that the columns of Phi have norm 1 and nonzeros of x
    have size 1 on average (||y|| = sqrt(s)), so that alpha and beta have the same meaning for data of any scale.

    References
    ----------
    .. [1] R. Chartrand and W. Yin, "Iteratively reweighted algorithms for compressive sensing",
       ICASSP 2008.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.IRLS(alpha=0.0))
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "irls"
    criterion: ClassVar[str] = "distance_from_sparse"
    compiled: ClassVar[bool] = True
    needs: ClassVar[frozenset[Requirement]] = frozenset({Requirement.DENSE})
    scale_free = True

    alpha: float = 0.01585
    beta: float = 0.001
    p: float = 0.5

    def __post_init__(self) -> None:
        settle_number(self, "alpha", "a number of at least 0", low=0.0)
        settle_number(self, "beta", "a positive number", low=0.0, nonzero=True)
        settle_number(self, "p", "a number from 0 to 2", low=0.0, high=2.0)

    def init(self, problem: Problem) -> IRLSState:
        """Start from the x of smallest norm that agrees with the data, and epsilon = 1."""
        xp, inverse = namespace(problem.y), _inverse(problem)
        target = inverse.target(problem.y)
        length = norm(problem.y) / max(problem.sparsity, 1) ** 0.5
        unit = xp.where(length > 0, length, xp.ones_like(length)) / _column_norm(inverse, problem)
        x = inverse.correction(target, 0.0)[0] / unit[:, None]
        unknown = xp.full_like(unit, float("inf"))
        return IRLSState(
            x=x,
            unit=unit,
            epsilon=xp.ones_like(unit),
            target=target / (unit * _column_norm(inverse, problem))[:, None],
            criterion=unknown,
            scale=unit * norm(x),
            settled=unknown < 0,
        )

    def step(self, problem: Problem, state: IRLSState) -> IRLSState:
        """Solve a weighted least-squares problem, and shrink epsilon in rows where the inner problem is solved."""
        xp, epsilon = namespace(state.x), state.epsilon
        weights = (xp.abs(state.x) ** 2 + epsilon[:, None]) ** (1 - self.p / 2)
        x = self._weighted_solution(problem, weights, state.target)
        change, size = norm(x - state.x), norm(state.x)
        last = epsilon <= 1.1e-8
        smoothing = xp.sqrt(epsilon) * size
        shrinks = ~last & (change <= self.beta * xp.sqrt(epsilon) * size)
        return dataclasses.replace(
            state,
            x=x,
            epsilon=xp.where(shrinks, epsilon / 10, epsilon),
            criterion=state.unit
            * (norm(x - keep_largest(x, problem.sparsity)) + change + xp.where(last, 0 * size, smoothing)),
            settled=last & (change <= 1e-6 * size),
        )

    def _weighted_solution(self, problem: Problem, weights: Array, target: Array) -> Array:
        """Return Q R^H (R Q R^H + alpha I)^-1 target for each row; R = S V^H is Phi in the coordinates of its range."""
        xp, inverse = namespace(target), _inverse(problem)
        wide = xp.complex128 if is_complex(target) else xp.float64
        R = xp.astype(conj(inverse.synthesis(_diagonal(inverse, target))), wide) / _column_norm(inverse, problem)
        ridge = self.alpha * xp.eye(inverse.rank, dtype=wide, device=target.device)
        root = xp.sqrt(xp.astype(weights, xp.float64))
        solutions = []
        for row in range(target.shape[0]):
            # The product of a matrix with its own transpose costs half as much as a general product.
            A = R * root[row, :]
            multiplier = _solved(A @ conj(A).T + ridge, xp.astype(target[row, :], wide)[:, None])
            solutions.append(root[row, :] * (conj(A).T @ multiplier)[:, 0])
        return xp.astype(xp.stack(solutions), target.dtype)

    def estimate(self, problem: Problem, state: IRLSState) -> Array:
        """Return P_A(x), in the units of the data."""
        return keep_largest(state.x, problem.sparsity) * state.unit[:, None]


def _solved(matrix: Array, right: Array) -> Array:
    """Solve a linear system; NaN if it is singular, which the loop detects as divergence."""
    xp = namespace(matrix)
    try:
        return xp.linalg.solve(matrix, right)
    except Exception as error:
        # Each array library defines its own LinAlgError.
        if not type(error).__name__.endswith("LinAlgError"):
            raise
        return xp.full_like(right, xp.nan)


def _inverse(problem: Problem) -> SingularVectors:
    """Return the pseudo-inverse of Phi, whose singular values are known."""
    return cast(SingularVectors, problem.operator.pseudo_inverse)


def _column_norm(inverse: SingularVectors, problem: Problem) -> float:
    """Return the root mean square of the norms of Phi's columns, or 1 for a zero matrix."""
    xp = namespace(inverse.singular_values)
    return (float(xp.sum(inverse.singular_values**2)) / problem.operator.shape[1]) ** 0.5 or 1.0


def _diagonal(inverse: SingularVectors, like: Array) -> Array:
    """Return the singular values as a diagonal matrix in the dtype of ``like``."""
    xp = namespace(like)
    identity = xp.eye(inverse.rank, dtype=like.dtype, device=like.device)
    return identity * xp.astype(inverse.singular_values, like.dtype)
