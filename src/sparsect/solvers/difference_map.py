"""The Difference Map (Landecker, Chartrand, DeDeo; Elser et al. 2007)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backend.arrays import Array, namespace, norm, on_host
from ..backend.checks import settle_number
from ..kernels.search import Schedule, difference_steps, search_steps
from ..kernels.thresholding import advance, keep_largest
from ..operators.row_space import SingularVectors
from ..problems import Problem
from ..sets import DataProjection, DataSet, ProximalStep, check_data_set
from .base import Solver, State


@dataclass(frozen=True, kw_only=True)
class DifferenceMapState(State):
    """The iterate x and its image, P_A(x) and its image (unless beta = 1), and the data in image coordinates."""

    x: Array
    image: Array
    sparse: Array
    sparse_image: Array
    target: Array
    radius: Array


@dataclass(frozen=True)
class DifferenceMap(Solver):
    """Search for a point of A (at most s nonzeros) that is also in B (agrees with the data).

    One step is x <- D(x), equation (DM) of the paper:

        D(x)   = x + beta [P_A(f_B(x)) - P_B(f_A(x))]
        f_A(x) = P_A(x) - (P_A(x) - x) / beta
        f_B(x) = P_B(x) + (P_B(x) - x) / beta

    The *gap* ||P_A(f_B(x)) - P_B(f_A(x))|| vanishes when a solution is found.

    On the sign of beta: with A = sparsity and B = data, as printed, the paper's beta = -0.14 recovers badly and
    +0.14 reproduces its claims. Exchanging A and B is the same as flipping the sign, so the authors' program most
    likely had the two sets the other way round. The default is +0.14; ``benchmarks/recovery.py`` shows both.

    Parameters
    ----------
    beta : any number but 0; near 0.14 the thresholded iterate is best, larger values search more widely.
    data_set : form of B: :class:`~sparsect.Affine` as in the paper, :class:`~sparsect.ProximalStep` or
        :class:`~sparsect.Ball`. Default: Ball if the problem has a ``noise_norm``, otherwise Affine.

    Notes
    -----
    P_B changes x only within the row space of Phi, by an amount that depends on x only through its image
    a = V^H x (``operators/row_space.py``). Writing w for x - P_B(x) and z for f_A(x) - P_B(f_A(x)), x itself cancels:

        D(x) = beta P_A(x - (1 + 1/beta) w) - (beta - 1) P_A(x) + beta z

    so carrying a and the image of P_A(x) along, a step needs two dense products (V times the coordinates of w and z,
    done as one) and two of s-sparse vectors with V^H: 4mn + 4ms flops, against the 8mn of the four dense products with
    Phi and its pseudo-inverse that the printed form takes. For large batches with s above n/8 or so all four are done
    densely after all, because that is faster. At beta = 1, f_A(x) = x and half of everything remains.
    """

    name: ClassVar[str] = "difference-map"
    uses_noise_norm: ClassVar[bool] = True
    compiled: ClassVar[bool] = True

    beta: float = 0.14
    data_set: DataSet | None = None

    def __post_init__(self) -> None:
        settle_number(self, "beta", "any number but 0", nonzero=True)
        check_data_set(self.data_set)

    @property
    def scale_free(self) -> bool:
        """Whether B takes no number in the units of the data."""
        return not isinstance(self.data_set, ProximalStep)

    def init(self, problem: Problem) -> DifferenceMapState:
        """Start from P_B(0), the smallest x that agrees with the data."""
        data = DataProjection(problem, self.data_set)
        target, radius = data.target(problem)
        correction, image = data.correction(0 * target, target, radius)
        sparse = sparse_image = None
        if self.beta != 1:
            sparse = keep_largest(-correction, problem.sparsity)
            sparse_image = data.image_of_sparse(sparse)
        return DifferenceMapState(
            x=-correction,
            image=-image,
            sparse=sparse,
            sparse_image=sparse_image,
            target=target,
            radius=radius,
            gap=namespace(radius).full_like(radius, float("inf")),
            scale=norm(correction),
        )

    def step(self, problem: Problem, state: DifferenceMapState) -> DifferenceMapState:
        """x <- D(x)."""
        data, beta, s = DataProjection(problem, self.data_set), self.beta, problem.sparsity
        xp = namespace(state.x)
        if state.sparse is None:
            w, w_image = data.correction(state.image, state.target, state.radius)
            in_A, x, gap, _ = advance(state.x, w, state.x, s)
            return dataclasses.replace(state, x=x, image=data.image_of_sparse(in_A) + w_image, gap=gap)
        f_A_image = (1 - 1 / beta) * state.sparse_image + state.image / beta
        both, both_images = data.correction(xp.stack([state.image, f_A_image]), state.target, state.radius)
        w, z, z_image = both[0, ...], both[1, ...], both_images[1, ...]
        in_A = keep_largest(state.x - (1 + 1 / beta) * w, s)
        x = beta * (in_A + z) - (beta - 1) * state.sparse
        sparse = keep_largest(x, s)
        images = data.image_of_sparse(xp.stack([in_A, sparse]))
        image = beta * (images[0, ...] + z_image) - (beta - 1) * state.sparse_image
        gap = norm(x - state.x) / abs(beta)
        return dataclasses.replace(state, x=x, gap=gap, image=image, sparse=sparse, sparse_image=images[1, ...])

    def steps(self, problem: Problem, state: Any, goal: Array, fractions: Sequence[float]) -> Any:
        """Fused steps of all rows on a GPU, where they can be: they are cheaper than looking at rows in between."""
        after = None if on_host(problem.y) else self._fused(problem, state, len(fractions))
        return super().steps(problem, state, goal, fractions) if after is None else after

    def _fused(self, problem: Problem, state: DifferenceMapState, count: int) -> DifferenceMapState | None:
        """``count`` steps on a GPU, if B is damped alike for all rows."""
        data, s = DataProjection(problem, self.data_set), problem.sparsity
        space, alpha = data.space, data.data_set.alpha
        if not isinstance(space, SingularVectors) or alpha is None:
            return None
        after: Any
        if state.sparse is not None:
            now = {name: getattr(state, name) for name in ("x", "image", "sparse", "sparse_image")}
            after = difference_steps(space.basis, state.target, alpha, s, self.beta, count, now)
            return None if after is None else dataclasses.replace(state, **after)
        xp, schedule = namespace(state.x), Schedule([alpha] * count, [s] * count, [False] * count)
        steps = xp.zeros_like(state.gap)
        now = {"x": state.x, "image": state.image, "sparse": xp.zeros_like(state.x), "gap": state.gap}
        now |= {"taken": steps, "unchanged": steps, "total": None, "power": None, "count": None}
        never = np.full(problem.batch, -1.0)
        after = search_steps(space.basis, state.target, schedule, 1.0, never, now, compared=False)
        return (
            None
            if after is None
            else dataclasses.replace(state, **{name: after[0][name] for name in ("x", "image", "gap")})
        )

    def estimate(self, problem: Problem, state: DifferenceMapState) -> Array:
        """P_A(x), the paper's thresholded iterate, or P_A(f_B(x)), the map's own point of A: whichever fits y better.

        Far from a solution that is the former, at one it is the latter: a fixed point x is not itself the solution.
        """
        xp = namespace(state.x)
        w, _ = DataProjection(problem, self.data_set).correction(state.image, state.target, state.radius)
        thresholded = keep_largest(state.x, problem.sparsity)
        in_A = keep_largest(state.x - (1 + 1 / self.beta) * w, problem.sparsity)
        misfits = [norm(problem.operator.forward(point) - problem.y) for point in (thresholded, in_A)]
        return xp.where((misfits[1] < misfits[0])[..., None], in_A, thresholded)
