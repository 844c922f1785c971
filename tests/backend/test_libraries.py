"""The same answers on every array library, and what came in decides what comes out."""

import numpy as np
import pytest

import sparsect
from sparsect import AlternatingMap, Automatic, DifferenceMap, InputError, Relaxed, project_sparse, sets
from sparsect.backend.arrays import to_numpy
from sparsect.kernels.groups import Groups, threshold, wiener

pytestmark = pytest.mark.numerical

SETTINGS = {
    "affine": {},
    "ball": {"noise_norm": 0.3},
    "relaxed, beta 1": {"method": DifferenceMap(1.0, Relaxed(0.1))},
    "alternating": {"method": AlternatingMap()},
    "refitted": {"refit": True},
    "ormp within noise": {"method": "ormp", "noise_norm": 0.3},
    **{
        name: {"method": name} for name in ("admm", "irls", "aiht", "niht", "subspace-pursuit", "stomp", "vamp", "ormp")
    },
}
# Iterations that amplify rounding are compared after fewer steps.
STEPS = {"vamp": 10, "irls": 10}


@pytest.fixture
def problem():
    return sparsect.random_problem(40, 80, 8, snr_db=20, batch=4, rng=0)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_equals_numpy(xp, problem, setting, dtype):
    Phi, y = problem.Phi.astype(dtype), problem.y.astype(dtype)
    options = {
        "max_iter": STEPS.get(setting, 40),
        "record": ("x", "residual_norm", "support"),
        **SETTINGS[setting],
    }
    expected = sparsect.recover(Phi, y, 8, **options)
    result = sparsect.recover(xp.asarray(Phi), xp.asarray(y), 8, **options)
    for name in ("x", "support", "residual_norm", "converged", "n_iter"):
        assert type(getattr(result, name)) is type(xp.asarray(y)), name
    assert result.x.dtype == getattr(xp, dtype)
    tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-10
    np.testing.assert_allclose(to_numpy(result.x), expected.x, atol=tolerance)
    # Rounding may let a row settle some steps earlier.
    assert np.abs(to_numpy(result.n_iter) - expected.n_iter).max() <= 8
    if setting != "stomp":  # it ends before the first recorded moment
        last = min(len(result.history["x"]), len(expected.history["x"]))
        assert last > 0 or expected.n_iter.max() < 10
        np.testing.assert_allclose(result.history["x"][:last], expected.history["x"][:last], atol=tolerance)


