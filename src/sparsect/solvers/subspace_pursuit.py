"""Subspace Pursuit (Dai and Milenkovic 2009)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from ..backend.arrays import Array, namespace
from ..backend.norms import norm
from ..kernels.thresholding import Kind, project
from ..operators.least_squares import on_support, refit
from ..problems import Problem
from .base import Solver, State


@dataclass(frozen=True, kw_only=True)
class SubspacePursuitState(State):
    """The state of :class:`SubspacePursuit`.

    Attributes
    ----------
    x : array, shape (batch, n)
        The least-squares fit on the current support.
    residual : array, shape (batch, m)
        The residual y - Phi x.
    """

    x: Array
    residual: Array


@dataclass(frozen=True)
class SubspacePursuit(Solver):
    """Subspace pursuit.

    A support of s columns is kept. Each step adds the s columns with the largest correlation with the residual, fits y
    by least squares on them, and keeps the s largest entries [1]_. A row settles when its residual no longer decreases,
    as in the reference. The stopping criterion is the norm of the residual.

    Notes
    -----
    One step is::

        T' <- T and the s largest |Phi^H r|
        T  <- the s largest entries of the least-squares fit on T'
        x  <- the least-squares fit on T,   r <- y - Phi x

    References
    ----------
    .. [1] W. Dai and O. Milenkovic, "Subspace pursuit for compressive sensing signal reconstruction", IEEE Transactions
       on Information Theory 55 (2009).

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.SubspacePursuit())
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "subspace-pursuit"
    takes: ClassVar[frozenset[Kind]] = frozenset({Kind.BOUNDS, Kind.GROUPS, Kind.LEVELS})
    scale_free = True
    criterion: ClassVar[str] = "iterate_residual"
    compiled: ClassVar[bool] = True

    def init(self, problem: Problem) -> SubspacePursuitState:
        """Start from the fit on the s columns with the largest correlation with y."""
        x, residual = _fit(problem, project(problem.operator.adjoint(problem.y), problem.structure))
        scale = norm(problem.y)
        return SubspacePursuitState(x=x, residual=residual, criterion=norm(residual), scale=scale, settled=scale == 0)

    def step(self, problem: Problem, state: SubspacePursuitState) -> SubspacePursuitState:
        """Extend the support, fit, prune and fit again; rows whose residual does not decrease stay as they are."""
        xp, A, s = namespace(state.x), problem.structure, problem.sparsity
        # If 2s columns are too many for a unique fit, fewer are added.
        more = max(1, min(s, problem.operator.shape[0] - 1 - s))
        added = project(problem.operator.adjoint(state.residual), A.part(more / s if s else 0.0)) != 0
        wide = on_support(problem.operator, problem.y, (state.x != 0) | added)
        x, residual = _fit(problem, project(wide, A))
        criterion = norm(residual)
        worse = criterion >= state.criterion
        return dataclasses.replace(
            state,
            x=xp.where(worse[:, None], state.x, x),
            residual=xp.where(worse[:, None], state.residual, residual),
            criterion=xp.where(worse, state.criterion, criterion),
            settled=worse,
        )

    def estimate(self, problem: Problem, state: SubspacePursuitState) -> Array:
        """Return x."""
        return state.x


def _fit(problem: Problem, x: Array) -> tuple[Array, Array]:
    """Return the least-squares fit on the support of x, and its residual."""
    x = refit(problem.operator, problem.y, x, problem.structure)
    return x, problem.y - problem.operator.forward(x)
