"""The paper's claims in small, seeded, at the sizes of its figures; ``benchmarks/recovery.py`` has the full tables."""

import numpy as np
import pytest

import sparsect
from sparsect import AlternatingMap, DifferenceMap

pytestmark = [pytest.mark.numerical, pytest.mark.slow]


def mean_snr(problem, method, **options):
    result = sparsect.recover(problem.Phi, problem.y, problem.sparsity, method, **options)
    return float(np.mean(sparsect.snr_db(problem.x, result.x)))


def test_dense_noisy_signals_need_the_positive_sign():
    problem = sparsect.random_problem(400, 1000, 150, snr_db=20, batch=5, rng=1)
    positive, negative, alternating = (
        mean_snr(problem, method, max_iter=300)
        for method in (DifferenceMap(0.14), DifferenceMap(-0.14), AlternatingMap())
    )
    assert positive > 14.5
    assert negative < 6.5
    assert 6 < alternating < 11


def test_noiseless_dense_signals_are_recovered():
    problem = sparsect.random_problem(400, 1000, 175, batch=5, rng=2)
    result = sparsect.recover(problem.Phi, problem.y, 175, DifferenceMap(0.5), max_iter=1000)
    assert (sparsect.snr_db(problem.x, result.x) > 60).sum() >= 4
    assert mean_snr(problem, AlternatingMap(), max_iter=600) < 15


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_ball_closes_the_gap(dtype):
    problem = sparsect.random_problem(400, 1000, 50, snr_db=20, batch=5, rng=3, dtype=dtype)
    result = sparsect.recover(problem.Phi, problem.y, 50, DifferenceMap(0.5), noise_norm=problem.noise_norm)
    assert (result.gap < 1e-3).all()
    assert result.converged.all()
    assert float(np.mean(sparsect.snr_db(problem.x, result.x))) > 24.5


def test_matrix_free_fourier():
    operator = sparsect.SubsampledFourier.random(2**14, 2**12, rng=0)
    rng = np.random.default_rng(1)
    x = np.zeros(2**14, dtype=complex)
    places = rng.choice(2**14, 2**7, replace=False)
    x[places] = rng.standard_normal(2**7) + 1j * rng.standard_normal(2**7)
    result = sparsect.recover(operator, operator.forward(x), 2**7, DifferenceMap(0.7), max_iter=300)
    assert result.converged
    assert sparsect.snr_db(x, result.x) > 80
