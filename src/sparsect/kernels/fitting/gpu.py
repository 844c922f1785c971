"""Least squares on a support, row by row, on a GPU: normal equations in double precision, factored in batches."""

from __future__ import annotations

import triton
import triton.language as tl

from ...backend.arrays import Array
from ...backend.devices import memory_allowed

# Rows are solved in groups. The normal equations of a group and their factors take at most this many bytes, or this
# fraction of the memory that is allowed.
GROUP_BYTES, PART = 2**31, 0.5


@triton.jit(do_not_specialize=["size"])
def _gather(PLACES, GRAM, EQUATIONS, size, columns, ridge, BLOCK: tl.constexpr):
    """Gather the part of the Gram matrix at the PLACES of a row; for missing places (-1), that of the identity."""
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = j < size
    across = tl.load(PLACES + row * size + j, mask=inside, other=-1)
    for i in range(size):
        down = tl.load(PLACES + row * size + i)
        found = (across >= 0) & (down >= 0)
        value = tl.load(GRAM + down.to(tl.int64) * columns + across, mask=found, other=0)
        value += tl.where(i == j, ridge + tl.where(found, 0.0, 1.0), 0.0)
        tl.store(EQUATIONS + (row * size + i) * size + j, value, mask=inside)


def fit(gram: Array, Phi: Array, y: Array, support: Array, ridge: float) -> Array:
    """Return argmin ||Phi x - y|| over x that vanish outside ``support``, corrected once for rounding.

    Parameters
    ----------
    gram : (n, n), Phi^T Phi in double precision
    Phi : (m, n)
    y : (batch, m); support : (batch, n), true or false
    ridge : added to the diagonal, at unit norm of the columns, for each entry of a support
    """
    import torch

    wide, (batch, n) = Phi.to(torch.float64), support.shape
    lengths = gram.diagonal().sqrt()
    support = support & (lengths > 0)
    lengths = torch.where(lengths > 0, lengths, 1.0)
    gram, wide = (gram / lengths[:, None] / lengths).contiguous(), wide / lengths
    counts = support.sum(1, dtype=torch.int32)
    size = int(counts.max())
    x = torch.zeros((batch, n), dtype=y.dtype, device=y.device)
    block = triton.next_power_of_2(max(size, 1))
    group = max(1, int(min(GROUP_BYTES, PART * (memory_allowed() or GROUP_BYTES / PART)) / (16 * max(size, 1) ** 2)))
    for start in range(0, batch if size else 0, group):
        rows = slice(start, start + group)
        chosen, data = support[rows], y[rows].to(torch.float64)
        row, column = chosen.nonzero(as_tuple=True)
        position = (chosen.cumsum(1, dtype=torch.int32) - 1)[row, column]
        places = torch.full((chosen.shape[0], size), -1, dtype=torch.int32, device=y.device)
        places[row, position.long()] = column.to(torch.int32)
        equations = torch.empty((*places.shape, size), dtype=torch.float64, device=y.device)
        with torch.cuda.device(y.device):
            _gather[(places.shape[0],)](places, gram, equations, size, n, ridge * size, BLOCK=block)
        factor, failed = torch.linalg.cholesky_ex(equations)
        sound = not bool(failed.any())
        dense = torch.zeros((places.shape[0], n), dtype=torch.float64, device=y.device)
        for _ in range(2):
            right = torch.zeros(places.shape, dtype=torch.float64, device=y.device)
            right[row, position.long()] = ((data - dense @ wide.T) @ wide)[row, column]
            right = right[:, :, None]
            solution = torch.cholesky_solve(right, factor) if sound else torch.linalg.solve_ex(equations, right)[0]
            dense[row, column] += solution[row, position.long(), 0]
        x[rows] = (dense / lengths).to(y.dtype)
    return x
