"""Block coordinate descent over the atoms of a dictionary, one atom after the other."""

from __future__ import annotations

import numpy as np

from ..backend.parallel import compiled


@compiled
def sweep(codes_codes, codes_signals, atoms, nonnegative):
    """Update every atom d_j once, in place, by the unit vector that fits the signals best for fixed codes.

    With A = X^T X and B = X^T Y, the minimum of ||X D - Y|| over row j of D alone is d_j + (B_j - A_j D) / A_jj, which
    is then scaled to norm 1 (Mairal et al. 2010, algorithm 2). Atoms without codes stay as they are.

    Parameters
    ----------
    codes_codes : (n, n), A; codes_signals : (n, m), B
    atoms : (n, m), D
    nonnegative : whether negative entries are set to zero before the scaling
    """
    n, m = atoms.shape
    moved = np.empty(m)
    for j in range(n):
        if not codes_codes[j, j] > 0:
            continue
        moved[:] = codes_signals[j]
        for i in range(n):
            weight = codes_codes[j, i]
            if weight != 0 and i != j:
                for k in range(m):
                    moved[k] -= weight * atoms[i, k]
        square = 0.0
        for k in range(m):
            if nonnegative and moved[k] < 0:
                moved[k] = 0
            square += moved[k] * moved[k]
        if square > 0:
            atoms[j] = moved / np.sqrt(square)
