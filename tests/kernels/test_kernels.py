"""Every operation has one meaning: compiled versions, and with --gpu those for a GPU, give what the plain one does."""

import numpy as np
import pytest

import sparsect
from sparsect.backend import arrays
from sparsect.kernels import fitting, posterior, thresholding

pytestmark = pytest.mark.numerical
BATCH, M, N, S = 300, 40, 120, 9


def keep(place, rng, dtype):
    return (thresholding.keep_largest(place(rng.standard_normal((BATCH, N)).astype(dtype)), S),)


def keep_ties(place, rng, dtype):
    return (thresholding.keep_largest(place(rng.integers(-2, 3, (BATCH, N)).astype(dtype)), S),)


def advance(place, rng, dtype):
    x, w, before = (place(rng.standard_normal((BATCH, N)).astype(dtype)) for _ in range(3))
    return thresholding.advance(x, w, thresholding.keep_largest(before, S), S, 1.5)


def denoise(place, rng, dtype):
    r, gamma = rng.standard_normal((BATCH, N)), 10.0 ** rng.uniform(-2, 4, BATCH)
    density, variance = rng.uniform(0.01, 1, BATCH), rng.uniform(0.1, 2, BATCH)
    return posterior.denoise(*(place(array.astype(dtype)) for array in (r, gamma, density, variance)))


def fit(place, rng, dtype):
    Phi, support = rng.standard_normal((M, N)), rng.uniform(size=(BATCH, N)) < 0.1
    # A column that is zero, one that is another one's double, and rows with none at all.
    Phi[:, 3], Phi[:, 5], support[:4] = 0, 2 * Phi[:, 4], False
    support[:, 4] = False
    operator = sparsect.as_operator(place(Phi.astype(dtype)))
    return (fitting.fit(operator, place(rng.standard_normal((BATCH, M)).astype(dtype)), place(support)),)


OPERATIONS = [keep, keep_ties, advance, denoise, fit]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_compiled_is_plain(operation, dtype, monkeypatch):
    compare(operation, dtype, np.asarray, monkeypatch)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_gpu_is_plain(operation, dtype, monkeypatch, request):
    if not request.config.getoption("--gpu"):
        pytest.skip("needs a GPU: make test-gpu")
    import torch

    compare(operation, dtype, lambda array: torch.from_numpy(np.ascontiguousarray(array)).cuda(), monkeypatch)


def compare(operation, dtype, place, monkeypatch):
    fast = operation(place, np.random.default_rng(0), dtype)
    with monkeypatch.context() as patch:
        for kernels in (thresholding, posterior, fitting):
            for choice in ("worth_compiling", "has_kernels"):
                patch.setattr(kernels, choice, lambda *_: False)
        plain = operation(np.asarray, np.random.default_rng(0), dtype)
    tolerance = 2e-4 if dtype == np.float32 else 1e-9
    for ours, theirs in zip(fast, plain, strict=True):
        np.testing.assert_allclose(arrays.to_numpy(ours), theirs, rtol=tolerance, atol=tolerance)
