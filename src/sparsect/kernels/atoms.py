"""Block coordinate descent over the atoms of a dictionary, one atom after the other."""

from __future__ import annotations

import numpy as np

from ..backend.parallel import compiled


@compiled
def sweep(codes_codes, missing, atoms, nonnegative):
    """Update every atom d_j of a block once, in place, by the unit vector that fits the signals best for fixed codes.

    With A = X^T X and B = X^T Y, the minimum of ||X D - Y|| over row j of D alone is d_j + (B_j - A_j D) / A_jj, which
    is then scaled to norm 1 (Mairal et al. 2010, algorithm 2). Atoms without codes stay as they are.

    Parameters
    ----------
    codes_codes : (n, n), the rows and columns of A for the block
    missing : (n, m), the rows of B - A D, kept up to date for the atoms that follow
    atoms : (n, m), the rows of D
    nonnegative : whether negative entries are set to zero before the scaling
    """
    n, m = atoms.shape
    moved = np.empty(m)
    for j in range(n):
        weight = codes_codes[j, j]
        if not weight > 0:
            continue
        square = 0.0
        for k in range(m):
            moved[k] = missing[j, k] + weight * atoms[j, k]
            if nonnegative and moved[k] < 0:
                moved[k] = 0
            square += moved[k] * moved[k]
        if not square > 0:
            continue
        length = np.sqrt(square)
        for k in range(m):
            change = moved[k] / length - atoms[j, k]
            moved[k] = change
            atoms[j, k] += change
        for i in range(j + 1, n):
            weight = codes_codes[i, j]
            if weight != 0:
                for k in range(m):
                    missing[i, k] -= weight * moved[k]
