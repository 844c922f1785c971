"""Moves of single nonzeros, against covariance matrices and least squares computed directly."""

import itertools
import math

import numpy as np
import pytest

import sparsect
from sparsect import sets
from sparsect.kernels.supports import ROUNDS, Chains, moved_singly, posterior_of_all, sample, sample_pairs, sample_sizes
from sparsect.kernels.supports.limits import LARGEST_RIDGE
from sparsect.operators.polishing import polish

pytestmark = pytest.mark.numerical
M, N = 6, 9
VARIANCE, SLAB = 0.3, 1.5


@pytest.fixture
def Phi(rng):
    return rng.standard_normal((M, N))


def started(support, visited, times=1, dtype=np.float64):
    """Chains at known variances, of which nothing has been computed."""
    batch, s = support.shape
    rows = {name: np.zeros((batch, times * N)) for name in ("square", "inclusion")}
    rows |= {name: np.zeros((batch, times * N), dtype=dtype) for name in ("mean", "c")}
    rows |= {"d": np.zeros((batch, N)), "x": np.zeros((batch, times * s), dtype=dtype)}
    numbers = {name: np.full(batch, value) for name, value in (("variance", VARIANCE), ("slab", SLAB))}
    numbers |= {"least": np.full(batch, np.inf), "misfit": np.zeros(batch), "ridge": np.zeros(batch)}
    return Chains(
        support=support.copy(),
        best=support.copy(),
        visited=visited,
        moves=np.zeros(batch, dtype=np.int64),
        H=np.zeros((batch, s, s), dtype=dtype),
        **rows,
        **numbers,
    )


def visited_once(Phi, y, support, visited, nonnegative=False):
    """The chains after one recorded sweep; y may have several measurements for each row."""
    (batch, s), gram, times = support.shape, Phi.T @ Phi, y.shape[1] if y.ndim == 3 else 1
    state = started(support, visited, times)
    heat, limit = np.zeros(1), np.ones(batch)
    b, energy = (y @ Phi).reshape(batch, -1), np.sum(y.reshape(batch, -1) ** 2, 1)
    chosen = sets.JointSparse(s, times) if times > 1 else sets.Sparse(s, nonnegative=nonnegative)
    settings = (times * M, True, heat, heat == 0, limit, limit, state, chosen.structure(times * N))
    sample(gram, np.diag(gram).copy(), b, energy, *settings)
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

    def test_measurements_in_common(self, rng, Phi):
        """The probability of a place is the product of those for each measurement."""
        y, support = rng.standard_normal((5, 3, M)), np.argsort(rng.random((5, N)), axis=1)[:, :2]
        state = visited_once(Phi, y, support, np.arange(5))
        assert (state.support != support).any()
        for row in range(5):
            expected = np.zeros((3, 3, N))
            for other in (support[row, 1], state.support[row, 0]):
                parts = np.stack([conditional(Phi, part, [other]) for part in y[row]])
                together = np.prod(parts[:, 0], axis=0) / np.prod(parts[:, 0], axis=0).sum()
                with np.errstate(invalid="ignore"):
                    expected += np.nan_to_num(parts / parts[:, :1]) * together
            found = [getattr(state, name)[row].reshape(3, N) for name in ("inclusion", "mean", "square")]
            np.testing.assert_allclose(np.stack(found, axis=1), expected, atol=1e-12)

    def test_a_positive_nonzero(self, rng, Phi):
        """Against integrals over its value."""
        y = 2 * rng.standard_normal((5, M))
        state = visited_once(Phi, y, rng.integers(0, N, (5, 1)), np.arange(5), nonnegative=True)
        x = np.linspace(0, 12, 200_001)
        for row in range(5):
            square = np.sum(y[row] ** 2) - 2 * np.outer(y[row] @ Phi, x) + np.outer(np.sum(Phi**2, axis=0), x**2)
            density = np.exp(-0.5 * (square / VARIANCE + x**2 / SLAB) + 0.5 * np.min(square) / VARIANCE)
            moments = np.stack([np.trapezoid(density * x**power, x, axis=1) for power in range(3)])
            found = np.stack([state.inclusion[row], state.mean[row], state.square[row]])
            np.testing.assert_allclose(found, moments / moments[0].sum(), atol=1e-7)

    def test_positive_nonzeros_are_remembered(self, rng, Phi):
        """The best support is one whose fit is positive."""
        y, support = rng.standard_normal((40, M)), np.argsort(rng.random((40, N)), axis=1)[:, :2]
        state = visited_once(Phi, y, support, np.arange(40), nonnegative=True)
        fits = state.x >= 0
        np.testing.assert_array_equal(np.isfinite(state.least), fits.all(axis=1))
        assert fits.all(axis=1).any()
        assert not fits.all()


