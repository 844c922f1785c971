"""Stagewise orthogonal matching pursuit (Donoho, Tsaig, Drori and Starck 2012)."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backend.arrays import Array, from_numpy, is_complex, namespace
from ..backend.checks import reject, settle_number, shown, whole_number
from ..backend.norms import norm, squared_norm
from ..kernels.thresholding import keep_largest
from ..operators.least_squares import on_support
from ..problems import Problem
from .base import Solver, State


class ThresholdRule(ABC):
    """Base class of the rules that select the correlations that exceed the noise.

    The magnitudes of the correlations are divided by the noise level before.
    """

    @abstractmethod
    def select(self, scores: Array, is_complex: bool = False) -> Array:
        """Select the entries of each row.

        Parameters
        ----------
        scores : array, shape (batch, n)
            The magnitudes of the correlations, divided by the noise level.
        is_complex : bool, optional
            Whether the noise is circular complex instead of real.

        Returns
        -------
        array of bool, shape (batch, n)
            True for the entries to select.
        """


@dataclass(frozen=True)
class FalseAlarmRate(ThresholdRule):
    """Select entries that noise alone would exceed with a given probability.

    Parameters
    ----------
    rate : float, optional
        The probability for each entry, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> sparsect.FalseAlarmRate(0.05).select(np.array([[0.5, 1.5, 2.5]])).tolist()
    [[False, False, True]]
    """

    rate: float = 0.01

    def __post_init__(self) -> None:
        settle_number(self, "rate", "a number between 0 and 1", low=1e-300, high=1.0)

    def select(self, scores: Array, is_complex: bool = False) -> Array:
        """Select the entries of each row."""
        return scores > float(_quantile(np.asarray(self.rate), is_complex))


@dataclass(frozen=True)
class FalseDiscoveryRate(ThresholdRule):
    """Select as many entries as possible with a given expected fraction of false ones.

    This is the rule of Benjamini and Hochberg [1]_.

    Parameters
    ----------
    rate : float, optional
        The expected fraction of false entries among the selected ones, between 0 and 1.

    References
    ----------
    .. [1] Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate: a practical and powerful approach to
       multiple testing", Journal of the Royal Statistical Society B 57 (1995).

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> sparsect.FalseDiscoveryRate(0.1).select(np.array([[0.5, 3.5, 4.5]])).tolist()
    [[False, True, True]]
    """

    rate: float = 0.5

    def __post_init__(self) -> None:
        settle_number(self, "rate", "a number between 0 and 1", low=1e-300, high=1.0)

    def select(self, scores: Array, is_complex: bool = False) -> Array:
        """Select the entries of each row."""
        xp, n = namespace(scores), scores.shape[-1]
        # The i-th largest entry passes if it exceeds the quantile for the probability rate * i / n.
        quantiles = _quantile(self.rate * np.arange(1, n + 1) / n, is_complex)
        limits = xp.astype(from_numpy(quantiles, scores), scores.dtype)
        ranked = xp.sort(scores, axis=-1, descending=True)
        passing = xp.where(ranked >= limits, ranked, xp.full_like(ranked, float("inf")))
        # All entries down to the smallest one that passes are selected.
        return scores >= xp.min(passing, axis=-1, keepdims=True)


def _quantile(rate: Any, is_complex: bool) -> Any:
    """Return the value that the magnitude of standard normal noise exceeds with probability ``rate``."""
    from scipy.special import ndtri

    return np.sqrt(-np.log(rate)) if is_complex else -ndtri(rate / 2)


@dataclass(frozen=True, kw_only=True)
class StagewiseState(State):
    """The state of :class:`StagewiseOMP`.

    Attributes
    ----------
    x : array, shape (batch, n)
        The least-squares fit on all selected columns.
    support : array of bool, shape (batch, n)
        True for the selected columns.
    residual : array, shape (batch, m)
        The residual y - Phi x.
    stage : array of int, shape (batch,)
        The number of stages so far.
    """

    x: Array
    support: Array
    residual: Array
    stage: Array


@dataclass(frozen=True)
class StagewiseOMP(Solver):
    """Stagewise orthogonal matching pursuit (StOMP).

    Each stage selects all columns whose correlation with the residual exceeds a threshold, and fits y by least squares
    on all selected columns [1]_. A row settles when no column is selected, or before the number of columns reaches the
    number of rows of Phi. The stopping criterion is the norm of the residual of x.

    Parameters
    ----------
    threshold : FalseDiscoveryRate or FalseAlarmRate, optional
        The rule that selects columns. The default is SparseLab's, ``FalseDiscoveryRate(0.5)``.
    stages : int, optional
        The maximum number of stages.

    Notes
    -----
    One stage is::

        c <- Phi^H r, columns at norm 1,   noise level ||r|| / sqrt(m)
        T <- T and the entries of c that ``threshold`` selects
        x <- the least-squares fit on T,   r <- y - Phi x

    Correlations are computed with columns at norm 1. If Phi is not dense, all columns are assumed to have the same
    norm.

    References
    ----------
    .. [1] D. Donoho, Y. Tsaig, I. Drori and J.-L. Starck, "Sparse solution of underdetermined systems of linear
       equations by stagewise orthogonal matching pursuit", IEEE Transactions on Information Theory 58 (2012).

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.StagewiseOMP())
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "stomp"
    scale_free = True
    criterion: ClassVar[str] = "iterate_residual"
    compiled: ClassVar[bool] = True

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
            x=x, support=x != 0, residual=problem.y, stage=stage, criterion=scale, scale=scale, settled=scale == 0
        )

    def step(self, problem: Problem, state: StagewiseState) -> StagewiseState:
        """Carry out one stage."""
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
            criterion=norm(residual),
            settled=stuck | (stage >= self.stages),
        )

    def estimate(self, problem: Problem, state: StagewiseState) -> Array:
        """Return P_A(x), the s largest entries of x."""
        return keep_largest(state.x, problem.sparsity)


def _column_norms(problem: Problem) -> Any:
    """Return the column norms of Phi (1 for zero columns), or their estimated root mean square if Phi is not dense."""
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