SETS = {
    "nonnegative": sets.Sparse(8, nonnegative=True),
    "bounded": sets.Sparse(8, low=-1.0, high=0.5),
    "groups": sets.GroupSparse(3, np.arange(80) // 4),
    "levels": sets.LevelSparse([3, 5], np.arange(80) % 2),
    "joint": sets.JointSparse(8),
}


@pytest.mark.parametrize("method", ["auto", "difference-map", "niht", "vamp", Automatic("approximation")])
@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sets_equal_numpy(xp, problem, kind, method, dtype):
    Phi, y = problem.Phi.astype(dtype), problem.y.astype(dtype)
    y = y.reshape(2, 2, 40) if kind == "joint" else y
    options = {"max_iter": 12, "refit": True, "check_fit": False}
    expected = sparsect.recover(Phi, y, SETS[kind], method, **options)
    result = sparsect.recover(xp.asarray(Phi), xp.asarray(y), SETS[kind], method, **options)
    assert result.x.dtype == getattr(xp, dtype)
    np.testing.assert_allclose(to_numpy(result.x), expected.x, atol=1e-3 if dtype == "float32" else 1e-8)


def test_masks_and_noise_equal_numpy(xp, problem, rng):
    mask, std = rng.random((4, 40)) < 0.1, rng.uniform(1, 2, 40)
    expected = sparsect.recover(problem.Phi, problem.y, 8, "niht", mask=mask, noise_std=std, check_fit=False)
    arrays = (xp.asarray(array) for array in (problem.Phi, problem.y))
    result = sparsect.recover(*arrays, 8, "niht", mask=mask, noise_std=std, check_fit=False)
    assert type(result.x) is type(xp.asarray(problem.y))
    np.testing.assert_allclose(to_numpy(result.x), expected.x, atol=1e-8)


@pytest.mark.parametrize(
    "operator",
    [
        sparsect.SubsampledDCT.random(64, 32, rng=0),
        sparsect.SubsampledDCT.random(63, 30, rng=0),
        sparsect.SubsampledDCT.random((8, 9), 32, rng=0),
        sparsect.SubsampledDCT(1, [0]),
        sparsect.SubsampledFourier.random(64, 32, rng=0),
        sparsect.SubsampledFourier.random((7, 8), 32, rng=0),
    ],
    ids=["dct even", "dct odd", "dct 2-D", "dct of one", "fourier", "fourier 2-D"],
)
@pytest.mark.parametrize("complex_", [False, True])
def test_fast_operators_equal_numpy(xp, rng, operator, complex_):
    complex_ = complex_ or isinstance(operator, sparsect.SubsampledFourier)
    m, n = operator.shape
    x, r = rng.standard_normal((2, n)), rng.standard_normal((2, m))
    if complex_:
        x, r = x + 1j * rng.standard_normal((2, n)), r + 1j * rng.standard_normal((2, m))
    np.testing.assert_allclose(to_numpy(operator.forward(xp.asarray(x))), operator.forward(x), atol=1e-12)
    np.testing.assert_allclose(to_numpy(operator.adjoint(xp.asarray(r))), operator.adjoint(r), atol=1e-12)


def test_recovery_through_a_fast_operator(xp, rng):
    operator = sparsect.SubsampledDCT.random(64, 40, rng=1)
    x = np.zeros((2, 64))
    x[:, [3, 17, 40]] = rng.standard_normal((2, 3)) + 2
    result = sparsect.recover(operator, xp.asarray(operator.forward(x)), 3)
    np.testing.assert_allclose(to_numpy(result.x), x, atol=1e-4)


def test_ties(xp):
    x = xp.asarray(np.array([[1.0, -2.0, 2.0, 2.0, -2.0], [5.0, 4.0, 3.0, 2.0, 1.0]]))
    np.testing.assert_array_equal(to_numpy(project_sparse(x, 3)), [[0, -2, 2, 2, 0], [5, 4, 3, 0, 0]])


def test_integers_become_float64(xp):
    Phi = xp.asarray(np.array([[1, 0, 0], [0, 1, 1]]))
    result = sparsect.recover(Phi, xp.asarray(np.array([4, 0])), 1)
    assert result.x.dtype == xp.float64
    np.testing.assert_allclose(to_numpy(result.x), [4, 0, 0], atol=1e-5)


def test_mixed_precision_is_promoted(xp, problem):
    result = sparsect.recover(xp.asarray(problem.Phi.astype("float32")), xp.asarray(problem.y), 8, max_iter=5)
    assert result.x.dtype == xp.float64


def test_resumed_equals_unbroken(xp, problem, tmp_path):
    arguments = (xp.asarray(problem.Phi), xp.asarray(problem.y), 8)
    unbroken = sparsect.recover(*arguments, "difference-map", max_iter=30)
    for stop in (11, 30):
        resumed = sparsect.recover(*arguments, "difference-map", max_iter=stop, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(to_numpy(resumed.x), to_numpy(unbroken.x))
    assert type(resumed.x) is type(unbroken.x)


def test_saved_results_are_numpy(xp, problem, tmp_path):
    result = sparsect.recover(xp.asarray(problem.Phi), xp.asarray(problem.y), 8, max_iter=10)
    result.save(tmp_path / "x.npz")
    np.testing.assert_array_equal(sparsect.load_result(tmp_path / "x.npz").x, to_numpy(result.x))


def test_nan_is_refused(xp, problem):
    y = problem.y.copy()
    y[1, 2] = np.nan
    with pytest.raises(InputError, match=r"y` must .*got 1 entries that are NaN or infinite"):
        sparsect.recover(xp.asarray(problem.Phi), xp.asarray(y), 8)


@pytest.mark.parametrize("method", ["omp", "lars"])
def test_methods_for_numpy_alone_say_so(xp, problem, method):
    if xp is np:
        return
    with pytest.raises(InputError, match=f"method` must .*got '{method}', which needs NumPy arrays"):
        sparsect.recover(xp.asarray(problem.Phi), xp.asarray(problem.y), 8, method)


def test_noise_norm_of_another_library(xp, problem):
    result = sparsect.recover(problem.Phi, problem.y, 8, noise_norm=xp.asarray(problem.noise_norm), max_iter=5)
    assert isinstance(result.x, np.ndarray)


def test_libraries_are_not_mixed(xp, problem):
    if xp is np:
        xp = pytest.importorskip("array_api_strict")
    with pytest.raises(InputError, match=r"Phi, y` must .*got arrays of"):
        sparsect.recover(xp.asarray(problem.Phi), problem.y, 8)


def test_images_and_dictionaries_of_every_library(xp, tmp_path):
    """Images of torch stay there when they are reconstructed."""
    image = sparsect.images.to_gray(sparsect.images.sample())[:60, 60:0:-1]
    dictionary = xp.asarray(sparsect.load_dictionary().Phi)
    expected = sparsect.images.reconstruct(image, 5, "niht", max_iter=5)
    for given in (image, xp.asarray(image.copy())):
        found = sparsect.images.reconstruct(given, 5, "niht", max_iter=5, dictionary=dictionary)
        np.testing.assert_allclose(to_numpy(found.image), expected.image, atol=1e-4)
        sparsect.images.write_image(tmp_path / "seen.png", found.image)
        assert sparsect.images.difference(given, found.image).shape == image.shape


def test_restored_images_of_every_library(xp, rng):
    image = rng.random((30, 40)).astype(np.float32)
    missing, given = rng.random(image.shape) < 0.2, xp.asarray(image.copy())
    for found, expected in (
        (sparsect.images.denoise(given, 0.1), sparsect.images.denoise(image, 0.1)),
        (sparsect.images.inpaint(given, missing), sparsect.images.inpaint(image, missing)),
    ):
        assert type(found) is type(given)
        np.testing.assert_allclose(to_numpy(found), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 50, 61), (1, 9, 60)], ids=["full groups", "few patches"])
def test_filters_of_groups_equal_those_of_numpy(xp, rng, shape):
    smooth = np.cumsum(np.cumsum(rng.standard_normal(shape), axis=1), axis=2) / 50
    image = (smooth + 0.1 * rng.standard_normal(shape)).astype(np.float32)
    where, counted = np.zeros(shape[1:], dtype=bool), []
    where[3:6, 20:45] = True
    pilot = threshold(image, 0.27, Groups(8, 16), counted.append)
    found = threshold(xp.asarray(image), 0.27, Groups(8, 16), counted.append)
    assert type(found) is type(xp.asarray(image))
    np.testing.assert_allclose(to_numpy(found), pilot, atol=1e-5)
    for marked in (None, where):
        options = (0.007, 0.6, Groups(7, 32), counted.append, marked)
        expected = wiener(image, pilot, *options)
        found = wiener(xp.asarray(image), xp.asarray(pilot), *options)
        np.testing.assert_allclose(to_numpy(found), expected, atol=1e-5)
    everywhere, some = (sum(map(len, Groups(7, 32).strips(shape[1:], marked))) for marked in (None, where))
    first = sum(map(len, Groups(8, 16).strips(shape[1:])))
    assert sum(counted) == 2 * (first + everywhere + some)
