"""Moves of single nonzeros, against covariance matrices and least squares computed directly."""

import numpy as np
import pytest

import sparsect
from sparsect.kernels.supports import Chains, sample
from sparsect.operators.polishing import polish

pytestmark = pytest.mark.numerical
M, N = 6, 9
VARIANCE, SLAB = 0.3, 1.5


@pytest.fixture
def Phi(rng):
    return rng.standard_normal((M, N))


def visited_once(Phi, y, support, visited):
    """The chains after one recorded sweep at known variances."""
    (batch, s), gram = support.shape, Phi.T @ Phi
    rows = {name: np.zeros((batch, N)) for name in ("mean", "square", "inclusion", "c", "d")}
    numbers = {name: np.full(batch, value) for name, value in (("variance", VARIANCE), ("slab", SLAB))}
    numbers |= {"least": np.full(batch, np.inf), "misfit": np.zeros(batch), "ridge": np.zeros(batch)}
    state = Chains(
        support=support.copy(),
        best=support.copy(),
        visited=visited,
        moves=np.zeros(batch, dtype=np.int64),
        H=np.zeros((batch, s, s)),
        x=np.zeros((batch, s)),
        **rows,
        **numbers,
    )
    heat, limit = np.zeros(1), np.ones(batch)
    sample(gram, np.diag(gram).copy(), y @ Phi, np.sum(y**2, 1), M, True, heat, heat == 0, limit, limit, state)
    return state


def conditional(Phi, y, others):
    """Probabilities of the place of one nonzero, and means and second moments of its value at each place.

    y is normal with covariance VARIANCE I + SLAB Phi_S Phi_S^T; x_k is the part of it that Phi_k x_k accounts for.
    """
    likelihood, mean, square = np.zeros((3, N))
    for k in set(range(N)) - set(others):
        columns = Phi[:, [k, *others]]
        covariance = VARIANCE * np.eye(M) + SLAB * columns @ columns.T
        weights = SLAB * np.linalg.solve(covariance, Phi[:, k])
        likelihood[k] = np.exp(-0.5 * y @ np.linalg.solve(covariance, y)) / np.sqrt(np.linalg.det(covariance))
        mean[k] = weights @ y
        square[k] = mean[k] ** 2 + SLAB - SLAB * weights @ Phi[:, k]
    probability = likelihood / likelihood.sum()
    return np.stack([probability, probability * mean, probability * square])


class TestSampling:
    def test_one_nonzero(self, rng, Phi):
        y = rng.standard_normal((5, M))
        state = visited_once(Phi, y, rng.integers(0, N, (5, 1)), np.arange(5))
        for row in range(5):
            found = np.stack([state.inclusion[row], state.mean[row], state.square[row]])
            np.testing.assert_allclose(found, conditional(Phi, y[row], []), atol=1e-12)

    def test_two_nonzeros(self, rng, Phi):
        """The first one is placed given the second one, then the second one given the new place of the first one."""
        y, support = rng.standard_normal((5, M)), np.argsort(rng.random((5, N)), axis=1)[:, :2]
        state = visited_once(Phi, y, support, np.arange(5))
        assert (state.support != support).any()
        for row in range(5):
            found = np.stack([state.inclusion[row], state.mean[row], state.square[row]])
            expected = sum(conditional(Phi, y[row], [other]) for other in (support[row, 1], state.support[row, 0]))
            np.testing.assert_allclose(found, expected, atol=1e-12)

    def test_places_are_drawn_with_their_probabilities(self, rng, Phi):
        y, count = rng.standard_normal(M), 20_000
        state = visited_once(Phi, np.tile(y, (count, 1)), np.zeros((count, 1), dtype=np.int64), np.arange(count))
        frequency = np.bincount(state.support[:, 0], minlength=N) / count
        np.testing.assert_allclose(frequency, conditional(Phi, y, [])[0], atol=4 * 0.5 / np.sqrt(count))


def residual(Phi, y, support):
    columns = Phi[:, support]
    return np.linalg.norm(columns @ np.linalg.lstsq(columns, y, rcond=None)[0] - y)


def test_no_exchange_improves_what_is_polished(rng, Phi):
    """In rows with different numbers of nonzeros, which keep these."""
    y, x = rng.standard_normal((30, M)), np.zeros((30, N))
    for row in range(30):
        x[row, rng.permutation(N)[: row % 5]] = 1
    found, swaps, optimal = polish(sparsect.as_operator(Phi), y, x)
    assert optimal.all()
    assert swaps.any()
    for row in range(30):
        support = np.flatnonzero(found[row])
        assert support.size == row % 5
        least = residual(Phi, y[row], support)
        np.testing.assert_allclose(np.linalg.norm(Phi @ found[row] - y[row]), least)
        others = np.setdiff1d(np.arange(N), support)
        exchanges = [np.append(np.delete(support, p), k) for p in range(support.size) for k in others]
        assert all(residual(Phi, y[row], exchange) >= least * (1 - 1e-6) for exchange in exchanges)
