"""Random problems, metrics, and every error message for bad input to ``recover``."""

import warnings

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given
from hypothesis import strategies as st

import sparsect
from sparsect import InputError, random_problem

pytestmark = pytest.mark.numerical

PHI = np.eye(3, 5)
Y = np.ones(3)


class TestRandomProblem:
    def test_as_in_the_paper(self):
        problem = random_problem(40, 100, 7, snr_db=20, batch=5, rng=0)
        np.testing.assert_allclose(problem.Phi.mean(axis=0), 0, atol=1e-15)
        np.testing.assert_allclose(np.linalg.norm(problem.Phi, axis=0), 1)
        np.testing.assert_array_equal((problem.x != 0).sum(axis=1), 7)
        noise = problem.y - problem.x @ problem.Phi.T
        np.testing.assert_allclose(np.linalg.norm(noise, axis=1), problem.noise_norm)
        np.testing.assert_allclose(sparsect.snr_db(problem.x @ problem.Phi.T, problem.y), 20)

    def test_without_noise(self):
        problem = random_problem(10, 20, 3, rng=0)
        np.testing.assert_allclose(problem.y, problem.x @ problem.Phi.T)
        np.testing.assert_array_equal(problem.noise_norm, [0])

    def test_same_seed_same_bits(self):
        first, second, other = (random_problem(10, 20, 3, 20, 2, rng=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.y, second.y)
        assert not np.array_equal(first.y, other.y)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"m": 1}, r"m` must .*got 1"),
            ({"n": 0}, r"n` must .*got 0"),
            ({"sparsity": 21}, r"sparsity` must .*a whole number from 0 to 20.*got 21"),
            ({"sparsity": 2.5}, r"sparsity` must .*got 2\.5"),
            ({"batch": 0}, r"batch` must .*got 0"),
            ({"snr_db": float("nan")}, r"snr_db` must .*got nan"),
            ({"rng": "seed"}, r"rng` must .*got 'seed'"),
            ({"dtype": int}, "dtype` must"),
            ({"dtype": np.ones(2)}, "dtype` must"),
        ],
    )
    def test_errors(self, arguments, message):
        with pytest.raises(InputError, match=message):
            random_problem(**{"m": 10, "n": 20, "sparsity": 3} | arguments)


class TestRepresentation:
    def test_of_known_truth(self):
        problem = random_problem(10, 20, 3, batch=5, rng=0, dtype="float32")
        assert repr(problem) == (
            "<Problem: 5 signals, sparsity 3, float32\n"
            " Phi: DenseOperator of shape (10, 20)\n"
            " noise_norm: known, truth: known>"
        )

    def test_of_data_alone(self):
        problem = sparsect.Problem(sparsect.SparseOperator(scipy.sparse.csr_array(PHI)), Y, sparsity=2)
        assert repr(problem) == (
            "<Problem: 1 signal, sparsity 2, float64\n"
            " Phi: SparseOperator of shape (3, 5)\n"
            " noise_norm: unknown, truth: unknown>"
        )


class TestMetrics:
    def test_snr(self):
        assert sparsect.snr_db(np.array([3.0, 4.0]), np.array([3.0, 3.5])) == pytest.approx(20)
        assert sparsect.snr_db(np.ones(3), np.ones(3)) == np.inf
        assert sparsect.snr_db(np.array([2j]), np.array([1j])) == pytest.approx(20 * np.log10(2))

    def test_snr_of_nonsense(self):
        assert np.isnan(sparsect.snr_db(np.array([1.0, np.nan]), np.ones(2)))
        assert sparsect.snr_db(np.array([100, 100], np.int8), np.array([-100, 100], np.int8)) < 0
        with pytest.raises(InputError, match=r"estimate` must .*got shape \(3,\)"):
            sparsect.snr_db(np.ones(2), np.ones(3))

    @pytest.mark.parametrize("measure", [sparsect.snr_db, sparsect.mse, sparsect.support_recall])
    @pytest.mark.parametrize("truth", [[[1, 2], [3]], ["a"], None, 2.0, [], np.ones((2, 0))])
    def test_what_cannot_be_measured(self, measure, truth):
        with pytest.raises(InputError, match="truth` must"):
            measure(truth, truth)

    def test_mse(self):
        assert sparsect.mse(np.array([[1.0, 2.0], [0.0, 0.0]]), np.zeros((2, 2))).tolist() == pytest.approx([2.5, 0])

    def test_support_recovery(self):
        truth = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
        assert sparsect.support_recall(truth, np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])).tolist() == [0.5, 1]


