"""Vector approximate message passing with a Bernoulli-Gaussian prior (Rangan, Schniter and Fletcher 2019)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from ..backend.arrays import (
    Array,
    namespace,
    norm,
    on_host,
    squared_norm,
    to_numpy,
)
from ..backend.checks import settle_number
from ..kernels.posterior import denoise, posterior
from ..kernels.thresholding import keep_largest
from ..operators.row_space import Orthonormal
from ..problems import Problem
from .base import Requirement, Solver, State, chosen

# Precisions (inverse variances) are kept within these bounds, relative to the data.
SMALLEST, LARGEST = 1e-11, 1e11
# Messages that disagree this many times as much as before have exploded; rows that settle stay far below.
EXPLODED = 100.0


@dataclass(frozen=True, kw_only=True)
class MessageState(State):
    """Posterior mean x, the message r of precision gamma it came from, and each row's prior and noise level."""

    x: Array
    r: Array
    gamma: Array
    density: Array
    variance: Array
    noise_variance: Array
    target: Array
    defect: Array


@dataclass(frozen=True)
class VectorAMP(Solver):
    """Bayes-optimal recovery where Phi is random enough: the yardstick for how well any method could do.

    x is taken to be zero with probability 1 - density and normal with the given variance otherwise, the noise normal. A
    step passes two messages, each an estimate with its precision:

        x1, var <- posterior mean and mean variance of x given r = x + N(0, 1/gamma)
        r2 <- (x1/var - gamma r) / gamma2,       gamma2 = 1/var - gamma
        x2, var2 <- the same for normal x given r2 and y: the relaxed data projection, alpha = gamma2 noise_variance
        r  <- (x2/var2 - gamma2 r2) / gamma,     gamma = 1/var2 - gamma2

    What is not given of density, variance and noise_variance is learned from each row by expectation maximisation,
    starting from density = s/n. The *gap* is ||x1 - x2||. Dictionaries are not random: there it may run away.

    Parameters
    ----------
    density, variance, noise_variance : the prior and the noise level, or None to learn them; a ``noise_norm`` of the
        problem fixes the noise level too
    damping : fraction of each new message that is taken, above 0 and up to 1

    References
    ----------
    S. Rangan, P. Schniter and A. Fletcher, "Vector approximate message passing", IEEE Trans. IT 65 (2019).
    """

    name: ClassVar[str] = "vamp"
    needs: ClassVar[frozenset[Requirement]] = frozenset({Requirement.SPECTRUM})
    uses_noise_norm: ClassVar[bool] = True

    density: float | None = None
    variance: float | None = None
    noise_variance: float | None = None
    damping: float = 0.9

    def __post_init__(self) -> None:
        for name in ("density", "variance", "noise_variance"):
            if getattr(self, name) is not None:
                high = 1.0 if name == "density" else float("inf")
                settle_number(self, name, "a positive number, or None to learn it", low=1e-300, high=high)
        settle_number(self, "damping", "a number above 0, up to 1", low=1e-300, high=1.0)

    @property
    def scale_free(self) -> bool:
        """Whether all that has units is learned from the data."""
        return self.variance is None and self.noise_variance is None

    def init(self, problem: Problem) -> MessageState:
        """The linear estimate under the prior's second moment."""
        space = _space(problem)
        xp, (m, n) = namespace(problem.y), problem.operator.shape
        target = space.target(problem.y)
        power = squared_norm(problem.y)
        one = xp.ones_like(power)
        density = one * (self.density or max(problem.sparsity, 1) / n)
        if problem.noise_norm is not None:
            noise = problem.noise_norm**2 / m
        else:
            noise = one * self.noise_variance if self.noise_variance is not None else power / (101 * m)
        floor = 1e-12 * power / m + 1e-300
        noise = xp.where(noise > floor, noise, floor)
        spectral = float(xp.sum(_squares(space, target))) or 1.0
        signal = power - m * noise
        signal = xp.where(signal > 0.01 * power, signal, 0.01 * power)
        variance = one * self.variance if self.variance is not None else signal / (density * spectral)
        variance = xp.where(variance > 0, variance, one)
        zero = 0 * space.correction(target, 0.0)[0]
        state = MessageState(
            x=zero, r=zero, gamma=one, density=density, variance=variance, noise_variance=noise, target=target,
            defect=space.defect(problem.y, target), gap=xp.full_like(one, float("inf")),
            scale=norm(zero) + xp.sqrt(n * density * variance), failed=one < 0,
        )  # fmt: skip
        _, r, gamma, _ = self._linear(problem, state, zero, 1 / (density * variance))
        return dataclasses.replace(state, r=r, gamma=gamma, scale=xp.where(power > 0, state.scale, 0 * power))

    def start_from(self, problem: Problem, state: Any, x: Array, error: Array) -> Any:
        """``state`` as if messages had led to the estimate ``x`` with a mean squared error of ``error`` for each entry.

        What is to be learned is first taken from the s largest entries of x and the residual they leave.
        """
        xp, (m, _), s = namespace(x), problem.operator.shape, problem.sparsity
        sparse = keep_largest(x, s)
        variance = squared_norm(sparse) / max(s, 1)
        variance = xp.where(variance > 0, variance, state.variance)
        learned = dataclasses.replace(state, variance=variance if self.variance is None else state.variance)
        if self.noise_variance is None and problem.noise_norm is None:
            noise = squared_norm(problem.operator.forward(sparse) - problem.y) / max(m - s, 1)
            noise = xp.where(noise > 0, noise, state.noise_variance)
            learned = dataclasses.replace(learned, noise_variance=noise)
        floor = 1e-6 * state.density * variance
        _, r, gamma, _ = self._linear(problem, learned, x, 1 / xp.where(error > floor, error, floor))
        return dataclasses.replace(learned, r=r, gamma=gamma, gap=xp.full_like(gamma, float("inf")))

    def step(self, problem: Problem, state: Any) -> Any:
        """One exchange, after which rows that explode keep what they had."""
        after = self.exchange(problem, state)
        over = exploded(state, after)
        if not on_host(over) or bool(namespace(over).any(over)):
            after = chosen(over, state, after)
        return dataclasses.replace(after, failed=over)

    def exchange(self, problem: Problem, state: Any) -> Any:
        """Both messages, and a step of expectation maximisation."""
        xp, keep = namespace(state.x), self.damping
        x, var, active, power = denoise(state.r, state.gamma, state.density, state.variance)
        precision = 1 / var
        gamma2 = _bounded(precision - state.gamma, state)
        r2 = (precision[:, None] * x - state.gamma[:, None] * state.r) / gamma2[:, None]
        learned = state
        if self.density is None or self.variance is None:
            floor = xp.where(active > 1e-12, active, xp.ones_like(active))
            learned = dataclasses.replace(
                state,
                density=state.density if self.density is not None else _clip(active / x.shape[-1], 1e-6, 1.0),
                variance=state.variance if self.variance is not None else power / floor,
            )
        x2, r, gamma, noise = self._linear(problem, learned, r2, gamma2)
        if self.noise_variance is None and problem.noise_norm is None:
            learned = dataclasses.replace(learned, noise_variance=noise)
        return dataclasses.replace(
            learned,
            x=x,
            r=keep * r + (1 - keep) * state.r,
            gamma=keep * gamma + (1 - keep) * state.gamma,
            gap=norm(x - x2),
        )

    def _linear(
        self, problem: Problem, state: MessageState, r2: Array, gamma2: Array
    ) -> tuple[Array, Array, Array, Array]:
        """The estimate given r2 and y for normal x, the message it sends back, and the noise level it implies."""
        space = _space(problem)
        xp, (m, n) = namespace(r2), problem.operator.shape
        alpha = (gamma2 * state.noise_variance)[:, None]
        image = space.image(r2)
        residual = space.residual(image, state.target)
        correction, correction_image = space.correction(residual, alpha)
        x2 = r2 - correction
        squares = _squares(space, state.target)
        shrink = xp.sum(squares / (squares + alpha), axis=-1)
        precision = gamma2 / (1 - shrink / n)
        gamma = _bounded(precision - gamma2, state)
        r = (precision[:, None] * x2 - gamma2[:, None] * r2) / gamma[:, None]
        left = space.residual(image - correction_image, state.target)
        misfit = squared_norm(left) + state.defect**2
        noise = (misfit + state.noise_variance * shrink) / m
        least = 1e-12 * (squared_norm(state.target) / m) + 1e-300
        return x2, r, gamma, xp.where(noise > least, noise, least)

    def estimate(self, problem: Problem, state: MessageState) -> Array:
        """P_A of the posterior mean; the mean itself, ``state.x``, is the Bayes estimate and not sparse.

        Where Phi is far from random the messages may run away; a mean that fits worse than zero is replaced by it.
        """
        xp, x = namespace(state.x), keep_largest(state.x, problem.sparsity)
        fits = norm(problem.operator.forward(x) - problem.y) <= norm(problem.y)
        return xp.where(fits[:, None], x, xp.zeros_like(x))


