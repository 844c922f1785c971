"""scikit-learn's own checks, and that the skins do what is under them."""

import pickle
import sys

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import sparsect
from sparsect import InputError, sets
from sparsect.dictionary import ArraySource, Dictionary, learn
from sparsect.operators.rows import select_rows

pytestmark = pytest.mark.numerical


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        sparsect.SparseCoder(),
        sparsect.SparseCoder(nonnegative=True),
        sparsect.SparseCoder(missing="nan"),
        sparsect.DictionaryLearner(rounds=2),
    ]
)
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
        with pytest.raises(InputError, match=r"`dictionary` must be a file, or one of 8x8, .*got 'mine'"):
            sparsect.SparseCoder("mine").fit(np.ones((2, 8)))
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

    def test_names_of_features(self, rng):
        coder = sparsect.SparseCoder(rng.standard_normal((12, 8))).fit(np.ones((2, 8)))
        assert coder.get_feature_names_out().tolist() == [f"sparsecoder{atom}" for atom in range(12)]
        with pytest.raises(NotFittedError):
            sparsect.SparseCoder().get_feature_names_out()

    def test_codes_in_a_data_frame(self, rng):
        pandas = pytest.importorskip("pandas")
        atoms, X = rng.standard_normal((12, 8)), pandas.DataFrame(rng.standard_normal((5, 8)), index=list("abcde"))
        coder = sparsect.SparseCoder(atoms, sparsity=2).set_output(transform="pandas")
        codes = coder.fit_transform(X.rename(columns=str))
        assert codes.index.tolist() == list("abcde")
        assert codes.columns.tolist() == coder.get_feature_names_out().tolist()
        plain = sparsect.SparseCoder(atoms, sparsity=2).fit_transform(X.to_numpy())
        np.testing.assert_array_equal(codes, plain.toarray())
        np.testing.assert_allclose(coder.inverse_transform(codes), plain @ atoms)


class TestNonnegative:
    @pytest.fixture
    def data(self, rng):
        atoms = np.abs(rng.standard_normal((30, 20)))
        return atoms, np.abs(rng.standard_normal((9, 20)))

    @pytest.mark.parametrize("method", ["omp", "subspace-pursuit", sparsect.AnnealedDifferenceMap("approximation")])
    @pytest.mark.parametrize("refit", [False, True])
    def test_codes_are_those_of_recover(self, data, method, refit):
        atoms, X = data
        options = {"method": method, "refit": refit}
        codes = sparsect.SparseCoder(atoms, sparsity=5, nonnegative=True, **options).fit_transform(X)
        expected = sparsect.recover(atoms.T, X, sets.Sparse(5, nonnegative=True), max_iter=400, **options)
        np.testing.assert_allclose(codes.toarray(), expected.x)
        assert codes.min() >= 0

    @pytest.mark.parametrize(("max_iter", "taken"), [(7, 7), (400, 50)])
    def test_auto_takes_a_method_for_nonnegative_codes(self, data, max_iter, taken):
        atoms, X = data
        coder = sparsect.SparseCoder(atoms, sparsity=5, nonnegative=True, transform_max_iter=max_iter)
        nonnegative, method = sets.Sparse(5, nonnegative=True), sparsect.AnnealedDifferenceMap("approximation")
        expected = sparsect.recover(atoms.T, X, nonnegative, method, max_iter=taken)
        np.testing.assert_allclose(coder.fit_transform(X).toarray(), expected.x)

    def test_auto_is_ahead_of_omp_on_digits(self, rng):
        X = load_digits().data[::4] / 16
        atoms = NMF(40, init="nndsvda", max_iter=50, tol=0, random_state=0).fit(X).components_
        auto, omp = (
            sparsect.SparseCoder(atoms, sparsity=8, method=method, nonnegative=True).fit(X)
            for method in ("auto", "omp")
        )
        errors = [np.linalg.norm(coder.inverse_transform(coder.transform(X)) - X) for coder in (auto, omp)]
        assert errors[0] < errors[1]

    def test_single_precision_stays(self, data):
        atoms, X = (array.astype(np.float32) for array in data)
        codes = sparsect.SparseCoder(atoms, nonnegative=True).fit_transform(X)
        assert codes.dtype == np.float32
        assert codes.min() >= 0

    def test_errors(self, data):
        atoms, X = data
        with pytest.raises(InputError, match=r"method` must be one of auto, .*got 'lars', which does not take "):
            sparsect.SparseCoder(atoms, method="lars", nonnegative=True).fit_transform(X)
        with pytest.raises(InputError, match="nonnegative` must be True or False, got 'yes'"):
            sparsect.SparseCoder(atoms, nonnegative="yes").fit_transform(X)
        with pytest.raises(InputError, match="transform_max_iter` must be a whole number of at least 1, got 'all'"):
            sparsect.SparseCoder(atoms, nonnegative=True, transform_max_iter="all").fit_transform(X)


