"""Common base of the operators that multiply NumPy arrays only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend.arrays import Array, is_numpy, namespace
from ..backend.checks import reject
from .base import Operator


class HostOperator(Operator):
    """Base class of the operators that multiply NumPy arrays only.

    Attributes
    ----------
    dtype : dtype
        Dtype of Phi.
    """

    dtype: Any

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Convert ``y`` to the common dtype of Phi and ``y``."""
        if not is_numpy(namespace(y)):
            library = type(y).__module__.split(".")[0]
            raise reject("y", f"an array of {library}", "a NumPy array, because Phi is a SciPy object")
        return self, y.astype(np.result_type(self.dtype, y.dtype), copy=False)


def through_columns(product: Any, rows: Array) -> Array:
    """Apply a product that acts on columns to every row of an array.

    Parameters
    ----------
    product : callable
        Function that maps an array of shape (k, rows) to one of shape (l, rows).
    rows : array, shape (..., k)
        Vectors, one per row.

    Returns
    -------
    array, shape (..., l)
        The images of the rows.
    """
    columns = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1]).T
    return product(columns).T.reshape(*rows.shape[:-1], -1)
