"""Which settings suit patches of photographs? Each method as tuned for them."""

from __future__ import annotations

from ..backend.checks import choice
from ..solvers import METHODS, AnnealedDifferenceMap, FalseAlarmRate, StagewiseOMP
from ..solvers.base import Solver, check_solver
from ..tuning import shipped, tuned

# What codes patches where no method is asked for, and where a noise level is given.
METHOD, WITHIN_NOISE = "annealed-difference-map", "ormp"
SETTING = "image-patches"
# Atoms of a learned dictionary are too much alike for the rule that StOMP has for random matrices; of false alarm rates
# from 1e-10 to 1/2 this one served best on training patches.
CHOSEN: dict[str, Solver] = {
    "stomp": StagewiseOMP(FalseAlarmRate(0.01), stages=30),
    METHOD: AnnealedDifferenceMap("approximation"),
}


def tuned_for_images(method: str | Solver) -> Solver:
    """The named method with the values that ship for patches of images; a configured solver as it is."""
    if not isinstance(method, str):
        return check_solver("method", method)
    kind = METHODS[choice("method", method, METHODS)]
    if method in CHOSEN:
        return CHOSEN[method]
    values = tuned(method, SETTING).values if method in shipped(SETTING) else {}
    solver: Solver = kind(**values)
    return solver
