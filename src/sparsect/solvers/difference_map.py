"""The Difference Map (Landecker, Chartrand, DeDeo; Elser et al. 2007)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backend.arrays import Array, FloatArray, namespace, on_host
from ..backend.checks import settle_number
from ..backend.norms import norm
from ..kernels.search import Schedule, difference_steps, search_steps
from ..kernels.thresholding import Kind, advance, project
from ..operators.pseudo_inverse import SingularVectors
from ..problems import Problem
from ..sets import DataSet
from ..sets.data import data_projection
from .base import State
from .two_sets import TwoSetMap


@dataclass(frozen=True, kw_only=True)
class DifferenceMapState(State):
    """The state of :class:`DifferenceMap`.

    Attributes
    ----------
    x : array, shape (batch, n)
        The iterate.
    image : array, shape (batch, rank)
        The image coordinates of x (``operators/pseudo_inverse``).
    sparse : array, shape (batch, n), or None
        P_A(x); None if beta = 1, where it is not needed.
    sparse_image : array, shape (batch, rank), or None
        The image coordinates of P_A(x).
    target : array, shape (batch, rank)
        The part of y in the range of Phi, in image coordinates.
    radius : array, shape (batch,)
        The distance from the target that B allows.
    """

    x: Array
    image: Array
    sparse: Array | None
    sparse_image: Array | None
    target: Array
    radius: Array


@dataclass(frozen=True)
class DifferenceMap(TwoSetMap):
    """The Difference Map, a search for a point in the intersection of two sets.

    A is the set of points with at most s nonzeros, and B is the set of points that agree with the data. One step is
    x <- D(x), equation (DM) of the paper [1]_; the map is due to Elser et al. [2]_::

        D(x)   = x + beta [P_A(f_B(x)) - P_B(f_A(x))]
        f_A(x) = P_A(x) - (P_A(x) - x) / beta
        f_B(x) = P_B(x) + (P_B(x) - x) / beta

    The stopping criterion is the *gap* ||P_A(f_B(x)) - P_B(f_A(x))||, the distance between a point of A and a point of
    B. It vanishes when a solution is found.

    Parameters
    ----------
    beta : float, optional
        Any number except 0. Near 0.14 the thresholded iterate is best; larger values search more widely.
    data_set : Affine, Relaxed, Ball, object or None, optional
        The form of B: :class:`~sparsect.Affine` as in the paper, :class:`~sparsect.Relaxed`, :class:`~sparsect.Ball`,
        or an object of your own with a method ``project(x, y)``, which returns the nearest point that agrees with y for
        every row. The default is Ball if the problem has a ``noise_norm``, otherwise Affine.

    Notes
    -----
    The sign of beta: with A = sparsity and B = data, as printed, the paper's beta = -0.14 recovers poorly, while +0.14
    reproduces its claims. Exchanging A and B is equivalent to changing the sign, so the authors' program most likely
    had the two sets exchanged. The default is +0.14; ``benchmarks/recovery.py`` shows both.

    The cost of a step: P_B changes x only within the row space of Phi, by an amount that depends on x only through its
    image a = V^H x (``operators/pseudo_inverse``). With w = x - P_B(x) and z = f_A(x) - P_B(f_A(x)), x itself cancels::

        D(x) = beta P_A(x - (1 + 1/beta) w) - (beta - 1) P_A(x) + beta z

    If a and the image of P_A(x) are kept, a step needs two dense products (V times the coordinates of w and of z,
    computed as one product) and two products of V^H with s-sparse vectors: 4mn + 4ms flops. The printed form takes 8mn
    flops for four dense products with Phi and its pseudo-inverse. For large batches and s above about n/8, all four
    products are dense, because that is faster. At beta = 1, f_A(x) = x and the cost is halved.

    References
    ----------
    .. [1] W. Landecker, R. Chartrand and S. DeDeo, "Robust compressed sensing and sparse coding with the Difference
       Map".
    .. [2] V. Elser, I. Rankenburg and P. Thibault, "Searching with iterated maps", Proceedings of the National Academy
       of Sciences 104 (2007).

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.DifferenceMap(beta=0.14))
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "difference-map"
    takes: ClassVar[frozenset[Kind]] = frozenset(Kind)
    uses_noise_norm: ClassVar[bool] = True
    criterion: ClassVar[str] = "gap"
    compiled: ClassVar[bool] = True

    beta: float = 0.14
    data_set: DataSet | None = None

    def __post_init__(self) -> None:
        settle_number(self, "beta", "any number but 0", nonzero=True)
        super().__post_init__()

    def init(self, problem: Problem) -> DifferenceMapState:
        """Start from P_B(0), the x of smallest norm that agrees with the data."""
        data = data_projection(problem, self.data_set)
        target, radius = data.target(problem)
        correction, image = data.correction(data.start(target), target, radius)
        sparse = sparse_image = None
        if self.beta != 1:
            sparse = project(-correction, problem.structure)
            sparse_image = data.image_of_sparse(sparse)
        return DifferenceMapState(
            x=-correction,
            image=-image,
            sparse=sparse,
            sparse_image=sparse_image,
            target=target,
            radius=radius,
            criterion=namespace(radius).full_like(radius, float("inf")),
            scale=norm(correction),
        )

    def step(self, problem: Problem, state: DifferenceMapState) -> DifferenceMapState:
        """Replace x by D(x)."""
        data, beta, A = data_projection(problem, self.data_set), self.beta, problem.structure
        xp = namespace(state.x)
        if state.sparse is None or state.sparse_image is None:
            w, w_image = data.correction(state.image, state.target, state.radius)
            in_A, x, gap, _ = advance(state.x, w, state.x, A)
            return dataclasses.replace(state, x=x, image=data.image_of_sparse(in_A) + w_image, criterion=gap)
        f_A_image = (1 - 1 / beta) * state.sparse_image + state.image / beta
        both, both_images = data.correction(xp.stack([state.image, f_A_image]), state.target, state.radius)
        w, z, z_image = both[0, ...], both[1, ...], both_images[1, ...]
        in_A = project(state.x - (1 + 1 / beta) * w, A)
        x = beta * (in_A + z) - (beta - 1) * state.sparse
        sparse = project(x, A)
        images = data.image_of_sparse(xp.stack([in_A, sparse]))
        image = beta * (images[0, ...] + z_image) - (beta - 1) * state.sparse_image
        gap = norm(x - state.x) / abs(beta)
        return dataclasses.replace(state, x=x, criterion=gap, image=image, sparse=sparse, sparse_image=images[1, ...])

    def steps(self, problem: Problem, state: Any, goal: FloatArray, fractions: Sequence[float]) -> Any:
        """Take several steps, on a GPU with fused kernels if possible.

        Fused steps are taken in all rows, because checking the rows in between would cost more.
        """
        after = None if on_host(problem.y) else self._fused(problem, state, len(fractions))
        return super().steps(problem, state, goal, fractions) if after is None else after

    def _fused(self, problem: Problem, state: DifferenceMapState, count: int) -> DifferenceMapState | None:
        """Take ``count`` steps on a GPU, if the relaxation of B is the same for all rows."""
        data, s = data_projection(problem, self.data_set), problem.sparsity
        alpha = data.data_set.alpha
        if alpha is None or not isinstance(data.inverse, SingularVectors):
            return None
        inverse = data.inverse
        after: Any
        if state.sparse is not None and not problem.structure.plain:
            return None
        if state.sparse is not None:
            now = {name: getattr(state, name) for name in ("x", "image", "sparse", "sparse_image")}
            after = difference_steps(inverse.basis, state.target, alpha, s, self.beta, count, now)
            return None if after is None else dataclasses.replace(state, **after)
        xp, schedule = namespace(state.x), Schedule([alpha] * count, [problem.structure] * count, [False] * count)
        steps = xp.zeros_like(state.criterion)
        now = {"x": state.x, "image": state.image, "sparse": xp.zeros_like(state.x), "criterion": state.criterion}
        now |= {"taken": steps, "unchanged": steps, "total": None, "power": None, "count": None}
        never = np.full(problem.batch, -1.0)
        after = search_steps(inverse.basis, state.target, schedule, 1.0, never, now, compared=False)
        return (
            None
            if after is None
            else dataclasses.replace(state, **{name: after[0][name] for name in ("x", "image", "criterion")})
        )

    def estimate(self, problem: Problem, state: DifferenceMapState) -> Array:
        """Return P_A(x) or P_A(f_B(x)), whichever fits y better.

        P_A(x) is the paper's thresholded iterate, P_A(f_B(x)) is the point of A used by the map. Far from a solution
        the former fits better. At a solution the latter does, because a fixed point x is not itself the solution.
        """
        xp = namespace(state.x)
        w, _ = data_projection(problem, self.data_set).correction(state.image, state.target, state.radius)
        thresholded = project(state.x, problem.structure)
        in_A = project(state.x - (1 + 1 / self.beta) * w, problem.structure)
        misfits = [self.misfit(problem, point) for point in (thresholded, in_A)]
        return xp.where((misfits[1] < misfits[0])[..., None], in_A, thresholded)