class TestMissing:
    @pytest.fixture
    def data(self, rng):
        """Atoms, and signals that lack entries in three patterns, one of which lacks nothing."""
        X = rng.standard_normal((9, 20))
        patterns = rng.random((3, 20)) < 0.3
        patterns[2] = False
        X[patterns[np.arange(9) % 3]] = np.nan
        return rng.standard_normal((30, 20)), X

    @pytest.mark.parametrize("options", [{}, {"nonnegative": True}, {"method": "omp", "refit": True}])
    def test_each_row_is_coded_from_what_it_has(self, data, options, monkeypatch):
        atoms, X = data
        monkeypatch.setattr("sparsect.dictionary.coding.BLOCK", 5)
        codes = sparsect.SparseCoder(atoms, sparsity=4, missing="nan", **options).fit_transform(X).toarray()
        for row, code in zip(X, codes, strict=True):
            there = ~np.isnan(row)
            alone = sparsect.SparseCoder(atoms[:, there], sparsity=4, **options).fit_transform(row[None, there])
            np.testing.assert_allclose(code, alone.toarray()[0], atol=1e-9)

    def test_rows_with_the_same_pattern_are_coded_together(self, data, monkeypatch):
        sizes = []

        def select(operator, kept):
            sizes.append(kept.size)
            return select_rows(operator, kept)

        monkeypatch.setattr(sys.modules["sparsect.recover"], "select_rows", select)
        atoms, X = data
        sparsect.SparseCoder(atoms, missing="nan").fit_transform(X)
        assert sorted(sizes) == sorted(np.count_nonzero(~np.isnan(X[:2]), axis=1))

    def test_nothing_missing(self, data):
        atoms, X = data
        complete = np.nan_to_num(X)
        expected, codes = (sparsect.SparseCoder(atoms, missing=mark).fit_transform(complete) for mark in (None, "nan"))
        np.testing.assert_array_equal(codes.toarray(), expected.toarray())

    def test_single_precision_stays(self, data):
        atoms, X = (array.astype(np.float32) for array in data)
        assert sparsect.SparseCoder(atoms, missing="nan").fit_transform(X).dtype == np.float32

    def test_missing_entries_are_estimated(self, rng):
        atoms = rng.standard_normal((30, 20))
        truth = rng.standard_normal((50, 2)) @ atoms[[3, 17]]
        X = np.where(rng.random(truth.shape) < 0.3, np.nan, truth)
        coder = sparsect.SparseCoder(atoms, sparsity=2, missing="nan")
        np.testing.assert_allclose(coder.inverse_transform(coder.fit_transform(X)), truth, atol=1e-8)

    def test_entries_where_all_atoms_vanish(self, rng):
        atoms = np.abs(rng.standard_normal((12, 8)))
        atoms[:, 0] = 0
        X = np.full((1, 8), np.nan)
        X[0, 0] = 1.0
        for nonnegative in (False, True):
            coder = sparsect.SparseCoder(atoms, sparsity=3, nonnegative=nonnegative, missing="nan")
            assert coder.fit_transform(X).nnz == 0

    @pytest.mark.parametrize("nonnegative", [False, True])
    def test_dask_arrays(self, data, nonnegative):
        atoms, X = data
        coder = sparsect.SparseCoder(atoms, sparsity=4, nonnegative=nonnegative, missing="nan")
        chunked = pytest.importorskip("dask.array").from_array(X, chunks=(4, 10))
        codes = coder.fit(chunked).transform(chunked).compute(scheduler="threads")
        np.testing.assert_allclose(codes.toarray(), coder.transform(X).toarray(), atol=1e-9)

    def test_tags(self):
        assert sparsect.SparseCoder(missing="nan").__sklearn_tags__().input_tags.allow_nan
        assert not sparsect.SparseCoder().__sklearn_tags__().input_tags.allow_nan

    def test_errors(self, data):
        atoms, X = data
        hint = r"got \d+ entries that are NaN or infinite\. Use missing='nan' if NaN stands for entries that were not"
        fitted = sparsect.SparseCoder(atoms).fit(np.ones((1, 20)))
        for call in (fitted.transform, sparsect.SparseCoder(atoms).fit):
            with pytest.raises(InputError, match=hint):
                call(X)
            with pytest.raises(InputError, match=r"got 20 entries that are NaN or infinite\.$"):
                call(np.full((1, 20), np.inf))
        with pytest.raises(InputError, match=r"X` must .*got .* NaN or infinite\.$"):
            sparsect.DictionaryLearner(3, rounds=1).fit(np.full((2, 4), np.inf))
        coder = sparsect.SparseCoder(atoms, missing="nan")
        empty = X.copy()
        empty[[4, 6]] = np.nan
        for call in (coder.fit, coder.fit(X).transform):
            with pytest.raises(InputError, match=r"at least one measured entry in each row, got only NaN in row 4\."):
                call(empty)
            with pytest.raises(InputError, match=r"finite, or NaN if not measured, got 1 infinite entries"):
                call(np.where(np.arange(20) == 3, -np.inf, X[:1]))
        for missing in ("NaN", np.nan, 0):
            with pytest.raises(InputError, match="missing` must be one of 'nan', got"):
                sparsect.SparseCoder(atoms, missing=missing).fit(X)
        with pytest.raises(InputError, match=r"X` must .*got entries whose squares leave the range"):
            coder.transform(1e200 * X)


