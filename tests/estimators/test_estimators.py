"""scikit-learn's own checks, and that the skins do what is under them."""

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import sparsect
from sparsect import InputError
from sparsect.dictionary import ArraySource, Dictionary, learn

pytestmark = pytest.mark.numerical


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([sparsect.SparseCoder(), sparsect.DictionaryLearner(rounds=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


class TestSparseCoder:
    def test_codes_are_those_of_recover(self, rng):
        Phi, signals = rng.standard_normal((20, 50)), rng.standard_normal((7, 20))
        for method in ("ormp", sparsect.DifferenceMap(0.5)):
            codes = sparsect.SparseCoder(Phi.T, sparsity=6, method=method, transform_max_iter=50).fit_transform(signals)
            expected = sparsect.recover(Phi, signals, 6, method, max_iter=50).x
            assert issparse(codes)
            np.testing.assert_allclose(codes.toarray(), expected)

    def test_a_name_stands_for_approximation(self, rng):
        Phi, signals = rng.standard_normal((20, 50)), rng.standard_normal((7, 20))
        name = "annealed-difference-map"
        codes = sparsect.SparseCoder(Phi.T, sparsity=6, method=name, transform_max_iter=50).fit_transform(signals)
        approximated, recovered = (
            sparsect.recover(Phi, signals, 6, method, max_iter=50)
            for method in (sparsect.AnnealedDifferenceMap("approximation"), name)
        )
        np.testing.assert_allclose(codes.toarray(), approximated.x)
        assert np.linalg.norm(approximated.residual_norm) < np.linalg.norm(recovered.residual_norm)
        image = rng.random((20, 20))
        assert sparsect.images.reconstruct(image, 5, name, max_iter=5).method == approximated.method

    def test_atoms_are_rows_as_in_scikit_learn(self, rng):
        signals = rng.standard_normal((9, 8))
        for shape in ((12, 8), (8, 8)):
            atoms = rng.standard_normal(shape)
            coder = sparsect.SparseCoder(atoms, sparsity=3, method="omp").fit(signals)
            np.testing.assert_array_equal(coder.components_, atoms)
            codes = coder.transform(signals)
            np.testing.assert_allclose(codes.toarray(), sparsect.recover(atoms.T, signals, 3, "omp").x)
            np.testing.assert_allclose(coder.inverse_transform(codes), codes @ atoms)
            # A dictionary knows its orientation.
            same = sparsect.SparseCoder(Dictionary(atoms.T), sparsity=3, method="omp").fit_transform(signals)
            np.testing.assert_allclose(same.toarray(), codes.toarray())

    def test_components_can_be_passed_on(self, rng):
        signals = rng.standard_normal((50, 9))
        learner = sparsect.DictionaryLearner(12, sparsity=3, rounds=1).fit(signals)
        codes = sparsect.SparseCoder(learner.components_, sparsity=3).fit_transform(signals)
        np.testing.assert_allclose(codes.toarray(), learner.transform(signals).toarray())

    def test_a_dictionary_from_a_file(self, rng, tmp_path):
        dictionary = Dictionary(rng.standard_normal((8, 12)))
        dictionary.save(tmp_path / "atoms.npz")
        for path in (tmp_path / "atoms.npz", str(tmp_path / "atoms.npz")):
            np.testing.assert_array_equal(sparsect.SparseCoder(path).fit(np.ones((2, 8))).components_, dictionary.Phi.T)

    def test_atoms_of_another_length(self, rng):
        Phi, signals = rng.standard_normal((8, 12)), np.ones((2, 8))
        message = (
            r"dictionary` must hold atoms of 8 numbers, one per row .* X has 8 features, got 8 atoms of 12 numbers"
        )
        for dictionary in (Phi, Dictionary(Phi.T)):
            with pytest.raises(InputError, match=message + r"\. Transpose it\?"):
                sparsect.SparseCoder(dictionary).fit(signals)
        with pytest.raises(InputError, match=r"got 5 atoms of 7 numbers\.$"):
            sparsect.SparseCoder(rng.standard_normal((5, 7))).fit(signals)

    def test_blocks_do_not_show(self, rng, monkeypatch):
        atoms, signals = rng.standard_normal((12, 8)), rng.standard_normal((25, 8))
        whole = sparsect.SparseCoder(atoms, sparsity=3).fit_transform(signals)
        monkeypatch.setattr("sparsect.dictionary.coding.BLOCK", 7)
        np.testing.assert_allclose(
            sparsect.SparseCoder(atoms, sparsity=3).fit_transform(signals).toarray(), whole.toarray()
        )

    def test_inverse_transform_is_the_fit(self, rng):
        coder = sparsect.SparseCoder(rng.standard_normal((12, 8)), sparsity=8).fit(np.ones((1, 8)))
        signals = rng.standard_normal((4, 8))
        np.testing.assert_allclose(coder.inverse_transform(coder.transform(signals)), signals, atol=1e-8)

    def test_the_bundled_dictionary_codes_patches(self, rng):
        coder = sparsect.SparseCoder(sparsity=5).fit(rng.standard_normal((3, 400)))
        np.testing.assert_array_equal(coder.components_, sparsect.load_dictionary().Phi.T)

    def test_in_a_pipeline(self, rng):
        centre = FunctionTransformer(lambda rows: rows - rows.mean(axis=1, keepdims=True))
        codes = make_pipeline(centre, sparsect.SparseCoder(sparsity=4)).fit_transform(rng.standard_normal((5, 30)))
        assert codes.shape == (5, 60)
        assert codes.nnz == 20

    def test_single_precision_stays(self, rng):
        atoms = rng.standard_normal((12, 8)).astype(np.float32)
        assert sparsect.SparseCoder(atoms).fit_transform(np.ones((2, 8), np.float32)).dtype == np.float32

    def test_errors(self, rng):
        with pytest.raises(InputError, match=r"dictionary` must .*got Phi of shape .* complex"):
            sparsect.SparseCoder(np.ones((12, 8), complex)).fit(np.ones((2, 8)))
        with pytest.raises(InputError, match=r"codes` must .*\(n_samples, 12\).*got shape \(2, 5\)"):
            sparsect.SparseCoder(rng.standard_normal((12, 8))).fit(np.ones((2, 8))).inverse_transform(np.ones((2, 5)))
        with pytest.raises(InputError, match=r"sparsity` must .*a whole number from 0 to 12.*got 99"):
            sparsect.SparseCoder(rng.standard_normal((12, 8)), sparsity=99).fit_transform(np.ones((2, 8)))
        with pytest.raises(InputError, match=r"method` must .*got 'opm'.*Did you mean 'omp'"):
            sparsect.SparseCoder(rng.standard_normal((12, 8)), method="opm").fit_transform(np.ones((2, 8)))
        with pytest.raises(InputError, match=r"dictionary` must .*got columns that are"):
            sparsect.SparseCoder(1e200 * rng.standard_normal((12, 8))).fit(np.ones((2, 8)))
        with pytest.raises(InputError, match=r"X` must .*got entries whose squares leave the range"):
            sparsect.SparseCoder(rng.standard_normal((12, 8))).fit_transform(np.full((2, 8), 1e200))

    @pytest.mark.parametrize("method", [3, object(), sparsect.ADMM])
    @pytest.mark.parametrize("device", [None, "auto"])
    def test_what_is_no_solver(self, method, device):
        with pytest.raises(InputError, match=r"method` must .*got "):
            sparsect.SparseCoder(np.eye(8), method=method, device=device).fit_transform(np.ones((2, 8)))

    def test_masked_arrays_are_refused(self, rng):
        X = np.ma.masked_greater(rng.standard_normal((5, 8)), 0)
        coder = sparsect.SparseCoder(rng.standard_normal((12, 8)))
        for call in (coder.fit, coder.fit(X.data).transform, sparsect.DictionaryLearner(3, rounds=1).fit):
            with pytest.raises(InputError, match=r"X` must .*got a masked array"):
                call(X)
        with pytest.raises(InputError, match=r"codes` must .*got a masked array"):
            coder.inverse_transform(np.ma.masked_equal(np.eye(12), 0))


class TestDictionaryLearner:
    def test_is_learn(self, rng):
        signals = rng.standard_normal((200, 9))
        learner = sparsect.DictionaryLearner(12, rounds=3, random_state=5).fit(signals)
        expected = learn(ArraySource(signals), 12, rounds=3, rng=5)
        np.testing.assert_array_equal(learner.components_, expected.Phi.T)
        assert isinstance(learner.dictionary_, Dictionary)
        np.testing.assert_allclose(np.linalg.norm(learner.components_, axis=1), 1)

    def test_does_not_depend_on_the_scale_of_the_signals(self, rng):
        signals = rng.standard_normal((200, 9))
        small, large = (sparsect.DictionaryLearner(12, rounds=3).fit(scale * signals) for scale in (1.0, 1000.0))
        np.testing.assert_allclose(small.components_, large.components_, atol=1e-6)

    def test_errors(self, rng):
        signals = rng.standard_normal((20, 4))
        with pytest.raises(InputError, match=r"X` must .*got entries whose squares leave the range"):
            sparsect.DictionaryLearner(3, rounds=1).fit(1e200 * signals)
        with pytest.raises(InputError, match=r"signals` must .*got entries whose squares leave the range"):
            learn(ArraySource(1e200 * signals), 3, rounds=1)
        with pytest.raises(InputError, match=r"coder` must .*got 3"):
            sparsect.DictionaryLearner(3, coder=3, rounds=1).fit(signals)

    def test_clones(self):
        learner = sparsect.DictionaryLearner(7, coder=sparsect.ADMM(mu=1.0, lam=0.1), rounds=2)
        assert clone(learner).get_params() == learner.get_params()
