"""The annealed map: what it promises, its fast path against its plain one, and the sparsity nobody told it."""

import dataclasses
import itertools
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse.linalg
from threadpoolctl import threadpool_info

import sparsect
from sparsect import AnnealedDifferenceMap, InputError, sets
from sparsect.backend.parallel import over_blocks
from sparsect.kernels import posterior as posteriors
from sparsect.kernels.fitting.cpu import fit
from sparsect.kernels.posterior import posterior
from sparsect.kernels.posterior.cpu import denoise
from sparsect.kernels.posterior.plain import posterior_and_power
from sparsect.operators.least_squares import on_support
from sparsect.solvers.annealed import solver as annealed

pytestmark = pytest.mark.numerical

GOALS = ("recovery", "approximation")


def quality(problem, *arguments, **options):
    result = sparsect.recover(problem.operator, problem.y, problem.sparsity, *arguments, **options)
    return sparsect.snr_db(problem.x, result.x)


class TestRecovery:
    def test_noiseless_problems_are_solved_exactly_and_leave_early(self):
        problem = sparsect.random_problem(80, 200, 25, batch=5, rng=0)
        result = sparsect.recover(problem.Phi, problem.y, 25, AnnealedDifferenceMap())
        assert (sparsect.snr_db(problem.x, result.x) > 90).all()
        assert result.converged.all()
        assert result.stable.all()
        assert result.n_iter.max() < 1000

    @pytest.mark.parametrize("method", ["annealed-difference-map", "vamp"])
    def test_messages_that_explode_close_to_the_answer_are_not_taken(self, method):
        """Singular values over two decades, no noise: messages settle, and then rounding blows them up."""
        problem, rng = sparsect.random_problem(100, 200, 10, batch=50, rng=0), np.random.default_rng(1)
        left, right = (np.linalg.qr(rng.standard_normal((rows, 100)))[0] for rows in (100, 200))
        Phi = left * np.logspace(0, -2, 100) @ right.T
        result = sparsect.recover(Phi, problem.x @ Phi.T, 10, method, max_iter=200)
        assert (sparsect.snr_db(problem.x, result.x) > 60).sum() >= 45

    @pytest.mark.parametrize("s", [25, 50, 70])
    def test_close_to_the_bayes_optimum(self, s):
        problem = sparsect.random_problem(200, 500, s, snr_db=20, batch=20, rng=s)
        noise = float(np.mean(problem.noise_norm**2)) / 200
        optimum = sparsect.VectorAMP(density=s / 500, variance=1.0, noise_variance=noise)
        assert quality(problem).mean() > quality(problem, optimum, max_iter=200).mean() - 0.5

    @pytest.mark.filterwarnings("ignore::sparsect.ConvergenceWarning")
    def test_messages_are_not_passed_on_blindly(self, monkeypatch):
        """Neighbouring columns alike: message passing alone is lost, started from the map it is not."""
        rng = np.random.default_rng(0)
        Phi = rng.standard_normal((200, 500))
        for j in range(1, 500):
            Phi[:, j] = 0.9 * Phi[:, j - 1] + 0.19**0.5 * Phi[:, j]
        Phi /= np.linalg.norm(Phi, axis=0)
        x = np.zeros((10, 500))
        for row in x:
            row[rng.permutation(500)[:25]] = rng.standard_normal(25)
        y = x @ Phi.T + 0.02 * rng.standard_normal((10, 200))
        ours = sparsect.snr_db(x, sparsect.recover(Phi, y, 25, AnnealedDifferenceMap()).x).mean()
        assert ours > sparsect.snr_db(x, sparsect.recover(Phi, y, 25, "vamp").x).mean() + 3
        # Messages that fit much worse than the average are dropped for it.
        monkeypatch.setattr(annealed, "WORSE", 0.0)
        average = sparsect.snr_db(x, sparsect.recover(Phi, y, 25, AnnealedDifferenceMap()).x).mean()
        assert ours - 2 < average != ours

    def test_without_singular_values_the_average_is_the_answer(self):
        problem = sparsect.random_problem(100, 200, 20, snr_db=20, batch=3, rng=1)
        operator = scipy.sparse.linalg.aslinearoperator(problem.Phi)
        result = sparsect.recover(operator, problem.y, 20, AnnealedDifferenceMap(), max_iter=100)
        assert (sparsect.snr_db(problem.x, result.x) > 15).all()

    def test_a_noise_norm_is_taken_into_account(self):
        problem = sparsect.random_problem(100, 200, 20, snr_db=20, batch=3, rng=1)
        plain = sparsect.recover(problem.Phi, problem.y, 20, AnnealedDifferenceMap())
        told = sparsect.recover(problem.Phi, problem.y, 20, AnnealedDifferenceMap(), noise_norm=problem.noise_norm)
        assert not np.array_equal(plain.x, told.x)
        np.testing.assert_allclose(told.x, plain.x, atol=0.1)