def posterior_of(Phi, y, supports):
    """The probabilities of supports, of which one must be true, given y with variances VARIANCE and SLAB."""
    half = 1.0 if np.iscomplexobj(y) else 0.5
    logarithms = []
    for support in supports:
        columns = Phi[:, support]
        covariance = VARIANCE * np.eye(M) + SLAB * columns @ columns.conj().T
        squares = [(row.conj() @ np.linalg.solve(covariance, row)).real for row in y]
        logarithms.append(-half * (sum(squares) + len(y) * np.linalg.slogdet(covariance)[1]))
    weights = np.exp(np.array(logarithms) - max(logarithms))
    return weights / weights.sum()


def frequencies(found, supports):
    """How often each of the supports was found, relative to all."""
    return np.array([(np.sort(found, axis=1) == support).all(axis=1).mean() for support in supports])


class TestPairs:
    """Two nonzeros at a time, on columns that share so much that any two of them depend on each other."""

    @pytest.fixture(params=["real", "complex", "joint"])
    def problem(self, request, rng):
        times = 3 if request.param == "joint" else 1
        shape = (times, M)
        y, own, shared = rng.standard_normal(shape), rng.standard_normal((M, N)), rng.standard_normal((M, 1))
        if request.param == "complex":
            y, own = y + 1j * rng.standard_normal(shape), own + 1j * rng.standard_normal((M, N))
        return self.similar(shared, own), y

    def similar(self, shared, own):
        """Columns with cosines of about 0.9; the last one, which is in all supports, hardly depends on the others."""
        apart = np.linalg.qr(shared, mode="complete")[0][:, 1]
        Phi = 2 * shared + 0.6 * own
        Phi -= 0.95 * np.outer(apart, apart @ Phi)
        Phi[:, -1] = apart
        return Phi

    def drawn(self, Phi, y, count, nonnegative=False, start=(0, 1, N - 1)):
        times = y.shape[0]
        state = started(np.broadcast_to(start, (count, 3)).copy(), np.arange(count) * 100, times, y.dtype)
        b, energy = (y @ Phi.conj()).reshape(1, -1), np.sum(np.abs(y) ** 2)
        gram = Phi.conj().T @ Phi
        chosen = sets.JointSparse(3, times) if times > 1 else sets.Sparse(3, nonnegative=nonnegative)
        squares, structure = np.diag(gram).real.copy(), chosen.structure(times * N)
        return sample_pairs(gram, squares, np.repeat(b, count, 0), np.full(count, energy), state, structure)[0]

    def test_pairs_are_drawn_with_their_probabilities(self, problem):
        Phi, y = problem
        pairs, count = np.array(list(itertools.combinations(range(N - 1), 2))), 20_000
        expected = posterior_of(Phi, y, np.column_stack([pairs, np.full(len(pairs), N - 1)]))
        support = self.drawn(Phi, y, count)
        assert (support[:, 2] == N - 1).all()
        np.testing.assert_allclose(frequencies(support[:, :2], pairs), expected, atol=4 * 0.5 / np.sqrt(count))

    @pytest.mark.parametrize("norms", ["equal", "unequal"])
    def test_three_that_depend_on_each_other(self, rng, norms):
        """Supports that have the posterior distribution still have it after pairs have moved."""
        Phi = rng.standard_normal((M, 1)) + 0.6 * rng.standard_normal((M, N))
        if norms == "unequal":
            Phi *= rng.uniform(0.3, 3, N)
        y, count = rng.standard_normal((1, M)), 20_000
        triples = np.array(list(itertools.combinations(range(N), 3)))
        probability = posterior_of(Phi, y, triples)
        drawn = triples[rng.choice(len(triples), count, p=probability)]
        support = self.drawn(Phi, y, count, start=rng.permuted(drawn, axis=1))
        assert (np.sort(support, axis=1) != drawn).any()
        np.testing.assert_allclose(frequencies(support, triples), probability, atol=4 * 0.5 / np.sqrt(count))

    def test_positive_pairs(self, rng):
        """Of the pairs, those are drawn whose fit is positive."""
        Phi = self.similar(rng.standard_normal((M, 1)), rng.standard_normal((M, N)))
        y = (Phi[:, 3] + Phi[:, 5] + 0.3 * rng.standard_normal(M))[None]
        for support in self.drawn(Phi, y, 200, nonnegative=True):
            columns = Phi[:, support]
            equations = columns.T @ columns + VARIANCE / SLAB * np.eye(3)
            assert (np.linalg.solve(equations, columns.T @ y[0])[:2] > 0).all()

    def test_two_neighbours(self, rng):
        """Pairs that no exchange of a single column improves, although another pair has a smaller residual."""
        n, stuck = 40, 0
        pairs = np.array(list(itertools.combinations(range(n), 2)))
        for _ in range(300):
            Phi = rng.standard_normal((20, n))
            for k in range(1, n):
                Phi[:, k] = 0.98 * Phi[:, k - 1] + 0.2 * Phi[:, k]
            gram, y = Phi.T @ Phi, Phi[:, 18] + Phi[:, 21] + 0.01 * rng.standard_normal(20)
            b, blocks = y @ Phi, gram[pairs[:, :, None], pairs[:, None, :]]
            fall = np.sum(b[pairs] * np.linalg.solve(blocks, b[pairs][..., None])[..., 0], axis=1)
            best = np.zeros((n, n))
            best[pairs[:, 0], pairs[:, 1]] = best[pairs[:, 1], pairs[:, 0]] = fall
            alone = np.maximum(best.max(axis=1)[pairs[:, 0]], best.max(axis=1)[pairs[:, 1]]) <= fall
            related = blocks[:, 0, 1] ** 2 > 0.26 * blocks[:, 0, 0] * blocks[:, 1, 1]
            compared = np.isin(pairs, np.argsort(-(b**2) / np.diag(gram))[:15]).all(axis=1)
            start = pairs[alone & related & compared & (fall < fall.max())]
            if not len(start) or not (related & compared)[np.argmax(fall)]:
                continue
            state = started(start, np.arange(len(start)))
            state.variance[:] = 1e-6
            rows = np.tile(b, (len(start), 1)), np.full(len(start), y @ y)
            support = sample_pairs(gram, np.diag(gram).copy(), *rows, state, sets.Sparse(2).structure(n))[0]
            assert (np.sort(support, axis=1) == pairs[np.argmax(fall)]).all()
            stuck += len(start)
        assert stuck > 10


