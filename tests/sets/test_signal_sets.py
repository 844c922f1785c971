"""The sets of signals: exact projections, and recovery with every set, by every method that takes it."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator

import sparsect
from sparsect import InputError, recover, sets
from sparsect.operators import polishing
from sparsect.operators.least_squares import refit

pytestmark = pytest.mark.numerical
N = 6
LABELS = np.array([0, 1, 1, 0, 2, 2])
# Each set with the supports that it allows, and its bounds.
SETS = {
    "nonnegative": (sets.Sparse(2, nonnegative=True), lambda kept: len(kept) <= 2, (0.0, np.inf)),
    "bounded": (sets.Sparse(3, low=-0.5, high=1.0), lambda kept: len(kept) <= 3, (-0.5, 1.0)),
    "groups": (sets.GroupSparse(1, LABELS), lambda kept: len({LABELS[j] for j in kept}) <= 1, (-np.inf, np.inf)),
    "joint": (sets.JointSparse(1, times=2), lambda kept: len({j % 3 for j in kept}) <= 1, (-np.inf, np.inf)),
    "levels": (
        sets.LevelSparse([1, 0, 2], LABELS),
        lambda kept: all(sum(LABELS[j] == level for j in kept) <= most for level, most in enumerate([1, 0, 2])),
        (-np.inf, np.inf),
    ),
}


class TestProjections:
    @pytest.mark.parametrize("name", SETS)
    @given(values=st.lists(st.integers(-3, 3).map(lambda value: value / 2), min_size=N, max_size=N))
    def test_no_point_of_the_set_is_nearer(self, name, values):
        chosen, allows, (low, high) = SETS[name]
        x = np.array(values)
        point = chosen.project(x)
        assert allows(np.flatnonzero(point).tolist())
        assert ((point >= low) & (point <= high)).all()
        np.testing.assert_array_equal(chosen.project(point), point)
        for size in range(N + 1):
            for kept in itertools.combinations(range(N), size):
                if allows(kept):
                    candidate = np.zeros(N)
                    candidate[list(kept)] = np.clip(x[list(kept)], low, high)
                    assert np.linalg.norm(x - point) <= np.linalg.norm(x - candidate) + 1e-12

    def test_ties_go_to_the_first_units(self):
        np.testing.assert_array_equal(sets.GroupSparse(1, [0, 1, 0, 1]).project([1.0, 1.0, -1.0, 1.0]), [1, 0, -1, 0])
        np.testing.assert_array_equal(sets.Sparse(1, nonnegative=True).project([-2.0, 1.0, 1.0]), [0, 1, 0])
        np.testing.assert_array_equal(
            sets.LevelSparse([1, 1], [0, 1, 0, 1]).project([1.0, 2.0, 1.0, 2.0]), [1, 2, 0, 0]
        )

    def test_nothing_positive(self):
        np.testing.assert_array_equal(sets.Sparse(2, nonnegative=True).project([-1.0, -2.0, -3.0]), np.zeros(3))

    def test_groups_of_any_scale(self):
        chosen, x = sets.GroupSparse(1, [0, 0, 1, 1]), np.array([3.0, 1.0, 2.0, -5.0])
        for scale in (1e-200, 1.0, 1e200):
            np.testing.assert_array_equal(chosen.project(scale * x), scale * np.array([0, 0, 2, -5]))

    @pytest.mark.parametrize("scale", [1e200, 1e-200, 1.0])
    def test_bounds_of_any_scale(self, scale):
        point = sets.Sparse(1, low=-scale, high=scale).project(scale * np.array([3.0, 2.0, -5.0]))
        np.testing.assert_array_equal(point, [0.0, 0.0, -scale])

    def test_joint_signals_have_times(self):
        x = np.array([[1.0, 2.0, 2.0], [0.0, 2.0, 0.0]])
        expected = np.array([[0, 2, 0], [0, 2, 0]])
        np.testing.assert_array_equal(sets.JointSparse(1).project(x), expected)
        np.testing.assert_array_equal(sets.JointSparse(1, times=2).project(x.ravel()), expected.ravel())

    def test_labels_are_copied(self):
        labels = np.array([0, 0, 1, 1])
        chosen = sets.GroupSparse(1, labels)
        labels[:] = 0
        np.testing.assert_array_equal(chosen.groups, [0, 0, 1, 1])

    def test_infinite_bounds_are_none(self):
        assert sets.Sparse(2, low=np.float32(-np.inf), high=np.inf).structure(5).plain
        np.testing.assert_array_equal(sets.Sparse(1, low=-np.inf, high=np.inf).project([-3.0, 2.0]), [-3, 0])

    def test_complex_groups(self):
        x = np.array([3j, 1.0, 0.0, 4.0])
        np.testing.assert_array_equal(sets.GroupSparse(1, [0, 0, 1, 1]).project(x), [0, 0, 0, 4])


def signals(rng, kind, batch=4, m=80, n=160):
    """Measurements of signals of a kind, with little noise: set, Phi, y and x."""
    Phi = rng.standard_normal((m, n)) / np.sqrt(m)
    x = np.zeros((batch, n))
    labels = rng.permutation(n) // 4
    chosen = {
        "nonnegative": sets.Sparse(8, nonnegative=True),
        "bounded": sets.Sparse(8, low=-0.5, high=1.0),
        "groups": sets.GroupSparse(3, labels),
        "levels": sets.LevelSparse([3, 5], np.arange(n) % 2),
    }[kind]
    for row in x:
        if kind == "groups":
            row[np.isin(labels, rng.choice(n // 4, 3, replace=False))] = rng.standard_normal(12)
        elif kind == "levels":
            row[2 * rng.choice(n // 2, 3, replace=False)] = rng.standard_normal(3) + 2
            row[2 * rng.choice(n // 2, 5, replace=False) + 1] = rng.standard_normal(5) - 2
        else:
            row[rng.choice(n, 8, replace=False)] = rng.uniform(-0.5 if kind == "bounded" else 0.3, 1.0, 8)
    y = x @ Phi.T
    return chosen, Phi, y + 1e-3 * rng.standard_normal(y.shape), x


TAKEN = {
    "nonnegative": {"admm", "aiht", "alternating-map", "annealed-difference-map", "auto", "difference-map", "niht"}
    | {"omp", "ormp", "subspace-pursuit", "vamp"},
}
TAKEN["bounded"] = TAKEN["groups"] = TAKEN["nonnegative"]
TAKEN["levels"] = TAKEN["nonnegative"] - {"admm", "omp", "ormp"}


GROUPS_OF_THREE = sets.GroupSparse("auto", np.arange(60) // 3)


class TestRecovery:
    @pytest.mark.parametrize("method", sorted(TAKEN["nonnegative"] - {"admm"}))
    @pytest.mark.parametrize("kind", TAKEN)
    def test_methods_find_the_signal(self, rng, kind, method):
        if method not in TAKEN[kind]:
            return
        chosen, Phi, y, x = signals(rng, kind)
        result = recover(Phi, y, chosen, method, refit=True)
        assert sparsect.snr_db(x, result.x).min() > 30
        np.testing.assert_allclose(chosen.project(result.x), result.x, atol=1e-12)

    @pytest.mark.parametrize("kind", TAKEN)
    def test_others_refuse_by_name(self, rng, kind):
        chosen, Phi, y, _ = signals(rng, kind)
        for method in set(sparsect.METHODS) - TAKEN[kind]:
            with pytest.raises(InputError, match=f"one of auto, .*got '{method}', which does not take"):
                recover(Phi, y, chosen, method)

    def test_a_single_time_is_joint_too(self, rng):
        Phi, y = rng.standard_normal((20, 30)), rng.standard_normal((1, 20))
        with pytest.raises(InputError, match="got 'lars', which does not take groups or joint supports"):
            recover(Phi, y, sets.JointSparse(3), "lars")

    @pytest.mark.parametrize("kind", ["nonnegative", "groups"])
    def test_admm_with_a_small_penalty(self, rng, kind):
        chosen, Phi, y, x = signals(rng, kind)
        result = recover(Phi, y, chosen, sparsect.ADMM(lam=0.01), refit=True)
        assert sparsect.snr_db(x, result.x).min() > 30

    @pytest.mark.parametrize("kind", TAKEN)
    @pytest.mark.parametrize("method", ["auto", "difference-map", sparsect.Automatic("approximation")])
    def test_a_row_alone_gives_the_same(self, rng, kind, method):
        chosen, Phi, y, _ = signals(rng, kind)
        together = recover(Phi, y, chosen, method, max_iter=200, check_fit=False)
        alone = recover(Phi, y[2], chosen, method, max_iter=200, check_fit=False)
        np.testing.assert_allclose(alone.x, together.x[2], atol=1e-6)

    @pytest.mark.parametrize("kind", TAKEN)
    def test_columns_of_other_norms_and_float32(self, rng, kind):
        chosen, Phi, y, x = signals(rng, kind)
        norms = 10 ** rng.uniform(-1, 1, Phi.shape[1])
        if kind == "bounded":
            norms = 1.0
        result = recover((Phi * norms).astype(np.float32), y.astype(np.float32), chosen)
        assert result.x.dtype == np.float32
        assert sparsect.snr_db(x, result.x * norms).min() > 30

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("options", [{}, {"refit": True}, {"polish": True}, {"method": "subspace-pursuit"}])
    def test_bounds_hold_exactly(self, rng, dtype, options):
        Phi, x = rng.standard_normal((20, 40)), np.zeros((100, 40))
        for row in x:
            row[rng.choice(40, 5, replace=False)] = rng.choice([0.7, -0.3], 5)
        y = x @ Phi.T + 0.05 * rng.standard_normal((100, 20))
        chosen = sets.Sparse(5, low=-0.3, high=0.7)
        found = recover(Phi.astype(dtype), y.astype(dtype), chosen, check_fit=False, **options).x
        assert ((found >= dtype(-0.3)) & (found <= dtype(0.7))).all()
        assert (found == dtype(0.7)).any()

    @pytest.mark.parametrize("method", ["omp", "ormp", "auto"])
    def test_small_rows_beside_large_ones_within_bounds(self, rng, method):
        Phi, x = rng.standard_normal((30, 60)), np.zeros((2, 60))
        x[:, [3, 9, 40]] = [1.0, 2.0, 1.5]
        y = x @ Phi.T * np.array([[1.0], [1e-18]])
        found = recover(Phi, y, sets.Sparse(3, low=-5.0, high=5.0), method).x
        np.testing.assert_allclose(found[1] * 1e18, x[1], atol=1e-6)

    @pytest.mark.parametrize("method", ["annealed-difference-map", "difference-map", "auto"])
    def test_columns_of_zeros_in_groups(self, rng, method):
        Phi, x = rng.standard_normal((30, 60)), np.zeros(60)
        x[[3, 4, 30]], Phi[:, [5, 31]] = 1, 0
        found = recover(Phi, Phi @ x, sets.GroupSparse(2, groups=np.arange(60) // 3), method)
        assert not found.support[[5, 31]].any()
        assert found.support[[3, 4, 30]].all()

    @pytest.mark.parametrize("size", [0, sets.GroupSparse(0, np.arange(40) // 2)])
    def test_no_nonzeros_of_complex_data(self, rng, size):
        Phi = rng.standard_normal((20, 40)) * np.complex64(1 + 1j)
        assert recover(Phi.astype(np.complex64), Phi[:, 0].astype(np.complex64), size, check_fit=False).x.dtype == "c8"

    def test_the_constraint_helps(self):
        problem = sparsect.random_problem(100, 250, 55, batch=20, rng=3)
        x = np.abs(problem.x)
        y = x @ problem.Phi.T
        plain = recover(problem.Phi, y, 55, check_fit=False)
        nonnegative = recover(problem.Phi, y, sets.Sparse(55, nonnegative=True))
        assert sparsect.snr_db(x, nonnegative.x).mean() > sparsect.snr_db(x, plain.x).mean() + 20

    @pytest.mark.parametrize("method", ["auto", "annealed-difference-map", "vamp"])
    def test_levels_have_densities_and_sizes_of_their_own(self, method):
        """The prior of the posterior mean is learned for each level."""
        rng = np.random.default_rng(5)
        Phi, levels = rng.standard_normal((100, 300)) / 10, rng.permutation(np.repeat([0, 1, 2], [20, 180, 100]))
        x = np.zeros((20, 300))
        for row in x:
            for level, count, size in ((0, 10, 10.0), (1, 15, 1.0)):
                row[rng.choice(np.flatnonzero(levels == level), count, replace=False)] = size * rng.standard_normal(
                    count
                )
        y = x @ Phi.T
        y += 10 ** (-25 / 20) * np.linalg.norm(y, axis=1, keepdims=True) / 10 * rng.standard_normal(y.shape)
        with_levels = recover(Phi, y, sets.LevelSparse([10, 15, 0], levels), method, check_fit=False)
        without = recover(Phi, y, 25, method, check_fit=False)
        snr = [sparsect.snr_db(x, result.x).mean() for result in (with_levels, without)]
        assert snr[0] > snr[1] + 0.5
        assert not with_levels.x[:, levels == 2].any()
        if with_levels.inclusion_probability is not None:
            expected = [with_levels.inclusion_probability[:, levels == level].sum(axis=1) for level in range(3)]
            np.testing.assert_allclose(np.mean(expected, axis=1), [10, 15, 0], atol=0.2)

    @pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0)])
    def test_values_at_the_bounds_are_recognized(self, low, high):
        """Such as 0 and 1: the posterior mean is at the bound, and not only clipped."""
        rng = np.random.default_rng(2)
        Phi, x = rng.standard_normal((100, 250)), np.zeros((10, 250))
        for row in x:
            row[rng.choice(250, 20, replace=False)] = rng.choice([low or 1.0, high], 20)
        y = x @ Phi.T
        y += 10 ** (-15 / 20) * np.linalg.norm(y, axis=1, keepdims=True) / 10 * rng.standard_normal(y.shape)
        bounded = recover(Phi, y, sets.Sparse(20, low=low, high=high), check_fit=False)
        plain = np.clip(recover(Phi, y, sets.Sparse(20, nonnegative=low == 0), check_fit=False).x, low, high)
        assert sparsect.snr_db(x, bounded.x).mean() > sparsect.snr_db(x, plain).mean() + 10

    def test_levels_whose_number_is_learned(self, rng):
        chosen, Phi, y, x = signals(rng, "levels")
        result = recover(Phi, y, chosen, sparsect.AnnealedDifferenceMap(learn_sparsity=True))
        np.testing.assert_array_equal(result.support, x != 0)

    def test_matrix_free(self, rng):
        chosen, Phi, y, x = signals(rng, "nonnegative")
        result = recover(aslinearoperator(Phi), y, chosen, refit=True)
        assert sparsect.snr_db(x, result.x).min() > 30
        assert result.x.min() >= 0

    def test_probabilities_of_a_group_are_equal(self, rng):
        chosen, Phi, y, _ = signals(rng, "groups")
        y = y + 0.3 * rng.standard_normal(y.shape)
        result = recover(Phi, y, chosen)
        for label in range(40):
            part = result.inclusion_probability[:, chosen.groups == label]
            np.testing.assert_allclose(part, part[:, :1] + 0 * part, atol=1e-12)


class TestJoint:
    @pytest.fixture
    def data(self, rng):
        Phi = rng.standard_normal((30, 90)) / np.sqrt(30)
        x = np.zeros((3, 5, 90))
        for signal in x:
            signal[:, rng.choice(90, 6, replace=False)] = rng.standard_normal((5, 6))
        return Phi, x @ Phi.T + 1e-3 * rng.standard_normal((3, 5, 30)), x

    @pytest.mark.parametrize("method", ["auto", "difference-map", "alternating-map", "omp", "niht", "vamp"])
    def test_one_support_for_all_times(self, data, method):
        Phi, y, x = data
        result = recover(Phi, y, sets.JointSparse(6), method, refit=True)
        assert result.x.shape == x.shape
        assert result.residual_norm.shape == (3,)
        np.testing.assert_array_equal(result.support, x != 0)

    def test_a_single_signal(self, data):
        Phi, y, x = data
        result = recover(Phi, y[1], sets.JointSparse(6))
        np.testing.assert_array_equal(result.support, x[1] != 0)
        assert np.ndim(result.residual_norm) == 0

    def test_one_time_is_the_plain_problem(self, data):
        Phi, y, _ = data
        joint, plain = recover(Phi, y[:, :1], sets.JointSparse(3)), recover(Phi, y[:, 0], 3)
        np.testing.assert_array_equal(joint.x[:, 0], plain.x)

    def test_saved_and_loaded(self, data, tmp_path):
        Phi, y, _ = data
        result = recover(Phi, y, sets.JointSparse(6))
        result.save(tmp_path / "joint.npz")
        np.testing.assert_array_equal(sparsect.load_result(tmp_path / "joint.npz").x, result.x)

    def test_resumed(self, data, tmp_path):
        Phi, y, _ = data
        options = {"sparsity": sets.JointSparse(6), "method": "difference-map", "tol": 0.0}
        recover(Phi, y, checkpoint=tmp_path / "run.npz", max_iter=20, check_fit=False, **options)
        resumed = recover(Phi, y, checkpoint=tmp_path / "run.npz", max_iter=50, **options)
        np.testing.assert_array_equal(resumed.x, recover(Phi, y, max_iter=50, **options).x)
        with pytest.raises(InputError, match="another run"):
            recover(Phi, y, sets.JointSparse(7), "difference-map", tol=0.0, checkpoint=tmp_path / "run.npz")

    @pytest.mark.parametrize("shape", [(30,), (3, 5, 31), (0, 30), (3, 0, 30)])
    def test_shapes(self, data, shape):
        with pytest.raises(InputError, match=r"have shape \(times, 30\) or \(batch, times, 30\)"):
            recover(data[0], np.ones(shape), sets.JointSparse(6))


@pytest.mark.parametrize("size", [8, "auto"])
@pytest.mark.parametrize("method", ["auto", "annealed-difference-map"])
def test_nonpositive_is_the_mirror_image_of_nonnegative(rng, size, method):
    _, Phi, y, _ = signals(rng, "nonnegative")
    above = recover(Phi, y, sets.Sparse(size, low=0), method, polish=True)
    below = recover(Phi, -y, sets.Sparse(size, high=0), method, polish=True)
    np.testing.assert_array_equal(below.x, -above.x)
    assert not np.signbit(below.x[below.x == 0]).any()
    np.testing.assert_array_equal(below.standard_deviation, above.standard_deviation)
    np.testing.assert_array_equal(below.inclusion_probability, above.inclusion_probability)
    np.testing.assert_allclose(below.residual_norm, np.linalg.norm(below.x @ Phi.T + y, axis=1), atol=1e-9)


class TestUnknownSize:
    def test_noise_has_no_groups(self, rng):
        """One of 20 groups explains some of the noise, but not more than chance does."""
        with pytest.warns(sparsect.PoorFitWarning, match="stand out from the noise"):
            result = recover(rng.standard_normal((40, 60)), rng.standard_normal((30, 40)), GROUPS_OF_THREE)
        assert np.mean(result.support.any(axis=1)) < 0.2

    @pytest.mark.parametrize("noise", [0.0, 1e-3])
    def test_many_small_groups_beside_large_ones(self, rng, noise):
        Phi, labels = rng.standard_normal((40, 80)), np.r_[np.zeros(60, dtype=int), np.arange(1, 21)]
        x = np.zeros(80)
        x[60:68] = [1, -2, 1.5, 3, -1, 2, 1, -1.5]
        result = recover(Phi, Phi @ x + noise * rng.standard_normal(40), sets.GroupSparse("auto", labels))
        np.testing.assert_array_equal(result.support, x != 0)

    def test_groups_of_one_entry_are_entries(self, rng):
        Phi, x = rng.standard_normal((40, 80)), np.zeros((10, 80))
        for row in x:
            row[rng.choice(80, 10, replace=False)] = rng.standard_normal(10)
        result = recover(Phi, x @ Phi.T, sets.GroupSparse("auto", rng.permutation(80)))
        np.testing.assert_array_equal(result.x, recover(Phi, x @ Phi.T, "auto").x)

    def test_positive_features_keep_their_number(self, rng):
        """Polishing adds no nonzeros: the number is learned, not given."""
        Phi, y = rng.standard_normal((100, 50)), rng.standard_normal((10, 100))
        options = {"check_fit": False, "refit": True}
        plain, polished = (
            recover(Phi, y, sets.Sparse("auto", nonnegative=True), polish=flag, **options) for flag in (False, True)
        )
        np.testing.assert_array_equal(polished.support.sum(axis=1), plain.support.sum(axis=1))

    def test_the_number_is_found(self, rng):
        for kind, sized in (("nonnegative", lambda c: sets.Sparse("auto", nonnegative=True)),
                            ("groups", lambda c: sets.GroupSparse("auto", c.groups))):  # fmt: skip
            chosen, Phi, y, x = signals(rng, kind)
            for noise_norm in (None, 1.2e-3 * np.sqrt(80)):
                result = recover(Phi, y, sized(chosen), noise_norm=noise_norm)
                assert result.sparsity == "auto"
                np.testing.assert_array_equal(result.support, x != 0)

    def test_joint(self, rng):
        Phi = rng.standard_normal((30, 90))
        x = np.zeros((2, 4, 90))
        x[:, :, [3, 50, 71]] = rng.standard_normal((2, 4, 3)) + 2
        y = x @ Phi.T + 0.1 * rng.standard_normal((2, 4, 30))
        np.testing.assert_array_equal(recover(Phi, y, sets.JointSparse("auto")).support, x != 0)

    @pytest.mark.parametrize("rho", [0.0, 0.9])
    def test_groups_of_any_sizes(self, rng, rho):
        """Neither many small groups nor a large one whose entries are zero change the number."""
        labels = np.concatenate([np.zeros(40, int), 1 + np.arange(48), 49 + np.arange(72) // 6])
        Phi = rng.standard_normal((80, 160))
        for j in range(1, 160):
            Phi[:, j] = rho * Phi[:, j - 1] + np.sqrt(1 - rho**2) * Phi[:, j]
        x = np.isin(labels, [5, 17, 50, 55]) * rng.choice([-1.0, 1.0], (6, 160)) * rng.uniform(1, 2, (6, 160))
        y = x @ Phi.T + 0.01 * rng.standard_normal((6, 80))
        np.testing.assert_array_equal(recover(Phi, y, sets.GroupSparse("auto", labels)).support, x != 0)

    @pytest.mark.parametrize(("scale", "dtype"), [(1e160, np.float64), (1e20, np.float32), (1e-15, np.float32)])
    def test_units_do_not_matter(self, rng, scale, dtype):
        chosen, Phi, y, x = signals(rng, "groups")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = recover(Phi.astype(dtype), (scale * y).astype(dtype), sets.GroupSparse("auto", chosen.groups))
        np.testing.assert_array_equal(result.support, x != 0)


class TestBoundedFit:
    @pytest.mark.parametrize("chosen", [sets.Sparse(9, nonnegative=True), sets.Sparse(9, low=-0.1, high=0.2)])
    @pytest.mark.parametrize("rank", [30, 5])
    def test_no_fit_within_the_bounds_is_better(self, rng, chosen, rank):
        Phi = rng.standard_normal((30, rank)) @ rng.standard_normal((rank, 40))
        y, structure = rng.standard_normal((6, 30)), chosen.structure(40)
        x = np.zeros((6, 40))
        for row in x:
            row[rng.choice(40, 9, replace=False)] = rng.standard_normal(9)
        x = structure.clipped(x)
        fitted = refit(sparsect.as_operator(Phi), y, x, structure)
        other = refit(sparsect.as_operator(aslinearoperator(Phi)), y, x, structure)
        np.testing.assert_array_equal(structure.clipped(fitted), fitted)
        for row in range(6):
            kept = x[row] != 0
            best = optimize.lsq_linear(Phi[:, kept], y[row], (structure.low[0], structure.high[0]), tol=1e-12)
            least = np.linalg.norm(best.fun)
            assert not fitted[row][~kept].any()
            assert np.linalg.norm(Phi @ fitted[row] - y[row]) <= least * (1 + 1e-7)
            assert np.linalg.norm(Phi @ other[row] - y[row]) <= least * (1 + 1e-3)

    def test_columns_that_cancel_each_other(self):
        """The sum of the columns is the direction in which Phi is weakest."""
        Phi = np.array([[1.0, -0.6], [0.0, 0.8], [0.0, 0.0]])
        structure = sets.Sparse(2, nonnegative=True).structure(2)
        for operator in (Phi, aslinearoperator(Phi)):
            fitted = refit(sparsect.as_operator(operator), (Phi @ [1.0, 2.0])[None], np.full((1, 2), 0.5), structure)
            np.testing.assert_allclose(fitted, [[1, 2]], atol=1e-6)

    def test_greedy_selection_keeps_columns_whose_fit_is_zero_for_now(self):
        """Nonnegative OMP fits all selected columns each time."""
        for seed in range(40):
            rng = np.random.default_rng(seed)
            Phi, y = rng.standard_normal((10, 15)), rng.standard_normal(10)
            Phi /= np.linalg.norm(Phi, axis=0)
            selected, rest = [], y
            for _ in range(8):
                correlation = Phi.T @ rest
                correlation[selected] = 0
                if correlation.max() <= 1e-12:
                    break
                selected.append(int(np.argmax(correlation)))
                values, left = optimize.nnls(Phi[:, selected], y)
                rest = y - Phi[:, selected] @ values
            found = recover(Phi, y, sets.Sparse(8, nonnegative=True), "omp", check_fit=False)
            assert found.residual_norm <= left * (1 + 1e-6)


class Ordered:
    """A set of one's own: at most three nonzeros, all of them equal."""

    size = 3

    def project(self, x):
        order = np.argsort(-np.abs(x), axis=1)[:, :3]
        values = np.take_along_axis(x, order, axis=1)
        point = np.zeros_like(x)
        np.put_along_axis(point, order, np.repeat(values.mean(axis=1, keepdims=True), 3, axis=1), axis=1)
        return point


