"""Every solver against something independent: another package, a linear program, a closed form, a hand-worked case."""

import numpy as np
import pytest
import scipy.optimize
import spams
from sklearn.linear_model import Lasso, lars_path, orthogonal_mp
from threadpoolctl import threadpool_limits

import sparsect
from sparsect import ADMM, IRLS, FalseAlarmRate, FalseDiscoveryRate, StagewiseOMP, VectorAMP, random_problem
from sparsect.operators.least_squares import on_support
from sparsect.problems import Problem
from sparsect.solvers.admm import shrink
from sparsect.solvers.base import chosen
from sparsect.solvers.vamp import state_evolution

pytestmark = pytest.mark.numerical


def supports(x):
    return [set(np.flatnonzero(row)) for row in x]


class TestMatchingPursuit:
    @pytest.mark.parametrize("s", [1, 7, 20])
    def test_textbook_omp_equals_scikit_learn(self, s):
        problem = random_problem(40, 90, 15, snr_db=20, batch=6, rng=s)
        ours = sparsect.recover(problem.Phi, problem.y, s, "omp").x
        theirs = orthogonal_mp(problem.Phi, problem.y.T, n_nonzero_coefs=s).T
        assert supports(ours) == supports(theirs)
        np.testing.assert_allclose(ours, theirs, atol=1e-10)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("s", [1, 7, 25])
    def test_order_recursive_equals_spams(self, s, dtype):
        problem = random_problem(40, 90, 15, snr_db=20, batch=30, rng=s, dtype=dtype)
        ours = sparsect.recover(problem.Phi, problem.y, s, "ormp").x
        theirs = spams.omp(np.asfortranarray(problem.y.T), np.asfortranarray(problem.Phi), L=s, eps=0.0)
        theirs = theirs.toarray().T
        assert supports(ours) == supports(theirs)
        np.testing.assert_allclose(ours, theirs, atol=1e-3 if dtype == np.float32 else 1e-10)

    def test_each_selection_leaves_the_smallest_residual(self):
        """What order-recursive means, by trying every column at every step."""
        problem = random_problem(15, 30, 6, snr_db=10, rng=3)
        chosen = []
        for _ in range(6):
            rest = [j for j in range(30) if j not in chosen]
            fits = [np.linalg.lstsq(problem.Phi[:, [*chosen, j]], problem.y[0])[1].sum() for j in rest]
            chosen.append(rest[int(np.argmin(fits))])
        assert supports(sparsect.recover(problem.Phi, problem.y, 6, "ormp").x) == [set(chosen)]

    @pytest.mark.parametrize("factor", [1, 1j])
    @pytest.mark.parametrize("method", ["omp", "ormp"])
    def test_many_selections_equal_those_of_an_orthogonal_basis(self, method, factor, rng):
        """With many columns, the products of the next ones in rank are begun before they are selected."""
        Phi = rng.standard_normal((200, 500)) + factor * rng.standard_normal((200, 500))
        Phi /= np.linalg.norm(Phi, axis=0)
        residual = y = Phi[:, ::5] @ rng.standard_normal(100) + 0.1 * rng.standard_normal(200)
        rest, chosen = Phi.copy(), []
        for _ in range(150):
            # Of a selected column, rounding errors are left, or nothing at all.
            freedom = np.maximum(np.linalg.norm(rest, axis=0), 1e-9) if method == "ormp" else 1.0
            scores = np.abs(Phi.conj().T @ residual) / freedom
            scores[chosen] = 0
            chosen.append(int(np.argmax(scores)))
            q = rest[:, chosen[-1]] / np.linalg.norm(rest[:, chosen[-1]])
            rest = rest - np.outer(q, q.conj() @ rest)
            residual = residual - q * (q.conj() @ residual)
        result = sparsect.recover(Phi, y, 150, method, record=())
        assert supports(result.x[None]) == [set(chosen)]

    def test_complex(self, rng):
        Phi = rng.standard_normal((15, 30)) + 1j * rng.standard_normal((15, 30))
        y, chosen = rng.standard_normal(15) + 1j * rng.standard_normal(15), []
        for _ in range(5):
            residual = y - Phi[:, chosen] @ np.linalg.lstsq(Phi[:, chosen], y)[0] if chosen else y
            scores = np.abs(Phi.conj().T @ residual) / np.linalg.norm(Phi, axis=0)
            chosen.append(int(np.argmax(scores)))
        result = sparsect.recover(Phi, y, 5, "omp")
        assert supports(result.x[None]) == [set(chosen)]
        np.testing.assert_allclose(result.x[chosen], np.linalg.lstsq(Phi[:, chosen], y)[0], atol=1e-10)

    def test_stops_at_the_noise_level(self):
        problem = random_problem(60, 120, 5, snr_db=40, batch=4, rng=0)
        result = sparsect.recover(problem.Phi, problem.y, 30, "omp", noise_norm=1.1 * problem.noise_norm)
        assert (result.residual_norm <= 1.1 * problem.noise_norm).all()
        assert (result.n_iter == result.support.sum(axis=1)).all()
        assert result.n_iter.max() < 10

    @pytest.mark.parametrize("method", ["omp", "ormp"])
    def test_dependent_columns_are_not_taken_twice(self, method, rng):
        Phi = np.repeat(rng.standard_normal((10, 6)), 2, axis=1)
        result = sparsect.recover(Phi, rng.standard_normal(10), 9, method)
        assert result.support.sum() == 6
        assert (result.support.reshape(6, 2).sum(axis=1) == 1).all()

    @pytest.mark.parametrize("tol", [None, 0.1])
    @pytest.mark.parametrize("method", ["omp", "ormp", "lars"])
    def test_leaping_equals_stepping(self, method, tol):
        problem = random_problem(30, 60, 12, snr_db=20, batch=4, rng=1)
        options = {"max_iter": 25, "tol": tol}
        leaping = sparsect.recover(problem.Phi, problem.y, 12, method, record=(), **options)
        stepping = sparsect.recover(problem.Phi, problem.y, 12, method, callback=lambda snapshot: False, **options)
        np.testing.assert_array_equal(leaping.x, stepping.x)
        np.testing.assert_array_equal(leaping.n_iter, stepping.n_iter)

    @pytest.mark.parametrize("method", ["omp", "ormp"])
    def test_small_residuals_stop_single_precision_where_they_stop_double(self, method):
        """The residual is 70 dB below y, where squared norms kept in single precision are off by their own size."""
        problem = random_problem(120, 240, 20, snr_db=70, batch=12, rng=3)
        x = sparsect.recover(problem.Phi, problem.y, 60, method, tol=0, noise_norm=problem.noise_norm).x
        single = [array.astype(np.float32) for array in (problem.Phi, problem.y, problem.noise_norm)]
        found = sparsect.recover(single[0], single[1], 60, method, tol=0, noise_norm=single[2]).x
        assert np.mean(np.all((x != 0) == (found != 0), axis=1)) >= 0.75
        assert (np.abs(np.count_nonzero(x, axis=1) - np.count_nonzero(found, axis=1)) <= 1).all()