class TestApproximation:
    def test_fits_better_than_order_recursive_pursuit(self):
        problem = sparsect.random_problem(100, 250, 60, snr_db=5, batch=30, rng=2)
        errors = {
            method: sparsect.recover(problem.Phi, problem.y, 30, method).residual_norm.mean()
            for method in (AnnealedDifferenceMap("approximation"), "ormp")
        }
        ours, theirs = errors.values()
        assert ours < 0.97 * theirs

    def test_the_answer_is_a_fit(self):
        problem = sparsect.random_problem(60, 150, 20, snr_db=10, batch=300, rng=3, dtype="float32")
        result = sparsect.recover(problem.Phi, problem.y, 12, AnnealedDifferenceMap("approximation"), max_iter=50)
        residual = problem.y - result.x @ problem.Phi.T
        slopes = np.abs((residual @ problem.Phi)[result.support])
        assert slopes.max() < 1e-5 * np.linalg.norm(problem.y, axis=1).max()
        assert (result.support.sum(axis=1) <= 12).all()


@pytest.mark.parametrize("goal", GOALS)
class TestBothGoals:
    def test_scale_free(self, goal):
        problem = sparsect.random_problem(60, 150, 20, snr_db=20, batch=4, rng=4)
        plain = sparsect.recover(problem.Phi, problem.y, 20, AnnealedDifferenceMap(goal), max_iter=60)
        scaled = sparsect.recover(64 * problem.Phi, 1024 * problem.y, 20, AnnealedDifferenceMap(goal), max_iter=60)
        np.testing.assert_allclose(scaled.x / 16, plain.x, rtol=1e-6, atol=1e-9)

    def test_a_smaller_budget_shortens_the_schedule(self, goal):
        """Sixty steps of a schedule for sixty are better than sixty of one for two thousand."""
        problem = sparsect.random_problem(100, 250, 35, snr_db=20, batch=20, rng=5)
        solver = AnnealedDifferenceMap(goal)
        short = sparsect.recover(problem.Phi, problem.y, 35, solver, max_iter=60)
        cut = sparsect.recover(
            problem.Phi, problem.y, 35, solver, max_iter=2000, callback=lambda run: run.iteration == 60
        )
        assert sparsect.snr_db(problem.x, short.x).mean() > sparsect.snr_db(problem.x, cut.x).mean() + 0.5

    def test_seconds_are_a_budget_too(self, goal):
        problem = sparsect.random_problem(100, 250, 20, snr_db=20, batch=200, rng=5)
        solver = AnnealedDifferenceMap(goal)
        # More is tried where the machine was busy with something else.
        for seconds in (0.3, 1.0, 3.0):
            result = sparsect.recover(problem.Phi, problem.y, 20, solver, max_iter=10**6, max_seconds=seconds)
            if sparsect.snr_db(problem.x, result.x).mean() > 20 and result.seconds < 2 * seconds:
                break
        else:
            pytest.fail("neither 0.3 nor 3 seconds were enough, or were kept to")

    @pytest.mark.parametrize("batch", [3, 300])
    def test_many_steps_at_once_are_single_steps(self, goal, batch):
        """In place, in blocks, on all cores: the same as one pure step after the other."""
        problem = sparsect.random_problem(60, 150, 12, snr_db=20, batch=batch, rng=6)
        solver, fractions = AnnealedDifferenceMap(goal), [step / 39 for step in range(40)]
        start = stepped = solver.init(problem)
        before = {name: value.copy() for name, value in start.arrays().items()}
        leapt = solver.steps(problem, start, np.full(batch, -1.0), fractions)
        for fraction in fractions:
            stepped = solver.step(problem, stepped, fraction)
        for name, value in stepped.arrays().items():
            np.testing.assert_allclose(getattr(leapt, name), value, rtol=1e-6, atol=1e-9, err_msg=name)
            np.testing.assert_array_equal(getattr(start, name), before[name])

    def test_rows_that_are_done_wait(self, goal):
        problem = sparsect.random_problem(60, 150, 4, batch=300, rng=7)
        solver, goals = AnnealedDifferenceMap(goal), np.where(np.arange(300) % 3, -1.0, np.inf)
        state = solver.steps(problem, solver.init(problem), goals, [0.1] * 8)
        np.testing.assert_array_equal(state.taken, np.where(np.arange(300) % 3, 8, 1))

    def test_edges(self, goal):
        problem = sparsect.random_problem(20, 40, 3, batch=3, rng=8)
        for s in (0, 1, 40):
            for steps in (1, 2, 3, 20):
                x = sparsect.recover(problem.Phi, problem.y, s, AnnealedDifferenceMap(goal), max_iter=steps).x
                assert (np.count_nonzero(x, axis=1) <= s).all()
                assert np.isfinite(x).all()
        assert not sparsect.recover(problem.Phi, 0 * problem.y, 3, AnnealedDifferenceMap(goal)).x.any()