class FourierModulus:
    """A data set of one's own: signals whose Fourier transforms have the magnitudes y."""

    def project(self, x, y):
        return np.fft.ifft(y * np.exp(1j * np.angle(np.fft.fft(x)))).real


class TestSetsOfOnesOwn:
    @pytest.mark.parametrize("method", ["auto", "annealed-difference-map", "difference-map", "alternating-map"])
    def test_a_set_of_signals(self, rng, method):
        Phi, x = rng.standard_normal((20, 40)), np.zeros((3, 40))
        x[:, [4, 11, 30]] = 2.0
        result = recover(Phi, x @ Phi.T, Ordered(), method)
        np.testing.assert_allclose(result.x, x, atol=1e-3)

    def test_phase_retrieval(self):
        rng = np.random.default_rng(0)
        x = np.zeros((4, 64))
        for row in x:
            row[rng.choice(32, 6, replace=False)] = rng.random(6) + 0.5
        y = np.abs(np.fft.fft(x))
        method = sparsect.DifferenceMap(beta=0.7)
        result = recover(np.eye(64), y, sets.Sparse(6), method, data=FourierModulus(), max_iter=5000)
        np.testing.assert_allclose(np.abs(np.fft.fft(result.x)), y, atol=1e-4)
        assert result.residual_norm.max() < 1e-4

    def test_a_data_set_with_fewer_measurements_than_entries(self, rng):
        Phi, x = rng.standard_normal((20, 40)), np.zeros((3, 40))
        x[:, [4, 11, 30]] = rng.standard_normal((3, 3))
        inverse = np.linalg.pinv(Phi)

        class Affine:
            def project(self, x, y):
                return x - (x @ Phi.T - y) @ inverse.T

        for method in ("difference-map", "alternating-map"):
            own = recover(Phi, x @ Phi.T, 3, method, data=Affine(), scale_columns=False)
            np.testing.assert_allclose(own.x, recover(Phi, x @ Phi.T, 3, method, scale_columns=False).x, atol=1e-4)
        moved = sparsect.project_data(x + 1, Phi, x @ Phi.T, data_set=Affine())
        np.testing.assert_allclose(moved @ Phi.T, x @ Phi.T, atol=1e-9)

    @pytest.mark.parametrize("method", ["difference-map", "alternating-map"])
    def test_projections_that_change_their_arguments(self, rng, method):
        Phi, x = rng.standard_normal((20, 40)), np.zeros((3, 40))
        x[:, [4, 11, 30]] = rng.standard_normal((3, 3))
        y, inverse = x @ Phi.T, np.linalg.pinv(Phi)

        class Careful:
            size = 3

            def project(self, x, *data):
                if data:
                    return x - (x @ Phi.T - data[0]) @ inverse.T
                return sets.Sparse(3).project(x)

        class Careless(Careful):
            def project(self, x, *data):
                x[:] = super().project(x, *data)
                for each in data:
                    each[:] = np.nan
                return x

        for options in ({"data": Careful()}, {"sparsity": Careful()}):
            careless = {name: Careless() for name in options}
            both = [{"sparsity": 3, "method": method} | given for given in (options, careless)]
            expected, found = (recover(Phi, y, **given) for given in both)
            np.testing.assert_array_equal(found.x, expected.x)

    def test_joint_supports_with_a_data_set(self, rng):
        Phi, x = rng.standard_normal((20, 40)), np.zeros((2, 5, 40))
        x[:, :, [4, 11, 30]] = rng.standard_normal((2, 5, 3))
        inverse = np.linalg.pinv(Phi)

        class Affine:
            def project(self, x, y):
                assert (x.shape[1:], y.shape[1:]) == ((5, 40), (5, 20))
                return x - (x @ Phi.T - y) @ inverse.T

        result = recover(Phi, x @ Phi.T, sets.JointSparse(3), data=Affine())
        np.testing.assert_allclose(result.x, x, atol=1e-4)

    def test_bounds_in_any_units(self, rng):
        Phi = rng.standard_normal((30, 60))
        x = np.zeros(60)
        x[[3, 20, 40]] = [1.0, 2.0, 0.5]
        for method in ("auto", "difference-map", "annealed-difference-map", "vamp"):
            expected = recover(Phi, Phi @ x, sets.Sparse(3, low=0.0, high=1.5), method)
            assert expected.x.max() < 1.5 + 1e-12
            for scale, dtype, tolerance in (
                (1e160, np.float64, 1e-9),
                (1e-20, np.float64, 1e-9),
                (1e20, np.float32, 1e-2),
            ):
                chosen = sets.Sparse(3, low=0.0, high=1.5 * scale)
                result = recover(Phi.astype(dtype), (scale * (Phi @ x)).astype(dtype), chosen, method)
                np.testing.assert_allclose(result.x / scale, expected.x, atol=tolerance)

    @pytest.mark.parametrize(
        "options",
        [
            {"refit": True},
            {"polish": True},
            {"noise_std": np.ones(64)},
            {"noise_norm": 1.0},
            {"mask": np.zeros(64, dtype=bool)},
            {"checkpoint": "run.npz"},
        ],
    )
    def test_what_only_the_set_can_know(self, options):
        (name,) = options
        with pytest.raises(InputError, match=f"{name}` must be .*, got a .* with a .*set of your own"):
            recover(np.eye(64), np.ones(64), 3, data=FourierModulus(), **options)

    def test_checkpoints_of_a_set_of_signals(self):
        problem = sparsect.random_problem(40, 80, 4, batch=2, rng=0)
        with pytest.raises(InputError, match="checkpoint` must be None"):
            recover(problem.Phi, problem.y, Ordered(), checkpoint="run.npz")

    def test_balls(self):
        problem = sparsect.random_problem(40, 80, 4, snr_db=20, batch=2, rng=0)
        result = recover(problem.Phi, problem.y, 4, data=sets.Ball(), noise_norm=problem.noise_norm)
        np.testing.assert_array_equal(
            result.x, recover(problem.Phi, problem.y, 4, "difference-map", noise_norm=problem.noise_norm).x
        )

    def test_data_sets(self, rng):
        problem = sparsect.random_problem(40, 80, 4, batch=2, rng=0)
        for data in (sets.Affine(), sets.Relaxed(0.1)):
            given = recover(problem.Phi, problem.y, 4, data=data)
            expected = recover(problem.Phi, problem.y, 4, sparsect.DifferenceMap(data_set=data))
            np.testing.assert_array_equal(given.x, expected.x)

    @pytest.mark.parametrize(
        ("project", "message"),
        [
            (lambda self, x: x[:, :2], r"sparsity.project` must yield points of the shape of x, got .*\(2, 2\)"),
            (lambda self, x: x.tolist(), "sparsity.project` must yield points of the shape of x, got .* of type list"),
            (
                lambda self, x: 0.5 * x * (np.arange(80) < 3),
                "sparsity.project` must leave points of its set where they are",
            ),
            (lambda self, x: np.nan * x, "sparsity.project` must yield finite points"),
            (lambda self, x: x, "sparsity.project` must yield at most 3 nonzeros"),
            (lambda self, x: 1j * x, "sparsity.project` must yield points of dtype float64"),
            (lambda self, x: x.astype(str), "sparsity.project` must yield points of dtype float64, got .* <U32"),
            (lambda self, x: csr_array(x), "sparsity.project` must yield points of the shape of x, got .* csr_array"),
            (lambda self, x, y: x, r"sparsity.project` must be a function project\(x\), got project\(x, y\)"),
        ],
    )
    def test_projections_that_are_none(self, project, message):
        problem = sparsect.random_problem(40, 80, 4, batch=2, rng=0)
        own = type("Own", (), {"size": 3, "project": project})()
        with pytest.raises(InputError, match=message):
            recover(problem.Phi, problem.y, own)

    @pytest.mark.parametrize(
        ("project", "message"),
        [
            (lambda self, x, y: y, r"data.project` must yield points of the shape of x, got .*\(2, 40\)"),
            (lambda self, x, y: x + 1, "data.project` must leave points of its set where they are"),
            (lambda self, x: x, r"data.project` must be a function project\(x, y\), got project\(x\)"),
        ],
    )
    def test_projections_onto_data_that_are_none(self, project, message):
        problem = sparsect.random_problem(40, 80, 4, batch=2, rng=0)
        with pytest.raises(InputError, match=message):
            recover(problem.Phi, problem.y, 4, data=type("Own", (), {"project": project})())

    def test_a_projection_that_is_none_except_at_zero(self):
        """Half of the nearest point: the first one, from x = 0, stays where it is."""
        problem = sparsect.random_problem(40, 80, 4, batch=2, rng=0)
        inverse = np.linalg.pinv(problem.Phi).T
        half = type("Own", (), {"project": lambda self, x, y: (x + (y - x @ problem.Phi.T) @ inverse) / 2})()
        with pytest.raises(InputError, match=r"data.project` must leave points of its set where they are"):
            recover(problem.Phi, problem.y, 4, data=half)

    @pytest.mark.parametrize("data", [sets.Affine(), sets.Relaxed(0.1)])
    def test_noise_norm_without_use(self, data):
        problem = sparsect.random_problem(40, 80, 4, snr_db=20, rng=0)
        with pytest.raises(InputError, match=r"noise_norm` must be left out.*got a value with data="):
            recover(problem.Phi, problem.y, 4, data=data, noise_norm=problem.noise_norm)

    def test_objects_that_are_no_sets(self):
        problem = sparsect.random_problem(40, 80, 4, rng=0)
        with pytest.raises(InputError, match="sparsity` must have `size`"):
            recover(problem.Phi, problem.y, type("Own", (), {"project": lambda self, x: x})())
        with pytest.raises(
            InputError, match=r"data` must be Affine\(\), Relaxed\(alpha\), Ball\(\), None, or an object"
        ):
            recover(problem.Phi, problem.y, 4, data=3)
        with pytest.raises(InputError, match="data` must be given with difference-map and alternating-map only"):
            recover(problem.Phi, problem.y, 4, "omp", data=sets.Affine())