class TestLeastAngle:
    @pytest.mark.parametrize(("m", "n"), [(40, 80), (30, 12)])
    def test_path_equals_scikit_learn(self, m, n):
        drops = 0
        for seed in range(4):
            problem = random_problem(m, n, min(8, n // 2), snr_db=10, rng=seed)
            _, _, path = lars_path(problem.Phi, problem.y[0], method="lasso", eps=1e-15)
            moments = range(1, path.shape[1])
            history = sparsect.recover(problem.Phi, problem.y, n, "lars", record=("x",), record_at=moments).history
            assert len(history["iteration"]) == len(moments)
            for step, x in zip(history["iteration"], history["x"][:, 0, :], strict=True):
                np.testing.assert_allclose(x, path[:, step], atol=1e-6)
            drops += int((np.diff(np.count_nonzero(path, axis=0)) < 0).sum())
        assert drops > 0 or n < m

    @pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0, 100.0])
    def test_ends_at_the_lasso(self, alpha):
        problem = random_problem(40, 100, 8, snr_db=10, batch=6, rng=0)
        options = {"max_iter": 300, "tol": 0.0, "scale_columns": False}
        found = sparsect.recover(problem.Phi, problem.y, 100, sparsect.LeastAngleRegression(alpha), **options)
        lasso = Lasso(alpha / 40, fit_intercept=False, tol=1e-12, max_iter=100_000)
        np.testing.assert_allclose(found.x, [lasso.fit(problem.Phi, y).coef_ for y in problem.y], atol=1e-7)
        assert found.n_iter.max() < 300
        again = sparsect.recover(problem.Phi, problem.y, 100, sparsect.LeastAngleRegression(alpha), **options)
        np.testing.assert_array_equal(again.x, found.x)
        with pytest.raises(sparsect.InputError, match="`alpha` must be a number of at least 0, got -1"):
            sparsect.LeastAngleRegression(-1)

    def test_ties(self):
        """Signs and whole numbers make ties; at every step the answer is the lasso's, by its optimality conditions."""
        for seed in range(10):
            rng = np.random.default_rng(seed)
            Phi, y = rng.choice([-1.0, 1.0], (12, 30)), rng.integers(-3, 4, 12).astype(float)
            history = sparsect.recover(Phi, y, 30, "lars", record=("x",), record_at=1, max_iter=20).history
            for x in history["x"]:
                correlation = Phi.T @ (y - Phi @ x)
                level = np.abs(correlation).max()
                active = np.abs(x) > 1e-9
                np.testing.assert_allclose(correlation[active], level * np.sign(x[active]), atol=1e-6)

    def test_single_precision(self):
        problem = random_problem(40, 80, 8, snr_db=20, batch=3, rng=0)
        double = sparsect.recover(problem.Phi, problem.y, 8, "lars", max_iter=20).x
        single = sparsect.recover(problem.Phi.astype("f4"), problem.y.astype("f4"), 8, "lars", max_iter=20).x
        np.testing.assert_allclose(single, double, atol=1e-4)

    def test_duplicate_columns(self, rng):
        Phi = np.repeat(rng.standard_normal((8, 5)), 2, axis=1)
        y = rng.standard_normal(8)
        result = sparsect.recover(Phi, y, 10, "lars", max_iter=50)
        assert np.linalg.norm(Phi.T @ (Phi @ result.x - y)) < 1e-8


