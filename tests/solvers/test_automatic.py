"""The default method: easy rows, random-like and coherent matrices, approximations, and what it tells about them."""

import itertools

import numpy as np
import pytest
import scipy.sparse.linalg

import sparsect
from sparsect import Automatic, InputError, sets
from sparsect.operators.dense import DenseOperator
from sparsect.operators.least_squares import refit
from sparsect.operators.polishing import polish
from sparsect.solvers.automatic.plan import is_random_like
from sparsect.solvers.automatic.rank_aware import rank_aware

pytestmark = pytest.mark.numerical


def correlated(rng, m, n, rho):
    """Columns of which each resembles the one before it."""
    columns = [rng.standard_normal(m)]
    for _ in range(n - 1):
        columns.append(rho * columns[-1] + (1 - rho**2) ** 0.5 * rng.standard_normal(m))
    return np.array(columns).T


def measured(rng, Phi, s, noise, batch=1):
    x = np.zeros((batch, Phi.shape[1]))
    for row in x:
        row[rng.permutation(row.size)[:s]] = rng.choice([-1.0, 1.0], s) * rng.uniform(1, 2, s)
    clean = x @ Phi.T
    return x, clean + noise * np.linalg.norm(clean, axis=1, keepdims=True) / Phi.shape[0] ** 0.5 * rng.standard_normal(
        clean.shape
    )


def best_fit(Phi, y, s):
    """The smallest residual of all supports of s columns."""
    residuals = []
    for support in itertools.combinations(range(Phi.shape[1]), s):
        columns = Phi[:, support]
        residuals.append(np.linalg.norm(columns @ np.linalg.lstsq(columns, y, rcond=None)[0] - y))
    return min(residuals)


class TestEasyRows:
    def test_an_exact_fit_needs_no_iterations(self, rng):
        problem = sparsect.random_problem(60, 200, 5, batch=3, rng=rng)
        result = sparsect.recover(problem.Phi, problem.y, 5)
        assert (result.source == "direct").all()
        assert (result.n_iter == 0).all()
        assert result.converged.all()
        np.testing.assert_allclose(result.x, problem.x, atol=1e-10)
        np.testing.assert_array_equal(result.inclusion_probability, problem.x != 0)

    def test_little_noise_gives_deviations(self, rng):
        problem = sparsect.random_problem(80, 160, 6, snr_db=30, batch=20, rng=rng)
        result = sparsect.recover(problem.Phi, problem.y, 6)
        direct = result.source == "direct"
        assert direct.any()
        found = problem.x[direct] * (result.x[direct] != 0)
        errors = (result.x[direct] - problem.x[direct])[found != 0] / result.standard_deviation[direct][found != 0]
        assert 0.7 < np.sqrt(np.mean(errors**2)) < 1.5

    def test_zero_rows(self, rng):
        problem = sparsect.random_problem(40, 80, 4, batch=2, rng=rng)
        result = sparsect.recover(problem.Phi, problem.y * np.array([[0.0], [1.0]]), 4)
        assert not result.x[0].any()
        np.testing.assert_allclose(result.x[1], problem.x[1], atol=1e-10)


