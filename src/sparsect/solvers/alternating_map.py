"""The Alternating Map: the same two projections as the Difference Map, one after the other."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from ..backend.arrays import Array, epsilon, namespace
from ..backend.norms import norm
from ..kernels.thresholding import Kind, project
from ..problems import Problem
from ..sets import DataSet
from ..sets.data import data_projection
from .base import State
from .two_sets import TwoSetMap


@dataclass(frozen=True, kw_only=True)
class AlternatingMapState(State):
    """The state of :class:`AlternatingMap`.

    Attributes
    ----------
    x : array, shape (batch, n)
        The iterate, always a point of A.
    image : array, shape (batch, rank)
        The image coordinates of x (``operators/pseudo_inverse``).
    target : array, shape (batch, rank)
        The part of y in the range of Phi, in image coordinates.
    radius : array, shape (batch,)
        The distance from the target that B allows.
    """

    x: Array
    image: Array
    target: Array
    radius: Array


@dataclass(frozen=True)
class AlternatingMap(TwoSetMap):
    """The Alternating Map x <- P_A(P_B(x)).

    The paper compares the Difference Map with it (section 2.1). It resembles ECME for known sparsity. The
    stopping criterion is the *gap* ||x - P_B(x)||, the distance from the point of A that a step starts from to B. A row
    settles when a step no longer changes it, usually at a point of A that is not in B.

    Parameters
    ----------
    data_set : Affine, Relaxed, Ball or None, optional
        The form of B, as for :class:`~sparsect.DifferenceMap`.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.AlternatingMap())
    >>> int(result.support.sum())
    6
    """

    name: ClassVar[str] = "alternating-map"
    takes: ClassVar[frozenset[Kind]] = frozenset(Kind)
    uses_noise_norm: ClassVar[bool] = True
    criterion: ClassVar[str] = "gap"
    compiled: ClassVar[bool] = True

    data_set: DataSet | None = None

    def init(self, problem: Problem) -> AlternatingMapState:
        """Start from P_A(P_B(0))."""
        data = data_projection(problem, self.data_set)
        target, radius = data.target(problem)
        correction, _ = data.correction(data.start(target), target, radius)
        x = project(-correction, problem.structure)
        return AlternatingMapState(
            x=x,
            image=data.image_of_sparse(x),
            target=target,
            radius=radius,
            criterion=namespace(radius).full_like(radius, float("inf")),
            scale=norm(correction),
            settled=radius < 0,
        )

    def step(self, problem: Problem, state: AlternatingMapState) -> AlternatingMapState:
        """Project onto B, then onto A."""
        data = data_projection(problem, self.data_set)
        w, _ = data.correction(state.image, state.target, state.radius)
        x = project(state.x - w, problem.structure)
        settled = norm(x - state.x) <= 4 * epsilon(x) * norm(x)
        return dataclasses.replace(state, x=x, criterion=norm(w), settled=settled, image=data.image_of_sparse(x))

    def estimate(self, problem: Problem, state: AlternatingMapState) -> Array:
        """Return x."""
        return state.x
