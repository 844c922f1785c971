"""The Difference Map (Landecker, Chartrand, DeDeo; Elser et al. 2007)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from ..arrays import Array, namespace, norm
from ..checks import real_number
from ..problems import Problem
from ..projections import DataProjection, DataSet, project_sparse
from ..solve import State


@dataclass(frozen=True)
class DifferenceMapState(State):
    """The iterate x and its image, P_A(x) and its image (unless beta = 1), and the data in image coordinates."""

    image: Array
    sparse: Array
    sparse_image: Array
    target: Array
    radius: Array


@dataclass(frozen=True)
class DifferenceMap:
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
    data_set : form of B: :class:`~sparsect.Affine` as in the paper, :class:`~sparsect.Relaxed` or
        :class:`~sparsect.Ball`. Default: Ball if the problem has a ``noise_norm``, otherwise Affine.

    Notes
    -----
    P_B changes x only within the row space of Phi, by an amount that depends on x only through its image
    a = V^H x (``row_space.py``). Writing w for x - P_B(x) and z for f_A(x) - P_B(f_A(x)), x itself cancels:

        D(x) = beta P_A(x - (1 + 1/beta) w) - (beta - 1) P_A(x) + beta z

    so carrying a and the image of P_A(x) along, a step needs two products with V (for w and z, done as one) and two
    with V^H (for the two thresholded points, done as one), where the transcription of D needs eight with Phi and
    its pseudo-inverse. At beta = 1, f_A(x) = x and half of that remains.
    """

    name: ClassVar[str] = "difference-map"

    beta: float = 0.14
    data_set: DataSet | None = None

    def __post_init__(self) -> None:
        real_number("beta", self.beta, "any number but 0", nonzero=True)

    def init(self, problem: Problem) -> DifferenceMapState:
        """Start from P_B(0), the smallest x that agrees with the data."""
        data = DataProjection(problem, self.data_set)
        target, radius = data.target(problem)
        correction, image = data.correction(0 * target, target, radius)
        sparse = sparse_image = None
        if self.beta != 1:
            sparse = project_sparse(-correction, problem.sparsity)
            sparse_image = data.image(sparse)
        gap = namespace(radius).full_like(radius, float("inf"))
        return DifferenceMapState(-correction, gap, None, -image, sparse, sparse_image, target, radius)

    def step(self, problem: Problem, state: DifferenceMapState) -> DifferenceMapState:
        """x <- D(x)."""
        data, beta, s = DataProjection(problem, self.data_set), self.beta, problem.sparsity
        xp = namespace(state.x)
        if state.sparse is None:
            w, w_image = data.correction(state.image, state.target, state.radius)
            in_A = project_sparse(state.x - 2 * w, s)
            x = in_A + w
            return dataclasses.replace(state, x=x, image=data.image(in_A) + w_image, gap=norm(x - state.x))
        f_A_image = (1 - 1 / beta) * state.sparse_image + state.image / beta
        both, both_images = data.correction(xp.stack([state.image, f_A_image]), state.target, state.radius)
        w, z, z_image = both[0, ...], both[1, ...], both_images[1, ...]
        in_A = project_sparse(state.x - (1 + 1 / beta) * w, s)
        x = beta * (in_A + z) - (beta - 1) * state.sparse
        sparse = project_sparse(x, s)
        images = data.image(xp.stack([in_A, sparse]))
        image = beta * (images[0, ...] + z_image) - (beta - 1) * state.sparse_image
        gap = norm(x - state.x) / abs(beta)
        return dataclasses.replace(state, x=x, gap=gap, image=image, sparse=sparse, sparse_image=images[1, ...])

    def estimate(self, problem: Problem, state: DifferenceMapState) -> Array:
        """P_A(x), the paper's thresholded iterate, or P_A(f_B(x)), the map's own point of A: whichever fits y better.

        Far from a solution that is the former, at one it is the latter: a fixed point x is not itself the solution.
        """
        xp = namespace(state.x)
        w, _ = DataProjection(problem, self.data_set).correction(state.image, state.target, state.radius)
        thresholded = project_sparse(state.x, problem.sparsity)
        in_A = project_sparse(state.x - (1 + 1 / self.beta) * w, problem.sparsity)
        misfits = [norm(problem.operator.forward(point) - problem.y) for point in (thresholded, in_A)]
        return xp.where((misfits[1] < misfits[0])[..., None], in_A, thresholded)
