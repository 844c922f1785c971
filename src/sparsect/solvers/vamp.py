"""Vector approximate message passing with a Bernoulli-Gaussian prior (Rangan, Schniter and Fletcher 2019)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from ..backend.arrays import Array, FloatArray, from_numpy, namespace, on_host, to_numpy
from ..backend.checks import settle_number
from ..backend.norms import norm, squared_norm
from ..kernels.posterior import denoise, posterior
from ..kernels.thresholding import Kind, Structure, project
from ..operators.pseudo_inverse import OrthonormalBasis
from ..problems import Problem
from .base import Requirement, Solver, State, chosen

# Precisions (inverse variances) are kept within these bounds, relative to the data.
SMALLEST, LARGEST = 1e-11, 1e11
# The smallest probability of a nonzero.
RARE = 1e-6
# Messages have diverged if their disagreement grows by more than this factor in a step, far more than in rows that
# settle.
DIVERGED = 100.0


@dataclass(frozen=True, kw_only=True)
class MessageState(State):
    """The state of :class:`VectorAMP`.

    Attributes
    ----------
    x : array, shape (batch, n)
        The posterior mean.
    r : array, shape (batch, n)
        The message from which the posterior mean was computed.
    gamma : array, shape (batch,)
        The precision of this message.
    density : array, shape (batch,) or (batch, levels)
        The probability of a nonzero.
    variance : array, shape (batch,) or (batch, levels)
        The variance of the nonzeros.
    noise_variance : array, shape (batch,)
        The variance of the noise.
    target : array, shape (batch, rank)
        The part of y in the range of Phi, in image coordinates.
    distance_to_range : array, shape (batch,)
        The norm of the part of y outside the range of Phi.
    """

    x: Array
    r: Array
    gamma: Array
    density: Array
    variance: Array
    noise_variance: Array
    target: Array
    distance_to_range: Array


@dataclass(frozen=True)
class VectorAMP(Solver):
    """Vector approximate message passing with a Bernoulli-Gaussian prior.

    It is Bayes-optimal if Phi is sufficiently random, and thus shows how well any method could do [1]_. The prior of x
    is zero with probability 1 - density and otherwise normal with the given variance; the noise is normal. Parameters
    among density, variance and noise_variance that are not given are learned from each row by expectation maximization,
    starting from density = s/n. The stopping criterion is ||x1 - x2||, the disagreement of the two estimates in the
    notes. Dictionaries are not random, so the iteration can diverge for them.

    Parameters
    ----------
    density : float, optional
        The probability of a nonzero. By default it is learned.
    variance : float, optional
        The variance of the nonzeros. By default it is learned.
    noise_variance : float, optional
        The variance of the noise. By default it is learned. If the problem has a ``noise_norm``, the variance follows
        from that instead.
    damping : float, optional
        The weight of each new message relative to the previous one, above 0 and up to 1.

    Notes
    -----
    A step passes two messages, each an estimate with its precision::

        x1, var <- posterior mean and mean variance of x given r = x + N(0, 1/gamma)
        r2 <- (x1/var - gamma r) / gamma2,       gamma2 = 1/var - gamma
        x2, var2 <- the same for normal x given r2 and y
        r  <- (x2/var2 - gamma2 r2) / gamma,     gamma = 1/var2 - gamma2

    The third line is the relaxed data projection with alpha = gamma2 noise_variance.

    References
    ----------
    .. [1] S. Rangan, P. Schniter and A. Fletcher, "Vector approximate message passing", IEEE Transactions on
       Information Theory 65 (2019).

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.VectorAMP())
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "vamp"
    takes: ClassVar[frozenset[Kind]] = frozenset({Kind.BOUNDS, Kind.GROUPS, Kind.LEVELS})
    criterion: ClassVar[str] = "disagreement"
    needs: ClassVar[frozenset[Requirement]] = frozenset({Requirement.SPECTRUM})
    uses_noise_norm: ClassVar[bool] = True
    compiled: ClassVar[bool] = True

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
        """Whether all parameters with units are learned from the data."""
        return self.variance is None and self.noise_variance is None

    def init(self, problem: Problem) -> MessageState:
        """Start from the linear estimate under the second moment of the prior."""
        inverse = _inverse(problem)
        xp, (m, n) = namespace(problem.y), problem.operator.shape
        target = inverse.target(problem.y)
        power = squared_norm(problem.y)
        one = xp.ones_like(power)
        density = one * (self.density or max(problem.sparsity, 1) / n)
        if problem.noise_norm is not None:
            noise = problem.noise_norm**2 / m
        else:
            noise = one * self.noise_variance if self.noise_variance is not None else power / (101 * m)
        floor = 1e-12 * power / m + 1e-300
        noise = xp.where(noise > floor, noise, floor)
        spectral = float(xp.sum(_squares(inverse, target))) or 1.0
        signal = power - m * noise
        signal = xp.where(signal > 0.01 * power, signal, 0.01 * power)
        variance = one * self.variance if self.variance is not None else signal / (density * spectral)
        variance = xp.where(variance > 0, variance, one)
        zero = 0 * inverse.correction(target, 0.0)[0]
        state = MessageState(
            x=zero, r=zero, gamma=one, density=density, variance=variance, noise_variance=noise, target=target,
            distance_to_range=inverse.distance_to_range(problem.y, target), criterion=xp.full_like(one, float("inf")),
            scale=norm(zero) + xp.sqrt(n * density * variance), failed=one < 0,
        )  # fmt: skip
        _, r, gamma, _ = self._linear(problem, state, zero, 1 / (density * variance))
        if problem.structure.leveled:
            counts = one[:, None] * _numbers(problem.structure.counts, one)
            variance = 0 * counts + variance[:, None]
            density = 0 * counts + density[:, None] if self.density else _density(problem.structure, counts)
        scale = xp.where(power > 0, state.scale, 0 * power)
        return dataclasses.replace(state, r=r, gamma=gamma, density=density, variance=variance, scale=scale)

    def start_from(self, problem: Problem, state: Any, x: Array, error: Array) -> Any:
        """Return a state as if the messages had led to a given estimate.

        Parameters that are to be learned are first estimated from the s largest entries of x and their residual.

        Parameters
        ----------
        problem : Problem
            The problem, restricted to the rows of ``state``.
        state : MessageState
            The current state.
        x : array, shape (batch, n)
            The estimate.
        error : array, shape (batch,)
            Its mean squared error for each entry.

        Returns
        -------
        MessageState
            The state from which messages continue.
        """
        xp, (m, n), s, A = namespace(x), problem.operator.shape, problem.sparsity, problem.structure
        sparse = project(x, A)
        power = A.level_sums(xp.abs(sparse) ** 2)
        nonzeros = _numbers(A.counts, power) if A.leveled else max(s, 1)
        variance = _variance(power, nonzeros + 0 * power)
        variance = xp.where(variance > 0, variance, state.variance)
        learned = dataclasses.replace(state, variance=variance if self.variance is None else state.variance)
        if self.noise_variance is None and problem.noise_norm is None:
            noise = squared_norm(problem.operator.forward(sparse) - problem.y) / max(m - s, 1)
            noise = xp.where(noise > 0, noise, state.noise_variance)
            learned = dataclasses.replace(learned, noise_variance=noise)
        floor = 1e-6 * max(s, 1) / n * _largest(variance)
        _, r, gamma, _ = self._linear(problem, learned, x, 1 / xp.where(error > floor, error, floor))
        return dataclasses.replace(learned, r=r, gamma=gamma, criterion=xp.full_like(gamma, float("inf")))

    def step(self, problem: Problem, state: Any) -> Any:
        """Exchange messages once; rows whose messages diverge keep their previous state."""
        after = self.exchange(problem, state)
        failed = diverged(state, after)
        if not on_host(failed) or bool(namespace(failed).any(failed)):
            after = chosen(failed, state, after)
        return dataclasses.replace(after, failed=failed)

    def exchange(self, problem: Problem, state: Any) -> Any:
        """Pass both messages, and update the prior by one step of expectation maximization.

        Parameters
        ----------
        problem : Problem
            The problem, restricted to the rows of ``state``.
        state : MessageState
            The current state.

        Returns
        -------
        MessageState
            The state after the exchange.
        """
        keep = self.damping
        x, var, active, power = denoise(state.r, state.gamma, state.density, state.variance, problem.structure)
        precision = 1 / var
        gamma2 = _bounded(precision - state.gamma, state)
        r2 = (precision[:, None] * x - state.gamma[:, None] * state.r) / gamma2[:, None]
        learned = state
        if self.density is None or self.variance is None:
            learned = dataclasses.replace(
                state,
                density=state.density if self.density is not None else _density(problem.structure, active),
                variance=state.variance if self.variance is not None else _variance(power, active),
            )
        x2, r, gamma, noise = self._linear(problem, learned, r2, gamma2)
        if self.noise_variance is None and problem.noise_norm is None:
            learned = dataclasses.replace(learned, noise_variance=noise)
        return dataclasses.replace(
            learned,
            x=x,
            r=keep * r + (1 - keep) * state.r,
            gamma=keep * gamma + (1 - keep) * state.gamma,
            criterion=norm(x - x2),
        )

    def _linear(
        self, problem: Problem, state: MessageState, r2: Array, gamma2: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Return the estimate given r2 and y for normal x, its message and precision, and the implied noise level."""
        inverse = _inverse(problem)
        xp, (m, n) = namespace(r2), problem.operator.shape
        alpha = (gamma2 * state.noise_variance)[:, None]
        image = inverse.image(r2)
        residual = inverse.residual(image, state.target)
        correction, correction_image = inverse.correction(residual, alpha)
        x2 = r2 - correction
        squares = _squares(inverse, state.target)
        shrink = xp.sum(squares / (squares + alpha), axis=-1)
        precision = gamma2 / (1 - shrink / n)
        gamma = _bounded(precision - gamma2, state)
        r = (precision[:, None] * x2 - gamma2[:, None] * r2) / gamma[:, None]
        left = inverse.residual(image - correction_image, state.target)
        misfit = squared_norm(left) + state.distance_to_range**2
        noise = (misfit + state.noise_variance * shrink) / m
        least = 1e-12 * (squared_norm(state.target) / m) + 1e-300
        return x2, r, gamma, xp.where(noise > least, noise, least)

    def estimate(self, problem: Problem, state: MessageState) -> Array:
        """Return P_A of the posterior mean.

        The posterior mean ``state.x`` is the Bayes estimate, which is not sparse. If Phi is far from random, messages
        can diverge; a mean that fits worse than zero is replaced by zero.
        """
        xp, x = namespace(state.x), project(state.x, problem.structure)
        fits = norm(problem.operator.forward(x) - problem.y) <= norm(problem.y)
        return xp.where(fits[:, None], x, xp.zeros_like(x))


def diverged(before: MessageState, after: MessageState) -> Array:
    """Return the rows whose two estimates suddenly disagree.

    This can happen when rounding errors are the only noise left.

    Parameters
    ----------
    before, after : MessageState
        The states before and after an exchange.

    Returns
    -------
    array of bool, shape (batch,)
        True where the disagreement has grown by more than the factor ``DIVERGED``.
    """
    return after.criterion > DIVERGED * before.criterion


def expected_share(structure: Structure, density: Array) -> Array:
    """Return the expected share of nonzeros among all entries.

    Parameters
    ----------
    structure : Structure
        What x may look like.
    density : array, shape (batch,) or (batch, levels)
        The probability of a nonzero, in each level if there are several.

    Returns
    -------
    array, shape (batch,)
        The share.
    """
    if not structure.leveled:
        return density
    return density @ _numbers(np.diff(structure.layout.starts) / structure.layout.n, density)


def state_evolution(
    singular_values: Any, shape: tuple[int, int], density: float, variance: float, noise_variance: float, steps: int
) -> FloatArray:
    """Return the mean squared error predicted for :class:`VectorAMP` after each step.

    The prediction holds for VAMP with the true prior, in the limit of large random Phi.

    Parameters
    ----------
    singular_values : array, shape (rank,)
        The singular values of Phi.
    shape : tuple of int
        The shape (m, n) of Phi.
    density : float
        The probability of a nonzero.
    variance : float
        The variance of the nonzeros.
    noise_variance : float
        The variance of the noise.
    steps : int
        The number of steps.

    Returns
    -------
    array, shape (steps,)
        The mean squared error of x after each step.

    Notes
    -----
    The expectation over r = x + N(0, 1/gamma) is computed by integration on a fine grid, separately for zero and
    nonzero x.
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


def _inverse(problem: Problem) -> OrthonormalBasis:
    """Return the pseudo-inverse of Phi, whose singular values are known."""
    return cast(OrthonormalBasis, problem.operator.pseudo_inverse)


def _squares(inverse: OrthonormalBasis, like: Array) -> Array:
    """Return the squared singular values, one for each image coordinate."""
    xp = namespace(like)
    return inverse.singular_values**2 + xp.zeros(like.shape[-1:], dtype=norm(like).dtype, device=like.device)


def _numbers(values: ArrayLike, like: Array) -> Array:
    """Return numbers as an array of the library, the dtype and on the device of another one."""
    return namespace(like).astype(from_numpy(np.asarray(values), like), like.dtype)


def _density(structure: Structure, active: Array) -> Array:
    """Return the share of the nonzeros in each level; those of which there are none stay rare."""
    if not structure.leveled:
        return _clip(active / structure.layout.n, RARE, 1.0)
    sizes, counts = (_numbers(each, active) for each in (np.diff(structure.layout.starts), structure.counts))
    density = _clip(active / sizes, RARE, 1.0)
    return namespace(active).where(counts > 0, density, RARE + 0 * density)


def _variance(power: Array, active: Array) -> Array:
    """Return the mean square of so many nonzeros.

    If there are several levels, one nonzero that is as large as all of them on average is added to each: a level may
    have so few that their own average says little.
    """
    xp = namespace(power)
    if power.ndim == 1:
        return power / xp.where(active > 1e-12, active, xp.ones_like(active))
    of_all = _variance(xp.sum(power, axis=-1), xp.sum(active, axis=-1))
    return (power + of_all[:, None]) / (active + 1)


def _largest(variance: Array) -> Array:
    """Return the largest variance of each row."""
    return variance if variance.ndim == 1 else namespace(variance).max(variance, axis=-1)


def _clip(x: Array, low: float, high: float) -> Array:
    """Limit values to an interval."""
    xp = namespace(x)
    return xp.minimum(xp.maximum(x, xp.full_like(x, low)), xp.full_like(x, high))


def _bounded(gamma: Array, state: MessageState) -> Array:
    """Keep a precision positive and finite, relative to the variance of x."""
    size = _largest(state.variance)
    return _clip(gamma * size, SMALLEST, LARGEST) / size