class TestADMM:
    @pytest.mark.parametrize("lam", [0.05, 0.3])
    def test_p_one_is_the_lasso(self, lam):
        problem = random_problem(30, 60, 5, snr_db=20, batch=3, rng=0)
        options = {"max_iter": 5000, "tol": 1e-9}
        ours = sparsect.recover(problem.Phi, problem.y, 60, ADMM(mu=1.0, lam=lam, p=1.0), **options)
        assert ours.converged.all()
        for row in range(3):
            lasso = Lasso(alpha=lam / 30, fit_intercept=False, tol=1e-12, max_iter=100000)
            np.testing.assert_allclose(ours.x[row], lasso.fit(problem.Phi, problem.y[row]).coef_, atol=1e-5)

    @pytest.mark.parametrize("p", [1.0, 0.5, 0.25, 0.0, -1.0])
    def test_compiled_steps_are_steps(self, p):
        """Many at once, in place, and rows that leave when they are done, against one at a time."""
        problem, solver = random_problem(60, 120, 8, snr_db=20, batch=200, rng=0), ADMM(p=p)
        start = solver.init(problem)
        goal = 3e-2 * start.scale
        before = {name: value.copy() for name, value in start.arrays().items()}
        after = solver.steps(problem, start, goal, [0.0] * 12)
        going, plain = np.full(200, True), start
        for _ in range(12):
            going &= plain.criterion > goal
            plain = chosen(~going, plain, solver.step(problem, plain))
        assert 0 < np.count_nonzero(after.taken < 12) < 200 or p <= 0
        for name, value in plain.arrays().items():
            np.testing.assert_allclose(getattr(after, name), value, atol=1e-9)
            np.testing.assert_array_equal(getattr(start, name), before[name])

    def test_shrinkage(self):
        x = np.array([-3.0, -0.5, 0.0, 1.0, 2.0])
        np.testing.assert_allclose(shrink(x, 1.0, 1.0), [-2, 0, 0, 0, 1])
        np.testing.assert_allclose(shrink(np.array([4.0]), 1.0, 0.5), 4 - 4**-0.5)
        np.testing.assert_allclose(shrink(np.array([3 + 4j]), 1.0, 1.0), (3 + 4j) * 4 / 5)
        assert shrink(np.array([1.0]), 1.0, 0.5) == 0

    @pytest.mark.parametrize(("setting", "value"), [("mu", 0), ("lam", -1), ("p", 1.5), ("mu", "a")])
    def test_settings(self, setting, value):
        with pytest.raises(sparsect.InputError, match=f"{setting}` must"):
            ADMM(**{setting: value})