class TestNoise:
    def test_weights_are_used(self, rng):
        _, Phi, y, x = signals(rng, "nonnegative")
        std = 10 ** rng.uniform(-3, 1, 80)
        y = x @ Phi.T + std * rng.standard_normal(y.shape)
        weighted = recover(Phi, y, 8, noise_std=std)
        assert sparsect.snr_db(x, weighted.x).min() > 30
        np.testing.assert_allclose(recover(Phi, y, 8, noise_std=np.diag(std**2)).x, weighted.x, atol=1e-6)
        free = recover(aslinearoperator(Phi), y, 8, "subspace-pursuit", noise_std=std)
        np.testing.assert_allclose(free.x, recover(Phi, y, 8, "subspace-pursuit", noise_std=std).x, atol=1e-6)

    def test_correlated_noise(self, rng):
        _, Phi, y, x = signals(rng, "nonnegative")
        covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(80), np.arange(80)))
        noise = rng.standard_normal(y.shape) @ np.linalg.cholesky(covariance).T
        W = np.linalg.inv(np.linalg.cholesky(covariance))
        y = x @ Phi.T + 0.1 * noise
        whitened = recover(Phi, y, 8, "omp", noise_std=0.01 * covariance)
        np.testing.assert_allclose(whitened.x, recover(W @ Phi, y @ W.T, 8, "omp").x, atol=1e-9)

    @pytest.mark.parametrize(
        ("noise_std", "message"),
        [
            (np.ones(79), r"noise_std` must have shape \(80,\)"),
            (-np.ones(80), "noise_std` must be positive numbers, got -1"),
            (np.ones((80, 80)), "noise_std` must have positive eigenvalues"),
            (np.triu(np.ones((80, 80))), "noise_std` must be a symmetric covariance matrix"),
            (np.full(80, np.nan), "noise_std` must"),
            (np.full(80, 1e-200), "noise_std` must have the scale of the noise in y, got numbers as small as 1e-200"),
            (1e-310 * np.eye(80), "noise_std` must have the scale of the noise in y, got variances as small as 1e-310"),
        ],
    )
    def test_errors(self, rng, noise_std, message):
        _, Phi, y, _ = signals(rng, "nonnegative")
        with pytest.raises(InputError, match=message):
            recover(Phi, y, 8, noise_std=noise_std)

    @pytest.mark.parametrize("matrix", [np.asarray, csr_array])
    def test_far_too_much_noise(self, rng, matrix):
        _, Phi, y, _ = signals(rng, "nonnegative")
        with pytest.raises(InputError, match="noise_std` must have entries nearer to 1"):
            recover(matrix(Phi), y, 8, noise_std=1e300)

    def test_y_of_another_length(self, rng):
        _, Phi, y, _ = signals(rng, "nonnegative")
        with pytest.raises(InputError, match=r"y` must have 80 measurements, .*got shape \(4, 79\)"):
            recover(Phi, y[:, :79], 8, noise_std=np.ones(80))
        with pytest.raises(InputError, match=r"y` must have shape .*got shape \(0, 80\)"):
            recover(Phi, y[:0], 8, noise_std=1.0)


