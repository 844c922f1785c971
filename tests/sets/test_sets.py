"""P_A and the three forms of P_B: hand-worked values, properties, and independent oracles."""

import itertools

import literal
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sparsect
from sparsect import Affine, Ball, InputError, Relaxed, project_data, project_sparse

pytestmark = pytest.mark.numerical

# Few distinct values, so that ties are common.
small_rows = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.integers(-3, 3).map(float)
)


class TestSparse:
    def test_keeps_the_largest_magnitudes(self):
        np.testing.assert_array_equal(project_sparse(np.array([3.0, -5.0, 1.0, 4.0]), 2), [0, -5, 0, 4])

    def test_ties_go_to_the_first_entries(self):
        np.testing.assert_array_equal(project_sparse(np.array([1.0, -2.0, 2.0, 2.0, -2.0]), 3), [0, -2, 2, 2, 0])

    def test_ties_in_one_row_only(self):
        x = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]])
        np.testing.assert_array_equal(project_sparse(x, 2), [[0, 2, 3], [2, 2, 0]])

    def test_none_and_all(self):
        x = np.array([[1.0, 0.0, -2.0]])
        np.testing.assert_array_equal(project_sparse(x, 0), np.zeros((1, 3)))
        np.testing.assert_array_equal(project_sparse(x, 3), x)

    def test_complex_magnitudes(self):
        x = np.array([3 + 4j, 4.9, -5.1j])
        np.testing.assert_array_equal(project_sparse(x, 2), [3 + 4j, 0, -5.1j])

    def test_fewer_nonzeros_than_allowed(self):
        x = np.array([[0.0, 7.0, 0.0, 0.0]])
        np.testing.assert_array_equal(project_sparse(x, 3), x)

    @given(small_rows, st.data())
    def test_equals_the_transcription(self, x, data):
        s = data.draw(st.integers(0, x.shape[1]))
        before = x.copy()
        projected = project_sparse(x, s)
        np.testing.assert_array_equal(projected, [literal.threshold(row, s) for row in x])
        np.testing.assert_array_equal(project_sparse(projected, s), projected)
        np.testing.assert_array_equal(x, before)

    @given(hnp.arrays(np.float64, st.integers(1, 6), elements=st.floats(-10, 10)), st.data())
    def test_no_support_is_nearer(self, x, data):
        s = data.draw(st.integers(0, x.size))
        distance = np.linalg.norm(x - project_sparse(x, s))
        for support in itertools.combinations(range(x.size), s):
            candidate = np.zeros_like(x)
            candidate[list(support)] = x[list(support)]
            assert distance <= np.linalg.norm(x - candidate) + 1e-12


def instance(rng, kind, m=7, n=15):
    """A small Phi of one of the kinds that occur: full rank, zero-mean columns, rank one, complex, tall."""
    if kind == "tall":
        m, n = 12, 5
    Phi = rng.standard_normal((m, n))
    if kind == "complex":
        Phi = Phi + 1j * rng.standard_normal((m, n))
    if kind == "centred":
        Phi -= Phi.mean(axis=0)
    if kind == "rank one":
        Phi = np.outer(rng.standard_normal(m), rng.standard_normal(n))
    y = Phi @ rng.standard_normal(n)
    return Phi, y, rng.standard_normal((3, n))


KINDS = ("full", "centred", "rank one", "complex", "tall")