class TestIRLS:
    def test_p_one_is_the_linear_program(self):
        """min ||x||_1 with Phi x = y, as a linear program in the positive and negative parts of x."""
        for seed in range(3):
            problem = random_problem(20, 40, 4, rng=seed)
            program = scipy.optimize.linprog(
                np.ones(80), A_eq=np.hstack([problem.Phi, -problem.Phi]), b_eq=problem.y[0]
            )
            expected = program.x[:40] - program.x[40:]
            result = sparsect.recover(problem.Phi, problem.y, 20, IRLS(alpha=0.0, beta=0.01, p=1.0))
            np.testing.assert_allclose(result.x[0], expected, atol=1e-3)

    @pytest.mark.parametrize("alpha", [0.0, 0.4])
    def test_p_two_is_ridge_regression(self, alpha):
        problem = random_problem(20, 40, 4, snr_db=20, rng=1)
        result = sparsect.recover(problem.Phi, problem.y, 40, IRLS(alpha=alpha, p=2.0), max_iter=5)
        expected = (
            np.linalg.pinv(problem.Phi.T @ problem.Phi + alpha * np.eye(40), rcond=1e-12) @ problem.Phi.T @ problem.y[0]
        )
        np.testing.assert_allclose(result.x[0], expected, atol=1e-8)

    def test_scales_with_the_data(self):
        problem = random_problem(20, 40, 4, snr_db=20, rng=1)
        plain = sparsect.recover(problem.Phi, problem.y, 4, "irls", max_iter=20).x
        scaled = sparsect.recover(1e3 * problem.Phi, 1e-2 * problem.y, 4, "irls", max_iter=20).x
        np.testing.assert_allclose(1e5 * scaled, plain, atol=1e-8)


class TestHardThresholding:
    @pytest.mark.parametrize("method", ["aiht", "niht"])
    def test_the_cost_never_rises(self, method):
        for seed in range(5):
            problem = random_problem(30, 60, 8, snr_db=10, batch=4, rng=seed)
            cost = sparsect.recover(problem.Phi, 5 * problem.y, 8, method, record_at=1, max_iter=60).history[
                "iterate_residual"
            ]
            assert (np.diff(cost, axis=0) <= 1e-10).all()

    def test_acceleration_takes_fewer_steps(self):
        problem = random_problem(100, 200, 20, snr_db=30, batch=5, rng=0)
        steps = [sparsect.recover(problem.Phi, problem.y, 20, name, max_iter=2000).n_iter for name in ("aiht", "niht")]
        assert steps[0].mean() < 0.7 * steps[1].mean()

    def test_one_step_by_hand(self):
        """Orthonormal Phi: the best step is 1 and finds the s largest entries of Phi^T y at once."""
        result = sparsect.recover(np.eye(4), np.array([1.0, -3.0, 2.0, 0.5]), 2, "niht", max_iter=1)
        np.testing.assert_allclose(result.x, [0, -3, 2, 0])

    def test_the_support_does_not_depend_on_threads(self):
        problem = random_problem(200, 500, 60, snr_db=20, batch=100, rng=0, dtype="float32")
        supports = []
        for threads in (1, 2):
            with threadpool_limits(threads, "blas"):
                supports.append(sparsect.recover(problem.Phi, problem.y, 60, "niht", max_iter=200).support)
        np.testing.assert_array_equal(*supports)


