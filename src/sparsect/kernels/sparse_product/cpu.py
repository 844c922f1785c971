"""The compiled loop of ``sparse_product``: add up the rows of the matrix at the nonzeros of a sparse row."""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled


@compiled
def gathered_product(first, last, x, matrix, out):
    """Write x @ matrix to ``out`` in rows ``first`` to ``last``, with four rows of the matrix at a time."""
    n, m = matrix.shape
    places = np.empty(n, np.int64)
    for row in range(first, last):
        values, total = x[row], out[row]
        count = 0
        for j in range(n):
            places[count] = j
            if values[j] != 0:
                count += 1
        total[:] = 0
        r = 0
        while r + 4 <= count:
            a, b, c, d = places[r], places[r + 1], places[r + 2], places[r + 3]
            x0, x1, x2, x3 = values[a], values[b], values[c], values[d]
            m0, m1, m2, m3 = matrix[a], matrix[b], matrix[c], matrix[d]
            for j in range(m):
                total[j] += x0 * m0[j] + x1 * m1[j] + x2 * m2[j] + x3 * m3[j]
            r += 4
        while r < count:
            x0, m0 = values[places[r]], matrix[places[r]]
            for j in range(m):
                total[j] += x0 * m0[j]
            r += 1