class TestMessages:
    """Random-like matrices and strong noise."""

    @pytest.mark.parametrize("m", [30, 60, 160])
    def test_probabilities_add_up_to_the_number_of_nonzeros(self, rng, m):
        Phi = rng.standard_normal((m, 3 * m // 2))
        x, y = measured(rng, Phi, m // 6, 0.8, batch=40)
        result = sparsect.recover(Phi, y, m // 6, check_fit=False, max_iter=300)
        chances = result.inclusion_probability
        np.testing.assert_allclose(chances.sum(axis=1), m // 6, rtol=0.01)
        # Of those that are probably nonzero, as many are as the probabilities say.
        likely = chances > 0.7
        assert abs((x != 0)[likely].mean() - chances[likely].mean()) < 0.15

    @pytest.mark.parametrize(("s", "snr_db"), [(30, 20), (55, 60)])
    def test_too_few_nonzeros_are_allowed(self, s, snr_db):
        """Most of the 60 nonzeros are certain, but the probabilities add up to s even so."""
        problem = sparsect.random_problem(200, 400, 60, snr_db, batch=4, rng=1)
        result = sparsect.recover(problem.Phi, problem.y, s, check_fit=False)
        np.testing.assert_allclose(result.inclusion_probability.sum(axis=1), s, rtol=1e-6)

    @pytest.mark.parametrize(("s", "snr_db", "source"), [(10, 60, "direct"), (60, 40, "messages")])
    def test_deviations_in_single_precision(self, s, snr_db, source):
        problem = sparsect.random_problem(200, 400, s, snr_db, batch=4, rng=s)
        double = sparsect.recover(problem.Phi, problem.y, s)
        single = sparsect.recover(problem.Phi.astype(np.float32), problem.y.astype(np.float32), s)
        assert set(single.source) == {source}
        there = problem.x != 0
        ratio = single.standard_deviation[there] / double.standard_deviation[there]
        assert np.median(ratio) == pytest.approx(1, abs=0.02)
        assert (np.abs(ratio - 1) < 0.2).all()

    def test_an_unknown_number_of_nonzeros_has_probabilities_too(self, rng):
        Phi = rng.standard_normal((60, 150))
        x, y = measured(rng, Phi, 6, 0.1, batch=4)
        result = sparsect.recover(Phi, y, "auto")
        assert (result.inclusion_probability[x != 0] > 0.9).all()
        assert (result.standard_deviation[x != 0] > 0).all()
        assert result.inclusion_probability[x == 0].mean() < 0.02

    def test_a_fit_for_lack_of_equations_is_not_certain(self, rng):
        Phi = rng.standard_normal((20, 40))
        _, y = measured(rng, Phi, 25, 0.0, batch=5)
        result = sparsect.recover(Phi, y, 25)
        assert np.isnan(result.inclusion_probability).all()
        assert np.isnan(result.standard_deviation).all()
        assert not np.isnan(sparsect.recover(Phi[:, :15], y, 15, check_fit=False).inclusion_probability).any()

    def test_noise_is_not_fitted_by_many_columns(self, rng):
        """With few measurements, chains may find that many nonzeros explain all of y."""
        result = sparsect.recover(rng.standard_normal((30, 80)), rng.standard_normal((60, 30)), "auto", check_fit=False)
        assert np.mean(np.count_nonzero(result.x, axis=1) > 8) < 0.06

    @pytest.mark.parametrize("size", [1e160, 1e-140])
    def test_an_unknown_number_in_any_units(self, rng, size):
        problem = sparsect.random_problem(40, 80, 3, rng=rng)
        np.testing.assert_array_equal(sparsect.recover(problem.Phi, size * problem.y, "auto").support, problem.x != 0)

    def test_more_noise_than_data(self, rng):
        problem = sparsect.random_problem(60, 120, 3, rng=rng)
        for level in (1e3, 1e300):
            result = sparsect.recover(problem.Phi, problem.y, 3, noise_norm=level, check_fit=False)
            assert np.isfinite(result.x).all()

    @pytest.mark.parametrize("coherent", [False, True])
    def test_noise_has_hardly_any_nonzeros(self, rng, coherent):
        Phi = correlated(rng, 60, 150, 0.95) if coherent else rng.standard_normal((60, 150))
        with pytest.warns(sparsect.PoorFitWarning, match="stand out from the noise: give the number"):
            result = sparsect.recover(Phi, rng.standard_normal((30, 60)), "auto")
        assert np.median(np.count_nonzero(result.x, axis=1)) <= 2


class TestCoherentColumns:
    def test_close_to_least_squares_on_the_true_support(self, rng):
        Phi = correlated(rng, 60, 150, 0.97)
        x, y = measured(rng, Phi, 4, 0.02, batch=6)
        result = sparsect.recover(Phi, y, 4)
        for row in range(6):
            support = np.flatnonzero(x[row])
            known = np.zeros_like(x[row])
            known[support] = np.linalg.lstsq(Phi[:, support], y[row], rcond=None)[0]
            assert sparsect.snr_db(x[row], result.x[row]) > sparsect.snr_db(x[row], known) - 6

    def test_ahead_of_the_map_alone(self, rng):
        Phi = correlated(rng, 60, 200, 0.98)
        x, y = measured(rng, Phi, 6, 0.03, batch=8)
        ours, alone = (sparsect.recover(Phi, y, 6, method) for method in ("auto", "annealed-difference-map"))
        assert (ours.source == "samples").any()
        assert sparsect.snr_db(x, ours.x).mean() > sparsect.snr_db(x, alone.x).mean() + 2

    def test_probabilities_mean_what_they_say(self, rng):
        """Of the entries with a probability of one half, about half are nonzero."""
        Phi = correlated(rng, 50, 120, 0.95)
        x, y = measured(rng, Phi, 4, 0.5, batch=60)
        result = sparsect.recover(Phi, y, 4)
        probability = result.inclusion_probability
        assert abs(probability.sum(axis=1).mean() - 4) < 0.1
        unsure = (probability > 0.3) & (probability < 0.7)
        assert unsure.sum() > 20
        assert 0.3 < (x[unsure] != 0).mean() < 0.7

    def test_rows_do_not_depend_on_the_batch(self, rng):
        Phi = correlated(rng, 40, 100, 0.95)
        _, y = measured(rng, Phi, 3, 0.1, batch=5)
        whole = sparsect.recover(Phi, y, 3)
        for row in range(5):
            np.testing.assert_allclose(sparsect.recover(Phi, y[row], 3).x, whole.x[row], atol=1e-8)

    @pytest.mark.parametrize("kind", [np.complex128, np.float32])
    def test_complex_and_single_precision(self, rng, kind):
        Phi = correlated(rng, 40, 80, 0.9) + (1j * correlated(rng, 40, 80, 0.9) if kind is np.complex128 else 0)
        x, y = measured(rng, Phi, 3, 0.01)
        result = sparsect.recover(Phi.astype(kind), y.astype(kind), 3)
        assert result.x.dtype == kind
        assert sparsect.snr_db(x, result.x) > 25


class TestJointSupports:
    """A rank-aware pursuit, from which a chain starts."""

    @pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
    def test_as_many_times_as_nonzeros(self, rng, dtype):
        """Without noise, all columns are found whatever Phi is like; simultaneous OMP is misled by strong ones."""
        Phi, found = correlated(rng, 60, 150, 0.95).astype(dtype), []
        # In single precision, weaker directions are too close to rounding errors.
        strengths = np.array([10, 1, 10, 1, 1, 1 if dtype == "float32" else 0.1])
        for _ in range(10):
            x, places = np.zeros((6, 150), dtype=dtype), np.sort(rng.permutation(150)[:6])
            x[:, places] = rng.standard_normal((6, 6)) * strengths
            y = x @ Phi.T
            problem = sparsect.Problem(Phi, y[None], sets.JointSparse(6, 6))
            assert np.flatnonzero(rank_aware(problem)[0, :150]).tolist() == places.tolist()
            others = sparsect.recover(Phi, y, sets.JointSparse(6), "omp", check_fit=False).x
            found.append(np.flatnonzero(others[0]).tolist() == places.tolist())
        assert not all(found)

    def test_fewer_directions_than_nonzeros(self, rng):
        """Columns of zeros and copies are left out, and nothing is selected once nothing is left."""
        Phi, x = rng.standard_normal((20, 30)), np.zeros((4, 30))
        Phi[:, 3], Phi[:, 8] = 0, Phi[:, 7]
        x[:, [7, 11]] = np.outer([1.0, 2.0, -1.0, 3.0], [1.0, 2.0])
        problem = sparsect.Problem(Phi, (x @ Phi.T)[None], sets.JointSparse(25, 4))
        support = np.flatnonzero(rank_aware(problem)[0, :30])
        assert 3 not in support
        assert len({7, 8} & set(support.tolist())) == 1
        assert not rank_aware(sparsect.Problem(Phi, np.zeros((1, 4, 20)), sets.JointSparse(2, 4))).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_noise_answers_are_exact(dtype):
    """The posterior mean of messages that have not settled is refitted if its support explains y."""
    problem = sparsect.random_problem(128, 512, 30, batch=20, rng=3, dtype=dtype)
    result = sparsect.recover(problem.Phi, problem.y, 30)
    found = sparsect.support_recall(problem.x, result.x) == 1
    assert found.mean() > 0.8
    assert {"messages", "direct"} >= set(result.source[found])
    assert (sparsect.snr_db(problem.x, result.x)[found] > (80 if dtype == "float32" else 180)).all()
    np.testing.assert_array_equal(result.inclusion_probability[found], problem.x[found] != 0)


def test_equal_columns_do_not_hide_others(rng):
    """The mean is spread over both copies of a column; its largest entries would be one column twice."""
    half = rng.standard_normal((30, 20))
    y = 2 * half[:, 3] + half[:, 7] + 0.3 * rng.standard_normal(30)
    result = sparsect.recover(np.hstack([half, half]), y, 2)
    assert set(np.flatnonzero(result.x) % 20) == {3, 7}


def test_where_few_nonzeros_are_in_doubt_the_answer_explains_y():
    """Of a mean that is spread over bumps much alike, the largest entries miss what the others have."""
    poor = sure = 0
    for seed in (1, 2, 4):
        rng = np.random.default_rng(seed)
        places, centres = rng.uniform(0, 1, (80, 2)), rng.uniform(0, 1, (160, 2))
        Phi = np.exp(-50 * np.sum((places[:, None] - centres) ** 2, axis=-1))
        Phi /= np.linalg.norm(Phi, axis=0)
        x = np.zeros((40, 160))
        for row in x:
            row[rng.permutation(160)[:8]] = rng.standard_normal(8)
        noise = rng.standard_normal((40, 80))
        noise *= 0.01 * (np.linalg.norm(x @ Phi.T, axis=1) / np.linalg.norm(noise, axis=1))[:, None]
        result = sparsect.recover(Phi, x @ Phi.T + noise, 8)
        certain = np.where(result.x, result.inclusion_probability, 0).sum(axis=1) > 0.9 * 8
        sure += certain.sum()
        poor += np.sum(result.residual_norm[certain] > 1.15 * np.linalg.norm(noise[certain], axis=1))
    assert sure > 60
    assert poor <= 0.06 * sure


def test_recording_does_not_change_the_answer(rng):
    """Rows that settle between two stages stay as they are, even if many steps are taken at once."""
    Phi = rng.standard_normal((24, 50)) + 2 * rng.standard_normal((24, 1))
    _, y = measured(rng, Phi, 3, 0.05)
    whole = sparsect.recover(Phi, y, 3, max_iter=100, record=())
    for moment in (1, 10):
        np.testing.assert_array_equal(sparsect.recover(Phi, y, 3, max_iter=100, record_at=moment).x, whole.x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_checkpoints_of_every_precision(rng, tmp_path, dtype):
    Phi, y = (rng.standard_normal(shape).astype(dtype) for shape in ((20, 40), 20))
    for iterations in (20, 40):
        result = sparsect.recover(Phi, y, 4, max_iter=iterations, checkpoint=tmp_path / "run.npz")
    assert result.x.dtype == dtype


def nested_boxes(m):
    """Boxes of widths that double, which begin at multiples of half their width."""
    widths = 2 ** np.arange(int(np.log2(m)) + 1)
    return np.array(
        [np.repeat([0.0, 1.0, 0.0], [a, w, m - a - w]) for w in widths for a in range(0, m - w + 1, max(1, w // 2))]
    ).T


class TestStructureWithFewMeasurements:
    """Cosines that random vectors may have, too, but in far more pairs of columns."""

    def test_random_matrices_are_random_like(self, rng):
        for m, n in ((49, 400), (64, 184), (100, 300), (60, 1000)):
            Phi = rng.standard_normal((m, n))
            assert is_random_like(sparsect.as_operator(Phi))
            assert is_random_like(sparsect.as_operator(Phi + 1j * rng.standard_normal((m, n))))

    def test_others_are_not(self):
        assert not is_random_like(sparsect.as_operator(nested_boxes(64)))
        fourier = np.exp(2j * np.pi * np.arange(64)[:, None] * np.arange(128) / 128)
        assert not is_random_like(sparsect.as_operator(fourier))

    @pytest.mark.parametrize("sparsity", [3, "auto"])
    def test_their_supports_are_sampled(self, rng, sparsity):
        x, y = measured(rng, nested_boxes(64), 3, 0.03, batch=20)
        result = sparsect.recover(nested_boxes(64), y, sparsity)
        assert "messages" not in result.source
        assert np.median(sparsect.snr_db(x, result.x)) > 30

    def test_a_wrong_pursuit_is_not_certain(self, rng):
        """Cosines twice too fine: exchanging single columns leaves pursuits at wrong supports."""
        Phi = np.cos(np.pi / 120 * (np.arange(60)[:, None] + 0.5) * np.arange(120))
        x, y = measured(rng, Phi, 8, 0.056, batch=200)
        result = sparsect.recover(Phi, y, 8, check_fit=False)
        direct = result.source == "direct"
        wrong = result.residual_norm > 1.5 * np.linalg.norm(y - x @ Phi.T, axis=1)
        assert not (direct & wrong).any()


class TestManyColumns:
    @pytest.fixture(autouse=True)
    def no_gram_matrix(self, monkeypatch):
        def refuse(self):
            raise MemoryError

        for name in ("gram_matrix", "double_gram_matrix"):
            plain = vars(DenseOperator)[name]
            small = property(lambda self, plain=plain: plain.func(self) if self.shape[1] <= 2000 else refuse(self))
            monkeypatch.setattr(DenseOperator, name, small)

    @pytest.mark.parametrize("dtype", [np.float64, np.complex128])
    def test_one_nonzero_is_the_best_column(self, rng, dtype):
        Phi = (rng.standard_normal((30, 9000)) * rng.uniform(0.1, 10, 9000)).astype(dtype)
        if dtype == np.complex128:
            Phi = Phi + 1j * rng.standard_normal(Phi.shape)
        y = Phi[:, [5, 700]].T + 0.5 * rng.standard_normal((2, 30)) * np.linalg.norm(Phi[:, [5, 700]], axis=0)[:, None]
        result = sparsect.recover(Phi, y, 1, check_fit=False)
        best = np.argmax(np.abs(y @ Phi.conj()) / np.linalg.norm(Phi, axis=0), axis=1)
        assert [np.flatnonzero(row).tolist() for row in result.x] == [[place] for place in best]
        np.testing.assert_allclose(np.sum(result.inclusion_probability, axis=1), 1, rtol=1e-6)

    @pytest.mark.parametrize("noise", [0.0, 0.3])
    def test_several(self, rng, noise):
        Phi = rng.standard_normal((60, 17000))
        y = measured(rng, Phi, 3, noise, batch=3)[1]
        result = sparsect.recover(Phi, y, 3, refit=True, max_iter=200)
        for row, found in zip(y, result.x, strict=True):
            support = np.flatnonzero(found)
            best = np.linalg.lstsq(Phi[:, support], row, rcond=None)[0]
            np.testing.assert_allclose(found[support], best, rtol=1e-6)

    def test_fits_in_parts(self, rng):
        """Rows without nonzeros, and more rows than fit into one part."""
        Phi, x = rng.standard_normal((20, 9000)), np.zeros((200, 9000))
        for row in x[1:]:
            row[rng.choice(9000, 5, replace=False)] = 1
        y = rng.standard_normal((200, 20))
        fitted = refit(sparsect.as_operator(Phi), y, x)
        xp = pytest.importorskip("array_api_strict")
        strict = refit(sparsect.as_operator(xp.asarray(Phi)), xp.asarray(y), xp.asarray(x))
        np.testing.assert_allclose(np.asarray(strict), fitted, atol=1e-9)
        assert not fitted[0].any()
        for row in (1, 100, 199):
            support = np.flatnonzero(x[row])
            np.testing.assert_allclose(fitted[row, support], np.linalg.lstsq(Phi[:, support], y[row], rcond=None)[0])
            assert np.count_nonzero(fitted[row]) == 5


def test_columns_whose_products_do_not_fit_into_memory():
    Phi = np.broadcast_to(np.float64(1.0), (2, 4_000_000))
    with pytest.raises(InputError, match=r"`Phi` must fit into half of memory, .* all pairs of its 4000000 columns"):
        sparsect.as_operator(Phi).gram_matrix  # noqa: B018


def test_phi_of_zeros():
    assert not sparsect.recover(np.zeros((20, 40)), np.ones(20), 4).x.any()


class TestApproximation:
    @pytest.mark.parametrize(("n", "s"), [(40, 1), (30, 2), (12, 3), (10, 4)])
    def test_best_of_all_supports(self, rng, n, s):
        Phi, y = correlated(rng, 8, n, 0.6), rng.standard_normal((6, 8))
        result = sparsect.recover(Phi, y, s, Automatic("approximation"))
        best = [best_fit(Phi, row, s) for row in y]
        assert np.mean(result.residual_norm <= np.array(best) * (1 + 1e-9)) >= (1.0 if s < 3 else 0.8)
        assert result.swap_optimal.all()

    def test_never_behind_its_parts(self, rng):
        Phi, y = correlated(rng, 30, 90, 0.8), rng.standard_normal((8, 30))
        ours = sparsect.recover(Phi, y, 5, Automatic("approximation")).residual_norm
        for other in ("ormp", "omp", sparsect.AnnealedDifferenceMap("approximation")):
            assert ours.mean() <= sparsect.recover(Phi, y, 5, other).residual_norm.mean() + 1e-9


def test_a_direct_solution_without_noise_is_exact():
    """In the last row, the pursuit takes a wrong column for the smallest nonzero, and the mean corrects that."""
    problem = sparsect.random_problem(140, 200, 35, batch=5, rng=[140, 35])
    result = sparsect.recover(problem.Phi, problem.y, 35)
    assert (sparsect.snr_db(problem.x, result.x) > 150).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_equal_columns_share_the_probability(rng, dtype, noise):
    Phi = rng.standard_normal((40, 100)).astype(dtype)
    Phi[:, 50], Phi[:, 51] = Phi[:, 3], -2 * Phi[:, 3]
    x = np.zeros(100)
    x[[3, 20, 30]] = [2.0, 1.0, -1.0]
    y = (Phi @ x + noise * rng.standard_normal(40)).astype(dtype)
    result = sparsect.recover(Phi, y, 3)
    np.testing.assert_allclose(result.inclusion_probability[[3, 50, 51]], 1 / 3, atol=0.05)
    np.testing.assert_allclose(result.inclusion_probability[[20, 30]], 1, atol=1e-3)
    expected = np.sqrt(2 / 9) * np.array([2.0, 2.0, 1.0])
    np.testing.assert_allclose(result.standard_deviation[[3, 50, 51]], expected, rtol=0.1)


def test_a_nonzero_between_two_equal_columns():
    """The pursuit takes a mixture of two columns for one of them, which has a copy: its mean has both."""
    rng = np.random.default_rng(1587)
    Phi = rng.standard_normal((100, 200))
    places = rng.choice(100, 24, replace=False)
    first, second = places[:2]
    Phi /= np.linalg.norm(Phi, axis=0)
    Phi[:, 199] = Phi[:, first] + Phi[:, second] + rng.uniform(0.3, 1.2) * Phi[:, 197]
    Phi[:, 199] /= np.linalg.norm(Phi[:, 199])
    Phi[:, 198] = Phi[:, first]
    x = np.zeros(200)
    x[places] = rng.choice([-1, 1], 24) * rng.uniform(0.3, 1, 24)
    x[first], x[second] = rng.uniform(0.5, 1.5), rng.uniform(0.5, 1.5)
    y = Phi @ x
    noise = rng.standard_normal(100)
    y += 10 ** rng.uniform(-4, -1.3) * noise
    result = sparsect.recover(Phi, y, 24)
    assert result.inclusion_probability[[first, 198]].sum() == pytest.approx(1, abs=0.1)
    assert result.residual_norm < 0.3 * np.linalg.norm(y)


def test_chains_that_disagree_are_not_sure(rng):
    """Columns near a subspace: of probabilities above 0.9, 86 % would be right if the best chain alone were trusted."""
    said, true = [], []
    for _ in range(25):
        Phi = rng.standard_normal((60, 10)) @ rng.standard_normal((10, 150)) + 0.3 * rng.standard_normal((60, 150))
        Phi /= np.linalg.norm(Phi, axis=0)
        x = np.zeros(150)
        x[rng.choice(150, 6, replace=False)] = rng.standard_normal(6)
        noise = rng.standard_normal(60)
        y = Phi @ x + 0.1 * np.linalg.norm(Phi @ x) / np.linalg.norm(noise) * noise
        probability = sparsect.recover(Phi, y, 6).inclusion_probability
        assert probability.sum() == pytest.approx(6, abs=0.01)
        said.append(probability[probability > 0.9])
        true.append(x[probability > 0.9] != 0)
    assert np.concatenate(said).size > 30
    assert np.mean(np.concatenate(true)) > 0.92


class TestFewSupports:
    def test_nearly_equal_columns(self, rng):
        """Sums of decays: supports with huge opposite values fit as well as the true one, and are less probable."""
        Phi = np.exp(-np.arange(80)[:, None] * np.geomspace(0.02, 1.0, 60))
        Phi /= np.linalg.norm(Phi, axis=0)
        x = np.zeros((24, 60))
        for row in x:
            row[rng.permutation(60)[:3]] = rng.standard_normal(3)
        clean = x @ Phi.T
        y = clean + 1e-3 * np.linalg.norm(clean, axis=1, keepdims=True) * rng.standard_normal(clean.shape) / 80**0.5
        result = sparsect.recover(Phi, y, 3)
        assert (result.source == "direct").all()
        assert (np.linalg.norm(result.x, axis=1) < 3 * np.linalg.norm(x, axis=1)).all()
        assert (result.residual_norm < 3e-3 * np.linalg.norm(y, axis=1)).all()
        np.testing.assert_allclose(result.inclusion_probability.sum(axis=1), 3)
        # Probabilities are right on average: as many true nonzeros as they expect.
        for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.99), (0.99, 1.1)):
            some = (result.inclusion_probability >= low) & (result.inclusion_probability < high)
            expected = result.inclusion_probability[some]
            spread = np.sqrt(np.sum(expected * (1 - expected)) + 1)
            assert abs(np.count_nonzero(x[some]) - expected.sum()) < 4 * spread

    def test_columns_that_all_depend_on_each_other(self, rng):
        Phi = np.outer(rng.standard_normal(12), [1.0, -2.0, 0.5, 3.0])
        result = sparsect.recover(Phi, Phi @ np.array([0, 1.0, 0, 0]) + 0.01 * rng.standard_normal(12), 2)
        assert np.isfinite(result.x).all()
        assert result.residual_norm < 0.1

    def test_batch_and_single_rows_agree(self, rng):
        Phi, y = correlated(rng, 15, 20, 0.9), rng.standard_normal((5, 15))
        together = sparsect.recover(Phi, y, 3)
        for row in range(5):
            alone = sparsect.recover(Phi, y[row], 3)
            np.testing.assert_allclose(alone.x, together.x[row], atol=1e-9)
            np.testing.assert_allclose(alone.inclusion_probability, together.inclusion_probability[row], atol=1e-6)


class TestPolish:
    def test_no_exchange_improves_a_polished_support(self, rng):
        Phi, y = rng.standard_normal((12, 20)), rng.standard_normal((4, 12))
        result = sparsect.recover(Phi, y, 3, "omp", polish=True)
        assert result.swap_optimal.all()
        for row in range(4):
            support = set(np.flatnonzero(result.x[row]))
            for leaving, entering in itertools.product(support, set(range(20)) - support):
                columns = Phi[:, sorted(support - {leaving} | {entering})]
                fitted = columns @ np.linalg.lstsq(columns, y[row], rcond=None)[0]
                assert np.linalg.norm(fitted - y[row]) >= result.residual_norm[row] - 1e-9

    def test_nothing_is_claimed_of_no_support(self, rng):
        operator, y = sparsect.as_operator(rng.standard_normal((9, 13))), rng.standard_normal((2, 9))
        y[1] = 0
        _, swaps, optimal = polish(operator, y, np.zeros((2, 13)), sparsect.sets.Sparse(3).structure(13))
        assert swaps.tolist() == [0, 0]
        assert optimal.tolist() == [False, True]

    def test_nothing_is_claimed_of_a_support_that_was_changed(self, rng):
        problem = sparsect.random_problem(20, 60, 5, snr_db=3, batch=30, rng=rng)
        result = sparsect.recover(problem.Phi, problem.y, 5, polish=True, check_fit=False)
        assert result.swaps.any()
        assert not result.swaps.all()
        changed = np.isnan(result.inclusion_probability).all(axis=1)
        np.testing.assert_array_equal(changed, result.swaps > 0)
        np.testing.assert_array_equal(np.isnan(result.standard_deviation).any(axis=1), changed)

    @pytest.mark.parametrize("method", ["auto", "omp"])
    def test_exchanges_never_raise_the_residual(self, rng, method):
        """Of columns that almost depend on each other, updates lose digits: residuals rose from 5 to 90 % of ||y||."""
        places = np.arange(100)
        Phi = np.exp(-((places[:, None] - places) ** 2) / 18.0)
        x = np.zeros((30, 100))
        for row in x:
            row[rng.choice(100, 5, replace=False)] = rng.standard_normal(5)
        y = x @ Phi.T
        y += 0.03 * rng.standard_normal(y.shape) * np.linalg.norm(y, axis=1, keepdims=True) / 10
        plain, refitted, polished = (
            sparsect.recover(Phi, y, 12, method, check_fit=False, **options)
            for options in ({}, {"refit": True}, {"polish": True})
        )
        assert (polished.residual_norm <= refitted.residual_norm * (1 + 1e-5)).all()
        assert (polished.residual_norm <= plain.residual_norm * (1 + 1e-5)).all()
        assert polished.swaps.sum() > 30

    def test_every_method_can_be_polished(self, rng):
        problem = sparsect.random_problem(20, 40, 5, snr_db=10, batch=3, rng=rng)
        for method in sparsect.METHODS:
            plain = sparsect.recover(problem.Phi, problem.y, 5, method, max_iter=50, refit=True)
            polished = sparsect.recover(problem.Phi, problem.y, 5, method, max_iter=50, polish=True)
            assert (polished.residual_norm <= plain.residual_norm + 1e-9).all()
            assert (polished.support.sum(axis=1) <= 5).all()

    def test_a_phi_that_is_not_dense_is_refused(self):
        Phi = scipy.sparse.linalg.aslinearoperator(np.eye(3, 5))
        with pytest.raises(sparsect.InputError, match="`polish` must be False for such a Phi"):
            sparsect.recover(Phi, np.ones(3), 1, polish=True)

    def test_results_are_saved_with_what_is_known(self, rng, tmp_path):
        problem = sparsect.random_problem(30, 60, 4, snr_db=20, batch=2, rng=rng)
        result = sparsect.recover(problem.Phi, problem.y, 4, polish=True)
        result.save(tmp_path / "result.npz")
        again = sparsect.load_result(tmp_path / "result.npz")
        for name in ("source", "inclusion_probability", "standard_deviation", "swaps", "swap_optimal"):
            np.testing.assert_array_equal(getattr(again, name), getattr(result, name))


def test_a_small_sparse_matrix_is_solved_like_a_dense_one(rng):
    """Supports are sampled, which coherent columns need."""
    places = np.arange(100)
    Phi = np.exp(-((places[:, None] - places) ** 2) / 8.0)
    Phi[Phi < 1e-3] = 0
    x = np.zeros(100)
    x[[10, 14, 40, 63, 80]] = [1, -1, 0.7, 1.5, -0.6]
    y = Phi @ x + 0.01 * rng.standard_normal(100)
    for sparsity in (5, "auto"):
        dense, sparse = (sparsect.recover(kind(Phi), y, sparsity) for kind in (np.asarray, scipy.sparse.csr_array))
        assert sparse.source == dense.source == "samples"
        np.testing.assert_array_equal(sparse.x, dense.x)


class TestScaleOfColumns:
    @pytest.mark.parametrize("method", sorted(set(sparsect.METHODS) - {"stomp"}))
    @pytest.mark.parametrize("kind", ["dense", "sparse", "matrix-free"])
    def test_multiplied_columns_divide_the_answer(self, rng, method, kind):
        convert = {
            "dense": np.asarray,
            "sparse": lambda Phi: sparsect.SparseOperator(scipy.sparse.csr_array(Phi)),
            "matrix-free": scipy.sparse.linalg.aslinearoperator,
        }[kind]
        needs = {need.name for need in sparsect.METHODS[method].needs}
        if kind != "dense" and needs & {"DENSE", "SPECTRUM"}:
            pytest.skip("the method needs a dense Phi")
        problem = sparsect.random_problem(40, 80, 4, rng=rng)
        factors = 10.0 ** rng.uniform(-3, 3, 80)
        plain = sparsect.recover(convert(problem.Phi), problem.y, 4, method, max_iter=100)
        scaled = sparsect.recover(convert(problem.Phi * factors), problem.y, 4, method, max_iter=100)
        np.testing.assert_allclose(scaled.x * factors, plain.x, atol=1e-5)

    def test_columns_of_zeros_stay_zero(self, rng):
        problem = sparsect.random_problem(30, 60, 4, snr_db=10, batch=3, rng=rng)
        Phi = problem.Phi * 10.0 ** rng.uniform(-2, 2, 60)
        Phi[:, ::7] = 0
        for method in sparsect.METHODS:
            x = sparsect.recover(Phi, problem.y, 4, method, max_iter=50).x
            assert np.isfinite(x).all()
            assert not x[:, ::7].any()

    @pytest.mark.parametrize("method", sparsect.METHODS)
    def test_further_columns_of_zeros_change_nothing(self, rng, method):
        problem = sparsect.random_problem(60, 120, 10, snr_db=15, batch=4, rng=rng)
        places = np.sort(rng.choice(240, 120, replace=False))
        wide = np.zeros((60, 240))
        wide[:, places] = problem.Phi
        few, many = (sparsect.recover(Phi, problem.y, 10, method, max_iter=100) for Phi in (problem.Phi, wide))
        np.testing.assert_allclose(many.x[:, places], few.x, atol=1e-6)
        assert np.count_nonzero(many.x) == np.count_nonzero(few.x)
        np.testing.assert_array_equal(many.support, many.x != 0)
        np.testing.assert_allclose(many.residual_norm, few.residual_norm, atol=1e-6)
        for name in ("inclusion_probability", "standard_deviation"):
            expected, found = getattr(few, name), getattr(many, name)
            assert (expected is None) == (found is None)
            if expected is not None:
                np.testing.assert_allclose(found[:, places], expected, atol=1e-6)
                assert found.sum() == pytest.approx(expected.sum())

    def test_more_nonzeros_than_columns_that_are_not_zero(self, rng, tmp_path):
        Phi = np.zeros((8, 12))
        Phi[:, [2, 5, 6]] = rng.standard_normal((8, 3))
        x = np.zeros((2, 12))
        x[:, [2, 5, 6]] = rng.standard_normal((2, 3))
        for _ in range(2):
            result = sparsect.recover(Phi, x @ Phi.T, 10, "difference-map", checkpoint=tmp_path / "run.npz")
            np.testing.assert_allclose(result.x, x, atol=1e-9)

    def test_norms_of_many_columns_are_estimated(self, rng):
        factors = 10.0 ** rng.uniform(-2, 2, 3000)
        Phi = rng.standard_normal((50, 3000)) * factors
        estimated = sparsect.as_operator(scipy.sparse.linalg.aslinearoperator(Phi)).column_norms
        assert np.abs(np.log(estimated / np.linalg.norm(Phi, axis=0))).max() < 1

    def test_a_norm_that_is_not_a_number_is_refused(self):
        def product(x):
            return np.where(np.abs(x[:3]) > 0.99, np.nan, x[:3])

        Phi = scipy.sparse.linalg.LinearOperator((3, 5), matvec=product, rmatvec=lambda r: np.append(r, [0, 0]))
        operator = sparsect.as_operator(Phi)
        with pytest.raises(sparsect.InputError, match="`Phi` must have finite columns, got columns whose norms"):
            operator.unit_columns  # noqa: B018

    def test_it_can_be_turned_off(self, rng):
        problem = sparsect.random_problem(30, 60, 4, rng=rng)
        Phi = problem.Phi * 10.0 ** rng.uniform(-2, 2, 60)
        x = sparsect.recover(Phi, problem.y, 4, "omp", scale_columns=False).x
        order = np.argmax(np.abs(problem.y @ Phi) / np.linalg.norm(Phi, axis=0))
        assert x.shape == (1, 60)
        assert order < 60
