"""The projections onto both sets, as functions: :func:`project_sparse` and :func:`project_data`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend.array_checks import check_magnitude, floating
from .backend.arrays import Array, namespace
from .backend.checks import reject, warn, whole_number
from .kernels.thresholding import keep_largest
from .operators import as_operator
from .problems import Problem
from .sets import DataSet
from .sets.data import data_projection
from .sets.own import OwnData, as_data_set


def project_sparse(x: Any, sparsity: int) -> Array:
    """Project every row of ``x`` onto the set of vectors with at most ``sparsity`` nonzeros.

    All but the ``sparsity`` entries of largest magnitude are set to zero. Exactly ``sparsity`` entries are kept;
    among equal magnitudes, those with the lowest indices are kept. :mod:`sparsect.sets` has other sets.

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


def project_data(x: Any, Phi: Any, y: Any, data_set: DataSet | None = None, noise_norm: Any = None) -> Array:
    """Project every row of ``x`` onto the set of points that agree with the data.

    Parameters
    ----------
    x : array, shape (n,) or (batch, n)
        Points to project, one per row. A single point is projected for every row of ``y``.
    Phi : array, SciPy sparse matrix, LinearOperator or Operator, shape (m, n)
        Linear map, as in :func:`sparsect.recover`.
    y : array, shape (m,) or (batch, m)
        Measurements, as in :func:`sparsect.recover`.
    data_set : DataSet, optional
        Affine, Relaxed or Ball. The default is Ball if ``noise_norm`` is given, otherwise Affine.
    noise_norm : float or array, shape (batch,), optional
        Radius of the ball, one number for all rows or one for each row.

    Returns
    -------
    array, shape (n,) or (batch, n)
        The projections P_B(x); a vector if both ``x`` and ``y`` are vectors.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=20, n=50, sparsity=3, rng=0)
    >>> projected = sparsect.project_data(np.zeros(50), problem.Phi, problem.y)
    >>> projected.shape
    (1, 50)
    >>> np.allclose(projected @ problem.Phi.T, problem.y)
    True
    """
    data_set = as_data_set("data_set", data_set)
    problem = Problem(as_operator(Phi), y, sparsity=0, noise_norm=noise_norm)
    check_magnitude("y", problem.y)
    x = floating("x", x, dimensions=(1, 2))
    rows = x[None, :] if x.ndim == 1 else x
    n = problem.operator.shape[1]
    if rows.shape[-1] != n or rows.shape[0] not in (1, problem.batch):
        raise reject("x", f"shape {tuple(x.shape)}", f"have shape ({n},) or ({problem.batch}, {n})")
    xp = namespace(rows, problem.y)
    rows = xp.astype(rows, xp.result_type(rows.dtype, problem.y.dtype))
    data = data_projection(problem, data_set)
    own = isinstance(data_set, OwnData)
    before = 0 if own else data.inverse.unconverged
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        moved = rows - data.correction(data.image(rows), *data.target(problem))[0]
    if not bool(xp.all(xp.isfinite(moved))):
        raise reject(
            "x", f"entries for which Phi x leaves the range of {rows.dtype}", "have a scale closer to that of y"
        )
    warn([] if own else [data.inverse.convergence_warning(before)])
    return moved[0, :] if x.ndim == 1 and problem.single else moved
