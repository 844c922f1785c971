"""Conversion of dense arrays to CSR arrays of the same library."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import array_api_compat as compat

from .arrays import Array, is_numpy, namespace, to_numpy


def compressed(x: Array) -> Array:
    """Convert a dense array to a sparse one in CSR format.

    Parameters
    ----------
    x : array, shape (rows, n)
        NumPy, torch or CuPy array.

    Returns
    -------
    SciPy CSR array, torch CSR tensor or CuPy CSR matrix
        The sparse array, in the library of ``x``.
    """
    if is_numpy(namespace(x)):
        from scipy.sparse import csr_array

        return csr_array(x)
    if compat.is_torch_array(x):
        with _without_beta_warning():
            return x.to_sparse_csr()
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(x)


def compressed_on_host(x: Array) -> Any:
    """Convert a dense array to a SciPy CSR array; only the nonzeros are copied from a GPU.

    Parameters
    ----------
    x : array, shape (rows, n)
        NumPy, torch or CuPy array.

    Returns
    -------
    scipy.sparse.csr_array
        The sparse array.
    """
    from scipy.sparse import csr_array

    sparse = compressed(x)
    if not compat.is_torch_array(x):
        return csr_array(sparse.get()) if compat.is_cupy_array(x) else sparse
    parts = (sparse.values(), sparse.col_indices(), sparse.crow_indices())
    return csr_array(tuple(to_numpy(part) for part in parts), shape=tuple(x.shape))


def joined_rows(parts: Sequence[Any]) -> Any:
    """Stack CSR arrays vertically, in their own library.

    Parameters
    ----------
    parts : sequence of CSR arrays
        Arrays with the same number of columns.

    Returns
    -------
    CSR array
        The stacked rows.
    """
    if len(parts) == 1:
        return parts[0]
    if not compat.is_torch_array(parts[0]):
        on_gpu = type(parts[0]).__module__.startswith("cupyx")
        return import_module("cupyx.scipy.sparse" if on_gpu else "scipy.sparse").vstack(parts, format="csr")
    import torch

    ends = [part.crow_indices()[-1] for part in parts]
    starts = [part.crow_indices()[:-1] + sum(ends[:number]) for number, part in enumerate(parts)]
    rows = torch.cat([*starts, sum(ends).reshape(1)])
    columns, values = torch.cat([part.col_indices() for part in parts]), torch.cat([part.values() for part in parts])
    with _without_beta_warning():
        return torch.sparse_csr_tensor(rows, columns, values, (rows.shape[0] - 1, parts[0].shape[1]))


@contextlib.contextmanager
def _without_beta_warning() -> Iterator[None]:
    """Suppress torch's warning that sparse tensors are in beta state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
