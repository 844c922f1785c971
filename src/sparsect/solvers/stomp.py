"""Stagewise orthogonal matching pursuit (Donoho, Tsaig, Drori and Starck 2012)."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backend.arrays import Array, from_numpy, is_complex, namespace, norm, squared_norm
from ..backend.checks import reject, settle_number, shown, whole_number
from ..kernels.thresholding import keep_largest
from ..operators.least_squares import on_support
from ..problems import Problem
from .base import Solver, State


class ThresholdRule(ABC):
    """Which correlations stand out of the noise? Their magnitudes come divided by the noise level."""

    @abstractmethod
    def select(self, scores: Array, is_complex: bool = False) -> Array:
        """True where an entry of ``scores`` (batch, n), all at least 0, is to be taken."""


@dataclass(frozen=True)
class FalseAlarmRate(ThresholdRule):
    """Take what noise alone would exceed with probability ``rate`` per entry."""

    rate: float = 0.01

    def __post_init__(self) -> None:
        settle_number(self, "rate", "a number between 0 and 1", low=1e-300, high=1.0)

    def select(self, scores: Array, is_complex: bool = False) -> Array:
        return scores > float(_quantile(np.asarray(self.rate), is_complex))


@dataclass(frozen=True)
class FalseDiscoveryRate(ThresholdRule):
    """Take as many as possible with an expected fraction of false ones of ``rate`` (Benjamini and Hochberg)."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        settle_number(self, "rate", "a number between 0 and 1", low=1e-300, high=1.0)

    def select(self, scores: Array, is_complex: bool = False) -> Array:
        xp, n = namespace(scores), scores.shape[-1]
        # The i-th largest may be taken if it exceeds the quantile of i false ones among n, times the rate.
        quantiles = _quantile(self.rate * np.arange(1, n + 1) / n, is_complex)
        limits = xp.astype(from_numpy(quantiles, scores), scores.dtype)
        ranked = xp.sort(scores, axis=-1, descending=True)
        passing = xp.where(ranked >= limits, ranked, xp.full_like(ranked, float("inf")))
        # Everything down to the smallest entry that passes.
        return scores >= xp.min(passing, axis=-1, keepdims=True)


def _quantile(rate: Any, is_complex: bool) -> Any:
    """What the magnitude of standard normal noise exceeds with probability ``rate``, real or circular complex."""
    from scipy.special import ndtri

    return np.sqrt(-np.log(rate)) if is_complex else -ndtri(rate / 2)


@dataclass(frozen=True, kw_only=True)
class StagewiseState(State):
    """The least-squares fit x on all columns taken so far, which they are, and the residual y - Phi x."""

    x: Array
    support: Array
    residual: Array
    stage: Array


@dataclass(frozen=True)
class StagewiseOMP(Solver):
    """Each stage takes all columns whose correlation with the residual stands out, and fits by least squares.

        c <- Phi^H r, columns at norm 1,   noise level ||r|| / sqrt(m)
        T <- T and the entries of c that ``threshold`` takes
        x <- the least-squares fit on T,   r <- y - Phi x

    A row settles when no column is taken, or before T would have as many columns as Phi has rows. The *gap* is ||r||.
    Correlations are measured against columns at norm 1; where Phi is not dense, all are taken to have the same norm.

    Parameters
    ----------
    threshold : :class:`FalseDiscoveryRate` (SparseLab's default, rate 1/2) or :class:`FalseAlarmRate`
    stages : stages at the most

    References
    ----------
    D. Donoho, Y. Tsaig, I. Drori and J.-L. Starck, "Sparse solution of underdetermined systems of linear equations by
    stagewise orthogonal matching pursuit", IEEE Trans. IT 58 (2012).
    """

    name: ClassVar[str] = "stomp"
    scale_free = True
    gap_is_residual: ClassVar[bool] = True

    threshold: ThresholdRule = FalseDiscoveryRate()
    stages: int = 10

    def __post_init__(self) -> None:
        if not isinstance(self.threshold, ThresholdRule):
            raise reject("threshold", shown(self.threshold), "FalseAlarmRate(rate) or FalseDiscoveryRate(rate)")
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
        scores = xp.abs(problem.operator.adjoint(state.residual)) / (safe * _column_norms(problem))
        taken = self.threshold.select(scores, is_complex(state.x)) & (level > 0)
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


def _column_norms(problem: Problem) -> Any:
    """Norms of Phi's columns, 1 where zero; their root mean square, estimated, where Phi is not dense."""
    operator, xp = problem.operator, namespace(problem.y)
    if operator.is_dense:
        squares = xp.real(operator.gram_matrix) if is_complex(operator.gram_matrix) else operator.gram_matrix
        lengths = xp.sqrt(xp.linalg.diagonal(squares))
        return xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    m, n = operator.shape
    probe = from_numpy(np.random.default_rng(0).standard_normal((8, m)), problem.y)
    probe = xp.astype(probe, problem.y.dtype)
    energy = float(xp.sum(squared_norm(operator.adjoint(probe)))) / float(xp.sum(squared_norm(probe)))
    return (energy * m / n) ** 0.5 or 1.0
