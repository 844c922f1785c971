"""Random generators from seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import reject, shown


def generator(rng: Any) -> np.random.Generator:
    """Create a random generator.

    Parameters
    ----------
    rng : int, numpy.random.Generator or None
        Seed, generator, or None for fresh entropy.

    Returns
    -------
    numpy.random.Generator
        The generator.

    Raises
    ------
    InputError
        If ``rng`` is none of these.
    """
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise reject("rng", shown(rng), "a non-negative integer, a numpy.random.Generator or None") from None