class TestMissingData:
    @pytest.mark.parametrize("method", ["auto", "omp"])
    def test_rows_are_fitted_to_what_they_have(self, rng, method):
        _, Phi, y, x = signals(rng, "nonnegative", batch=5)
        mask = rng.random(y.shape) < 0.2
        mask[3] = mask[1]
        y[mask] = np.nan
        result = recover(Phi, y, 8, method, mask=mask)
        assert sparsect.snr_db(x, result.x).min() > 30
        for row in range(5):
            kept = ~mask[row]
            np.testing.assert_allclose(result.x[row], recover(Phi[kept], y[row, kept], 8, method).x, atol=1e-6)
        np.testing.assert_allclose(recover(Phi, y[2], 8, method, mask=mask[2]).x, result.x[2], atol=1e-9)

    def test_matrix_free_and_weights(self, rng):
        _, Phi, y, _ = signals(rng, "nonnegative")
        mask = np.zeros(80, dtype=bool)
        mask[[3, 40, 41]] = True
        kept, std = ~mask, rng.uniform(1, 2, 80)
        options = {"sparsity": 8, "method": "subspace-pursuit"}
        expected = recover(Phi[kept], y[:, kept], noise_std=std[kept], **options).x
        for operator in (Phi, aslinearoperator(Phi)):
            np.testing.assert_allclose(recover(operator, y, mask=mask, noise_std=std, **options).x, expected, atol=1e-6)

    def test_noise_where_nothing_was_measured(self, rng):
        _, Phi, y, _ = signals(rng, "nonnegative")
        mask, std = rng.random(80) < 0.2, rng.uniform(1, 2, 80)
        expected = recover(Phi, y, 8, "omp", mask=mask, noise_std=std).x
        std[mask] = np.nan
        np.testing.assert_array_equal(recover(Phi, y, 8, "omp", mask=mask, noise_std=std).x, expected)
        std[~mask] = np.nan
        with pytest.raises(InputError, match="noise_std` must have finite entries only"):
            recover(Phi, y, 8, "omp", mask=mask, noise_std=std)

    def test_a_covariance_where_nothing_was_measured(self, rng):
        problem = sparsect.random_problem(20, 40, 3, snr_db=20, rng=rng)
        mask, covariance = np.arange(20) < 2, 1e-6 * (np.eye(20) + 0.5)
        known = recover(problem.Phi, problem.y, 3, noise_std=covariance, mask=mask)
        covariance[mask] = covariance[:, mask] = np.nan
        found = recover(problem.Phi, problem.y, 3, noise_std=covariance, mask=mask)
        np.testing.assert_array_equal(found.x, known.x)
        with pytest.raises(InputError, match=r"`noise_std` must have finite entries only"):
            recover(problem.Phi, problem.y, 3, noise_std=covariance, mask=np.arange(20) < 1)

    def test_warnings_are_those_without_a_mask(self, rng):
        """Single precision allows a larger residual, and deviations count in units of columns of norm 1."""
        problem = sparsect.random_problem(40, 80, 4, snr_db=45, batch=3, rng=rng)
        Phi, y = problem.Phi.astype(np.float32), problem.y.astype(np.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            recover(Phi, y, 4, noise_norm=1e-5)
            recover(Phi, y, 4, noise_norm=1e-5, mask=np.zeros(40, dtype=bool))
        with pytest.warns(sparsect.PoorFitWarning, match="times noise_norm"):
            recover(problem.Phi, problem.y, 4, noise_norm=1e-5, mask=np.zeros(40, dtype=bool))

    def test_arguments_for_all_rows_are_checked_first(self, rng):
        _, Phi, y, _ = signals(rng, "nonnegative")
        mask = rng.random(y.shape) < 0.1
        np.testing.assert_array_equal(
            recover(Phi, y, 8, mask=mask, noise_norm=[0.01]).x, recover(Phi, y, 8, mask=mask, noise_norm=0.01).x
        )
        for noise_std in (np.ones(81), np.ones(75)):
            with pytest.raises(InputError, match=r"noise_std` must have shape \(80,\)"):
                recover(Phi, y, 8, mask=mask, noise_std=noise_std)
        with pytest.raises(InputError, match="noise_norm` must be one number, or one for each of 4 rows"):
            recover(Phi, y, 8, mask=mask, noise_norm=[0.1, 0.2])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            recover(Phi, y, 8, mask=mask, noise_std=np.full(80, 1e-3))
            recover(Phi, y, 0, mask=mask)

    def test_errors(self, rng):
        _, Phi, y, _ = signals(rng, "nonnegative")
        with pytest.raises(InputError, match="mask` must be booleans"):
            recover(Phi, y, 8, mask=[[True], [True, False]])
        with pytest.raises(InputError, match=r"mask` must leave at least one measurement in each row, got .* row 1"):
            recover(Phi, y, 8, mask=np.arange(4)[:, None] == np.ones((4, 80)))
        with pytest.raises(InputError, match=r"mask` must be booleans of shape \(80,\) or \(4, 80\)"):
            recover(Phi, y, 8, mask=np.zeros(79, dtype=bool))
        with pytest.raises(InputError, match="callback` must be None"):
            recover(Phi, y, 8, mask=np.zeros(80, dtype=bool), callback=print)
        result = recover(Phi, y, 8, mask=np.zeros(80, dtype=bool), record=())
        np.testing.assert_array_equal(result.x, recover(Phi, y, 8).x)
        y[0, 0] = np.nan
        with pytest.raises(InputError, match=r"y` must .*NaN"):
            recover(Phi, y, 8, mask=np.zeros(80, dtype=bool))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sets.Sparse(-1), "size` must be a whole number"),
        (lambda: sets.Sparse(3, low=0.1), "low` must be a number of at most 0"),
        (lambda: sets.Sparse(3, nonnegative=True, low=np.zeros(3)), "low` must be a number of at most 0"),
        (lambda: sets.Sparse("auto").project(np.ones(5)), "size` must be a number, except in recover"),
        (lambda: sets.Sparse(1, nonnegative=True).project([1j, 2.0]), "x` must be real numbers"),
        (lambda: sets.JointSparse(2, times=0), "times` must be a whole number"),
        (lambda: sets.JointSparse(2).project(np.ones(4)), "x` must have shape"),
        (lambda: recover(np.eye(4), np.ones((3, 4)), sets.JointSparse(2, times=2)), "y` must have 2 times"),
        (lambda: sets.LevelSparse({0: 1, 1: 1}, [0, 1]), "sizes` must be 2 numbers"),
        (lambda: recover(np.eye(4), np.ones(4), Ordered), "sparsity` must be an object of this class"),
        (lambda: recover(np.eye(4), np.ones(4), 2, data=sets.Sparse(2)), "data` must be Affine"),
        (lambda: sets.Sparse(3, high=-1.0), "high` must be a number of at least 0"),
        (lambda: sets.Sparse(3, low=np.inf), "low` must be a number of at most 0"),
        (lambda: sets.Sparse(3, high=-np.inf), "high` must be a number of at least 0"),
        (lambda: sets.Sparse(3, high=np.nan), "high` must be a number of at least 0"),
        (lambda: sets.Sparse(3, nonnegative=True, low=-1.0), "low` must be None or 0"),
        (
            lambda: sets.GroupSparse(2, [0, 2]),
            r"groups` must have all numbers from 0 on.*got no entry .* 1\..*return_inverse",
        ),
        (
            lambda: sets.LevelSparse([1, 1], [1, 2]),
            "levels` must have all numbers from 0 on.*got no entry with the number 0",
        ),
        (
            lambda: recover(np.eye(4), np.ones(4), sets.LevelSparse([1, 1], [0, 1, 1])),
            "levels` must have one label for each of the 4 entries of x, got 3",
        ),
        (lambda: sets.Sparse("many"), "size` must be a whole number or 'auto', got 'many'"),
        (
            lambda: sparsect.images.reconstruct(np.eye(30), sparsity=sets.JointSparse(3)),
            "sparsity` must be a set that each patch is in by itself",
        ),
        (lambda: sets.GroupSparse(2, [0, 1, 10**15]), "groups` must have all numbers from 0 on"),
        (lambda: sets.GroupSparse(2, [0.5, 1.0]), "groups` must be a vector of whole numbers"),
        (lambda: sets.GroupSparse(2, ["a", "b"]), r"groups` must be a vector of whole numbers.*<U1.*return_inverse"),
        (lambda: sets.GroupSparse(2, [-1, 0]), "groups` must be a vector of whole numbers"),
        (lambda: sets.LevelSparse([1], [0, 1]), "sizes` must be 2 numbers"),
        (lambda: sets.LevelSparse([1, 5], [0, 1]), r"sizes\[1\]` must be a whole number from 0 to 1"),
        (
            lambda: recover(np.eye(4), np.ones(4), sets.GroupSparse(1, [0, 1])),
            "groups` must have one label for each of",
        ),
        (lambda: recover(np.eye(4), np.ones(4), sets.GroupSparse(5, [0, 1, 2, 3])), "size` must be .* from 0 to 4"),
        (lambda: recover(np.eye(4) * 1j, np.ones(4), sets.Sparse(2, nonnegative=True)), "because x is complex"),
    ],
)
def test_errors(make, message):
    with pytest.raises(InputError, match=message):
        make()


