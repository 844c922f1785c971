"""Every kind of Phi: products against a dense matrix, adjoints, pseudo-inverses, and what is refused."""

import numpy as np
import pylops
import pytest
import scipy.fft
import scipy.sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import sparsect
from sparsect import ConvergenceWarning, InputError
from sparsect.operators.pseudo_inverse import ConjugateGradients, SingularVectors, TightFrame

pytestmark = pytest.mark.numerical


def dense(rng, m=9, n=20, complex_=False):
    Phi = rng.standard_normal((m, n))
    return Phi + 1j * rng.standard_normal((m, n)) if complex_ else Phi


def every_operator(rng):
    """Operators of all kinds, each with the dense matrix it stands for."""
    Phi, Psi = dense(rng), dense(rng, complex_=True)
    sparse = scipy.sparse.random_array((9, 20), density=0.7, rng=rng, format="coo")
    dct = scipy.fft.dct(np.eye(20), axis=0, norm="ortho")
    dct2 = np.kron(*(scipy.fft.dct(np.eye(size), axis=0, norm="ortho") for size in (4, 5)))
    fourier = scipy.fft.fft(np.eye(20), axis=0, norm="ortho")
    fourier2 = np.kron(*(scipy.fft.fft(np.eye(size), axis=0, norm="ortho") for size in (4, 5)))
    samples = np.array([0, 3, 19, 7])
    pairs = {
        "dense": (sparsect.DenseOperator(Phi), Phi),
        "complex": (sparsect.DenseOperator(Psi), Psi),
        "sparse": (sparsect.as_operator(sparse), sparse.toarray()),
        "complex sparse": (sparsect.as_operator(sparse * (1 + 2j)), sparse.toarray() * (1 + 2j)),
        "linear operator": (sparsect.as_operator(aslinearoperator(Psi)), Psi),
        "pylops": (sparsect.as_operator(pylops.MatrixMult(Phi)), Phi),
        "dct": (sparsect.SubsampledDCT(20, samples), dct[samples]),
        "dct 2-D": (sparsect.SubsampledDCT((4, 5), samples), dct2[samples]),
        "fourier": (sparsect.SubsampledFourier(20, samples), fourier[samples]),
        "fourier 2-D": (sparsect.SubsampledFourier((4, 5), samples), fourier2[samples]),
    }
    return pairs


NAMES = tuple(every_operator(np.random.default_rng(0)))


@pytest.mark.parametrize("name", NAMES)
class TestEveryOperator:
    def test_products_equal_the_dense_matrix(self, rng, name):
        operator, matrix = every_operator(rng)[name]
        m, n = operator.shape
        assert matrix.shape == (m, n)
        x, r = rng.standard_normal((2, 3, n)) + 0j, rng.standard_normal((2, 3, m)) + 0j
        np.testing.assert_allclose(operator.forward(x), x @ matrix.T, atol=1e-12)
        np.testing.assert_allclose(operator.adjoint(r), r @ matrix.conj(), atol=1e-12)

    def test_dot_test(self, rng, name):
        operator, _ = every_operator(rng)[name]
        assert operator.dot_test() < 1e-14
        assert operator.dot_test(rng=7) < 1e-14

    def test_projections_equal_the_dense_matrix(self, rng, name):
        operator, matrix = every_operator(rng)[name]
        m, n = operator.shape
        y, x = rng.standard_normal((2, m)) + 0j, rng.standard_normal((2, n)) + 0j
        for data_set, noise_norm in ((sparsect.Affine(), None), (sparsect.Relaxed(0.7), None), (None, 0.5)):
            ours = sparsect.project_data(x, operator, y, data_set, noise_norm)
            np.testing.assert_allclose(ours, sparsect.project_data(x, matrix, y, data_set, noise_norm), atol=1e-7)

    def test_recovers(self, rng, name):
        operator, _ = every_operator(rng)[name]
        x = np.zeros((1, operator.shape[1]), dtype=complex)
        x[0, 6] = 2.0
        result = sparsect.recover(operator, operator.forward(x), 1, max_iter=300)
        assert result.converged.all()
        np.testing.assert_allclose(result.x, x, atol=1e-4)


