"""Settings of each method that are tuned for patches of photographs."""

from __future__ import annotations

from ..backend.checks import choice
from ..solvers import METHODS, AnnealedDifferenceMap, FalseAlarmRate, StagewiseOMP
from ..solvers.base import Solver, check_solver
from ..tuning import shipped, tuned

# Default method for a given sparsity, and for a given noise level.
METHOD, WITHIN_NOISE = "annealed-difference-map", "ormp"
SETTING = "image-patches"
# The atoms of a learned dictionary are too coherent for StOMP's threshold rule for random matrices. Of the false alarm
# rates from 1e-10 to 1/2, this one performed best on training patches.
CHOSEN: dict[str, Solver] = {
    "stomp": StagewiseOMP(FalseAlarmRate(0.01), stages=30),
    METHOD: AnnealedDifferenceMap("approximation"),
}


def tuned_for_images(method: str | Solver) -> Solver:
    """Return a solver with settings for patches of images.

    Parameters
    ----------
    method : str or Solver
        A name from ``sparsect.METHODS``, or a configured solver.

    Returns
    -------
    Solver
        The named method with the settings for image patches that the package includes, or with its defaults where there
        are none; a configured solver is returned unchanged.
    """
    if not isinstance(method, str):
        return check_solver("method", method)
    kind = METHODS[choice("method", method, METHODS)]
    if method in CHOSEN:
        return CHOSEN[method]
    values = tuned(method, SETTING).values if method in shipped(SETTING) else {}
    solver: Solver = kind(**values)
    return solver