UNITS = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 6, 7, 7, 7])
# Each set with the unit of each entry, the level of each unit, and the bounds.
POLISHED = {
    "nonnegative": (sets.Sparse(3, nonnegative=True), np.arange(20), np.zeros(20), (0.0, np.inf)),
    "bounded": (sets.Sparse(4, low=-0.5, high=0.9), np.arange(20), np.zeros(20), (-0.5, 0.9)),
    "groups": (sets.GroupSparse(2, UNITS), UNITS, np.zeros(8), (-np.inf, np.inf)),
    "levels": (sets.LevelSparse([2, 1], np.arange(20) % 2), np.arange(20), np.arange(20) % 2, (-np.inf, np.inf)),
}


class TestPolish:
    """No exchange of one column or group improves the fit, which is compared with all of them."""

    @pytest.fixture(autouse=True)
    def _exchanges_only(self, monkeypatch):
        monkeypatch.setattr(polishing, "UNIT_SUPPORTS", 0)

    @pytest.mark.parametrize("method", ["niht", "difference-map"])
    @pytest.mark.parametrize("name", POLISHED)
    def test_no_exchange_is_better(self, rng, name, method):
        chosen, units, levels, bounds = POLISHED[name]
        Phi, y = rng.standard_normal((12, 20)), rng.standard_normal((10, 12))
        Phi[:, 1:] += Phi[:, :-1]
        result = recover(Phi, y, chosen, method, max_iter=20, polish=True, check_fit=False)
        assert result.swap_optimal.any() if name == "bounded" else result.swap_optimal.all()
        assert result.swaps.any()
        np.testing.assert_allclose(chosen.project(result.x), result.x, atol=1e-12)
        for row in np.flatnonzero(result.swap_optimal):
            support = np.unique(units[np.flatnonzero(result.x[row])])
            for p, k in itertools.product(support, set(range(levels.size)) - set(support.tolist())):
                if levels[p] == levels[k]:
                    columns = Phi[:, np.isin(units, np.append(support[support != p], k))]
                    best = optimize.lsq_linear(columns, y[row], bounds, tol=1e-12)
                    assert np.sqrt(2 * best.cost) >= result.residual_norm[row] * (1 - 1e-6)

    def test_complex_groups(self, rng):
        Phi, y = (rng.standard_normal((*shape, 2)) @ [1, 1j] for shape in ((12, 20), (5, 12)))
        result = recover(Phi, y, sets.GroupSparse(2, UNITS), "omp", polish=True, check_fit=False)
        for row in range(5):
            support = np.unique(UNITS[np.flatnonzero(result.x[row])])
            for p, k in itertools.product(support, set(range(8)) - set(support.tolist())):
                columns = Phi[:, np.isin(UNITS, np.append(support[support != p], k))]
                left = np.linalg.norm(columns @ np.linalg.lstsq(columns, y[row], rcond=None)[0] - y[row])
                assert left >= result.residual_norm[row] * (1 - 1e-6)

    def test_the_best_positive_pair(self, rng):
        """Of columns that resemble each other, where no exchange of one column leads to it."""
        Phi = rng.standard_normal((12, 10)) + 3 * rng.standard_normal((12, 1))
        y = np.concatenate([rng.uniform(size=(9, 10)) @ Phi.T, -Phi[:, :1].T])
        result = recover(Phi, y, sets.Sparse(2, nonnegative=True), "omp", polish=True, check_fit=False)
        for row, left in enumerate(result.residual_norm):
            pairs = itertools.combinations(range(10), 2)
            np.testing.assert_allclose(left, min(optimize.nnls(Phi[:, pair], y[row])[1] for pair in pairs), rtol=1e-6)

    def test_joint(self, rng):
        Phi, y = rng.standard_normal((12, 20)), rng.standard_normal((6, 4, 12))
        result = recover(Phi, y, sets.JointSparse(3), "omp", polish=True, check_fit=False)
        assert result.swap_optimal.all()
        for row in range(6):
            support = np.flatnonzero(result.x[row].any(axis=0))
            for p, k in itertools.product(range(3), set(range(20)) - set(support.tolist())):
                columns = Phi[:, np.append(np.delete(support, p), k)]
                left = np.linalg.norm(columns @ np.linalg.lstsq(columns, y[row].T, rcond=None)[0] - y[row].T)
                assert left >= result.residual_norm[row] * (1 - 1e-6)