class TestUnknownSparsity:
    def test_without_the_noise_level_the_expected_number_is_found(self):
        for s in (10, 40):
            problem = sparsect.random_problem(200, 500, s, snr_db=20, batch=10, rng=s)
            result = sparsect.recover(problem.Phi, problem.y, "auto")
            assert abs(result.support.sum(axis=1).mean() - s) < 0.15 * s
            known = quality(problem).mean()
            assert sparsect.snr_db(problem.x, result.x).mean() > known - 0.5

    def test_without_noise_it_is_exact(self):
        problem = sparsect.random_problem(100, 250, 15, batch=4, rng=1)
        result = sparsect.recover(problem.Phi, problem.y, "auto")
        np.testing.assert_array_equal(result.support, problem.x != 0)

    def test_with_the_noise_level_the_smallest_that_reaches_it(self):
        problem = sparsect.random_problem(100, 250, 15, snr_db=25, batch=5, rng=2)
        solver = AnnealedDifferenceMap("approximation")
        result = sparsect.recover(problem.Phi, problem.y, "auto", solver, noise_norm=problem.noise_norm)
        taken = result.support.sum(axis=1)
        assert ((taken > 5) & (taken <= 15)).all()
        assert (result.residual_norm <= problem.noise_norm * (1 + 1e-5)).mean() >= 0.8
        for row, s in enumerate(taken):
            fewer = sparsect.recover(problem.Phi, problem.y[row], int(s) - 1, solver)
            assert fewer.residual_norm > problem.noise_norm[row]

    def test_without_noise_a_fit_is_exact_up_to_rounding(self):
        problem = sparsect.random_problem(60, 150, 5, batch=2, rng=3)
        result = sparsect.recover(problem.Phi, problem.y, "auto", noise_norm=0)
        np.testing.assert_array_equal(result.support, problem.x != 0)

    def test_one_signal_comes_back_as_one(self):
        problem = sparsect.random_problem(60, 150, 5, snr_db=30, rng=3)
        for noise_norm in (None, float(problem.noise_norm[0])):
            result = sparsect.recover(problem.Phi, problem.y[0], "auto", noise_norm=noise_norm)
            assert result.x.shape == (150,)
            assert isinstance(result.residual_norm, float)
            assert result.sparsity == "auto"

    def test_a_result_without_sparsity_is_kept_in_a_file(self, tmp_path):
        problem = sparsect.random_problem(60, 150, 5, snr_db=30, rng=3)
        result = sparsect.recover(problem.Phi, problem.y, "auto")
        result.save(tmp_path / "x.npz")
        loaded = sparsect.load_result(tmp_path / "x.npz")
        assert loaded.sparsity == "auto"
        np.testing.assert_array_equal(loaded.stable, result.stable)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"sparsity": "many"}, r"sparsity` must .*got 'many'"),
            ({"method": "omp"}, "'auto' with 'omp'"),
            ({"method": AnnealedDifferenceMap("approximation")}, "'auto' with noise_norm"),
            ({"noise_norm": 1.0, "checkpoint": "run.npz"}, "checkpoint"),
            ({"noise_norm": -1.0}, r"noise_norm` must .*got -1"),
        ],
    )
    def test_what_cannot_be_is_refused(self, options, message):
        problem = sparsect.random_problem(20, 40, 3, rng=0)
        with pytest.raises(InputError, match=message):
            sparsect.recover(problem.Phi, problem.y, **{"sparsity": "auto"} | options)