class TestStagewise:
    def test_false_alarm_threshold(self):
        scores = np.array([[1.9, 2.0, 5.0, 0.0]])
        np.testing.assert_array_equal(FalseAlarmRate(0.05).select(scores), [[False, True, True, False]])  # 1.96

    def test_false_discovery_threshold(self):
        """n = 4, rate 0.5: the i-th largest needs a two-sided p-value of at most i/8: 1.534, 1.150, 0.887, 0.674."""
        np.testing.assert_array_equal(
            FalseDiscoveryRate(0.5).select(
                np.array([[0.1, 1.2, 1.5, 0.2], [0.9, 0.95, 0.92, 0.1], [1.0, 0.3, 0.2, 0.1]])
            ),
            [[False, True, True, False], [True, True, True, False], [False, False, False, False]],
        )

    def test_one_stage_by_hand(self):
        """Orthonormal Phi, y = (10, 0.1, 0.1, 8): noise level 6.4, scores 1.56, 0.02, 0.02, 1.25; 1.28 is the limit."""
        y = np.array([10.0, 0.1, 0.1, 8.0])
        result = sparsect.recover(np.eye(4, 8), y, 2, StagewiseOMP(FalseAlarmRate(0.2), stages=1))
        np.testing.assert_allclose(result.x, [10, 0, 0, 0, 0, 0, 0, 0])
        result = sparsect.recover(np.eye(4, 8), y, 2, StagewiseOMP(FalseAlarmRate(0.2), stages=2))
        np.testing.assert_allclose(result.x, [10, 0, 0, 8, 0, 0, 0, 0])

    def test_complex_thresholds(self, rng):
        noise = np.abs(rng.standard_normal((1, 100000)) + 1j * rng.standard_normal((1, 100000))) / np.sqrt(2)
        assert FalseAlarmRate(0.05).select(noise, is_complex=True).mean() == pytest.approx(0.05, abs=0.003)

    @pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
    def test_scale_of_phi_does_not_matter(self, factor):
        problem = random_problem(40, 80, 4, snr_db=30, batch=3, rng=0)
        result = sparsect.recover(factor * problem.Phi, problem.y, 4, "stomp")
        np.testing.assert_allclose(factor * result.x, sparsect.recover(problem.Phi, problem.y, 4, "stomp").x, atol=1e-8)
        assert (result.support.sum(axis=1) == 4).all()

    def test_phase_transition(self):
        """Published behaviour without noise: success for few nonzeros per measurement, failure for many."""
        found = []
        for s in (15, 25, 90):
            problem = random_problem(150, 300, s, batch=10, rng=s)
            result = sparsect.recover(problem.Phi, problem.y, s, StagewiseOMP(FalseAlarmRate(0.01), stages=20))
            found.append(int((sparsect.snr_db(problem.x, result.x) > 40).sum()))
        assert found[0] >= 9
        assert found[1] >= 8
        assert found[2] == 0

    def test_settings(self):
        with pytest.raises(sparsect.InputError, match=r"rate` must .*got 2"):
            FalseAlarmRate(2)
        for threshold in (0.1, FalseAlarmRate):
            with pytest.raises(sparsect.InputError, match="threshold` must"):
                StagewiseOMP(threshold)
        with pytest.raises(sparsect.InputError, match=r"stages` must .*got 0"):
            StagewiseOMP(stages=0)


