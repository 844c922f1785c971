"""Stagewise orthogonal matching pursuit (Donoho, Tsaig, Drori and Starck 2012)."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from ..algorithm import Need, State
from ..arrays import Array, from_numpy, namespace, norm
from ..checks import settle_number, whole_number
from ..least_squares import on_support
from ..problems import Problem
from ..projections import keep_largest


class ThresholdRule(ABC):
    """Which correlations stand out of the noise? They come divided by the noise level, so noise is standard normal."""

    @abstractmethod
    def select(self, scores: Array) -> Array:
        """True where an entry of ``scores`` (batch, n), all at least 0, is to be taken."""


@dataclass(frozen=True)
class FalseAlarm(ThresholdRule):
    """Take what noise alone would exceed with probability ``rate`` per entry."""

    rate: float = 0.01

    def __post_init__(self) -> None:
        settle_number(self, "rate", "a number between 0 and 1", low=1e-300, high=1.0)

    def select(self, scores: Array) -> Array:
        from scipy.special import ndtri

        return scores > float(-ndtri(self.rate / 2))


@dataclass(frozen=True)
class FalseDiscovery(ThresholdRule):
    """Take as many as possible with an expected fraction of false ones of ``rate`` (Benjamini and Hochberg)."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        settle_number(self, "rate", "a number between 0 and 1", low=1e-300, high=1.0)

    def select(self, scores: Array) -> Array:
        import numpy as np
        from scipy.special import ndtri

        xp, n = namespace(scores), scores.shape[-1]
        # The i-th largest may be taken if it exceeds the quantile of i false ones among n, times the rate.
        quantiles = -ndtri(self.rate * np.arange(1, n + 1) / (2 * n))
        limits = xp.astype(from_numpy(quantiles, scores), scores.dtype)
        ranked = xp.sort(scores, axis=-1, descending=True)
        passing = xp.where(ranked >= limits, ranked, xp.full_like(ranked, float("inf")))
        # Everything down to the smallest entry that passes.
        return scores >= xp.min(passing, axis=-1, keepdims=True)


@dataclass(frozen=True, kw_only=True)
class StagewiseState(State):
    """The least-squares fit x on all columns taken so far, which they are, and the residual y - Phi x."""

    x: Array
    support: Array
    residual: Array
    stage: Array


@dataclass(frozen=True)
class StagewiseOMP:
    """Each stage takes all columns whose correlation with the residual stands out, and fits by least squares.

        c <- Phi^H r,   noise level ||r|| / sqrt(m)
        T <- T and the entries of c that ``threshold`` takes
        x <- the least-squares fit on T,   r <- y - Phi x

    A row settles when no column is taken, or before T would have as many columns as Phi has rows. The *gap* is ||r||.
    The noise level is meant for columns of norm 1.

    Parameters
    ----------
    threshold : :class:`FalseDiscovery` (SparseLab's default, rate 1/2) or :class:`FalseAlarm`
    stages : stages at the most

    References
    ----------
    D. Donoho, Y. Tsaig, I. Drori and J.-L. Starck, "Sparse solution of underdetermined systems of linear equations by
    stagewise orthogonal matching pursuit", IEEE Trans. IT 58 (2012).
    """

    name: ClassVar[str] = "stomp"
    needs: ClassVar[frozenset[Need]] = frozenset()

    threshold: ThresholdRule = FalseDiscovery()
    stages: int = 10

    def __post_init__(self) -> None:
        whole_number("stages", self.stages, 1)

    def init(self, problem: Problem) -> StagewiseState:
        """Start from x = 0 and no columns."""
        x = 0 * problem.operator.adjoint(problem.y)
        xp, scale = namespace(x), norm(problem.y)
        stage = xp.zeros(scale.shape, dtype=xp.int64, device=x.device)
        return StagewiseState(
            x=x, support=x != 0, residual=problem.y, stage=stage, gap=scale, scale=scale, settled=scale == 0
        )

    def step(self, problem: Problem, state: StagewiseState) -> StagewiseState:
        """One stage."""
        xp = namespace(state.x)
        m, n = problem.operator.shape
        level = norm(state.residual)[:, None] / m**0.5
        safe = xp.where(level > 0, level, xp.ones_like(level))
        taken = self.threshold.select(xp.abs(problem.operator.adjoint(state.residual)) / safe) & (level > 0)
        support = state.support | taken
        size = xp.count_nonzero(support, axis=-1)
        stuck = (size == xp.count_nonzero(state.support, axis=-1)) | (size >= (m if m < n else n + 1))
        support = xp.where(stuck[:, None], state.support, support)
        x = on_support(problem.operator, problem.y, support)
        residual = problem.y - problem.operator.forward(x)
        stage = state.stage + 1
        return dataclasses.replace(
            state,
            x=x,
            support=support,
            residual=residual,
            stage=stage,
            gap=norm(residual),
            settled=stuck | (stage >= self.stages),
        )

    def estimate(self, problem: Problem, state: StagewiseState) -> Array:
        """P_A(x)."""
        return keep_largest(state.x, problem.sparsity)
