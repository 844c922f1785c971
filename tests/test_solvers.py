"""The Difference Map and the Alternating Map: equal to the paper's formulas, whatever B is, real and complex."""

import literal
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparsect
from sparsect import AlternatingMap, Ball, DifferenceMap, InputError, Relaxed
from sparsect.problems import Problem


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
            assert state.gap[row] == pytest.approx(gap, abs=1e-5)


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
            assert state.gap[row] == pytest.approx(np.linalg.norm(before[row] - in_B), abs=1e-7)


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
    image = problem.operator.row_space.image(x[None, :])
    sparse = None if beta == 1 else x[None, :]
    state = type(state)(
        x[None, :], state.gap, None, image, sparse, sparse if sparse is None else image, state.target, state.radius
    )
    np.testing.assert_allclose(solver.step(problem, state).x[0], moved, atol=1e-12)
    np.testing.assert_allclose(solver.estimate(problem, state)[0], x, atol=1e-12)


@pytest.mark.parametrize("method", sparsect.METHODS)
class TestEverySolver:
    def test_finds_the_exhaustive_optimum(self, method):
        """On problems small enough to try every support, an answer that claims to have converged is the right one."""
        found = 0
        for seed in range(20):
            problem = sparsect.random_problem(8, 12, 2, rng=seed)
            result = sparsect.recover(problem.Phi, problem.y, 2, method, max_iter=2000)
            if result.converged[0]:
                found += 1
                np.testing.assert_allclose(result.x, problem.x, atol=1e-4)
        assert found >= (18 if method == "difference-map" else 5)

    @pytest.mark.parametrize("noise_norm", [None, 0.3])
    def test_one_row_of_a_batch_equals_that_row_alone(self, method, noise_norm):
        Phi, y, s = small_problem(2, m=20, n=40, s=4, batch=5)
        together = sparsect.recover(Phi, y, s, method, noise_norm=noise_norm, max_iter=40)
        for row in range(5):
            alone = sparsect.recover(Phi, y[row], s, method, noise_norm=noise_norm, max_iter=40)
            np.testing.assert_allclose(alone.x, together.x[row], atol=1e-6)
            assert alone.n_iter == together.n_iter[row]
            assert alone.x.shape == (40,)

    @pytest.mark.parametrize("s", [0, 16])
    def test_extreme_sparsities(self, method, s):
        Phi, y, _ = small_problem(4)
        result = sparsect.recover(Phi, y, s, method, max_iter=50)
        if s == 0:
            np.testing.assert_array_equal(result.x, np.zeros((3, 16)))
        else:
            assert result.converged.all()
            np.testing.assert_allclose(result.x @ Phi.T, y - y.mean(axis=1, keepdims=True), atol=1e-5)

    def test_answers_are_sparse_and_inputs_untouched(self, method):
        Phi, y, s = small_problem(6)
        Phi.setflags(write=False)
        y.setflags(write=False)
        result = sparsect.recover(Phi, y, s, method, max_iter=30)
        assert (result.support.sum(axis=1) <= s).all()
        np.testing.assert_array_equal(result.support, result.x != 0)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
    def test_dtype_in_is_dtype_out(self, method, dtype):
        Phi, y, s = small_problem(7)
        result = sparsect.recover(Phi.astype(dtype), y.astype(dtype), s, method, max_iter=20)
        assert result.x.dtype == dtype
        assert result.gap.dtype == result.residual_norm.dtype == np.empty(0, dtype).real.dtype

    def test_zero_data_gives_zero(self, method):
        Phi, y, s = small_problem(8)
        result = sparsect.recover(Phi, 0 * y, s, method, max_iter=20)
        np.testing.assert_array_equal(result.x, np.zeros((3, 16)))
        assert result.converged.all()

    def test_one_column(self, method):
        result = sparsect.recover(np.array([[2.0], [0.0]]), np.array([4.0, 0.0]), 1, method)
        np.testing.assert_allclose(result.x, [2.0])


@pytest.mark.parametrize("beta", [0, np.nan, np.inf, "half", None])
def test_beta_is_checked(beta):
    with pytest.raises(InputError, match="beta: got"):
        DifferenceMap(beta)


def test_a_diverging_row_keeps_its_last_answer(rng):
    """float32 overflows under a huge beta: a warning with a count, and finite answers."""
    problem = sparsect.random_problem(20, 40, 5, snr_db=10, batch=3, rng=0, dtype=np.float32)
    with pytest.warns(sparsect.ConvergenceWarning, match="3 of 3 rows left the floating-point range"):
        result = sparsect.recover(problem.Phi, problem.y, 5, DifferenceMap(beta=1e25), max_iter=50)
    assert not result.converged.any()
