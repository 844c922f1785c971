"""The last phase of the annealed map: message passing from the average of the search to a posterior mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import cast

from ...backend.arrays import Array, epsilon, namespace, on_host
from ...backend.norms import norm
from ...operators.pseudo_inverse import OrthonormalBasis
from ...problems import Problem
from ..base import chosen
from ..vamp import VectorAMP, diverged
from .state import AnnealedState, Phase

# Damping makes messages that start close to a solution settle; undamped, they oscillate.
MESSAGES = VectorAMP(damping=0.6)
# The fields that message passing adds to the state of the map.
PRIOR = ("r", "gamma", "density", "variance", "noise_variance", "distance_to_range")
# Messages have diverged if their disagreement, relative to the scale of the row, exceeds this.
AWAY = 10.0
# Messages have settled if their relative disagreement is below this times the square root of machine epsilon: further
# exchanges would only oscillate.
SETTLED = 0.01


def message_step(
    problem: Problem, state: AnnealedState, begun: bool, nonzeros: Callable[[AnnealedState], Array]
) -> tuple[AnnealedState, Array]:
    """Exchange messages once.

    Rows that have found a point of both sets keep it, and rows whose messages diverge keep their previous state.

    Parameters
    ----------
    problem : Problem
        The problem, restricted to the rows of ``state``.
    state : AnnealedState
        The current state.
    begun : bool
        Whether message passing has already begun. Otherwise it starts from the average of the search.
    nonzeros : callable
        A function that returns the thresholded posterior mean of a state.

    Returns
    -------
    state : AnnealedState
        The state after the exchange.
    changed : array of bool, shape (batch,)
        Whether the support of the thresholded posterior mean has changed.
    """
    xp, before = namespace(state.x), state
    found = ~state.passes_messages & state.closed
    if not begun:
        state = MESSAGES.start_from(problem, state, state.mean, state.spread)
    after = MESSAGES.exchange(problem, state)
    phase = xp.full_like(state.phase, int(Phase.MESSAGES))
    after = dataclasses.replace(after, sparse=nonzeros(after), phase=phase)
    inverse = cast(OrthonormalBasis, problem.operator.pseudo_inverse)
    if inverse.has_equal_values and state.target.shape[-1] == state.x.shape[-1]:
        # Both messages agree from the beginning, long before the prior has been learned.
        change = xp.abs(after.noise_variance - before.noise_variance) / after.noise_variance
        after = dataclasses.replace(after, criterion=xp.maximum(after.criterion, change * norm(after.x)))
    failed = ~found & (diverged(state, after) | ~(after.criterion <= AWAY * state.scale))
    kept = found | failed
    if not on_host(kept) or bool(xp.any(kept)):
        after = chosen(kept, before, after)
    settled = found | (~failed & (after.criterion <= SETTLED * epsilon(state.x) ** 0.5 * state.scale))
    changed = xp.any((after.sparse == 0) != (before.sparse == 0), axis=-1)
    return dataclasses.replace(after, settled=settled, failed=failed), changed