def test_wrong_adjoint_is_seen_by_the_dot_test(rng):
    operator = sparsect.DenseOperator(dense(rng))
    operator.adjoint = lambda r: r @ (operator.Phi + 0.1)
    assert operator.dot_test() > 1e-3


class TestPseudoInverse:
    def test_kinds(self, rng):
        Phi = dense(rng)
        assert isinstance(sparsect.as_operator(Phi).pseudo_inverse, SingularVectors)
        sparse = scipy.sparse.csr_array(Phi)
        assert isinstance(sparsect.as_operator(sparse), sparsect.DenseOperator)
        assert isinstance(sparsect.SparseOperator(sparse).pseudo_inverse, SingularVectors)
        large = scipy.sparse.eye_array(1100, 1200, format="csr")
        assert isinstance(sparsect.as_operator(large).pseudo_inverse, ConjugateGradients)
        assert isinstance(sparsect.as_operator(aslinearoperator(Phi)).pseudo_inverse, ConjugateGradients)
        assert isinstance(sparsect.SubsampledDCT(8, [1, 2]).pseudo_inverse, TightFrame)

    def test_zero_mean_columns_have_rank_m_minus_one(self):
        for dtype in (np.float32, np.float64):
            problem = sparsect.random_problem(30, 60, 5, rng=0, dtype=dtype)
            assert problem.operator.pseudo_inverse.rank == 29

    def test_rank_tolerance_is_the_users_to_set(self):
        Phi = np.diag([1.0, 1e-3, 1e-9])
        assert sparsect.DenseOperator(Phi).pseudo_inverse.rank == 3
        assert sparsect.DenseOperator(Phi, rank_tol=1e-6).pseudo_inverse.rank == 2

    def test_promotion_keeps_the_rank_and_factors_once(self):
        problem = sparsect.random_problem(30, 60, 5, rng=0, dtype=np.float32)
        operator = sparsect.as_operator(problem.Phi)
        first, second = (
            sparsect.recover(operator, problem.y.astype(np.float64), 5, "difference-map", max_iter=5) for _ in range(2)
        )
        assert first.setup_seconds > 0 == second.setup_seconds
        promoted, _ = operator.prepared(problem.y.astype(np.float64))
        assert promoted.pseudo_inverse.rank == 29

    def test_sparse_formats(self, rng):
        Phi, x = dense(rng), rng.standard_normal((2, 20))
        for kind in ("lil", "coo", "csc", "dok", "bsr", "dia"):
            operator = sparsect.SparseOperator(scipy.sparse.coo_array(Phi).asformat(kind))
            np.testing.assert_allclose(operator.forward(x), x @ Phi.T)

    def test_factored_once_and_timed(self, rng):
        operator = sparsect.as_operator(dense(rng))
        assert operator.factor_seconds == 0
        first = sparsect.recover(operator, rng.standard_normal((2, 9)), 3, max_iter=5)
        again = sparsect.recover(operator, rng.standard_normal((2, 9)), 3, max_iter=5)
        assert first.setup_seconds == operator.factor_seconds > 0
        assert again.setup_seconds == 0

    def test_frame_bound_makes_projections_direct(self, rng):
        rows = np.linalg.qr(rng.standard_normal((20, 9)))[0].T * 3.0
        operator = sparsect.MatrixFree(aslinearoperator(rows), frame_bound=9.0)
        assert isinstance(operator.pseudo_inverse, TightFrame)
        x, y = rng.standard_normal(20), rng.standard_normal(9)
        for noise_norm in (None, 0.4):
            ours = sparsect.project_data(x, operator, y, noise_norm=noise_norm)
            np.testing.assert_allclose(ours, sparsect.project_data(x, rows, y, noise_norm=noise_norm), atol=1e-12)

    def test_conjugate_gradients_warn_when_they_stop_early(self, rng):
        operator = sparsect.as_operator(aslinearoperator(dense(rng)))
        operator.pseudo_inverse.max_iter = 2
        with pytest.warns(ConvergenceWarning, match="2 conjugate-gradient solves stopped above") as caught:
            sparsect.project_data(rng.standard_normal(20), operator, rng.standard_normal(9))
        assert len(caught) == 1
        with pytest.warns(ConvergenceWarning, match="conjugate-gradient solves stopped above") as caught:
            sparsect.recover(operator, rng.standard_normal(9), 3, max_iter=10, scale_columns=False)
        assert len(caught) == 1

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
    def test_the_spectrum_without_a_factorisation(self, rng, dtype):
        """Lanczos' iteration finds the damping of a noise ball that a singular value decomposition finds."""
        Phi = rng.standard_normal((40, 90)) * 10.0 ** rng.uniform(-0.3, 0.3, (40, 1))
        Phi = (Phi + (1j * rng.standard_normal(Phi.shape) if dtype == np.complex128 else 0)).astype(dtype)
        y, x = Phi @ rng.standard_normal(90).astype(dtype), rng.standard_normal((3, 90)).astype(dtype)
        radii = np.array([0.01, 1.0, 30.0])
        found = [
            sparsect.project_data(x, kind(Phi), np.tile(y, (3, 1)), noise_norm=radii)
            for kind in (np.asarray, aslinearoperator)
        ]
        tolerance = 2e-3 if dtype == np.float32 else 1e-7
        np.testing.assert_allclose(found[1], found[0], atol=tolerance)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("scale", [1e-7, 1.0, 1e4])
    def test_sparse_is_dense_in_any_units_and_precision(self, scale, dtype):
        """The rank of a single-precision Phi is seen, whatever y's dtype and whatever the units."""
        problem = sparsect.random_problem(40, 80, 6, rng=0)
        Phi, y = (scale * problem.Phi).astype(np.float32), problem.y[0].astype(dtype)
        dense, sparse = (
            sparsect.recover(operator, y, 6, "alternating-map")
            for operator in (Phi, sparsect.SparseOperator(scipy.sparse.csr_array(Phi)))
        )
        assert sparse.x.dtype == dense.x.dtype == dtype
        np.testing.assert_allclose(scale * sparse.x, scale * dense.x, atol=1e-3)

    def test_zero_matrix(self):
        result = sparsect.recover(np.zeros((3, 5)), np.ones(3), 2, max_iter=5)
        np.testing.assert_array_equal(result.x, np.zeros(5))