class TestData:
    @pytest.mark.parametrize("kind", KINDS)
    def test_affine_equals_the_pseudo_inverse(self, rng, kind):
        Phi, y, x = instance(rng, kind)
        y = y + 0.1 * rng.standard_normal(y.shape)  # out of reach for the deficient kinds
        moved = project_data(x, Phi, np.tile(y, (3, 1)), Affine())
        np.testing.assert_allclose(moved, [literal.affine(Phi, y)(row) for row in x], atol=1e-10)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("alpha", [1e-3, 1.0, 50.0])
    def test_relaxed_equals_the_formula(self, rng, kind, alpha):
        Phi, y, x = instance(rng, kind)
        moved = project_data(x, Phi, np.tile(y, (3, 1)), Relaxed(alpha))
        np.testing.assert_allclose(moved, [literal.relaxed(Phi, y, alpha)(row) for row in x], atol=1e-10)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("radius", [1e-6, 0.3, 2.0])
    def test_ball_equals_bisection(self, rng, kind, radius):
        Phi, y, x = instance(rng, kind)
        moved = project_data(x, Phi, np.tile(y, (3, 1)), noise_norm=radius)
        np.testing.assert_allclose(moved, [literal.ball(Phi, y, radius)(row) for row in x], atol=1e-7)

    @pytest.mark.parametrize("kind", KINDS)
    def test_ball_with_a_part_of_y_out_of_reach(self, rng, kind):
        Phi, y, x = instance(rng, kind)
        y = y + 0.5 * rng.standard_normal(y.shape)
        unreachable = np.linalg.norm(y - Phi @ np.linalg.pinv(Phi) @ y)
        radius = unreachable + 0.2
        moved = project_data(x, Phi, np.tile(y, (3, 1)), noise_norm=radius)
        np.testing.assert_allclose(moved, [literal.ball(Phi, y, radius)(row) for row in x], atol=1e-7)

    def test_ball_satisfies_the_optimality_conditions(self, rng):
        """x - P(x) = nu Phi^T (Phi P(x) - y) with nu >= 0, and the residual on the sphere: the KKT conditions."""
        Phi, y, x = instance(rng, "full")
        point = project_data(x[0], Phi, y, noise_norm=0.4)
        residual = Phi @ point - y
        assert np.linalg.norm(residual) == pytest.approx(0.4, rel=1e-12)
        gradient = Phi.T @ residual
        nu = (x[0] - point) @ gradient / (gradient @ gradient)
        assert nu > 0
        np.testing.assert_allclose(x[0] - point, nu * gradient, atol=1e-10)

    def test_ball_leaves_points_inside_alone(self, rng):
        Phi, y, _ = instance(rng, "full")
        inside = np.linalg.pinv(Phi) @ y
        np.testing.assert_array_equal(project_data(inside, Phi, y, noise_norm=1.0), inside)

    def test_ball_of_radius_zero_is_affine(self, rng):
        Phi, y, x = instance(rng, "centred")
        ball = project_data(x[0], Phi, y, noise_norm=0.0)
        np.testing.assert_allclose(ball, literal.affine(Phi, y)(x[0]), atol=1e-10)

    def test_relaxed_at_zero_is_affine(self, rng):
        Phi, y, x = instance(rng, "centred")
        np.testing.assert_array_equal(project_data(x[0], Phi, y, Relaxed(0)), project_data(x[0], Phi, y, Affine()))

    @given(st.integers(0, 2**32 - 1), st.floats(0.01, 3))
    def test_ball_is_feasible_idempotent_and_nearest(self, seed, radius):
        rng = np.random.default_rng(seed)
        Phi, y, x = instance(rng, rng.choice(KINDS[:4]))
        point = project_data(x[0], Phi, y, noise_norm=radius)
        assert np.linalg.norm(Phi @ point - y) <= radius * (1 + 1e-9)
        np.testing.assert_allclose(project_data(point, Phi, y, noise_norm=radius), point, atol=1e-9)
        centre = np.linalg.pinv(Phi) @ y
        for _ in range(20):
            other = point + rng.standard_normal(point.shape)
            residual = np.linalg.norm(Phi @ other - y)
            other = other if residual <= radius else centre + (other - centre) * (radius / residual)
            assert np.linalg.norm(Phi @ other - y) <= radius * (1 + 1e-9)
            assert np.linalg.norm(x[0] - point) <= np.linalg.norm(x[0] - other) + 1e-9

    def test_every_row_has_its_own_radius(self, rng):
        Phi, y, x = instance(rng, "full")
        radii = np.array([0.1, 0.5, 50.0])
        together = project_data(x, Phi, np.tile(y, (3, 1)), noise_norm=radii)
        alone = [project_data(row, Phi, y, noise_norm=radius) for row, radius in zip(x, radii, strict=True)]
        np.testing.assert_allclose(together, alone, atol=1e-12)

    def test_float32_stays_and_is_accurate(self, rng):
        Phi, y, x = instance(rng, "centred")
        single = project_data(
            x.astype(np.float32), Phi.astype(np.float32), np.tile(y, (3, 1)).astype(np.float32), noise_norm=0.3
        )
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, project_data(x, Phi, np.tile(y, (3, 1)), noise_norm=0.3), atol=1e-5)


class TestScale:
    def test_a_ball_far_away_from_x(self):
        """The squares of Phi x times those of Phi are out of range."""
        moved = project_data(np.array([1.0, 2.0]), 1e116 * np.eye(2), np.array([1.0, 0.0]), noise_norm=1e9)
        np.testing.assert_allclose(moved, 0, atol=1e-14)


class TestErrors:
    def test_ball_too_small_for_what_phi_can_reach(self, rng):
        Phi, y, x = instance(rng, "centred")
        with pytest.raises(InputError, match=r"noise_norm` must .*at least.*got 0.01"):
            project_data(x[0], Phi, y + 1, noise_norm=0.01)

    def test_ball_without_radius(self, rng):
        Phi, y, x = instance(rng, "full")
        with pytest.raises(InputError, match=r"noise_norm` must .*got None"):
            project_data(x[0], Phi, y, Ball())

    def test_shape_of_x(self, rng):
        Phi, y, x = instance(rng, "full")
        with pytest.raises(InputError, match=r"x` must .*got shape \(14,\)"):
            project_data(x[0, :-1], Phi, y)

    @pytest.mark.parametrize("alpha", [-1.0, np.nan, "much"])
    def test_alpha(self, alpha):
        with pytest.raises(InputError, match="alpha` must"):
            sparsect.Relaxed(alpha)

    @pytest.mark.parametrize("data_set", [[], "Ball", np.ones(2)])
    def test_data_set(self, data_set, rng):
        Phi, y, x = instance(rng, "full")
        for refused in (
            sparsect.DifferenceMap,
            sparsect.AlternatingMap,
            lambda data_set: project_data(x, Phi, y, data_set),
        ):
            with pytest.raises(InputError, match="data_set` must"):
                refused(data_set=data_set)

    def test_phi_x_out_of_range(self):
        with pytest.raises(InputError, match=r"x` must .*got entries for which Phi x leaves the range of float64"):
            project_data(np.full(2, 1e250), 1e100 * np.eye(2), np.ones(2), Affine())
