"""The Difference Map and the Alternating Map: equal to the paper's formulas, whatever B is, real and complex."""

import dataclasses
import itertools
from typing import get_args

import literal
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import sparsect
from sparsect import AlternatingMap, Ball, DifferenceMap, InputError, Relaxed
from sparsect.problems import Problem
from sparsect.solvers import MethodName
from sparsect.solvers.base import Requirement

pytestmark = pytest.mark.numerical


def small_problem(seed, m=8, n=16, s=3, batch=3, complex_=False):
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((m, n))
    if complex_:
        Phi = Phi + 1j * rng.standard_normal((m, n))
    Phi -= Phi.mean(axis=0)
    x = literal_rows(rng.standard_normal((batch, n)), s)
    noise = rng.standard_normal((batch, m)) * 0.05
    return Phi, x @ Phi.T + noise, s


def literal_rows(x, s):
    return np.stack([literal.threshold(row, s) for row in x])


FORMS = {
    "affine": (None, None, lambda Phi, y: literal.affine(Phi, y)),
    "relaxed": (Relaxed(0.3), None, lambda Phi, y: literal.relaxed(Phi, y, 0.3)),
    "ball": (Ball(), 0.4, lambda Phi, y: literal.ball(Phi, y, 0.4)),
}


@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 10**6), beta=st.sampled_from([0.14, -0.14, 0.5, 1.0, -1.0, 1.2]), complex_=st.booleans())
def test_fast_form_equals_the_papers(form, seed, beta, complex_):
    """Products and images carried along give D(x) and the gap of equation (DM), step by step."""
    data_set, noise_norm, projection = FORMS[form]
    Phi, y, s = small_problem(seed, complex_=complex_)
    problem, solver = Problem(Phi, y, s, noise_norm), DifferenceMap(beta, data_set)
    state = solver.init(problem)
    for _ in range(4):
        before = state.x
        state = solver.step(problem, state)
        for row in range(3):
            expected, gap = literal.difference_map(
                before[row], lambda x: literal.threshold(x, s), projection(Phi, y[row]), beta
            )
            np.testing.assert_allclose(state.x[row], expected, atol=1e-6)
            assert state.criterion[row] == pytest.approx(gap, abs=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_alternating_map_equals_the_papers(form):
    data_set, noise_norm, projection = FORMS[form]
    Phi, y, s = small_problem(1)
    problem, solver = Problem(Phi, y, s, noise_norm), AlternatingMap(data_set)
    state = solver.init(problem)
    for _ in range(5):
        before = state.x
        state = solver.step(problem, state)
        for row in range(3):
            in_B = projection(Phi, y[row])(before[row])
            np.testing.assert_allclose(state.x[row], literal.threshold(in_B, s), atol=1e-7)
            assert state.criterion[row] == pytest.approx(np.linalg.norm(before[row] - in_B), abs=1e-7)


def test_swapping_the_sets_flips_the_sign_of_beta(rng):
    """D with (A, B, beta) is D with (B, A, -beta): the reason the printed sign can be wrong and the paper right."""
    Phi, y, s = small_problem(5)
    P_A, P_B = (lambda x: literal.threshold(x, s)), literal.affine(Phi, y[0])
    for beta in (0.14, -0.5, 1.0):
        x = rng.standard_normal(16)
        swapped, _ = literal.difference_map(x, P_B, P_A, -beta)
        np.testing.assert_allclose(literal.difference_map(x, P_A, P_B, beta)[0], swapped, atol=1e-12)


@pytest.mark.parametrize("beta", [0.14, 0.5, 1.0])
def test_a_solution_is_a_fixed_point(rng, beta):
    Phi, _, s = small_problem(3)
    x = literal.threshold(rng.standard_normal(16), s)
    moved, gap = literal.difference_map(x, lambda z: literal.threshold(z, s), literal.affine(Phi, Phi @ x), beta)
    assert gap < 1e-12
    problem, solver = Problem(Phi, Phi @ x, s), DifferenceMap(beta)
    state = solver.init(problem)
    there = {"x": x[None, :], "image": problem.operator.pseudo_inverse.image(x[None, :])}
    if beta != 1:
        there |= {"sparse": there["x"], "sparse_image": there["image"]}
    state = dataclasses.replace(state, **there)
    np.testing.assert_allclose(solver.step(problem, state).x[0], moved, atol=1e-12)
    np.testing.assert_allclose(solver.estimate(problem, state)[0], x, atol=1e-12)


@pytest.mark.parametrize("method", sparsect.METHODS)
class TestEverySolver:
    def test_finds_the_support_that_exhaustive_search_finds(self, method):
        """All pairs of columns are tried; a solver should mostly end with the pair that fits best."""
        found = 0
        for seed in range(20):
            problem = sparsect.random_problem(10, 12, 2, snr_db=30, rng=seed)
            best = min(
                itertools.combinations(range(12), 2),
                key=lambda pair: np.linalg.lstsq(problem.Phi[:, pair], problem.y[0])[1].sum(),
            )
            result = sparsect.recover(problem.Phi, problem.y, 2, method, max_iter=300)
            found += set(np.flatnonzero(result.x[0])) == set(best)
        assert found >= 12

    @pytest.mark.parametrize("noise_norm", [None, 0.3])
    def test_one_row_of_a_batch_equals_that_row_alone(self, method, noise_norm):
        if noise_norm is not None and not getattr(sparsect.METHODS[method], "uses_noise_norm", False):
            with pytest.raises(
                InputError, match=f"noise_norm` must .*got a value with '{method}', which does not use it"
            ):
                sparsect.recover(np.eye(3), np.ones(3), 1, method, noise_norm=noise_norm)
            return
        Phi, y, s = small_problem(2, m=20, n=40, s=4, batch=5)
        together = sparsect.recover(Phi, y, s, method, noise_norm=noise_norm, max_iter=40)
        for row in range(5):
            alone = sparsect.recover(Phi, y[row], s, method, noise_norm=noise_norm, max_iter=40)
            np.testing.assert_allclose(alone.x, together.x[row], atol=1e-6)
            # Rounding differs between one row and many, and may let a row settle some steps earlier.
            assert abs(alone.n_iter - together.n_iter[row]) <= 3
            assert alone.x.shape == (40,)

    @pytest.mark.parametrize("s", [0, 16])
    def test_extreme_sparsities(self, method, s):
        Phi, y, _ = small_problem(4)
        result = sparsect.recover(Phi, y, s, method, max_iter=50, refit=True)
        if s == 0:
            np.testing.assert_array_equal(result.x, np.zeros((3, 16)))
        else:
            # Whatever is left of y is out of reach for the columns that were taken.
            residual = result.x @ Phi.T - y
            correlation = np.where(result.support, residual @ Phi, 0)
            np.testing.assert_allclose(correlation, 0, atol=1e-6)

    def test_answers_are_sparse_and_inputs_untouched(self, method):
        Phi, y, s = small_problem(6)
        Phi.setflags(write=False)
        y.setflags(write=False)
        result = sparsect.recover(Phi, y, s, method, max_iter=30)
        assert (result.support.sum(axis=1) <= s).all()
        np.testing.assert_array_equal(result.support, result.x != 0)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
    def test_dtype_in_is_dtype_out(self, method, dtype):
        if Requirement.REAL in sparsect.METHODS[method].needs and np.issubdtype(dtype, np.complexfloating):
            with pytest.raises(InputError, match=f"method` must .*got '{method}', which needs real data"):
                sparsect.recover(np.eye(2, dtype=dtype), np.ones(2, dtype=dtype), 1, method)
            return
        Phi, y, s = small_problem(7)
        result = sparsect.recover(Phi.astype(dtype), y.astype(dtype), s, method, max_iter=20, record_at=1)
        assert result.x.dtype == dtype
        recorded = result.history[sparsect.METHODS[method].criterion]
        assert result.residual_norm.dtype == np.empty(0, dtype).real.dtype
        # A problem with few supports is solved before the first iteration.
        assert recorded.dtype == result.residual_norm.dtype or (method == "auto" and not recorded.size)

    def test_zero_data_gives_zero(self, method):
        Phi, y, s = small_problem(8)
        result = sparsect.recover(Phi, 0 * y, s, method, max_iter=20)
        np.testing.assert_array_equal(result.x, np.zeros((3, 16)))
        assert result.converged.all()

    def test_one_column(self, method):
        result = sparsect.recover(np.array([[2.0], [0.0]]), np.array([4.0, 0.0]), 1, method, refit=True)
        np.testing.assert_allclose(result.x, [2.0])

    def test_refit_is_the_least_squares_fit_on_the_support(self, method):
        Phi, y, s = small_problem(9, m=20, n=40, s=4, batch=5)
        result = sparsect.recover(Phi, y, s, method, max_iter=25, refit=True)
        for row in range(5):
            columns = np.flatnonzero(result.x[row])
            expected = np.linalg.lstsq(Phi[:, columns], y[row])[0]
            np.testing.assert_allclose(result.x[row, columns], expected, atol=1e-10)

    def test_resumed_equals_unbroken(self, method, tmp_path):
        Phi, y, s = small_problem(10, m=20, n=40, s=6, batch=4)
        options = {"method": method, "record": ("x",), "record_at": 2, "tol": 0}
        unbroken = sparsect.recover(Phi, y, s, max_iter=12, **options)
        for stop in (3, 4, 12):
            # A schedule follows the limit, so such a solver is stopped from outside.
            scheduled = method in ("auto", "annealed-difference-map", "support-sampler")
            limits = {"max_iter": 12, "callback": lambda run, stop=stop: run.iteration == stop}
            limits = limits if scheduled else {"max_iter": stop}
            resumed = sparsect.recover(Phi, y, s, checkpoint=tmp_path / "run.npz", **limits, **options)
        np.testing.assert_array_equal(resumed.x, unbroken.x)
        np.testing.assert_array_equal(resumed.n_iter, unbroken.n_iter)
        np.testing.assert_array_equal(resumed.history["x"], unbroken.history["x"])

    def test_matrix_free_equals_dense_or_is_refused_by_name(self, method):
        operator = sparsect.SubsampledDCT.random(32, 16, rng=0)
        matrix = operator.adjoint(np.eye(16))
        x = np.zeros((2, 32))
        x[:, [3, 20]] = [[1.0, -2.0], [2.0, 0.5]]
        y = operator.forward(x)
        if Requirement.DENSE in sparsect.METHODS[method].needs:
            with pytest.raises(InputError, match=f"method` must .*got '{method}', which needs a dense Phi"):
                sparsect.recover(operator, y, 2, method)
            return
        for phi in (operator, sparsect.SparseOperator(scipy.sparse.csr_array(matrix))):
            if Requirement.SPECTRUM in sparsect.METHODS[method].needs and phi is not operator:
                with pytest.raises(InputError, match="which needs the singular values of Phi"):
                    sparsect.recover(phi, y, 2, method)
                continue
            # A tight frame is used as it is, without scaling its columns.
            options = {"max_iter": 20, "refit": True, "scale_columns": False}
            found, expected = (sparsect.recover(each, y, 2, method, **options).x for each in (phi, matrix))
            np.testing.assert_allclose(found, expected, atol=1e-6)


def test_settings_become_plain_floats(rng):
    solver = DifferenceMap(np.float64(0.5), Relaxed(np.float64(0.3)))
    assert repr(solver) == "DifferenceMap(beta=0.5, data_set=Relaxed(alpha=0.3))"
    problem = sparsect.random_problem(20, 40, 5, rng=0, dtype=np.float32)
    assert sparsect.recover(problem.Phi, problem.y, 5, solver, max_iter=5).x.dtype == np.float32


@pytest.mark.parametrize("data_set", ["ball", Relaxed, 3])
def test_data_set_is_checked(data_set):
    with pytest.raises(InputError, match="data_set` must"):
        sparsect.recover(np.eye(3), np.ones(3), 1, DifferenceMap(0.5, data_set))


@pytest.mark.parametrize("beta", [0, np.nan, np.inf, "half", "0.5", None, 10**400])
def test_beta_is_checked(beta):
    with pytest.raises(InputError, match="beta` must"):
        DifferenceMap(beta)


@pytest.mark.parametrize(("beta", "dtype"), [(5.0, np.float64), (50.0, np.float32), (1e25, np.float32)])
def test_a_row_that_runs_away_keeps_its_last_answer(beta, dtype):
    problem = sparsect.random_problem(40, 80, 8, snr_db=20, batch=3, rng=0, dtype=dtype)
    with pytest.warns(sparsect.ConvergenceWarning, match="3 of 3 rows diverged"):
        result = sparsect.recover(problem.Phi, problem.y, 8, DifferenceMap(beta), max_iter=2000)
    assert not result.converged.any()
    assert np.isfinite(result.x).all()


def test_the_names_that_types_know_are_those_there_are():
    assert get_args(MethodName) == tuple(sparsect.METHODS)
