"""The compiled threshold against a sort, on rows made to be awkward, and the fused step against its parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sparsect.kernels.thresholding.cpu import advance, keep

pytestmark = pytest.mark.numerical

# Numbers that single precision holds: any at all, and some that are hard to tell apart.
AWKWARD = [0.0, -0.0, 1.0, -1.0, 1.0 + 2**-20, 1.0 + 2**-23, 2.0**-126, 2.0**-149, 3 * 2.0**126]
NUMBERS = st.one_of(st.floats(-(2.0**100), 2.0**100, width=32), st.sampled_from(AWKWARD))


def by_sorting(row, s):
    order = np.lexsort((np.arange(row.size), -np.abs(row)))
    kept = np.zeros_like(row)
    kept[order[:s]] = row[order[:s]]
    return kept


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
def test_exactly_the_s_largest_and_the_first_among_equals(dtype, data):
    row = data.draw(arrays.arrays(dtype, st.integers(1, 40), elements=NUMBERS))
    s = data.draw(st.integers(1, row.size))
    out = np.empty((1, row.size), dtype)
    keep(0, 1, row[None, :], s, out)
    np.testing.assert_array_equal(out[0], by_sorting(row, s))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_rows(dtype, rng):
    rows = rng.standard_normal((50, 1000)).astype(dtype)
    rows[25:] = np.round(rows[25:], 1)
    rows[40:] *= 1e-40 if dtype is np.float64 else 1e-20
    for s in (1, 17, 200, 999):
        out = np.empty_like(rows)
        keep(0, 50, rows, s, out)
        np.testing.assert_array_equal(out, [by_sorting(row, s) for row in rows])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_fused_step_is_its_parts(dtype, rng):
    x, w, before = (rng.standard_normal((20, 300)).astype(dtype) for _ in range(3))
    expected = np.array([by_sorting(row, 30) for row in x - 2 * w])
    before[:10] = expected[:10]
    u, moved, gap, changed = before.copy(), x.copy(), np.empty(20, dtype), np.empty(20, bool)
    advance(0, 20, w, 30, 1.5, moved, u, np.zeros(20, dtype), gap, changed)
    np.testing.assert_allclose(u, expected, rtol=1e-5)
    np.testing.assert_allclose(moved, x + 1.5 * (expected - x + w), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gap, 1.5 * np.linalg.norm(expected + w - x, axis=1), rtol=1e-4)
    np.testing.assert_array_equal(changed, np.arange(20) >= 10)
