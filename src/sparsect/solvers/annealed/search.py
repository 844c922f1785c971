"""The search phase: one step of the over-relaxed map, with the relaxation of the data set that the plan gives."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...backend.arrays import Array, namespace
from ...backend.norms import squared_norm
from ...kernels.thresholding import advance
from ...problems import Problem
from ...sets import Relaxed
from ...sets.data import DataProjection
from .schedule import Plan
from .state import AnnealedState

# The length of a step relative to that of the Difference Map.
RELAXATION = 1.5
# The fields of the state that a step changes.
CHANGING = ("x", "image", "sparse", "criterion", "taken", "unchanged", "total", "power", "count")


def search_step(
    problem: Problem, state: AnnealedState, plan: Plan, searched: float, taken: float
) -> tuple[AnnealedState, Array]:
    """Take one step of the over-relaxed map.

    Parameters
    ----------
    problem : Problem
        The problem, restricted to the rows of ``state``.
    state : AnnealedState
        The current state.
    plan : Plan
        The schedule of the run.
    searched : float
        The fraction of the search that has passed.
    taken : float
        The number of steps in which it has passed.

    Returns
    -------
    state : AnnealedState
        The state after the step.
    changed : array of bool, shape (batch,)
        Whether the support of the point of A has changed.
    """
    data, kept = DataProjection(problem, Relaxed(plan.alpha(searched, taken))), plan.kept(searched)
    w, w_image = data.correction(state.image, state.target, state.radius)
    u, x, change, changed = advance(state.x, w, state.sparse, kept, RELAXATION)
    image = (1 - RELAXATION) * state.image + RELAXATION * (data.image_of_sparse(u, kept.size) + w_image)
    sums: dict[str, Any] = {}
    if plan.averages(searched):
        sums = {"total": state.total + u, "power": state.power + squared_norm(u), "count": state.count + 1}
    # A fixed point of the relaxed map need not agree with the data, so the criterion includes the distance w to B.
    criterion = namespace(change).sqrt(change**2 + squared_norm(w))
    return dataclasses.replace(state, x=x, image=image, sparse=u, criterion=criterion, **sums), changed