class TestVAMP:
    def true_prior(self, problem):
        m, n = problem.Phi.shape
        noise = float(np.mean(problem.noise_norm**2)) / m
        return VectorAMP(density=problem.sparsity / n, variance=1.0, noise_variance=noise, damping=1.0)

    def test_follows_its_state_evolution(self):
        problem = random_problem(800, 2000, 200, snr_db=20, batch=8, rng=0)
        solver = self.true_prior(problem)
        space = problem.operator.pseudo_inverse
        predicted = state_evolution(space.singular_values, (800, 2000), 0.1, 1.0, solver.noise_variance, 10)
        # The posterior mean itself, which is what the theory speaks of; recover() thresholds it to s entries.
        plain = Problem(problem.Phi, problem.y, problem.sparsity)
        state, measured = solver.init(plain), []
        for _ in range(10):
            state = solver.step(plain, state)
            measured.append(float(np.mean(np.abs(state.x - problem.x) ** 2)))
        np.testing.assert_allclose(10 * np.log10(measured), 10 * np.log10(predicted), atol=0.6)

    def test_learned_parameters_do_as_well_as_the_true_ones(self):
        problem = random_problem(400, 1000, 100, snr_db=20, batch=5, rng=1)
        learned, known = (
            sparsect.snr_db(problem.x, sparsect.recover(problem.Phi, problem.y, 100, method, max_iter=100).x).mean()
            for method in (VectorAMP(), self.true_prior(problem))
        )
        assert learned > known - 0.3

    def test_posterior_by_numerical_integration(self):
        from sparsect.kernels.posterior import posterior

        density, variance, gamma, r = 0.2, 1.7, 3.0, 0.9
        grid = np.linspace(-12, 12, 200001)
        prior = density * np.exp(-(grid**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
        likelihood = np.exp(-gamma * (r - grid) ** 2 / 2)
        spike = (1 - density) * np.exp(-gamma * r**2 / 2)
        total = np.trapezoid(prior * likelihood, grid) + spike
        mean = np.trapezoid(grid * prior * likelihood, grid) / total
        second = np.trapezoid(grid**2 * prior * likelihood, grid) / total
        x, var, active, power = posterior(np.array([[r]]), *(np.array([v]) for v in (gamma, density, variance)), 0.5)
        np.testing.assert_allclose([x[0, 0], power[0, 0], var[0, 0]], [mean, second, second - mean**2], rtol=1e-6)
        np.testing.assert_allclose(active[0, 0], 1 - spike / total, rtol=1e-6)


class TestLeastSquares:
    @pytest.mark.parametrize("dtype", [np.float64, np.complex128])
    def test_equals_lstsq_for_supports_of_all_sizes(self, rng, dtype):
        Phi = rng.standard_normal((12, 20)).astype(dtype)
        if dtype == np.complex128:
            Phi = Phi + 1j * rng.standard_normal((12, 20))
        y = rng.standard_normal((5, 12)).astype(dtype)
        support = np.zeros((5, 20), dtype=bool)
        for row, size in enumerate((0, 1, 5, 9, 12)):
            support[row, rng.choice(20, size, replace=False)] = True
        x = on_support(sparsect.as_operator(Phi), y, support)
        for row in range(5):
            expected = np.linalg.lstsq(Phi[:, support[row]], y[row])[0]
            np.testing.assert_allclose(x[row, support[row]], expected, atol=1e-8)
            assert not x[row, ~support[row]].any()

    def test_columns_of_very_different_norms(self):
        problem = random_problem(40, 80, 6, snr_db=30, batch=3, rng=0)
        Phi = problem.Phi * np.logspace(-4, 4, 80)
        result = sparsect.recover(Phi, problem.y, 10, "omp", refit=True)
        for row in range(3):
            columns = np.flatnonzero(result.x[row])
            expected = np.linalg.lstsq(Phi[:, columns], problem.y[row], rcond=1e-15)[0]
            np.testing.assert_allclose(result.x[row, columns], expected, rtol=1e-6)

    @pytest.mark.parametrize("method", ["aiht", "subspace-pursuit", "difference-map"])
    def test_matrix_free_with_noise(self, rng, method):
        operator = sparsect.SubsampledDCT.random(64, 32, rng=0)
        x = np.zeros((8, 64))
        for row in x:
            row[rng.choice(64, 4, replace=False)] = rng.standard_normal(4)
        y = operator.forward(x) + 0.01 * rng.standard_normal((8, 32))
        result = sparsect.recover(operator, y, 4, method, max_iter=100, refit=True)
        matrix = operator.adjoint(np.eye(32))
        for row in range(8):
            columns = np.flatnonzero(result.x[row])
            expected = np.linalg.lstsq(matrix[:, columns], y[row])[0]
            np.testing.assert_allclose(result.x[row, columns], expected, atol=1e-6)

    def test_groups_of_rows(self, rng, monkeypatch):
        problem = random_problem(20, 40, 6, snr_db=10, batch=7, rng=0)
        support = problem.x != 0
        whole = on_support(problem.operator, problem.y, support)
        monkeypatch.setattr("sparsect.kernels.fitting.plain.GROUP_BYTES", 24 * 36 * 2)
        np.testing.assert_array_equal(on_support(problem.operator, problem.y, support), whole)

    def test_dependent_columns(self, rng):
        Phi = np.repeat(rng.standard_normal((8, 3)), 2, axis=1)
        y = rng.standard_normal((1, 8))
        x = on_support(sparsect.as_operator(Phi), y, np.ones((1, 6), dtype=bool))
        np.testing.assert_allclose(Phi.T @ (Phi @ x[0] - y[0]), 0, atol=1e-6)
        assert np.abs(x).max() < 100


class TestPursuitInSinglePrecision:
    """Greedy fits of float32 data are least-squares fits, whatever the condition of the columns they take."""

    @pytest.fixture
    def problem(self, rng):
        """Columns of zero mean: 64 numbers each, rank 63."""
        Phi = rng.standard_normal((64, 256))
        Phi = ((Phi - Phi.mean(axis=0)) / np.linalg.norm(Phi, axis=0)).astype(np.float32)
        return Phi, rng.standard_normal((50, 64)).astype(np.float32)

    @pytest.mark.parametrize("method", ["omp", "ormp"])
    def test_no_more_columns_than_the_rank(self, problem, method):
        result = sparsect.recover(*problem, 100, method, tol=0)
        assert result.support.sum(axis=1).max() <= 63

    @pytest.mark.parametrize("method", ["omp", "ormp"])
    def test_is_the_least_squares_fit(self, problem, method):
        Phi, y = problem
        result = sparsect.recover(Phi, y, 62, method, tol=0, record_at=1)
        kept = result.history["iterate_residual"][-1]
        for row in range(10):
            columns = Phi[:, result.support[row]].astype(np.float64)
            best = np.linalg.lstsq(columns, y[row].astype(np.float64), rcond=None)[0]
            residual = np.linalg.norm(columns @ best - y[row])
            # What the answer itself loses by being float32.
            rounding = 64 * np.finfo(np.float32).eps * np.linalg.norm(best)
            assert result.residual_norm[row] <= residual + rounding
            assert kept[row] == pytest.approx(residual, rel=1e-3)

    @pytest.mark.parametrize("method", ["omp", "ormp"])
    def test_more_columns_never_fit_worse(self, problem, method):
        Phi, y = problem
        residuals = [sparsect.recover(Phi, y, s, method, tol=0).residual_norm for s in range(50, 70, 2)]
        assert (np.diff(residuals, axis=0) <= 1e-5).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("width", "s"), [(0.03, 60), (0.05, 40), (0.1, 20)])
def test_pursuit_of_columns_much_alike(rng, width, s, dtype):
    """Bumps so close that each is nearly a combination of others."""
    time = np.linspace(0, 1, 100)
    Phi = np.exp(-((time[:, None] - np.linspace(0, 1, 400)) ** 2) / 2 / width**2).astype(dtype)
    y = (np.sin(7 * time) + 0.05 * rng.standard_normal(100)).astype(dtype)
    result = sparsect.recover(Phi, y, s, "ormp", tol=0, record_at=1)
    assert result.residual_norm < 0.15 * np.linalg.norm(y)
    assert result.history["iterate_residual"][-1] == pytest.approx(result.residual_norm, rel=0.1)
