"""Regression on few features: scikit-learn's own checks, exhaustive search, and what users may pass."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import sparsect
from sparsect import InputError, SparseRegressor, SparseRegressorCV
from sparsect.estimators.subsets import NormalEquations, Subset, best_subsets, exchanged_in_pairs

pytestmark = pytest.mark.numerical


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        SparseRegressor(),
        SparseRegressor(2),
        SparseRegressor(joint=True),
        SparseRegressor(1, method="omp"),
        SparseRegressor(1, nonnegative=True, max_iter=10),
        SparseRegressorCV(),
        SparseRegressorCV([0, 1], rule="significant", joint=True),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    """Forty features, of which three matter, in very different units."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 40)) * 10.0 ** rng.integers(-6, 7, 40) + 5
    coef = np.zeros(40)
    coef[[3, 17, 30]] = np.array([2.0, -1.0, 1.5]) / X.std(axis=0)[[3, 17, 30]]
    return X, X @ coef + 7 + 0.3 * rng.standard_normal(100), coef


def least_residual(X, y, size):
    """The smallest sum of squares of any subset with an intercept."""

    def residual(support):
        model = LinearRegression().fit(X[:, support], y)
        return np.sum((y - model.predict(X[:, support])) ** 2)

    return min(residual(list(support)) for support in itertools.combinations(range(X.shape[1]), size))


class TestSubsets:
    def test_changes_are_those_of_fits(self, rng):
        X, Y = rng.standard_normal((30, 8)), rng.standard_normal((30, 2))
        equations, support = NormalEquations(X, Y), np.array([5, 1, 2])

        def residual(columns):
            return np.sum((Y - X[:, columns] @ np.linalg.lstsq(X[:, columns], Y)[0]) ** 2)

        subset = Subset.fitted(equations, support)
        np.testing.assert_allclose(subset.residual, residual(support))
        assert subset.residuals.shape == (2,)
        np.testing.assert_allclose(subset.coefficients.T, np.linalg.lstsq(X[:, support], Y)[0])
        for place in range(3):
            rest = np.delete(support, place)
            np.testing.assert_allclose(subset.loss[place], residual(rest) - subset.residual)
            for feature in (0, 3, 7):
                exchanged = subset.residual - residual(np.append(rest, feature))
                np.testing.assert_allclose(subset.exchange[place, feature], exchanged)
        np.testing.assert_allclose(subset.gain[4], subset.residual - residual(np.append(support, 4)))
        assert np.all(np.isneginf(subset.exchange[:, support]))

    def test_rows_are_computed_when_needed(self, rng):
        X = rng.standard_normal((30, 200))
        equations = NormalEquations(X, X[:, :1])
        np.testing.assert_allclose(equations.rows(np.array([7, 150])), X[:, [7, 150]].T @ X)
        np.testing.assert_allclose(equations.rows(np.array([3, 7]), rng.random(200)), X[:, [3, 7]].T @ X)
        assert 30 < equations.promising.size < 50

    def test_known_subsets_are_continued(self, rng):
        equations = NormalEquations(rng.standard_normal((60, 20)), rng.standard_normal((60, 1)))
        whole, part = best_subsets(equations, 8), best_subsets(equations, 4)
        continued = best_subsets(equations, 8, part)
        assert [subset.support.size for subset in continued] == list(range(9))
        np.testing.assert_allclose([s.residual for s in continued], [s.residual for s in whole], rtol=0.02)

    def test_powers_that_almost_depend_on_each_other(self, rng):
        for high in (1.1, 1.3, 1.6, 2.0):
            times = np.linspace(1, high, 300)
            X = times[:, None] ** np.arange(16)
            X /= np.linalg.norm(X, axis=0)
            y = np.sin(5 * times) + 1e-3 * rng.standard_normal(300)
            path = best_subsets(NormalEquations(X, y[:, None]), 12)
            residuals = [subset.residual for subset in path]
            assert residuals == sorted(residuals, reverse=True)
            fits = [X[:, subset.support] @ np.linalg.lstsq(X[:, subset.support], y)[0] for subset in path]
            np.testing.assert_allclose(residuals, [np.sum((y - fit) ** 2) for fit in fits], rtol=0.2)

    @pytest.mark.parametrize("targets", [1, 2])
    @pytest.mark.parametrize("alike", [False, True])
    def test_the_first_exact_fit_is_kept(self, targets, alike, rng):
        # As many features as samples fit anything, and rounding errors say which of them do so best.
        X, Y = rng.standard_normal((50, 200)), rng.standard_normal((50, targets))
        if alike:
            X[:, 100:] = X[:, :100] + 0.05 * X[:, 100:]
        path = best_subsets(NormalEquations(X, Y), 50)
        assert path[-1].residual == 0 < path[-2].residual
        assert np.abs(path[-1].coefficients).max() < 100
        np.testing.assert_allclose(path[-1].coefficients @ X[:, path[-1].support].T, Y.T, atol=1e-9)

    def test_subsets_of_dependent_features_have_no_fit(self, rng):
        X = rng.standard_normal((20, 4))
        X[:, 2], X[:, 3] = X[:, 0], X[:, 0] + X[:, 1] + 1e-6 * X[:, 3]
        equations = NormalEquations(X, X[:, :1])
        for dependent in ([0, 2], [0, 1, 3]):
            assert Subset.fitted(equations, np.array(dependent)) is None
        assert [subset.support.size for subset in best_subsets(equations, 4)] == [0, 1]

    def test_no_exchange_of_two_features_lowers_the_residual(self, rng):
        X = rng.standard_normal((40, 10)) + 3 * rng.standard_normal((40, 2)) @ rng.standard_normal((2, 10))
        Y = rng.standard_normal((40, 2))
        equations = NormalEquations(X, Y, ridge=0.1)
        start = Subset.fitted(equations, np.array([0, 1, 2, 3]))
        found = exchanged_in_pairs(equations, start)
        assert found.residual < start.residual
        for kept in itertools.combinations(found.support, 2):
            for pair in itertools.combinations(np.setdiff1d(np.arange(10), kept), 2):
                other = Subset.fitted(equations, np.array([*kept, *pair]))
                assert other.residual >= found.residual * (1 - 1e-8)