def residual(Phi, y, support):
    columns = Phi[:, support]
    return np.linalg.norm(columns @ np.linalg.lstsq(columns, y, rcond=None)[0] - y)


def test_no_exchange_improves_what_is_polished(rng, Phi):
    """In rows with different numbers of nonzeros, which keep these."""
    y, x = rng.standard_normal((30, M)), np.zeros((30, N))
    for row in range(30):
        x[row, rng.permutation(N)[: row % 5]] = 1
    found, swaps, optimal = polish(sparsect.as_operator(Phi), y, x, sets.Sparse(4).structure(N))
    assert optimal.tolist() == [row % 5 > 0 for row in range(30)]  # nothing is claimed of no support
    assert swaps.any()
    for row in range(30):
        support = np.flatnonzero(found[row])
        assert support.size == row % 5
        least = residual(Phi, y[row], support)
        np.testing.assert_allclose(np.linalg.norm(Phi @ found[row] - y[row]), least)
        others = np.setdiff1d(np.arange(N), support)
        exchanges = [np.append(np.delete(support, p), k) for p in range(support.size) for k in others]
        assert all(residual(Phi, y[row], exchange) >= least * (1 - 1e-6) for exchange in exchanges)


class TestSizes:
    @pytest.mark.parametrize("kind", [float, complex])
    def test_log_probabilities(self, rng, kind):
        """Those of supports after one sweep: y is normal with covariance I + Phi_S Phi_S^H / ridge, up to a factor."""
        m, n, rows = 20, 30, 20
        Phi, y = (rng.standard_normal(shape).astype(kind) for shape in ((m, n), (rows, m)))
        if kind is complex:
            Phi, y = Phi + 1j * rng.standard_normal(Phi.shape), y + 1j * rng.standard_normal(y.shape)
        y += rng.uniform(0, 2, (rows, 1)) * Phi[:, 2] + rng.uniform(0, 2, (rows, 1)) * Phi[:, 5]
        Phi /= np.linalg.norm(Phi, axis=0)
        gram, energy, floor = Phi.conj().T @ Phi, np.sum(np.abs(y) ** 2, axis=1), np.array([1e-3])
        support, counts = np.zeros((rows, 10), dtype=np.int64), np.zeros(rows, dtype=np.int64)
        sizes, scores = sample_sizes(gram, np.diag(gram).real.copy(), y @ Phi.conj(), energy, m, floor, support, counts)
        np.testing.assert_array_equal(sizes[:, 0], counts)
        assert np.unique(counts).size > 2
        half = 1.0 if kind is complex else 0.5
        for row, s in enumerate(counts):
            columns = Phi[:, support[row, :s]]
            covariance = np.eye(m) + columns @ columns.conj().T / LARGEST_RIDGE
            left = (y[row].conj() @ np.linalg.solve(covariance, y[row])).real + floor[0] * energy[row]
            expected = -half * (m * np.log(left / m) + np.linalg.slogdet(covariance)[1]) - np.log(math.comb(n, s))
            np.testing.assert_allclose(scores[row, 0], expected, rtol=1e-9)

    def test_fits_stay_accurate_over_many_moves(self, rng):
        """Strong noise, so that columns come and go: probabilities stay finite, and no column is taken twice."""
        Phi = rng.standard_normal((20, 30))
        Phi /= np.linalg.norm(Phi, axis=0)
        y = rng.standard_normal((3, 20)) + 2 * Phi[:, :3].sum(axis=1)
        data = (Phi.T @ Phi, np.ones(30), y @ Phi, np.sum(y**2, axis=1), 20)
        support, counts = np.zeros((3, 10), dtype=np.int64), np.zeros(3, dtype=np.int64)
        sizes, scores = sample_sizes(*data, np.full(2000, 1e-9), support, counts)
        assert np.isfinite(scores).all()
        assert (np.std(sizes, axis=1) > 0.1).all()
        for row in range(3):
            assert np.unique(support[row, : counts[row]]).size == counts[row]

    def test_rows_without_data_stay_empty(self, rng, Phi):
        gram = Phi.T @ Phi
        support, counts = np.array([[1, 2]]), np.array([2])
        sizes, _ = sample_sizes(
            gram, np.diag(gram).copy(), np.zeros((1, N)), np.zeros(1), M, np.ones(3), support, counts
        )
        assert not sizes.any()
        assert counts == [0]


