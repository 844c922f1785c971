"""From the average of the search to a posterior mean: vector message passing that starts close to an answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ...backend.arrays import Array, epsilon, namespace, on_host
from ...problems import Problem
from ..base import chosen
from ..vamp import VectorAMP, exploded
from .state import AnnealedState, Phase

# Started close to an answer, messages settle where full steps would make them swing.
MESSAGES = VectorAMP(damping=0.6)
# What the state of messages adds to that of the map.
PRIOR = ("r", "gamma", "density", "variance", "noise_variance", "defect")
# Messages that disagree by more than this, relative to the start, have run away.
AWAY = 10.0
# Messages that disagree by less than this times the square root of rounding would only swing on.
SETTLED = 0.01


def message_step(
    problem: Problem, state: AnnealedState, begun: bool, nonzeros: Callable[[AnnealedState], Array]
) -> tuple[AnnealedState, Array]:
    """One exchange of messages, and whether the support of the thresholded posterior mean changed.

    Rows that have found a point of both sets keep it, and those where messages run away keep what they had.

    Parameters
    ----------
    problem : Problem
    state : AnnealedState
    begun : bool
        Whether messages are being passed already; otherwise they start from the average of the search.
    nonzeros : function of a state
        The posterior mean, thresholded.

    Returns
    -------
    tuple of AnnealedState and array
    """
    xp, before = namespace(state.x), state
    found = ~state.passes_messages & state.closed
    if not begun:
        state = MESSAGES.start_from(problem, state, state.mean, state.spread)
    after = MESSAGES.exchange(problem, state)
    phase = xp.full_like(state.phase, int(Phase.MESSAGES))
    after = dataclasses.replace(after, sparse=nonzeros(after), phase=phase)
    failed = ~found & (exploded(state, after) | ~(after.gap <= AWAY * state.scale))
    kept = found | failed
    if not on_host(kept) or bool(xp.any(kept)):
        after = chosen(kept, before, after)
    settled = found | (~failed & (after.gap <= SETTLED * epsilon(state.x) ** 0.5 * state.scale))
    changed = xp.any((after.sparse == 0) != (before.sparse == 0), axis=-1)
    return dataclasses.replace(after, settled=settled, failed=failed), changed