class TestKernels:
    def test_fits_against_lstsq(self, rng):
        Phi, y = rng.standard_normal((30, 50)), rng.standard_normal((9, 30))
        Phi[:, 7], Phi[:, 9] = Phi[:, 3] * 2, 0
        support = rng.random((9, 50)) < 0.3
        support[0], support[1, [3, 7, 9]] = False, True
        x = np.empty((9, 50))
        fit(0, 9, Phi.T @ Phi, np.ascontiguousarray(Phi.T), y, support, 1e-13, x)
        for row in range(9):
            places = np.flatnonzero(support[row])
            expected = Phi[:, places] @ np.linalg.lstsq(Phi[:, places], y[row], rcond=None)[0]
            np.testing.assert_allclose(Phi @ x[row], expected, atol=1e-10)
            assert not x[row, ~support[row]].any()

    def test_many_fits_are_as_accurate_as_few(self, rng):
        """Single precision in, double within: the compiled fits and the plain ones agree."""
        Phi, y = rng.standard_normal((40, 120)).astype("f"), rng.standard_normal((400, 40)).astype("f")
        support = rng.random((400, 120)) < 0.2
        operator = sparsect.as_operator(Phi)
        few = np.concatenate([on_support(operator, y[i : i + 20], support[i : i + 20]) for i in range(0, 400, 20)])
        np.testing.assert_allclose(on_support(operator, y, support), few, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_denoising_against_the_formula(self, dtype, rng):
        r = (3 * rng.standard_normal((5, 80))).astype(dtype)
        gamma, density, variance = (
            rng.uniform(low, high, 5).astype(dtype) for low, high in ((1, 9), (0.1, 0.4), (1, 4))
        )
        x, sums = np.empty_like(r), [np.empty(5, dtype) for _ in range(3)]
        denoise(0, 5, r, gamma, density, variance, x, *sums)
        mean, var, active, power = posterior(r, gamma, density, variance, 0.5)
        np.testing.assert_allclose(x, mean, rtol=1e-4, atol=1e-6)
        for got, expected in zip(sums, (var.mean(axis=1), active.sum(axis=1), power.sum(axis=1)), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4)

    @pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.5, 1.0), (-2.0, 0.0), (-np.inf, 0.3), (0.0, 0.05)])
    def test_clipped_nonzeros_against_quadrature(self, low, high):
        """Normal values beyond a bound are at the bound; what is beyond zero does not occur."""
        r, gamma, density, variance = np.linspace(-6.0, 6.0, 25), 4.0, 0.2, 0.8
        structure = sets.Sparse(3, low=low, high=high).structure(r.size)
        prior = (np.array([value]) for value in (gamma, density, variance))
        mean, var, active, power, before = (part[0] for part in posterior_and_power(r[None], *prior, 0.5, structure))
        z = np.linspace(-12.0, 12.0, 2_400_001)
        weight = np.exp(-(z**2) / (2 * variance)) * ~((low == 0) & (z < 0) | (high == 0) & (z > 0))
        weight *= density / weight.sum()
        x = np.clip(z, low, high)
        for place, value in enumerate(r):
            slab, spike = weight * np.exp(-gamma * (value - x) ** 2 / 2), (1 - density) * np.exp(-gamma * value**2 / 2)
            total = slab.sum() + spike
            moments = [(slab * part).sum() / total for part in (1, x, x**2, z**2)]
            expected = (moments[0], moments[1], moments[2] - moments[1] ** 2, moments[2], moments[3])
            found = (active[place], mean[place], var[place], power[place], before[place])
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-9)

    def test_clipped_nonzeros_far_from_their_bounds(self):
        """Wherever the observation is, numbers stay within the bounds and finite."""
        r = np.concatenate([-np.logspace(-3, 8, 40), np.logspace(-3, 8, 40)])
        structure = sets.Sparse(3, low=-0.5, high=2.0).structure(80)
        for gamma, variance in itertools.product((1e-6, 1.0, 1e9), (1e-9, 1.0, 1e9)):
            prior = [np.array([value]) for value in (gamma, 0.1, variance)]
            mean, var, active, power, before = posterior_and_power(r[None], *prior, 0.5, structure)
            assert all(np.isfinite(part).all() for part in (mean, var, active, power, before))
            assert mean.min() >= -0.5
            assert mean.max() <= 2.0
            found = posteriors.denoise(r[None], *prior, structure)
            np.testing.assert_allclose(found[0], mean, rtol=1e-6, atol=1e-12)

    def test_blocks_cover_the_batch_in_order(self):
        for batch, size in ((1, 10), (63, 10), (1000, 64), (1000, 10**6)):
            blocks = over_blocks(lambda first, last: list(range(first, last)), batch, size)
            assert list(itertools.chain(*blocks)) == list(range(batch))

    def test_an_error_in_a_block_comes_out(self):
        with pytest.raises(ZeroDivisionError):
            over_blocks(lambda first, last: 1 // 0, 1000, 64)


def test_goal_is_checked():
    with pytest.raises(InputError, match="goal"):
        AnnealedDifferenceMap("speed")
    assert dataclasses.replace(AnnealedDifferenceMap(), goal="approximation").fitted


class TestWhatWentWrongOnce:
    def test_a_loose_tolerance_does_not_turn_solutions_into_averages(self):
        problem = sparsect.random_problem(100, 250, 48, batch=80, rng=5)
        for tol in (1e-4, 1e-3):
            result = sparsect.recover(problem.Phi, problem.y, 48, AnnealedDifferenceMap(), tol=tol)
            early = result.n_iter <= 800
            assert (result.residual_norm[early] < 20 * tol * np.linalg.norm(problem.y, axis=1)[early]).all()

    def test_no_warning_on_ordinary_problems(self):
        """Warnings are errors in these tests."""
        warnings.simplefilter("error")
        for dtype in ("float32", "float64"):
            clean = sparsect.random_problem(30, 60, 4, batch=100, rng=0, dtype=dtype)
            sparsect.recover(clean.Phi, clean.y, 4, AnnealedDifferenceMap(), max_iter=60)
            noisy = sparsect.random_problem(30, 60, 4, snr_db=20, batch=50, rng=0, dtype=dtype)
            sparsect.recover(noisy.Phi, noisy.y, 20, AnnealedDifferenceMap())
            sparsect.recover(noisy.Phi, noisy.y, "auto")
            sparsect.recover(noisy.Phi, 0 * noisy.y, "auto")
            sparsect.recover(noisy.Phi, noisy.y, 4, noise_norm=noisy.noise_norm)

    def test_automatic_sparsity_needs_singular_values(self):
        problem = sparsect.random_problem(30, 60, 4, snr_db=20, rng=0)
        with pytest.raises(InputError, match="singular values"):
            sparsect.recover(scipy.sparse.linalg.aslinearoperator(problem.Phi), problem.y, "auto")

    @pytest.mark.parametrize("m", [4, 5])
    def test_few_measurements(self, m):
        problem = sparsect.random_problem(m, 20, 3, batch=4, rng=m)
        noise = 1e-3 * np.linalg.norm(problem.y, axis=1)
        solver = AnnealedDifferenceMap("approximation")
        result = sparsect.recover(problem.Phi, problem.y, "auto", solver, noise_norm=noise)
        assert (result.residual_norm <= noise * 1.001).all()

    def test_noise_that_no_x_reaches_is_refused(self, rng):
        with pytest.raises(InputError, match=r"noise_norm` must .*at least [0-9.]+ there.*got 0.01 in row 0"):
            sparsect.recover(rng.standard_normal((60, 20)), rng.standard_normal((2, 60)), "auto", noise_norm=0.01)

    def test_a_support_that_nobody_looked_at_is_not_stable(self):
        problem = sparsect.random_problem(30, 60, 4, batch=2, rng=0)
        assert not sparsect.recover(problem.Phi, problem.y, 4, AnnealedDifferenceMap(), max_seconds=0).stable.any()

    @pytest.mark.parametrize("value", [[], np.ones(2), "yes", None])
    def test_learn_sparsity_is_true_or_false(self, value):
        with pytest.raises(sparsect.InputError, match=r"learn_sparsity` must .*True or False.*got .*"):
            sparsect.AnnealedDifferenceMap(learn_sparsity=value)

    def test_calls_from_several_threads_leave_products_as_they_were(self):
        problem = sparsect.random_problem(60, 150, 10, snr_db=20, batch=300, rng=0)
        asked = (problem.operator, problem.y, 10, AnnealedDifferenceMap())
        expected = sparsect.recover(*asked, max_iter=40).x
        before = [library["num_threads"] for library in threadpool_info()]
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(sparsect.recover, *asked, max_iter=40) for _ in range(8)]
            for run in runs:
                np.testing.assert_allclose(run.result().x, expected, atol=1e-9)
        assert [library["num_threads"] for library in threadpool_info()] == before
