"""Updates of a dictionary atom by atom: block coordinate descent, and turning atoms apart that are too similar."""

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


@compiled
def turn_apart(atoms, limit, nonnegative, sweeps):
    """Turn atoms apart, in place, pair by pair, until no two have an absolute inner product above a limit.

    Both atoms of a pair turn by the same angle, in their plane, until their inner product is just below the limit
    (Mailhe, Barchiesi and Plumbley 2012). This may bring them closer to others, so that all pairs are visited again.

    Parameters
    ----------
    atoms : (n, m), the rows of D, of norm 1
    limit : the largest absolute inner product, below 1
    nonnegative : whether negative entries are set to zero, which takes more sweeps
    sweeps : how often all pairs are visited at most
    """
    n, m = atoms.shape
    # Turned no farther than to the limit, pairs would only approach it, sweep after sweep.
    wanted = 0.999 * limit
    for _ in range(sweeps):
        done = True
        for i in range(n):
            for j in range(i + 1, n):
                product = 0.0
                for k in range(m):
                    product += atoms[i, k] * atoms[j, k]
                cosine = abs(product)
                if cosine <= limit:
                    continue
                done = False
                if cosine > 1 - 1e-12:
                    # Equal atoms have no plane: one is moved towards the axis from which it is farthest.
                    atoms[j, np.argmin(np.abs(atoms[j]))] += 0.5
                    atoms[j] /= np.sqrt(np.sum(atoms[j] ** 2))
                    continue
                sign = 1.0 if product > 0 else -1.0
                # Scales of the sum and of the difference of both atoms, which are orthogonal.
                together, apart = np.sqrt((1 + wanted) / (1 + cosine)), np.sqrt((1 - wanted) / (1 - cosine))
                own, other = (together + apart) / 2, sign * (together - apart) / 2
                first = second = 0.0
                for k in range(m):
                    a, b = atoms[i, k], atoms[j, k]
                    atoms[i, k], atoms[j, k] = own * a + other * b, own * b + other * a
                    if nonnegative:
                        atoms[i, k], atoms[j, k] = max(atoms[i, k], 0.0), max(atoms[j, k], 0.0)
                    first += atoms[i, k] ** 2
                    second += atoms[j, k] ** 2
                atoms[i] /= np.sqrt(first)
                atoms[j] /= np.sqrt(second)
        if done:
            break