class TestSparseRegressor:
    @pytest.mark.parametrize("correlation", [0.0, 0.9])
    @pytest.mark.parametrize("size", [1, 3, 4])
    def test_finds_the_best_subset(self, rng, correlation, size):
        for _ in range(5):
            X = rng.standard_normal((40, 12)) + (correlation / (1 - correlation)) ** 0.5 * rng.standard_normal((40, 1))
            y = X[:, :3].sum(axis=1) + 2 * rng.standard_normal(40)
            model = SparseRegressor(size).fit(X, y)
            assert model.support_.sum() == size
            np.testing.assert_allclose(np.sum((y - model.predict(X)) ** 2), least_residual(X, y, size))

    def test_columns_of_any_scale(self, data):
        X, y, coef = data
        for model in (SparseRegressor(), SparseRegressor(3), SparseRegressorCV(rule="significant")):
            model.fit(X, y)
            np.testing.assert_array_equal(model.support_, coef != 0)
            scale = X[:, model.support_].std(axis=0)
            plain = LinearRegression().fit(X[:, model.support_] / scale, y)
            np.testing.assert_allclose(model.coef_[model.support_] * scale, plain.coef_)
            np.testing.assert_allclose(model.predict(X), plain.predict(X[:, model.support_] / scale), atol=1e-6)
            assert model.inclusion_probability_[model.support_].min() > 0.99
            assert model.inclusion_probability_[~model.support_].max() < 0.01

    def test_weights_are_repetitions(self, data, rng):
        X, y, _ = data
        weights = rng.integers(0, 4, 100)
        weighted = SparseRegressor(5).fit(X, y, weights)
        repeated = SparseRegressor(5).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
        np.testing.assert_allclose(weighted.coef_, repeated.coef_)
        np.testing.assert_allclose(weighted.intercept_, repeated.intercept_)

    def test_samples_without_weight_are_left_out(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((30, 3))
        y = X[:, 0] + 1
        X[0], y[0] = 1e14, -1e14
        weights = np.where(np.arange(30) == 0, 0.0, 1.0)
        for options in ({}, {"nonnegative": True}):
            model = SparseRegressor(1, **options).fit(X, y, weights)
            np.testing.assert_allclose(model.coef_, [1, 0, 0], atol=1e-9)
            assert model.intercept_ == pytest.approx(1)

    @pytest.mark.parametrize("options", [{"nonnegative": True}, {"groups": np.arange(30)}])
    def test_the_likeliest_number_with_constraints(self, options):
        wrong, found = 0, 0
        for seed in range(8):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((100, 30))
            y = X[:, :4] @ rng.uniform(0.5, 1.5, 4) + rng.standard_normal(100)
            support = SparseRegressor(**options).fit(X, y).support_
            wrong, found = wrong + support[4:].sum(), found + support[:4].sum()
        assert wrong <= 4
        assert found >= 30

    def test_no_number_is_likely_for_noise(self, rng):
        X, y = rng.standard_normal((60, 20)), rng.standard_normal((60, 4))
        assert SparseRegressor(nonnegative=True).fit(X, y).support_.sum() <= 1

    @pytest.mark.parametrize(("features", "relevant"), [(6, 5), (20, 19)])
    def test_most_features_matter(self, features, relevant):
        """There are few subsets of nearly all features, which is no reason to take all of them."""
        taken = 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((100, features))
            y = X[:, :relevant].sum(axis=1) + rng.standard_normal(100)
            taken += SparseRegressor().fit(X, y).support_[-1]
        assert taken <= 3

    def test_few_samples_are_not_fitted_exactly(self):
        """The criterion also falls where a subset fits the noise."""
        selected = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((10, 30))
            selected.append(SparseRegressor().fit(X, 2 * X[:, 0] + rng.standard_normal(10)).support_.sum())
        assert np.mean(selected) < 2

    @pytest.mark.parametrize("estimator", [SparseRegressor(), SparseRegressorCV()])
    def test_many_features_matter(self, estimator):
        """More than are tried at first; the error is that of least squares, not several times as large."""
        errors = []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            X, coef = rng.standard_normal((150, 60)), np.zeros(60)
            coef[:45] = rng.choice([-1, 1], 45) * rng.uniform(0.5, 1.5, 45)
            y = X @ coef + 0.3 * np.linalg.norm(coef) * rng.standard_normal(150)
            fits = estimator.fit(X, y).coef_, np.linalg.lstsq(X, y, rcond=None)[0]
            errors.append([np.sum((fit - coef) ** 2) for fit in fits])
        found, least_squares = np.mean(errors, axis=0)
        assert found < 1.3 * least_squares

    def test_relative_weights(self, data):
        X, y = data[:2]
        with pytest.warns(UserWarning, match="counts 100 samples as 1: if weights are relative, multiply them by 100"):
            SparseRegressor(5).fit(X, y, np.full(100, 0.01))
        with pytest.warns(UserWarning, match="as 2e[+]03: if weights are relative, multiply them by 0.05"):
            SparseRegressor(5).fit(X, y, np.full(100, 20.0))

    def test_several_targets(self):
        rng = np.random.default_rng(1)
        X = rng.standard_normal((80, 30))
        Y = np.stack([X[:, 1] + X[:, 2], 100 * (X[:, 2] - X[:, 9])], axis=1) + 0.1 * rng.standard_normal((80, 2))
        own, joint = SparseRegressor(2).fit(X, Y), SparseRegressor(3, joint=True).fit(X, Y)
        assert [np.flatnonzero(row).tolist() for row in own.support_] == [[1, 2], [2, 9]]
        assert [np.flatnonzero(row).tolist() for row in joint.support_] == [[1, 2, 9], [1, 2, 9]]
        assert own.predict(X).shape == (80, 2)
        np.testing.assert_allclose(own.coef_[1], SparseRegressor(2).fit(X, Y[:, 1]).coef_)
        assert np.flatnonzero(SparseRegressor(joint=True).fit(X, Y).support_[0]).tolist() == [1, 2, 9]

    def test_groups_and_bounds(self, rng):
        X, groups = rng.standard_normal((60, 20)), np.arange(20) // 4
        y = X[:, 4:8] @ [1.0, -2.0, 1.0, 0.5] + 0.1 * rng.standard_normal(60)
        model = SparseRegressor(1, groups=groups).fit(X, y)
        np.testing.assert_array_equal(model.support_, groups == 1)
        positive = SparseRegressor(2, nonnegative=True).fit(X, y)
        assert positive.coef_.min() >= 0
        assert positive.support_.sum() == 2

    @pytest.mark.parametrize("seed", [3, 8, 12, 17, 21])
    def test_best_nonnegative_subset_and_best_groups(self, seed):
        """Of features that resemble each other, beside all subsets."""
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 14)) + 0.4 * rng.standard_normal((40, 14))
        y = X[:, ::4] @ rng.choice([-1, 1, 1], 4) + rng.standard_normal(40) + 3
        centred, values, labels = X - X.mean(axis=0), y - y.mean(), np.arange(14) // 2
        least = min(nnls(centred[:, subset], values)[1] ** 2 for subset in itertools.combinations(range(14), 4))
        found = SparseRegressor(4, nonnegative=True).fit(X, y)
        assert np.sum((y - found.predict(X)) ** 2) == pytest.approx(least)
        pairs = (np.isin(labels, pair) for pair in itertools.combinations(range(7), 2))
        least = min(np.linalg.lstsq(centred[:, pair], values)[1][0] for pair in pairs)
        found = SparseRegressor(2, groups=labels).fit(X, y)
        assert np.sum((y - found.predict(X)) ** 2) == pytest.approx(least)

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_no_feature_explains_so_few_samples(self, count, rng):
        X, y = rng.standard_normal((count, 5)), rng.standard_normal(count)
        model = SparseRegressor().fit(X, y)
        assert not model.coef_.any()
        assert model.intercept_ == pytest.approx(y.mean())

    def test_a_method_of_recover(self, data):
        X, y, coef = data
        model = SparseRegressor(3, method=sparsect.SubspacePursuit()).fit(X, y)
        np.testing.assert_array_equal(model.support_, coef != 0)
        np.testing.assert_allclose(model.coef_, SparseRegressor(3).fit(X, y).coef_)
        assert model.inclusion_probability_ is None

    def test_fewer_samples_than_features(self, rng):
        X = rng.standard_normal((30, 500))
        y = 3 * X[:, 10] - 2 * X[:, 400]
        assert np.flatnonzero(SparseRegressor().fit(X, y).support_).tolist() == [10, 400]
        # An exact fit needs no further features.
        assert SparseRegressor(100).fit(X, y).support_.sum() == 2

    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("joint", [True, False])
    def test_as_many_features_as_samples(self, intercept, joint, rng):
        X = rng.standard_normal((12, 40))
        y = X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(12)
        model = SparseRegressor(12 - intercept, fit_intercept=intercept, joint=joint).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y)
        assert np.abs(model.coef_).max() < 3
        assert model.inclusion_probability_.max() < 0.5  # of many exact fits

    def test_degenerate_columns(self, rng):
        X = rng.standard_normal((50, 6))
        X[:, 1], X[:, 2] = 0.1, X[:, 0]
        y = 2 * X[:, 0] + X[:, 4] + 0.1 * rng.standard_normal(50)
        model = SparseRegressor(6).fit(X, y)
        assert not model.support_[1]
        assert model.support_[[0, 2]].sum() == 1
        both = SparseRegressor(2).fit(X, y).inclusion_probability_[[0, 2]]
        np.testing.assert_allclose(both, 0.5, atol=1e-6)
        constant = SparseRegressor().fit(X, np.full(50, 3.3))
        assert not constant.support_.any()
        np.testing.assert_allclose(constant.predict(X), 3.3)
        alone = SparseRegressor().fit(X[:, :1], y)
        np.testing.assert_allclose(alone.coef_, LinearRegression().fit(X[:, :1], y).coef_)
        assert SparseRegressor().fit(X[:, [1]], y).coef_.tolist() == [0.0]
        mean = SparseRegressor(0).fit(X, y)
        np.testing.assert_allclose(mean.predict(X), y.mean())

    def test_without_intercept(self, rng):
        X = rng.standard_normal((50, 10)) + 1
        y = X[:, 2] + 3 + rng.standard_normal(50)
        model = SparseRegressor(3, fit_intercept=False).fit(X, y)
        assert model.intercept_ == 0
        plain = LinearRegression(fit_intercept=False).fit(X[:, model.support_], y)
        np.testing.assert_allclose(model.coef_[model.support_], plain.coef_)

    def test_ridge(self, rng):
        X = rng.standard_normal((30, 6)) * [1, 5, 1, 1, 1, 1]
        y = X @ [1.0, 1.0, 0.1, 0.0, 0.0, 0.0] + rng.standard_normal(30)
        model = SparseRegressor(6, ridge=0.2).fit(X, y)
        scaler = StandardScaler().fit(X)
        plain = Ridge(0.2 * 30).fit(scaler.transform(X), y)
        np.testing.assert_allclose(model.coef_ * scaler.scale_, plain.coef_)
        np.testing.assert_allclose(model.intercept_ + model.coef_ @ scaler.mean_, plain.intercept_)
        few = SparseRegressor(2, ridge=0.2).fit(X, y)
        assert np.abs(few.coef_).sum() < np.abs(SparseRegressor(2).fit(X, y).coef_).sum()

    def test_single_precision_stays(self, data):
        X, y, _ = data
        model = SparseRegressor(3).fit(X.astype(np.float32), y.astype(np.float32))
        assert model.coef_.dtype == model.predict(X.astype(np.float32)).dtype == np.float32

    def test_in_scikit_learn(self, data):
        X, y, coef = data
        search = GridSearchCV(SparseRegressor(), {"sparsity": [1, 3, 8]}).fit(X, y)
        assert search.best_params_ == {"sparsity": 3}
        X = X / X.std(axis=0)
        pipeline = make_pipeline(PolynomialFeatures(2), StandardScaler(), SparseRegressor(3)).fit(X, y)
        assert pipeline.score(X, y) > 0.95
        selected = SelectFromModel(SparseRegressor(), threshold=1e-12).fit(X, y)
        np.testing.assert_array_equal(selected.get_support(), coef != 0)

    @pytest.mark.parametrize("estimator", [SparseRegressor(), SparseRegressorCV(range(5))])
    def test_codes_of_a_sparse_coder(self, estimator, rng):
        X = rng.standard_normal((80, 12))
        coder = sparsect.SparseCoder(sparsity=3)
        codes = coder.fit_transform(X)
        assert scipy.sparse.issparse(codes)
        y = 3 * codes[:, [5]].toarray().ravel() + 0.1 * rng.standard_normal(80)
        pipeline = make_pipeline(coder, estimator).fit(X, y)
        expected = clone(estimator).fit(codes.toarray(), y)
        np.testing.assert_array_equal(pipeline[-1].coef_, expected.coef_)
        np.testing.assert_array_equal(pipeline.predict(X), expected.predict(codes.toarray()))
        huge = scipy.sparse.csr_array((10**6, 10**7))
        with pytest.raises(InputError, match=r"`X` must fit into half of memory"):
            estimator.fit(huge, np.zeros(10**6))

    def test_data_frames(self, data):
        pandas = pytest.importorskip("pandas")
        X, y, _ = data
        frame = pandas.DataFrame(X, columns=[f"column {k}" for k in range(40)])
        model = SparseRegressor().fit(frame, pandas.Series(y))
        assert model.feature_names_in_[model.support_].tolist() == ["column 3", "column 17", "column 30"]
        selector = SelectFromModel(SparseRegressor(), threshold=1e-300).set_output(transform="pandas")
        assert list(selector.fit_transform(frame, y).columns) == ["column 3", "column 17", "column 30"]

    def test_errors(self, data):
        X, y, _ = data
        holes = X.copy()
        holes[3, 4] = np.nan
        with pytest.raises(InputError, match=r"X` must have finite entries only, got 1 entries that are NaN"):
            SparseRegressor().fit(holes, y)
        with pytest.raises(InputError, match=r"X` must have finite entries only"):
            SparseRegressor().fit(X, y).predict(holes)
        with pytest.raises(InputError, match=r"y` must have finite entries only"):
            SparseRegressor().fit(X, np.where(y > np.median(y), np.nan, y))
        with pytest.raises(InputError, match=r"sparsity` must be a whole number from 0 to 40, got 41"):
            SparseRegressor(41).fit(X, y)
        with pytest.raises(InputError, match=r"sparsity` must be a whole number or 'auto', got 'atuo'"):
            SparseRegressor("atuo").fit(X, y)
        with pytest.raises(InputError, match=r"method` must .*got 'opm'.*Did you mean 'omp'"):
            SparseRegressor(3, method="opm").fit(X, y)
        with pytest.raises(InputError, match=r"joint` must be left out, got a value together with nonnegative"):
            SparseRegressor(3, nonnegative=True, joint=True).fit(X, y)
        with pytest.raises(InputError, match=r"groups` must have one label for each of the 40"):
            SparseRegressor(1, groups=[0, 1]).fit(X, y)
        with pytest.raises(InputError, match=r"from 0 to 20, got 21. There are 20 groups."):
            SparseRegressor(21, groups=np.arange(40) // 2).fit(X, y)
        with pytest.raises(InputError, match=r"y` must have finite entries only, got 1 entries that are NaN"):
            SparseRegressor().fit(X, np.append(y[1:], np.nan).astype(object))
        with pytest.raises(InputError, match=r"y` must have real numbers only, got an array of dtype <U1"):
            SparseRegressor().fit(X, np.full(100, "a"))
        with pytest.raises(InputError, match=r"ridge` must be a number of at least 0, got True"):
            SparseRegressor(ridge=True).fit(X, y)
        with pytest.raises(InputError, match=r"max_iter` must be a whole number of at least 1, got -1"):
            SparseRegressor(max_iter=-1).fit(X, y)
        with pytest.raises(InputError, match=r"cv` must yield numbers of samples, got other ones"):
            SparseRegressorCV(cv=[([0, 1, 100], [3])]).fit(X, y)
        with pytest.raises(InputError, match=r"X` must be an array without masked entries"):
            SparseRegressor().fit(np.ma.masked_invalid(holes), y)


class TestSparseRegressorCV:
    def test_errors_are_those_of_the_folds(self, data):
        X, y, _ = data
        folds = KFold(4)
        model = SparseRegressorCV([0, 2, 3, 6], cv=folds).fit(X, y)
        found = model.cv_results_
        for fold, (train, test) in enumerate(folds.split(X)):
            for place, size in enumerate(found["sparsity"]):
                # Few exchanges lead to the same subsets here, with and without restarts.
                predicted = SparseRegressor(int(size)).fit(X[train], y[train]).predict(X[test])
                np.testing.assert_allclose(found[f"split{fold}_error"][place], np.mean((predicted - y[test]) ** 2))
        errors = np.array([found[f"split{fold}_error"] for fold in range(4)])
        np.testing.assert_allclose(found["mean_error"], errors.mean(axis=0))
        np.testing.assert_allclose(found["standard_error"], errors.std(axis=0, ddof=1) / 2)
        assert model.sparsity_ == found["sparsity"][np.argmin(found["mean_error"])]

    @pytest.mark.parametrize("rule", ["least", "one standard error", "significant"])
    def test_any_unit_of_the_targets(self, rule, rng):
        X = rng.standard_normal((60, 8))
        y = 1 + 2 * X[:, 1] - X[:, 4] + 0.1 * rng.standard_normal(60)
        one = SparseRegressorCV(rule=rule).fit(X, y)
        for unit in (1e-100, 1e78, 1e100):
            model = SparseRegressorCV(rule=rule).fit(X, unit * y)
            assert model.sparsity_ == one.sparsity_
            errors = model.cv_results_["mean_error"]
            np.testing.assert_allclose(errors / unit**2, one.cv_results_["mean_error"], rtol=1e-6)

    def test_path(self, data):
        X, y, _ = data
        model = SparseRegressorCV([4, 0, 3, 3]).fit(X, y)
        assert model.cv_results_["sparsity"].tolist() == [0, 3, 4]
        assert np.count_nonzero(model.path_, axis=1).tolist() == [0, 3, 4]
        np.testing.assert_allclose(model.path_[1], SparseRegressor(3).fit(X, y).coef_)

    def test_ridges(self, rng):
        X = rng.standard_normal((40, 30)) + rng.standard_normal((40, 1))
        y = X[:, :10].sum(axis=1) + 10 * rng.standard_normal(40)
        model = SparseRegressorCV(range(8), ridges=[0.0, 0.3]).fit(X, y)
        errors = [SparseRegressorCV(range(8), ridges=ridge).fit(X, y).cv_results_["mean_error"] for ridge in (0, 0.3)]
        assert model.ridge_ == (0.0, 0.3)[np.argmin(np.min(errors, axis=1))]
        np.testing.assert_allclose(model.cv_results_["mean_error"], errors[int(model.ridge_ > 0)])
        for wrong, got in ((None, "None"), ((-1,), "-1"), (np.array([-1]), "-1"), ("a", "'a'"), ((0.1, "a"), "'a'")):
            with pytest.raises(InputError, match=rf"`ridges` must be numbers of at least 0, got {got}\."):
                SparseRegressorCV(ridges=wrong).fit(X, y)
        with pytest.raises(InputError, match=r"ridges` must be 0, got 0.3 with a method of recover"):
            SparseRegressorCV(range(8), ridges=[0.3], method="omp").fit(X, y)

    @pytest.mark.parametrize("rule", ["one standard error", "significant"])
    def test_rules(self, rng, rule):
        saved = 0
        for _ in range(4):
            X = rng.standard_normal((60, 40))
            y = X[:, 0] + 0.3 * X[:, 1] + rng.standard_normal(60)
            least, fewer = (SparseRegressorCV(rule=each).fit(X, y) for each in ("least", rule))
            found = fewer.cv_results_
            best = np.argmin(found["mean_error"])
            more = found["standard_error"][best] if rule == "one standard error" else 2 * found["difference_error"]
            assert fewer.sparsity_ == found["sparsity"][found["mean_error"] <= found["mean_error"][best] + more].min()
            saved += least.sparsity_ - fewer.sparsity_
        assert saved > 0
        with pytest.raises(InputError, match="`rule` must be one of"):
            SparseRegressorCV(rule="one").fit(X, y)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_standard_errors_of_differences(self, data, rng, weighted):
        X, y, _ = data
        weights = rng.integers(1, 3, 100) if weighted else np.ones(100)
        found = SparseRegressorCV([1, 2, 3], cv=4).fit(X, y, weights).cv_results_
        excess = np.zeros((100, 3))
        for train, test in KFold(4).split(X):
            for place, size in enumerate((1, 2, 3)):
                predicted = SparseRegressor(size).fit(X[train], y[train], weights[train]).predict(X[test])
                excess[test, place] = weights[test] * (predicted - y[test]) ** 2
        excess -= excess[:, [np.argmin(found["mean_error"])]]
        # 25 samples of a fold are ten runs of two or three.
        runs = [run for fold in np.arange(100).reshape(4, 25) for run in np.split(fold, np.arange(1, 10) * 25 // 10)]
        sums, sizes = (np.array([array[run].sum(axis=0) for run in runs]) for array in (excess, weights))
        rests = sums - sizes[:, None] * sums.sum(axis=0) / sizes.sum()
        np.testing.assert_allclose(found["difference_error"], np.sqrt(40 / 39 * np.sum(rests**2, axis=0)) / sizes.sum())

    def test_folds_with_more_noise_do_not_hide_features(self, rng):
        X = rng.standard_normal((500, 30))
        y = X[:, 3] + 0.3 * X[:, 8] + np.repeat([0.2, 0.3, 0.5, 1.0, 3.0], 100) * rng.standard_normal(500)
        chosen = [SparseRegressorCV(rule=rule).fit(X, y) for rule in ("one standard error", "significant")]
        assert [np.flatnonzero(model.support_).tolist() for model in chosen] == [[], [3, 8]]

    def test_folds_without_weights(self, data):
        X, y = data[:2]
        weights = np.repeat([1.0, 0.0, 1.0], [40, 30, 30])
        halves = [(np.arange(40, 70), np.arange(40)), (np.arange(40), np.arange(70, 100))]
        fitted = SparseRegressorCV([1, 2, 3], cv=halves).fit(X, y, weights)
        assert "split0_error" in fitted.cv_results_
        assert "split1_error" not in fitted.cv_results_
        with pytest.raises(InputError, match="`sample_weight` must be positive for some of both, got only zeros"):
            SparseRegressorCV([1, 2, 3], cv=halves[:1]).fit(X, y, weights)
        with pytest.raises(InputError, match="`cv` must yield some of both, got no fold with training"):
            SparseRegressorCV([1, 2, 3], cv=[]).fit(X, y)
        with pytest.raises(InputError, match="`ridges` must have at least one number"):
            SparseRegressorCV([1, 2, 3], ridges=[]).fit(X, y)

    def test_samples_without_weight_are_left_out_of_folds(self):
        rng = np.random.default_rng(2)
        X = rng.standard_normal((90, 6))
        y, weights = X[:, 0] + 0.35 * X[:, 1] + rng.standard_normal(90), (np.arange(90) % 9 > 4) * 1.0
        kept, splits = np.flatnonzero(weights), list(KFold(5).split(X))
        fewer = [[np.flatnonzero(np.isin(kept, part)) for part in split] for split in splits]
        with_zeros = SparseRegressorCV(rule="significant", cv=splits).fit(X, y, weights)
        without = SparseRegressorCV(rule="significant", cv=fewer).fit(X[kept], y[kept])
        for name in ("mean_error", "difference_error"):
            np.testing.assert_allclose(with_zeros.cv_results_[name], without.cv_results_[name])
        np.testing.assert_allclose(with_zeros.coef_, without.coef_, atol=1e-12)

    @pytest.mark.filterwarnings("ignore:`sample_weight` counts")
    def test_sizes_do_not_depend_on_the_unit_of_weights(self, data, rng):
        X, y, _ = data
        weights = rng.random(100) * (np.arange(100) % 10 > 0)
        found = [SparseRegressorCV().fit(X, y, unit * weights) for unit in (1e-6, 1 / weights.sum(), 1, 1e6)]
        assert {model.sparsity_ for model in found} == {3}
        assert {tuple(model.cv_results_["sparsity"]) for model in found} == {tuple(range(found[0].path_.shape[0]))}

    def test_sizes_that_interpolate(self, rng):
        X = rng.standard_normal((12, 40))
        y = X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(12)
        assert SparseRegressorCV(range(21)).fit(X, y).cv_results_["mean_error"].max() < 10 * np.var(y)

    def test_several_targets_and_methods(self, rng):
        X = rng.standard_normal((60, 10))
        Y = X[:, [1, 2]] + 0.1 * rng.standard_normal((60, 2))
        model = SparseRegressorCV([0, 1, 2], joint=True, cv=TimeSeriesSplit(3)).fit(X, Y)
        assert model.sparsity_ == 2
        assert model.path_.shape == (3, 2, 10)
        again = SparseRegressorCV([0, 1, 2], method="omp", cv=3, rule="one standard error").fit(X, Y)
        assert again.sparsity_ == 1
        groups = SparseRegressorCV([0, 1, 2], groups=np.arange(10) // 2, cv=3, max_iter=50).fit(X, Y[:, 0])
        assert groups.support_[:2].all()

    def test_units_of_several_targets(self, rng):
        X = rng.standard_normal((150, 40))
        Y = np.stack([X[:, 0], X[:, 1:11].sum(axis=1)], axis=1) + 0.5 * rng.standard_normal((150, 2))
        sizes = {SparseRegressorCV().fit(X, Y * [unit, 1]).sparsity_ for unit in (1e-3, 1, 1e3)}
        assert len(sizes) == 1

    def test_plot(self, data):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("agg")
        X, y, _ = data
        figure = SparseRegressorCV(range(6)).fit(X, y).plot()
        assert [axes.get_xlabel() for axes in figure.axes] == ["number of features"] * 2
        assert "x17" in [text.get_text() for text in figure.axes[1].texts]
        names = [f"feature {k}" for k in range(40)]
        assert SparseRegressorCV(range(4)).fit(X, y).plot(figure.axes, names) is figure
        assert "feature 17" in [text.get_text() for text in figure.axes[1].texts]
        with pytest.raises(InputError, match=r"names` must have one for each of 40 features, got 1 names"):
            SparseRegressorCV(range(4)).fit(X, y).plot(names=["a"])
        with pytest.raises(InputError, match=r"axes` must be two axes"):
            SparseRegressorCV(range(4)).fit(X, y).plot(figure.axes[0])
        grouped = SparseRegressorCV(range(3), groups=np.arange(40) // 2, max_iter=10).fit(X, y).plot()
        assert [axes.get_xlabel() for axes in grouped.axes] == ["number of groups"] * 2
        matplotlib.pyplot.close("all")

    def test_sizes(self, data):
        X, y, _ = data
        with pytest.raises(InputError, match=r"sizes` must be a list of whole numbers, got an object of type int"):
            SparseRegressorCV(3).fit(X, y)
        with pytest.raises(InputError, match=r"sizes` must be a whole number from 0 to 40, got 99"):
            SparseRegressorCV([3, 99]).fit(X, y)