class TestErrors:
    def test_no_adjoint(self):
        operator = LinearOperator((3, 5), matvec=lambda x: x[:3], dtype=float)
        with pytest.raises(InputError, match="matvec or rmatvec"):
            sparsect.recover(operator, np.ones(3), 1)

    def test_wrong_adjoint(self, rng):
        Phi = dense(rng)
        operator = LinearOperator(Phi.shape, matvec=lambda x: Phi @ x, rmatvec=lambda r: 2 * Phi.T @ r, dtype=float)
        with pytest.raises(InputError, match="not the adjoint"):
            sparsect.recover(operator, np.ones(9), 1)

    @pytest.mark.parametrize(
        ("matvec", "rmatvec", "message"),
        [
            (lambda x: np.full(3, np.nan), lambda r: np.ones(5), "whose matmat returns NaN"),
            (lambda x: np.ones(3), lambda r: np.full(5, np.inf), "whose rmatmat returns NaN or infinity"),
            (lambda x: np.ones(4), lambda r: np.ones(5), r"whose matmat returns 3 rows, .* returns 4 rows"),
            (lambda x: np.ones(3), lambda r: np.ones(6), r"whose rmatmat returns 5 rows, .* returns 6 rows"),
        ],
    )
    def test_what_products_return(self, matvec, rmatvec, message):
        def product(function):
            return staticmethod(lambda columns: np.stack([function(column) for column in columns.T], axis=1))

        attributes = {"shape": (3, 5), "dtype": np.float64, "matmat": product(matvec), "rmatmat": product(rmatvec)}
        with pytest.raises(InputError, match=message):
            sparsect.recover(type("Own", (), attributes)(), np.ones(3), 1)

    def test_wrong_frame_bound(self, rng):
        operator = sparsect.MatrixFree(aslinearoperator(dense(rng)), frame_bound=2.0)
        with pytest.raises(InputError, match=r"frame_bound` must .*got 2"):
            sparsect.recover(operator, np.ones(9), 1)

    def test_frame_bound_of_a_dense_matrix(self, rng):
        with pytest.raises(InputError, match="frame_bound` must be given for a LinearOperator only"):
            sparsect.as_operator(dense(rng), frame_bound=1.0)

    def test_operator_that_drops_imaginary_parts(self, rng):
        Phi = dense(rng)
        operator = LinearOperator(Phi.shape, lambda x: Phi @ x.real, rmatvec=lambda r: Phi.T @ r.real, dtype=float)
        with pytest.raises(InputError, match="must be a LinearOperator that keeps complex numbers"):
            sparsect.recover(operator, np.ones(9) + 1j, 1)

    def test_damaged_sparse_matrix(self):
        matrix = scipy.sparse.csr_array(np.eye(3, 5))
        matrix.indices[1] = 10**8
        with pytest.raises(InputError, match=r"Phi` must .*got a damaged sparse matrix"):
            sparsect.as_operator(matrix)

    @pytest.mark.parametrize("shape", ["44", (), (4, 0), 4.5, [4, "x"]])
    def test_shape_of_signal(self, shape):
        with pytest.raises(InputError, match="shape_of_signal` must"):
            sparsect.SubsampledDCT.random(shape, 1)

    @pytest.mark.parametrize("factor", [1e200, 1e-200])
    def test_scale_of_phi(self, rng, factor):
        with pytest.raises(InputError, match=r"Phi` must .*got entries whose squares leave the range"):
            sparsect.as_operator(dense(rng) * factor)

    @pytest.mark.parametrize("samples", [[0, 0], [-1], [8], [], [0.5]])
    def test_samples(self, samples):
        with pytest.raises(InputError, match="samples` must"):
            sparsect.SubsampledDCT(8, samples)

    def test_too_many_random_samples(self):
        with pytest.raises(InputError, match=r"m` must .*a whole number from 1 to 8.*got 9"):
            sparsect.SubsampledFourier.random(8, 9)

    def test_sparse_with_nan(self):
        with pytest.raises(InputError, match=r"Phi` must .*got 1 entries that are NaN"):
            sparsect.as_operator(scipy.sparse.csr_array([[1.0, np.nan]]))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_a_sparse_matrix_of_the_caller_stays_as_it_is(kind, dtype):
    Phi = kind(np.array([[1, 0, 1, 0], [0, 1, 0, 1]], dtype=dtype))
    data, indices, values = Phi.data, Phi.indices, Phi.toarray()
    operator = sparsect.SparseOperator(Phi)
    for given in (Phi, operator):
        sparsect.recover(given, [1.0, 2.0], 1, max_iter=5)
    assert np.shares_memory(Phi.data, data)
    assert np.shares_memory(Phi.indices, indices)
    assert Phi.dtype == dtype
    np.testing.assert_array_equal(Phi.toarray(), values)
    np.testing.assert_array_equal(operator.forward(np.eye(4)), values.T.astype(operator.dtype))


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_indices_that_lead_out_of_a_matrix_without_nonzeros(kind):
    """SciPy looks at the indices only where the last says that there are nonzeros."""
    Phi = kind((6, 6))
    Phi.indptr = np.array([0, 3, 6, 7, 7, 10**6, 0], Phi.indptr.dtype)
    with pytest.raises(InputError, match=r"Phi` must .*got a damaged sparse matrix \(indptr"):
        sparsect.as_operator(Phi)


def test_a_signal_that_no_machine_has_room_for():
    with pytest.raises(InputError, match=r"shape_of_signal` must .*got 1000"):
        sparsect.SubsampledDCT(10**30, [1])
    with pytest.raises(InputError, match=r"shape_of_signal` must .*got \(1048576, 1048577\)"):
        sparsect.SubsampledFourier.random((2**20, 2**20 + 1), 5, rng=0)
