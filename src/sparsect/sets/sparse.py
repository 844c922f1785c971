"""The set A of sparse vectors and its projection, which keeps the s largest magnitudes."""

from __future__ import annotations

from typing import Any

from ..backend.array_checks import floating
from ..backend.arrays import Array
from ..backend.checks import reject, whole_number
from ..kernels.thresholding import keep_largest


def project_sparse(x: Any, sparsity: int) -> Array:
    """Project every row of ``x`` onto the set of vectors with at most ``sparsity`` nonzeros.

    All but the ``sparsity`` entries of largest magnitude are set to zero. Exactly ``sparsity`` entries are kept;
    among equal magnitudes, those with the lowest indices are kept.

    Parameters
    ----------
    x : array, shape (..., n)
        Points to project, one per row, real or complex.
    sparsity : int
        Number of entries to keep, from 0 to n.

    Returns
    -------
    array, shape (..., n)
        The projections P_A(x).

    Examples
    --------
    >>> import sparsect
    >>> sparsect.project_sparse([3.0, -1.0, 2.0, -5.0], sparsity=2)
    array([ 3.,  0.,  0., -5.])
    """
    x = floating("x", x)
    if x.ndim == 0:
        raise reject("x", "a number", "an array with at least one dimension")
    return keep_largest(x, whole_number("sparsity", sparsity, 0, x.shape[-1]))