BAD = {
    "NaN in Phi": ({"Phi": np.full((3, 5), np.nan)}, r"Phi` must .*got 15 entries that are NaN or infinite"),
    "infinity in y": ({"y": [1, np.inf, 1]}, r"y` must .*got 1 entries that are NaN or infinite"),
    "y too long": ({"y": np.ones(4)}, r"y` must .*\(3,\) or \(batch, 3\).*got shape \(4,\)"),
    "y in columns": ({"y": np.ones((3, 7))}, r"Signals are rows: pass y\.T"),
    "y three-dimensional": ({"y": np.ones((1, 2, 3))}, r"y` must .*got shape \(1, 2, 3\)"),
    "y a number": ({"y": 3.0}, r"y` must .*got shape \(\)"),
    "empty batch": ({"y": np.ones((0, 3))}, r"y` must .*at least one row.*got shape \(0, 3\)"),
    "Phi a vector": ({"Phi": np.ones(3)}, r"Phi` must .*got an array with 1 dimensions"),
    "Phi empty": ({"Phi": np.ones((0, 5))}, r"Phi` must .*got shape \(0, 5\)"),
    "y sparse": ({"y": scipy.sparse.csr_array(np.ones((1, 3)))}, r"y` must .*got an object of type csr_array"),
    "y nothing": ({"y": None}, r"y` must .*got an object of type NoneType"),
    "Phi of objects": ({"Phi": np.array([[object()]])}, r"Phi` must .*got an array of dtype object"),
    "Phi of strings": ({"Phi": [["a"]]}, r"Phi` must .*got an array of dtype <U1"),
    "Phi ragged": ({"Phi": [[1, 2], [3]]}, r"Phi` must .*got an object of type list"),
    "half precision": ({"y": np.ones(3, np.float16)}, r"y` must .*got an array of dtype float16"),
    "masked": ({"y": np.ma.masked_equal([1, 2, 3], 2)}, r"y` must .*got a masked array"),
    "sparsity negative": ({"sparsity": -1}, r"sparsity` must .*a whole number from 0 to 5.*got -1"),
    "sparsity above n": ({"sparsity": 6}, r"sparsity` must .*a whole number from 0 to 5.*got 6"),
    "sparsity a fraction": ({"sparsity": 1.5}, r"sparsity` must .*got 1\.5"),
    "sparsity a truth value": ({"sparsity": True}, r"sparsity` must .*got True"),
    "noise_norm negative": ({"noise_norm": -0.1}, r"noise_norm` must .*not a squared norm.*got -0\.1"),
    "noise_norm NaN": ({"noise_norm": np.nan}, r"noise_norm` must .*got 1 entries that are NaN"),
    "noise_norm of other length": ({"noise_norm": [1, 2]}, r"noise_norm` must .*got 2 values"),
    "noise_norm complex": ({"noise_norm": 1j}, r"noise_norm` must .*got complex"),
    "method unknown": ({"method": "diference-map"}, "Did you mean 'difference-map'"),
    "method a class": ({"method": sparsect.DifferenceMap}, r"method` must .*got <class"),
    "method a number": ({"method": 3}, r"method` must .*got 3"),
    "method a number, with noise_norm": ({"method": 3, "noise_norm": 1.0}, r"method` must .*got 3"),
    "method a class, with noise_norm": (
        {"method": sparsect.DifferenceMap, "noise_norm": 1.0},
        r"method` must .*got <class",
    ),
    "method an object, sparsity unknown": ({"method": object(), "sparsity": "auto"}, r"method` must .*got <object"),
    "method a class, sparsity unknown": ({"method": sparsect.ADMM, "sparsity": "auto"}, r"method` must .*got <class"),
    "method in capitals": ({"method": "Omp"}, "Did you mean 'omp'"),
    "checkpoint a number": ({"checkpoint": 3}, r"checkpoint` must .*the name of a file.*got an object of type int"),
    "checkpoint bytes": ({"checkpoint": b"run.npz"}, r"checkpoint` must .*got an object of type bytes"),
    "checkpoint a folder": ({"checkpoint": "/"}, r"checkpoint` must .*got '/', which is a folder"),
    "checkpoint of too long a name": ({"checkpoint": "x" * 300}, r"x: cannot be written \(File name too long\)"),
    "checkpoint with a zero": ({"checkpoint": "a\0b"}, r"checkpoint` must .*a name without null characters.*got 'a"),
    "refit an array": ({"refit": np.ones((2, 3))}, r"refit` must be True or False.*got array"),
    "record an array": ({"record": np.ones((2, 3))}, r"record` must .*got array"),
    "record an array without dimensions": ({"record": np.array(2.0)}, r"record` must .*got array"),
    "record_at an array without dimensions": ({"record_at": np.array(2.5)}, r"record_at` must .*got array"),
    "a number longer than Python writes": ({"sparsity": 10**5000}, r"sparsity` must .*got a number of type int"),
    "a long list": ({"max_iter": [0] * 5000}, r"max_iter` must .*a whole.*got \[0, 0.*\.\.\."),
    "max_iter": ({"max_iter": 0}, r"max_iter` must .*a whole number of at least 1.*got 0"),
    "max_seconds": ({"max_seconds": -1}, r"max_seconds` must .*got -1"),
    "max_seconds, sparsity unknown": (
        {"max_seconds": "", "sparsity": "auto", "noise_norm": 0.0},
        r"max_seconds` must .*got ''",
    ),
    "tol": ({"tol": "small"}, r"tol` must .*got 'small'"),
    "y out of range": (
        {"y": np.full(3, 1e200), "method": "admm"},
        r"y` must .*got entries whose squares leave the range",
    ),
    "complex y out of range": (
        {"y": np.full(3, 1e200 + 1e200j), "method": "admm"},
        r"y` must .*got entries whose squares leave the range",
    ),
    "x out of range": (
        {"y": np.full(3, 1e160), "Phi": PHI * 1e-149},
        r"y` must .*got entries for which x leaves the range",
    ),
    "complex Phi out of range": (
        {"Phi": PHI * (1e200 + 1e200j)},
        r"Phi` must .*got entries whose squares leave the range",
    ),
    "sparse Phi out of range": (
        {"Phi": scipy.sparse.csr_array(PHI * 1e200)},
        r"Phi` must .*got entries whose squares leave",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    arguments, message = BAD[case]
    with pytest.raises(InputError, match=message):
        sparsect.recover(**{"Phi": PHI, "y": Y, "sparsity": 2} | arguments)


def test_what_looks_like_a_solver_is_none():
    class Alike:
        name, needs = "alike", frozenset()
        init = step = estimate = None

    with pytest.raises(InputError, match=r"method` must .*a name, or a configured solver.*got .*Alike.*"):
        sparsect.recover(PHI, Y, 2, Alike())


@pytest.mark.parametrize("measure", [sparsect.snr_db, sparsect.mse, sparsect.support_recall])
def test_masked_arrays_are_not_measured(measure):
    masked = np.ma.masked_equal([1.0, 2.0], 2)
    with pytest.raises(InputError, match=r"truth` must .*got a masked array"):
        measure(masked, np.ones(2))
    with pytest.raises(InputError, match=r"estimate` must .*got a masked array"):
        measure(np.ones(2), masked)


def test_the_row_whose_noise_norm_is_too_small_is_named():
    y = np.array([[1.0, 0, 0], [0, 0, 7.0]])
    Phi = np.eye(2, 5).repeat([1, 2], axis=0)[[0, 1, 1]] * [[1], [1], [0]]
    with pytest.raises(InputError, match=r"noise_norm` must .*at least 7 in row 1.*got 3 in row 1"):
        sparsect.recover(Phi, y, 1, "difference-map", noise_norm=[0.5, 3])


def test_big_endian_arrays_are_fine():
    result = sparsect.recover(PHI.astype(">f8"), Y.astype(">f8"), 3)
    np.testing.assert_allclose(result.x, [1, 1, 1, 0, 0], atol=1e-5)


@pytest.mark.parametrize("sparsity", [-1, 4, 2.5, None])
def test_project_sparse_checks_its_input(sparsity):
    with pytest.raises(InputError, match="sparsity` must"):
        sparsect.project_sparse(np.ones(3), sparsity)
    with pytest.raises(InputError, match=r"x` must .*got 1 entries that are NaN"):
        sparsect.project_sparse([1, np.nan], 1)


def test_lists_and_integers_are_fine():
    result = sparsect.recover([[1, 0, 0], [0, 1, 1]], [4, 0], sparsity=np.int32(1))
    assert result.x.dtype == np.float64
    np.testing.assert_allclose(result.x, [4, 0, 0], atol=1e-5)


@given(st.integers(0, 2**31), st.sampled_from([1e-6, 1e-3, 1e3, 1e6]))
def test_scaling_y_scales_x(seed, factor):
    problem = random_problem(12, 24, 3, snr_db=20, rng=seed)
    plain = sparsect.recover(problem.Phi, problem.y, 3, max_iter=8)
    scaled = sparsect.recover(problem.Phi, factor * problem.y, 3, max_iter=8)
    np.testing.assert_allclose(scaled.x / factor, plain.x, atol=1e-8)


# All whose settings have no units.
SCALE_FREE = sorted(set(sparsect.METHODS) - {"admm"})


class TestScale:
    """Phi and y may be in any units."""

    @pytest.mark.parametrize("method", SCALE_FREE)
    @pytest.mark.parametrize("exponents", [(20, 20), (-40, 40), (40, -40), (40, 40), (-40, -40), (0, 60), (40, 0)])
    def test_powers_of_two_change_no_bit(self, method, exponents):
        problem = random_problem(20, 40, 4, snr_db=30, batch=3, rng=0, dtype="float32")
        plain = sparsect.recover(problem.Phi, problem.y, 4, method, max_iter=50)
        of_Phi, of_y = (np.float32(2.0**exponent) for exponent in exponents)
        scaled = sparsect.recover(of_Phi * problem.Phi, of_y * problem.y, 4, method, max_iter=50)
        np.testing.assert_array_equal(scaled.x * (of_Phi / of_y), plain.x)
        np.testing.assert_array_equal(scaled.residual_norm / of_y, plain.residual_norm)
        np.testing.assert_array_equal(scaled.converged, plain.converged)

    @pytest.mark.parametrize("Phi_of", [scipy.sparse.csr_array, scipy.sparse.linalg.aslinearoperator])
    def test_matrices_that_are_not_dense(self, Phi_of):
        problem = random_problem(20, 40, 4, snr_db=30, rng=0)
        plain = sparsect.recover(Phi_of(problem.Phi), problem.y, 4, "difference-map", max_iter=20)
        scaled = sparsect.recover(Phi_of(2.0**50 * problem.Phi), 2.0**90 * problem.y, 4, "difference-map", max_iter=20)
        np.testing.assert_allclose(scaled.x / 2.0**40, plain.x, rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize("matrix", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
    @pytest.mark.parametrize("dtype", [np.float32, np.complex64])
    def test_the_dtype_of_sparse_matrices_is_kept(self, matrix, dtype):
        Phi = matrix(1e4 * np.eye(3, 5).astype(dtype))
        assert sparsect.recover(Phi, np.ones(3, dtype), 3, "difference-map", max_iter=20).x.dtype == dtype

    def test_the_noise_and_what_is_recorded_are_in_the_units_of_the_caller(self):
        problem = random_problem(20, 40, 4, snr_db=30, rng=0)
        unit = 2.0**40
        runs = [
            sparsect.recover(problem.Phi, scale * problem.y, 4, "ormp", noise_norm=scale * problem.noise_norm)
            for scale in (1.0, unit)
        ]
        first, second = (result.history["iterate_residual"] for result in runs)
        np.testing.assert_array_equal(second, unit * first)
        np.testing.assert_array_equal(runs[1].residual_norm, unit * runs[0].residual_norm)

    def test_the_largest_numbers_there_are(self):
        y = np.array([2.5e38, 0, 0], np.float32)
        Phi = (1e10 * PHI).astype(np.float32)
        np.testing.assert_allclose(sparsect.recover(Phi, y, 1, "ormp").x[0], 2.5e28, rtol=1e-5)

    def test_a_number_that_squares_cannot_hold(self):
        np.testing.assert_allclose(sparsect.recover(PHI, [1e200, 0, 0], 1).x[0], 1e200, rtol=1e-5)

    @pytest.mark.parametrize("method", list(sparsect.METHODS))
    def test_what_is_left_of_a_constant_signal_is_zero(self, method):
        problem = random_problem(20, 40, 4, snr_db=30, batch=3, rng=0, dtype="float32")
        alone = sparsect.recover(problem.Phi, problem.y[[0, 2]], 4, method, max_iter=30)
        y = problem.y.copy()
        y[1] = 1e-17
        beside = sparsect.recover(problem.Phi, y, 4, method, max_iter=30)
        np.testing.assert_array_equal(beside.x[1], 0)
        np.testing.assert_allclose(beside.x[[0, 2]], alone.x, rtol=1e-3, atol=1e-3)

    def test_nothing_but_rounding_is_said_to_be_so(self):
        with pytest.warns(sparsect.PoorFitWarning, match="y is zero as far as float32 can tell"):
            sparsect.recover(PHI.astype(np.float32), np.full(3, 1e-30, np.float32), 2)

    def test_rows_that_squares_cannot_hold_are_counted(self):
        y = np.array([[1.0, 0, 0], [1e-200, 0, 0], [0, 0, 0]])
        with pytest.warns(sparsect.PoorFitWarning, match="1 of 3 rows of y count as zero"):
            np.testing.assert_allclose(sparsect.recover(PHI, y, 1).x[:, 0], [1, 0, 0])

    def test_a_row_of_the_matrix_may_vanish(self):
        Phi = np.vstack([np.eye(3), np.full((1, 3), 1e-30)]).astype(np.float32)
        np.testing.assert_allclose(sparsect.recover(Phi, np.ones(4, np.float32), 3, "ormp").x, 1, rtol=1e-5)


class TestAnswersThatDoNotExplainTheData:
    def test_half_of_the_data_is_left(self, rng):
        problem = random_problem(40, 80, 15, batch=4, rng=0)
        with pytest.warns(
            sparsect.PoorFitWarning, match=r"of 4 answers are far from explaining y .*more nonzeros"
        ) as seen:
            sparsect.recover(problem.Phi, problem.y, 1, "omp")
        assert len(seen) == 1

    def test_noise_that_is_said_to_vanish(self):
        problem = random_problem(40, 80, 4, snr_db=50, rng=0)
        with pytest.warns(sparsect.PoorFitWarning, match=r"farther from y than noise_norm allows .*0\.\d+% of"):
            sparsect.recover(problem.Phi, problem.y, 4, noise_norm=0)

    def test_the_norms_of_columns_are_named(self, rng):
        problem = random_problem(40, 80, 5, rng=0)
        Phi = problem.Phi * 10.0 ** rng.uniform(-2, 2, 80)
        with pytest.warns(sparsect.PoorFitWarning, match="scale_columns=True"):
            sparsect.recover(Phi, Phi @ problem.x[0], 5, "niht", max_iter=3, scale_columns=False)

    @pytest.mark.parametrize("method", ["stomp", "vamp"])
    def test_zero_is_no_answer(self, method, monkeypatch):
        problem = random_problem(20, 40, 4, rng=0)
        solver = sparsect.METHODS[method]
        monkeypatch.setattr(solver, "estimate", lambda self, problem, state: 0 * state.x)
        with pytest.warns(sparsect.PoorFitWarning, match="the answer is zero although y is not"):
            sparsect.recover(problem.Phi, problem.y, 4, method, max_iter=5)

    def test_more_noise_than_there_is_said_to_be(self):
        problem = random_problem(30, 60, 4, snr_db=20, batch=10, rng=0)
        with pytest.warns(sparsect.PoorFitWarning, match=r"10 of 10 .* more noise \(noise_norm\)"):
            sparsect.recover(problem.Phi, problem.y, 4, noise_norm=0.0)

    def test_within_the_noise_zero_is_an_answer(self):
        warnings.simplefilter("error")
        problem = random_problem(30, 60, 4, snr_db=20, rng=0)
        noise_norm = 2 * np.linalg.norm(problem.y)
        assert not sparsect.recover(problem.Phi, problem.y, 4, "omp", noise_norm=noise_norm).x.any()

    def test_what_data_hardly_determine(self, rng):
        Phi = np.exp(-np.linspace(0, 1, 100)[:, None] * np.geomspace(1, 100, 200))
        x = np.zeros(200)
        x[rng.choice(200, 30, replace=False)] = rng.standard_normal(30)
        y = Phi @ x
        y += 0.1 * np.linalg.norm(y) / 10 * rng.standard_normal(100)
        with pytest.warns(sparsect.PoorFitWarning, match="the answer is hardly determined by y"):
            found = sparsect.recover(Phi, y, 30).x
        lengths = np.linalg.norm(Phi, axis=0)
        assert np.linalg.norm(lengths * found) < 3 * np.linalg.norm(lengths * x)

    def test_deviations_of_messages_on_coherent_columns_are_not_believed(self, rng):
        Phi = rng.standard_normal((100, 400))
        for k in range(1, 400):
            Phi[:, k] = 0.99 * Phi[:, k - 1] + (1 - 0.99**2) ** 0.5 * Phi[:, k]
        x = np.zeros((20, 400))
        x[:, 5::80] = rng.standard_normal((20, 5))
        y = x @ Phi.T
        y += 0.03 * rng.standard_normal(y.shape) * np.linalg.norm(y, axis=1, keepdims=True) / 10
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = sparsect.recover(Phi, y, 5, "annealed-difference-map")
        assert np.max(np.linalg.norm(found.standard_deviation, axis=1) / np.linalg.norm(found.x, axis=1)) > 2

    def test_bounds_are_named(self):
        problem = random_problem(30, 60, 4, rng=0)
        with pytest.warns(sparsect.PoorFitWarning, match="wider bounds") as seen:
            sparsect.recover(problem.Phi, problem.y, sparsect.sets.Sparse(4, low=0, high=0))
        assert "more nonzeros" not in str(seen[0].message)

    @pytest.mark.parametrize(
        ("shape", "sparsity", "scale", "possible"),
        [((40, 8), 7, 1, True), ((40, 8), 8, 1, False), ((8, 40), 3, 0, False)],
    )
    def test_more_nonzeros_are_advised_where_they_are_possible_and_could_help(
        self, rng, shape, sparsity, scale, possible
    ):
        Phi, y = scale * rng.standard_normal(shape), rng.standard_normal((5, shape[0]))
        with pytest.warns(sparsect.PoorFitWarning) as seen:
            sparsect.recover(Phi, y, sparsity)
        assert len(seen) == 1
        assert ("allow more nonzeros" in str(seen[0].message)) == possible
        assert ("perhaps no x that is allowed explains y" in str(seen[0].message)) != possible

    @pytest.mark.parametrize("method", list(sparsect.METHODS))
    def test_ordinary_problems_are_left_alone(self, method):
        warnings.simplefilter("error")
        problem = random_problem(100, 200, 10, snr_db=20, batch=10, rng=0)
        sparsect.recover(problem.Phi, problem.y, 10, method)

    def test_points_at_whoever_called(self):
        problem = random_problem(40, 80, 15, batch=4, rng=0)
        with pytest.warns(sparsect.PoorFitWarning) as seen:
            sparsect.recover(problem.Phi, problem.y, 1, "omp")
        assert seen[0].filename == __file__

    def test_an_approximation_promises_no_more(self):
        warnings.simplefilter("error")
        problem = random_problem(40, 80, 15, batch=4, rng=0)
        sparsect.recover(problem.Phi, problem.y, 1, sparsect.AnnealedDifferenceMap("approximation"))

    def test_a_caller_can_do_without_the_warning(self):
        warnings.simplefilter("error")
        problem = random_problem(30, 60, 4, snr_db=20, batch=4, rng=0)
        sparsect.recover(problem.Phi, problem.y, 1, "omp", check_fit=False)
        noise_norm = 0.5 * problem.noise_norm
        sparsect.recover(problem.Phi, problem.y, 4, noise_norm=noise_norm, max_iter=1, check_fit=False)
        sparsect.recover(problem.Phi, problem.y, "auto", noise_norm=noise_norm, max_iter=1, check_fit=False)
        with pytest.raises(InputError, match=r"check_fit` must .*got 'no'"):
            sparsect.recover(problem.Phi, problem.y, 1, "omp", check_fit="no")


class TestConverged:
    """A row has converged when nothing would change any more, and only then."""

    @pytest.mark.parametrize("method", list(sparsect.METHODS))
    def test_without_nonzeros_there_is_nothing_to_change(self, method):
        problem = random_problem(20, 40, 4, batch=3, rng=0)
        assert sparsect.recover(problem.Phi, problem.y, 0, method).converged.all()

    @pytest.mark.parametrize("method", ["alternating-map", "aiht", "niht", "subspace-pursuit", "omp", "ormp", "stomp"])
    def test_a_row_that_rests_short_of_the_data(self, method):
        problem = random_problem(100, 200, 10, snr_db=20, batch=4, rng=0)
        result = sparsect.recover(problem.Phi, problem.y, 10, method)
        assert result.converged.all()
        np.testing.assert_array_equal(sparsect.recover(problem.Phi, problem.y, 10, method, max_iter=2000).x, result.x)

    @pytest.mark.parametrize("method", sorted(set(sparsect.METHODS) - {"auto", "subspace-pursuit", "stomp"}))
    def test_a_row_that_was_cut_short(self, method):
        problem = random_problem(100, 200, 10, snr_db=20, batch=4, rng=0)
        assert not sparsect.recover(problem.Phi, problem.y, 10, method, max_iter=2).converged.any()


def test_a_column_too_small_for_its_coefficient(rng):
    Phi = rng.standard_normal((20, 40))
    y = Phi[:, 3].copy()
    Phi[:, 3] *= 1e-310
    with pytest.raises(InputError, match=r"Phi` must have columns of zeros, or .* got a column of norm .*e-31"):
        sparsect.recover(Phi, y, 1)
