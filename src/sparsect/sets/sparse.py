"""A = {at most s nonzeros}: keep the s largest magnitudes."""

from __future__ import annotations

from typing import Any

from ..backend.arrays import Array, floating
from ..backend.checks import reject, whole_number
from ..kernels.thresholding import keep_largest


def project_sparse(x: Any, sparsity: int) -> Array:
    """P_A: every row of ``x`` with all but its ``sparsity`` largest magnitudes set to zero.

    Exactly ``sparsity`` entries are kept; among equal magnitudes the first ones win.

    Parameters
    ----------
    x : (..., n), real or complex
    sparsity : from 0 to n
    """
    x = floating("x", x)
    if x.ndim == 0:
        raise reject("x", "a number", "an array with at least one dimension")
    return keep_largest(x, whole_number("sparsity", sparsity, 0, x.shape[-1]))