def exploded(before: MessageState, after: MessageState) -> Array:
    """Rows whose messages disagree all at once, as they can where rounding is all the noise that is left."""
    return after.gap > EXPLODED * before.gap


def state_evolution(
    singular_values: Any, shape: tuple[int, int], density: float, variance: float, noise_variance: float, steps: int
) -> np.ndarray[Any, Any]:
    """Mean squared error of x that VAMP with the true prior has after each step, in the limit of large random Phi.

    The expectation over r = x + N(0, 1/gamma) is an integral on a fine grid, separately for zero and nonzero x.
    """
    nodes = np.linspace(-9, 9, 20001)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    squares = to_numpy(singular_values).astype(np.float64) ** 2
    n = shape[1]
    gamma2, errors = 1 / (density * variance), []
    for _ in range(steps):
        shrink = np.sum(squares / (squares + gamma2 * noise_variance)) / n
        gamma = gamma2 / (1 - shrink) - gamma2
        error = 0.0
        for share, spread in ((1 - density, 1 / gamma), (density, variance + 1 / gamma)):
            r = nodes[None, :] * np.sqrt(spread)
            _, var, _, _ = posterior(r, np.array([gamma]), np.array([density]), np.array([variance]), 0.5)
            error += share * float(np.sum(weights * var))
        errors.append(error)
        gamma2 = max(1 / error - gamma, SMALLEST)
    return np.array(errors)


def _space(problem: Problem) -> Orthonormal:
    return cast(Orthonormal, problem.operator.row_space)


def _squares(space: Orthonormal, like: Array) -> Array:
    """Squared singular values, one for each image coordinate."""
    xp = namespace(like)
    return space.singular_values**2 + xp.zeros(like.shape[-1:], dtype=norm(like).dtype, device=like.device)


def _clip(x: Array, low: float, high: float) -> Array:
    xp = namespace(x)
    return xp.minimum(xp.maximum(x, xp.full_like(x, low)), xp.full_like(x, high))


def _bounded(gamma: Array, state: MessageState) -> Array:
    """A precision kept positive and finite, relative to the variance of x."""
    return _clip(gamma * state.variance, SMALLEST, LARGEST) / state.variance