class TestAllSupports:
    """The exact posterior distribution, against covariance matrices of the data."""

    @staticmethod
    def reference(Phi, y, s, variance=None):
        """Expectation maximization as in the kernel: posterior means, and the variance of the noise."""
        m, n = Phi.shape
        half = 1.0 if np.iscomplexobj(Phi) else 0.5
        supports = [list(part) for part in itertools.combinations(range(n), s)]
        energy, known = np.linalg.norm(y) ** 2, variance is not None
        slab = energy / (s * np.max(np.linalg.norm(Phi, axis=0) ** 2))
        if not known:
            fits = [Phi[:, S] @ np.linalg.lstsq(Phi[:, S], y, rcond=None)[0] for S in supports]
            variance = min(np.linalg.norm(y - fit) ** 2 for fit in fits) / (m - s)
        for _ in range(ROUNDS):
            logs, means, seconds, residuals = [], [], [], []
            for S in supports:
                covariance = variance * np.eye(m) + slab * Phi[:, S] @ Phi[:, S].conj().T
                gain = slab * Phi[:, S].conj().T @ np.linalg.inv(covariance)
                logs.append(
                    -half * (y.conj() @ np.linalg.solve(covariance, y)).real - half * np.linalg.slogdet(covariance)[1]
                )
                mean, spread = gain @ y, slab * np.eye(s) - slab * gain @ Phi[:, S]
                means.append(mean)
                seconds.append(np.abs(mean) ** 2 + np.diag(spread).real)
                expected = np.trace(Phi[:, S] @ spread @ Phi[:, S].conj().T).real
                residuals.append((np.linalg.norm(y - Phi[:, S] @ mean) ** 2, expected))
            weights = np.exp(np.array(logs) - max(logs))
            weights /= weights.sum()
            x, square, inclusion = np.zeros(n, dtype=y.dtype), np.zeros(n), np.zeros(n)
            for S, weight, mean, second in zip(supports, weights, means, seconds, strict=True):
                x[S] += weight * mean
                square[S] += weight * second
                inclusion[S] += weight
            left, expected = weights @ np.array(residuals)
            slab = square.sum() / s
            if not known:
                variance = (left + expected) / m
        return x, square, inclusion, left, variance, supports[np.argmax(weights)]

    @pytest.mark.parametrize("s", [1, 2, 3])
    @pytest.mark.parametrize("kind", ["real", "complex", "known noise"])
    def test_posterior(self, rng, s, kind):
        m, n = 9, 7
        Phi, y = rng.standard_normal((m, n)), rng.standard_normal((3, m))
        if kind == "complex":
            Phi, y = Phi + 1j * rng.standard_normal((m, n)), y + 1j * rng.standard_normal((3, m))
        y = y + 2 * Phi[:, 0]
        gram, energy = Phi.conj().T @ Phi, np.sum(np.abs(y) ** 2, axis=1)
        variance = np.full(3, 0.4) if kind == "known noise" else None
        squares, floor = np.diag(gram).real.copy(), np.full(3, 1e-12)
        found = posterior_of_all(gram, squares, y @ Phi.conj(), energy, s, m, floor, variance)
        for row in range(3):
            expected = self.reference(Phi, y[row], s, None if variance is None else 0.4)
            parts = (found.mean, found.square, found.inclusion, found.misfit, found.variance)
            for ours, other in zip(parts, expected, strict=False):
                np.testing.assert_allclose(ours[row], other, rtol=1e-6, atol=1e-8)
            assert found.support[row].tolist() == expected[5]

    def test_zero_and_equal_columns(self, rng):
        Phi = rng.standard_normal((8, 6))
        Phi[:, 1], Phi[:, 4] = 0, Phi[:, 3]
        y = rng.standard_normal((2, 8))
        gram, energy = Phi.T @ Phi, np.sum(y**2, axis=1)
        found = posterior_of_all(gram, np.diag(gram).copy(), y @ Phi, energy, 2, 8, np.full(2, 1e-12), None)
        assert not found.inclusion[:, 1].any()
        np.testing.assert_allclose(found.inclusion[:, 3], found.inclusion[:, 4])
        np.testing.assert_allclose(found.inclusion.sum(axis=1), 2)

    @pytest.mark.parametrize("variance", [None, np.ones(1)])
    def test_no_independent_columns(self, rng, variance):
        Phi = np.outer(rng.standard_normal(8), np.ones(4))
        gram, y = Phi.T @ Phi, rng.standard_normal((1, 8))
        found = posterior_of_all(gram, np.diag(gram).copy(), y @ Phi, np.sum(y**2, axis=1), 2, 8, np.ones(1), variance)
        assert np.isinf(found.misfit).all()