class TestDictionaryLearner:
    def test_is_learn(self, rng):
        signals = rng.standard_normal((200, 9))
        for objective, sparsity in (("l0", 2), ("lp", None)):
            options = {"objective": objective, "sparsity": sparsity, "rounds": 3}
            learner = sparsect.DictionaryLearner(12, random_state=5, **options).fit(signals)
            expected = learn(ArraySource(signals), 12, rng=5, **options)
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

    def test_learns_for_the_sparsity_of_the_codes(self, rng):
        signals = rng.standard_normal((300, 40))
        for sparsity, expected in ((None, 4), (3, 3)):
            learner = sparsect.DictionaryLearner(50, sparsity=sparsity, rounds=3).fit(signals)
            assert learner.dictionary_.rounds[-1]["validation_nonzeros"] == expected
            assert learner.transform(signals).nnz == expected * 300
        assert learner.n_iter_ == len(learner.dictionary_.rounds) == 3
        assert sparsect.DictionaryLearner(2, rounds=2).fit(signals).transform(signals).nnz == 600

    def test_more_rounds_do_not_make_it_worse(self):
        """The error of the codes used grew with rounds when codes had a penalty instead."""
        digits = load_digits().data
        errors = []
        for rounds in (3, 12, 40):
            learner = sparsect.DictionaryLearner(50, sparsity=5, rounds=rounds).fit(digits[::2])
            restored = learner.inverse_transform(learner.transform(digits[1::2]))
            errors.append(np.linalg.norm(restored - digits[1::2]) / np.linalg.norm(digits[1::2]))
        assert max(errors) < 1.02 * min(errors)
        assert max(errors) < 0.23

    def test_a_stream_of_signals(self, rng):
        truth = rng.standard_normal((20, 16))
        truth /= np.linalg.norm(truth, axis=1, keepdims=True)
        codes = np.where(rng.random((8000, 20)) < 0.1, rng.standard_normal((8000, 20)), 0)
        signals = codes @ truth
        learner = sparsect.DictionaryLearner(20, sparsity=2)
        for start in range(0, 8000, 1000):
            learner.partial_fit(signals[start : start + 1000])
        assert learner.n_iter_ == -(-np.count_nonzero(signals.any(axis=1)) // 64)
        assert learner.transform(signals[:5]).shape == (5, 20)
        np.testing.assert_allclose(np.linalg.norm(learner.components_, axis=1), 1)
        first = sparsect.DictionaryLearner(20, sparsity=2).partial_fit(signals[:1000])

        def error(fitted):
            return np.linalg.norm(fitted.inverse_transform(fitted.transform(signals[-500:])) - signals[-500:])

        assert error(learner) < 0.9 * error(first)
        again = sparsect.DictionaryLearner(20, sparsity=2).fit(signals[:2000])
        before = error(again)
        assert error(again.partial_fit(signals[2000:2010])) < 1.05 * before
        assert error(again.partial_fit(signals[2010:])) < 1.05 * before
        with pytest.raises(InputError, match=r"objective` must .*got 'lp'"):
            sparsect.DictionaryLearner(objective="lp").partial_fit(signals)
        for options, message in (
            ({"coder": "ormp"}, "coder` must be a name, or a configured solver"),
            ({"code_iter": 0}, "code_iter` must be a whole number of at least 1"),
            ({"max_coherence": 2}, "max_coherence` must be a number above 0"),
            ({"nonnegative_atoms": "no"}, "nonnegative_atoms` must be True or False"),
            ({"random_state": -1}, "random_state` must be a whole number"),
        ):
            with pytest.raises(InputError, match=message):
                sparsect.DictionaryLearner(20, sparsity=2, **options).partial_fit(signals)
        large = sparsect.DictionaryLearner(20, sparsity=2).partial_fit(1e120 * signals[:1000])
        np.testing.assert_allclose(large.components_, first.components_, atol=1e-6)
        with pytest.raises(InputError, match=r"sparsity` must be a whole number from 1 to 16, got 17"):
            sparsect.DictionaryLearner(20, sparsity=17).partial_fit(signals)

    @pytest.mark.parametrize("size", [1, 7, 64, 150])
    def test_a_stream_in_parts_of_any_size(self, rng, size):
        """Atoms and replacements used to come from the signals of one call, even if that was a single one."""
        signals = rng.standard_normal((700, 40)) @ rng.standard_normal((40, 12))
        whole = sparsect.DictionaryLearner(24, sparsity=2).partial_fit(signals)
        learner = sparsect.DictionaryLearner(24, sparsity=2)
        for start in range(0, 700, size):
            # Rows of zeros make no difference, wherever they are.
            part = np.concatenate([np.zeros((3, 12)), signals[start : start + size], np.zeros((70, 12))])
            assert learner.partial_fit(part).components_.shape == (24, 12)
            if start == 4 * size:
                learner = pickle.loads(pickle.dumps(learner))
        assert learner.n_iter_ == whole.n_iter_ == 11
        np.testing.assert_allclose(learner.components_, whole.components_, atol=1e-9)
        assert learner.components_.dtype == np.float64
        kept = learner._stream.rows
        assert len(kept) == 4 * 24 + 700 % 64
        np.testing.assert_array_equal(kept, signals[-len(kept) :])

    def test_a_stream_of_zeros(self, rng):
        learner, zeros = sparsect.DictionaryLearner(4, sparsity=2), np.zeros((10, 6))
        with pytest.raises(InputError, match="signals` must not all be zero, got zeros only"):
            learner.partial_fit(zeros)
        before = learner.partial_fit(rng.standard_normal((400, 6))).components_
        np.testing.assert_array_equal(learner.partial_fit(zeros).components_, before)
        parts = sparsect.DictionaryLearner(4, sparsity=2, nonnegative_codes=True, nonnegative_atoms=True)
        with pytest.raises(InputError, match="signals` must have positive entries, for nonnegative atoms"):
            parts.partial_fit(zeros - 1)
        before = parts.partial_fit(rng.random((400, 6))).components_
        np.testing.assert_array_equal(parts.partial_fit(zeros - 1).components_, before)

    @pytest.mark.parametrize("call", ["fit", "partial_fit"])
    def test_the_number_of_atoms_stays(self, rng, call):
        signals = rng.standard_normal((100, 6))
        learner = getattr(sparsect.DictionaryLearner(8, sparsity=2, rounds=2), call)(signals)
        for n_atoms, got in ((9, 9), (None, 6)):
            with pytest.raises(InputError, match=rf"n_atoms` must be 8, as in earlier calls, got {got}\."):
                learner.set_params(n_atoms=n_atoms).partial_fit(signals)

    def test_an_error_in_a_stream_changes_nothing(self, rng, monkeypatch):
        signals = rng.standard_normal((1000, 6))
        learner, whole = (sparsect.DictionaryLearner(8, sparsity=2) for _ in range(2))
        learner.partial_fit(signals[:300])
        with monkeypatch.context() as patched:
            patched.setattr("sparsect.dictionary.online.Online.replaced", lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                learner.partial_fit(signals[300:])
        np.testing.assert_allclose(
            learner.partial_fit(signals[300:]).components_, whole.partial_fit(signals).components_, atol=1e-9
        )

    def test_goes_on_from_what_fit_has_learned(self, rng):
        """The energy of what had been learned before used to be that of the signals of the first call."""
        truth = rng.standard_normal((12, 8))
        codes = np.where(rng.random((2000, 12)) < 0.15, rng.standard_normal((2000, 12)), 0)
        signals = codes @ truth + 0.1 * rng.standard_normal((2000, 8))
        learner = sparsect.DictionaryLearner(12, sparsity=2, rounds=8).fit(signals)
        before = learner.components_
        learner.partial_fit(1e-6 * signals[:10]).partial_fit(signals[:300])
        assert np.sum(learner.components_ * before, axis=1).min() > 0.99

    @pytest.mark.parametrize("stream", [False, True])
    def test_nonnegative(self, stream):
        digits = load_digits().data[:600]
        learner = sparsect.DictionaryLearner(
            30, sparsity=4, nonnegative_codes=True, nonnegative_atoms=True, rounds=4, random_state=1
        )
        learner = learner.partial_fit(digits) if stream else learner.fit(digits)
        codes = learner.transform(digits)
        assert learner.components_.min() >= 0
        assert codes.min() >= 0
        assert np.diff(codes.indptr).max() <= 4
        assert np.linalg.norm(learner.inverse_transform(codes) - digits) < 0.45 * np.linalg.norm(digits)

    def test_missing_entries(self):
        """Pixels that are missing from digits are restored better than by their means."""
        digits, lost = load_digits().data[:800], np.zeros((800, 64), dtype=bool)
        for part in range(8):
            lost[part::8, 8 * part + 2 : 8 * part + 6] = True
        X = np.where(lost, np.nan, digits)
        learner = sparsect.DictionaryLearner(40, sparsity=5, rounds=4, missing="nan").fit(X)
        restored = learner.inverse_transform(learner.transform(X))
        means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
        errors = [np.linalg.norm(guess[lost] - digits[lost]) for guess in (restored, means)]
        assert errors[0] < 0.7 * errors[1]
        with pytest.raises(InputError, match=r"missing='nan' if NaN stands for"):
            sparsect.DictionaryLearner(40).fit(X)
        # With a penalty, the atoms are nearly as good as those of complete digits.
        errors = []
        for given in (X, digits):
            penalized = sparsect.DictionaryLearner(40, sparsity=5, rounds=4, missing="nan", objective="lp").fit(given)
            errors.append(np.linalg.norm(penalized.inverse_transform(penalized.transform(digits)) - digits))
        assert errors[0] < 1.1 * errors[1]

    def test_clones(self):
        learner = sparsect.DictionaryLearner(7, coder=sparsect.ADMM(mu=1.0, lam=0.1), rounds=2)
        assert clone(learner).get_params() == learner.get_params()