@pytest.mark.parametrize("name", ["nonnegative", "groups", "joint"])
def test_few_supports_are_all_looked_at(rng, name):
    """Polished answers are the best there are, of columns that resemble each other."""
    Phi = rng.standard_normal((12, 14)) + 2 * rng.standard_normal((12, 1))
    chosen, units, y, bounds = {
        "nonnegative": (sets.Sparse(3, nonnegative=True), np.arange(14), rng.standard_normal((6, 12)), (0, np.inf)),
        "groups": (sets.GroupSparse(2, UNITS[:14]), UNITS[:14], rng.standard_normal((6, 12)), (-np.inf, np.inf)),
        "joint": (sets.JointSparse(2), np.arange(14), rng.standard_normal((6, 2, 12)), (-np.inf, np.inf)),
    }[name]
    result = recover(Phi, y, chosen, "niht", max_iter=5, polish=True, check_fit=False)
    assert result.swap_optimal.all()
    for row, times in enumerate(y.reshape(6, -1, 12)):
        costs = [
            sum(optimize.lsq_linear(Phi[:, np.isin(units, taken)], time, bounds, tol=1e-12).cost for time in times)
            for taken in itertools.combinations(range(units.max() + 1), chosen.size)
        ]
        left = np.linalg.norm(result.x[row] @ Phi.T - y[row])
        assert left == pytest.approx(np.sqrt(2 * min(costs)), rel=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_groups_that_may_have_more_entries_than_measurements(noise):
    """Some large groups explain any y; the answer must not be one of those."""
    for seed in (1000, 1002, 1015):
        rng = np.random.default_rng(seed)
        labels = np.unique(np.minimum(np.cumsum(rng.random(200) < 0.18), 40), return_inverse=True)[1]
        labels, Phi, x = rng.permutation(labels), rng.standard_normal((80, 200)), np.zeros(200)
        for group in rng.choice(labels.max() + 1, 6, replace=False):
            x[labels == group] = rng.standard_normal(np.sum(labels == group))
        y = Phi @ x
        y += noise * np.linalg.norm(y) / 80**0.5 * rng.standard_normal(80)
        chosen = sets.GroupSparse(6, labels)
        assert chosen.structure(200).size >= 80
        for method in ("auto", "annealed-difference-map"):
            assert sparsect.snr_db(x, recover(Phi, y, chosen, method).x) > (15 if noise else 80)


class TestCoherentColumns:
    """Columns that resemble their neighbours, for which supports are sampled."""

    @pytest.fixture
    def Phi(self, rng):
        Phi = rng.standard_normal((60, 200))
        for column in range(1, 200):
            Phi[:, column] = 0.95 * Phi[:, column - 1] + 0.3 * Phi[:, column]
        return Phi / np.linalg.norm(Phi, axis=0)

    def test_joint_supports_are_found(self, rng, Phi):
        x = np.zeros((3, 6, 200))
        for signal in x:
            signal[:, rng.choice(200, 5, replace=False)] = rng.standard_normal((6, 5))
        y = x @ Phi.T + 0.02 * rng.standard_normal((3, 6, 60))
        result = recover(Phi, y, sets.JointSparse(5))
        np.testing.assert_array_equal(result.support, x != 0)
        assert (result.source == "samples").all()
        alone = recover(Phi, y[1], sets.JointSparse(5))
        np.testing.assert_allclose(alone.x, result.x[1], atol=1e-9)
        fit = recover(Phi, y, sets.JointSparse(5), sparsect.Automatic("approximation"))
        np.testing.assert_array_equal(fit.support, x != 0)

    def test_joint_supports_are_found_without_some_measurements(self, rng, Phi):
        x = np.zeros((2, 4, 200))
        for signal in x:
            signal[:, rng.choice(200, 4, replace=False)] = rng.standard_normal((4, 4))
        y, mask = x @ Phi.T + 0.01 * rng.standard_normal((2, 4, 60)), np.zeros((2, 60), dtype=bool)
        mask[0, :9] = True
        y[0, :, :9] = np.nan
        result = recover(Phi, y, sets.JointSparse(4), mask=mask)
        np.testing.assert_array_equal(result.support, x != 0)
        alone = recover(Phi[9:], y[0, :, 9:], sets.JointSparse(4))
        np.testing.assert_allclose(result.x[0], alone.x, atol=1e-9)
        with pytest.raises(InputError, match=r"mask` must be booleans of shape \(60,\) or \(2, 60\)"):
            recover(Phi, y, sets.JointSparse(4), mask=np.zeros((2, 4, 60), dtype=bool))
        with pytest.raises(InputError, match=r"y` must have shape \(times, 60\) or"):
            recover(Phi, y[..., 1:], sets.JointSparse(4), mask=mask)

    def test_the_number_of_joint_nonzeros_is_found(self, rng, Phi):
        x = np.zeros((3, 6, 200))
        for size, signal in zip((2, 4, 6), x, strict=True):
            signal[:, rng.choice(200, size, replace=False)] = rng.standard_normal((6, size))
        y = x @ Phi.T + 0.02 * rng.standard_normal((3, 6, 60))
        result = recover(Phi, y, sets.JointSparse("auto"))
        np.testing.assert_array_equal(result.support, x != 0)

    @pytest.mark.parametrize("kind", ["groups", "levels"])
    def test_units_are_found(self, rng, Phi, kind):
        x, labels = np.zeros((4, 200)), np.arange(200) // 4
        chosen = sets.GroupSparse(3, labels)
        for row in x:
            row[np.isin(labels, rng.choice(50, 3, replace=False))] = rng.standard_normal(12)
        if kind == "levels":
            x, chosen = np.zeros((4, 200)), sets.LevelSparse([2, 3], np.arange(200) % 2)
            for row in x:
                row[2 * rng.choice(100, 2, replace=False)] = rng.uniform(1, 2, 2)
                row[2 * rng.choice(100, 3, replace=False) + 1] = rng.uniform(1, 2, 3)
        y = x @ Phi.T + 0.01 * rng.standard_normal((4, 60))
        result = recover(Phi, y, chosen)
        assert (result.source == "samples").all()
        np.testing.assert_array_equal(result.support, x != 0)
        assert ((result.inclusion_probability > 0.5) == (x != 0)).all()
        assert (np.abs(result.x - x) <= 6 * result.standard_deviation + 1e-6).all()
        alone = recover(Phi, y[1], chosen)
        np.testing.assert_allclose(alone.x, result.x[1], atol=1e-9)

    def test_rows_with_groups_of_several_sizes_do_not_depend_on_the_batch(self, rng):
        place = np.arange(150)
        Phi = np.exp(-0.5 * ((place[:, None] - place[None, :]) / 4) ** 2)
        labels = np.repeat(np.arange(50), np.tile([1, 2, 3, 4, 5], 10))
        x = np.zeros((12, 150))
        for row in x:
            row[np.isin(labels, rng.choice(50, 5, replace=False))] = 1.0
        x *= rng.standard_normal(x.shape)
        y = x @ Phi.T + 0.01 * rng.standard_normal((12, 150))
        result = recover(Phi, y, sets.GroupSparse(5, labels), check_fit=False)
        for row, expected in zip(y, result.x, strict=True):
            alone = recover(Phi, row, sets.GroupSparse(5, labels), check_fit=False)
            np.testing.assert_allclose(alone.x, expected, atol=1e-6 * np.linalg.norm(expected))

    def test_the_number_of_groups_is_found(self, rng, Phi):
        x, labels = np.zeros((4, 200)), np.arange(200) // 4
        for count, row in enumerate(x, start=1):
            row[np.isin(labels, rng.choice(50, count, replace=False))] = rng.uniform(1, 2, 4 * count)
        y = x @ Phi.T + 0.01 * rng.standard_normal((4, 60))
        result = recover(Phi, y, sets.GroupSparse("auto", labels))
        np.testing.assert_array_equal(result.support, x != 0)

    def test_sampled_moments_of_groups(self, rng):
        """The mean over chains is that over all supports, weighted by their probabilities."""
        from sparsect.problems import Problem
        from sparsect.solvers.support_sampler import SupportSampler, advance

        labels = np.array([0, 0, 0, 1, 2, 2, 3, 4, 4])
        Phi = rng.standard_normal((6, 9))
        Phi[:, 1:] += 0.7 * Phi[:, :-1]
        Phi /= np.linalg.norm(Phi, axis=0)
        y, variance = Phi[:, :3] @ [0.5, -1.0, 1.5] + 0.3 * rng.standard_normal(6), 0.1
        problem = Problem(Phi, y[None], sets.GroupSparse(2, labels), noise_norm=np.sqrt(6 * variance))
        state = advance(problem, SupportSampler().init(problem), [1.0], rate=20000.0)
        weights, means = [], []
        for pair in itertools.combinations(range(5), 2):
            columns = np.isin(labels, pair)
            covariance = variance * np.eye(6) + float(state.slab[0]) * Phi[:, columns] @ Phi[:, columns].T
            weights.append(-0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(covariance)[1]))
            mean = np.zeros(9)
            mean[columns] = float(state.slab[0]) * Phi[:, columns].T @ np.linalg.solve(covariance, y)
            means.append(mean)
        shares = np.exp(np.array(weights) - max(weights))
        shares /= shares.sum()
        assert shares.max() < 0.99
        np.testing.assert_allclose(state.mean[0] / 20000, shares @ means, atol=0.05)

    def test_positive_nonzeros_are_found(self, rng, Phi):
        x = np.zeros((4, 200))
        for row in x:
            row[rng.choice(200, 5, replace=False)] = rng.uniform(0.5, 1.5, 5)
        y = x @ Phi.T + 0.03 * rng.standard_normal((4, 60))
        result = recover(Phi, y, sets.Sparse(5, nonnegative=True))
        assert (result.source == "samples").all()
        assert result.x.min() >= 0
        assert sparsect.snr_db(x, result.x).mean() > sparsect.snr_db(x, recover(Phi, y, 5, "omp").x).mean() + 5
        fit = recover(Phi, y, sets.Sparse(5, nonnegative=True), sparsect.Automatic("approximation"))
        assert fit.x.min() >= 0
        assert (fit.residual_norm <= result.residual_norm + 1e-9).all()

    @pytest.mark.parametrize("name", ["levels", "groups", "joint"])
    def test_columns_that_are_almost_the_same(self, name):
        """What data do not determine is not made up: x is no larger than the prior allows."""
        places, rng = np.linspace(0, 1, 200), np.random.default_rng(5)
        Phi = np.exp(-0.5 * ((np.linspace(0, 1, 80)[:, None] - places) / 0.02) ** 2)
        levels, groups = np.repeat([0, 1, 2], [20, 60, 120]), np.arange(200) // 4
        for _ in range(4):
            x = np.zeros((3, 200))
            if name == "levels":
                chosen = sets.LevelSparse([12, 8, 4], levels)
                for row in x:
                    for level, count in enumerate((12, 8, 4)):
                        row[rng.choice(np.flatnonzero(levels == level), count, replace=False)] = 1.0
            elif name == "groups":
                chosen = sets.GroupSparse(8, groups)
                for row in x:
                    row[np.isin(groups, rng.choice(50, 8, replace=False))] = 1.0
            else:
                chosen = sets.JointSparse(30)
                x[:, rng.choice(200, 30, replace=False)] = 1.0
            x *= rng.standard_normal(x.shape)
            y = x @ Phi.T
            y += 0.05 * np.linalg.norm(y, axis=1, keepdims=True) / 80**0.5 * rng.standard_normal(y.shape)
            found = recover(Phi, y, chosen).x
            assert np.linalg.norm(found) < 3 * np.linalg.norm(x)