@pytest.mark.parametrize("kind", [float, complex])
def test_one_nonzero_at_a_time(rng, kind):
    """Means and probabilities equal those of all supports in which one column is exchanged."""

    def drawn(*shape):
        normal = rng.standard_normal(shape)
        return normal + 1j * rng.standard_normal(shape) if kind is complex else normal

    Phi, ridge, variance, half = drawn(12, 20), 0.1, 3.0, 1.0 if kind is complex else 0.5
    # Nothing moves to a column of zeros.
    Phi[:, 5] = 0
    support = np.array([17, 3, 8])
    y = Phi[:, support] @ np.array([2.0, -1.0, 0.5]) + 1.7 * drawn(12)

    def posterior(chosen):
        matrix = Phi[:, chosen].conj().T @ Phi[:, chosen] + ridge * np.eye(3)
        x = np.linalg.solve(matrix, Phi[:, chosen].conj().T @ y)
        evidence = np.vdot(Phi[:, chosen].conj().T @ y, x).real / variance - np.linalg.slogdet(matrix)[1]
        return half * evidence, x, variance * np.diag(np.linalg.inv(matrix)).real

    expected, elsewhere = np.zeros((3, 20), dtype=kind), 0.0
    for place in range(3):
        others = [j for j in range(20) if j not in np.delete(support, place) and j != 5]
        found = [posterior(np.where(np.arange(3) == place, j, support)) for j in others]
        odds = np.exp([each[0] - posterior(support)[0] for each in found])
        for j, share, (_, x, spread) in zip(others, odds / odds.sum(), found, strict=True):
            expected[:, j] += share * np.array([x[place], abs(x[place]) ** 2 + spread[place], 1])
        elsewhere += 1 - 1 / odds.sum()
    gram = Phi[:, support].conj().T @ Phi
    H = np.linalg.inv(gram[:, support] + ridge * np.eye(3))
    x = H @ (Phi[:, support].conj().T @ y)
    squares, correlations = np.linalg.norm(Phi, axis=0) ** 2, Phi.conj().T @ (y - Phi[:, support] @ x)
    arguments = gram, H, x, correlations, squares, support
    number, *moments = moved_singly(half, ridge, variance, np.inf, *arguments)
    assert number == pytest.approx(elsewhere)
    assert 0.05 < number < 2.9
    np.testing.assert_allclose(moments, expected, atol=1e-10)
    assert moved_singly(half, ridge, variance, 0.1, *arguments)[0] == np.inf
