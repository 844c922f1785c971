"""Settings of each method that are tuned for patches of photographs."""

from __future__ import annotations

from ..dictionary.coding import for_coding
from ..solvers import METHODS, FalseAlarmRate, StagewiseOMP
from ..solvers.base import Solver
from ..tuning import shipped, tuned

# Default method.
METHOD = "annealed-difference-map"
SETTING = "image-patches"
# The atoms of a learned dictionary are too coherent for StOMP's threshold rule for random matrices. Of the false alarm
# rates from 1e-10 to 1/2, this one performed best on training patches.
STOMP = StagewiseOMP(FalseAlarmRate(0.01), stages=30)

# Methods that are not meant for patches of images, and why.
UNSUITED = {
    "vamp": "it is made for random matrices; atoms of a dictionary resemble each other, and its messages diverge",
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
        The named method with the settings for image patches that the package includes, or as
        :func:`~sparsect.dictionary.coding.for_coding` returns it where there are none; a configured solver is returned
        unchanged.
    """
    if method == StagewiseOMP.name:
        return STOMP
    if isinstance(method, str) and method in shipped(SETTING):
        solver: Solver = METHODS[method](**tuned(method, SETTING).values)
        return solver
    return for_coding(method)
