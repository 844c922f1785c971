"""The same answers on a GPU as on a CPU, clear errors, bounded memory. Needs a GPU: make test-gpu."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import sparsect
from sparsect import (
    ADMM,
    AnnealedDifferenceMap,
    DifferenceMap,
    InputError,
    Problem,
    Relaxed,
    Requirement,
    gpu_options,
    random_problem,
    recover,
    sets,
)
from sparsect.backend.arrays import to_numpy
from sparsect.backend.devices import PRECISIONS, place, rows_at_a_time
from sparsect.backend.engines import has_fused_steps, has_kernels
from sparsect.dictionary import ArraySource, learn
from sparsect.dictionary.cluster import Cluster
from sparsect.images import PatchSource
from sparsect.kernels.thresholding import advance, keep_largest
from sparsect.operators.least_squares import on_support

# What runs away in the end where there is no noise is warned of; that is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sparsect.ConvergenceWarning")
CUDA = torch.device("cuda")
ON_GPU = [name for name, kind in sparsect.METHODS.items() if Requirement.HOST not in kind.needs]
ITERATIVE = ["annealed-difference-map", "difference-map", "admm", "irls"]


def on_gpu(array):
    return torch.from_numpy(np.ascontiguousarray(array)).to(CUDA)


def objective(problem, x):
    return np.linalg.norm(x @ problem.Phi.T - problem.y, axis=1)


def separated(problem):
    """The same problem with nonzeros of at least 1: every method finds the one answer."""
    x = np.sign(problem.x) * (1 + np.abs(problem.x))
    return Problem(problem.Phi, x @ problem.Phi.T, problem.sparsity, x=x)


@pytest.fixture(scope="module")
def clean():
    return separated(random_problem(120, 240, 12, batch=400, rng=0, dtype="float32"))


@pytest.fixture(scope="module")
def noisy():
    return random_problem(120, 240, 12, snr_db=20, batch=400, rng=1, dtype="float32")


ROWS = {
    "normal": lambda rng: rng.standard_normal((300, 1000)),
    "ties": lambda rng: np.round(2 * rng.standard_normal((300, 1000))),
    "equal": lambda rng: np.ones((5, 1000)),
    "zero": lambda rng: np.zeros((5, 1000)),
    "tiny": lambda rng: 1e-42 * rng.standard_normal((50, 1000)),
    "huge": lambda rng: 1e37 * rng.standard_normal((50, 1000)),
    "infinite": lambda rng: np.where(rng.random((50, 1000)) < 0.01, np.inf, rng.standard_normal((50, 1000))),
    "heavy tails": lambda rng: np.exp(6 * rng.standard_normal((300, 1000))),
    "one column": lambda rng: np.ones((5, 1)),
    "short": lambda rng: rng.standard_normal((300, 7)),
    "odd": lambda rng: rng.standard_normal((300, 777)),
    "long": lambda rng: rng.standard_normal((20, 5000)),
    "longest": lambda rng: rng.standard_normal((3, 2**14)),
    "too long": lambda rng: rng.standard_normal((3, 2**14 + 1)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", ROWS)
def test_thresholding_keeps_exactly_the_first_largest(rng, rows, dtype):
    with np.errstate(all="ignore"):
        x = ROWS[rows](rng).astype(dtype)
    n = x.shape[1]
    for s in sorted({0, 1, 2, n // 10, n // 2, n - 1, n} & set(range(n + 1))):
        order = np.argsort(-np.abs(x), axis=1, kind="stable")[:, :s]
        expected = np.zeros_like(x)
        np.put_along_axis(expected, order, np.take_along_axis(x, order, axis=1), axis=1)
        np.testing.assert_array_equal(to_numpy(keep_largest(on_gpu(x), s)), expected)


def test_a_step_is_the_cpus(rng):
    x, w, before = (rng.standard_normal((200, 500)).astype(np.float32) for _ in range(3))
    for s in (1, 50, 499):
        kept = sets.Sparse(s).structure(500)
        expected = advance(x, w, keep_largest(before, s), kept, 1.5)
        found = advance(on_gpu(x), on_gpu(w), on_gpu(keep_largest(before, s)), kept, 1.5)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(to_numpy(ours), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ON_GPU)
def test_the_same_supports_on_well_separated_problems(clean, method):
    options = {"max_iter": 300}
    expected = recover(clean.Phi, clean.y, 12, method, **options)
    found = recover(on_gpu(clean.Phi), on_gpu(clean.y), 12, method, **options)
    for name in ("x", "support", "residual_norm", "converged", "n_iter"):
        assert getattr(found, name).device.type == "cuda", name
    assert found.x.dtype == torch.float32
    # A pursuit never takes back a wrong column, so that it fails in a few rows, and nothing is separated there.
    solved = (expected.support == (clean.x != 0)).all(axis=1)
    assert solved.mean() > 0.9 if method == "ormp" else solved.all()
    np.testing.assert_array_equal(to_numpy(found.support)[solved], expected.support[solved])
    np.testing.assert_allclose(to_numpy(found.x)[solved], expected.x[solved], atol=5e-3)


@pytest.mark.parametrize("method", ON_GPU)
def test_as_good_on_noisy_problems(noisy, method):
    """Searches amplify rounding, so that single rows may end elsewhere; all together they are as good."""
    options = {"max_iter": 300, "refit": True}
    with gpu_options(precision="float32"):
        found = recover(on_gpu(noisy.Phi), on_gpu(noisy.y), 12, method, **options)
    expected = recover(noisy.Phi, noisy.y, 12, method, **options)
    ours, theirs = objective(noisy, to_numpy(found.x)), objective(noisy, expected.x)
    assert (np.abs(ours - theirs) <= 1e-4 * theirs).mean() > 0.9
    np.testing.assert_allclose(ours.mean(), theirs.mean(), rtol=3e-3)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "solver",
    [
        DifferenceMap(0.14),
        DifferenceMap(0.7),
        DifferenceMap(-0.5),
        DifferenceMap(1.0),
        DifferenceMap(1.0, Relaxed(0.1)),
        ADMM(),
        ADMM(p=1.0),
        ADMM(p=-0.5),
        AnnealedDifferenceMap(),
        AnnealedDifferenceMap("approximation"),
    ],
    ids=str,
)
def test_fused_steps_follow_the_plain_ones(noisy, solver, precision):
    """A few steps, before differences have had time to grow, on data of any scale."""
    tolerance = {"auto": 2e-3, "fp16": 1e-2, "tf32": 5e-3, "bf16x3": 2e-3, "float32": 1e-4}[precision]
    for scale in (1.0, 1e-5, 1e6):
        y = (scale * noisy.y).astype(np.float32)
        if isinstance(solver, ADMM):
            solver = ADMM(solver.mu, 0.03981 * scale, solver.p)
        expected = recover(noisy.Phi, y, 12, solver, max_iter=6, record=("x", solver.criterion), record_at=1)
        with gpu_options(precision=precision):
            found = recover(
                on_gpu(noisy.Phi), on_gpu(y), 12, solver, max_iter=6, record=("x", solver.criterion), record_at=6
            )
        theirs, ours = expected.history["x"][-1], found.history["x"][-1]
        error = np.linalg.norm(theirs - ours, axis=1) / np.linalg.norm(theirs, axis=1)
        assert np.median(error) < tolerance
        theirs, ours = (result.history[solver.criterion][-1] for result in (expected, found))
        np.testing.assert_allclose(np.median(ours / theirs), 1, atol=10 * tolerance)


@pytest.mark.parametrize(
    "solver", [DifferenceMap(0.14), DifferenceMap(1.0), ADMM(p=1.0, lam=0.001), AnnealedDifferenceMap()]
)
def test_converges_as_on_the_cpu(clean, solver):
    expected = recover(clean.Phi, clean.y, 12, solver, max_iter=500)
    found = recover(on_gpu(clean.Phi), on_gpu(clean.y), 12, solver, max_iter=500)
    assert abs(to_numpy(found.converged).mean() - expected.converged.mean()) <= 0.02
    assert expected.converged.mean() > 0.9
    assert np.median(to_numpy(found.n_iter) - expected.n_iter) <= 25


def test_rows_that_found_an_answer_keep_it(clean):
    """Rows are looked at every 25 steps, but one that is done within them takes no more."""
    expected = recover(clean.Phi, clean.y, 12, max_iter=400, tol=0.01)
    assert expected.n_iter.max() < 200
    found = recover(on_gpu(clean.Phi), on_gpu(clean.y), 12, max_iter=400, tol=0.01, record=())
    np.testing.assert_allclose(to_numpy(found.x), expected.x, atol=1e-2)
    assert np.abs(to_numpy(found.n_iter) - expected.n_iter).max() <= 5


@pytest.mark.parametrize("method", ITERATIVE)
def test_without_fused_steps_the_answers_are_the_same(clean, method, monkeypatch):
    options = {"max_iter": 200}
    fused = recover(on_gpu(clean.Phi), on_gpu(clean.y), 12, method, **options)
    monkeypatch.setattr(sparsect.backend.engines, "has_triton", lambda: False)
    assert not has_kernels(fused.x)
    plain = recover(on_gpu(clean.Phi), on_gpu(clean.y), 12, method, **options)
    np.testing.assert_array_equal(to_numpy(fused.support), clean.x != 0)
    np.testing.assert_array_equal(to_numpy(plain.support), clean.x != 0)
    np.testing.assert_allclose(to_numpy(fused.x), to_numpy(plain.x), atol=5e-3)


@pytest.mark.parametrize("method", ON_GPU)
def test_double_precision_and_complex_numbers(method):
    problem = separated(random_problem(60, 120, 6, batch=20, rng=0))
    cases = [(problem.Phi, problem.y)]
    if Requirement.REAL not in sparsect.METHODS[method].needs:
        cases.append((problem.Phi * (1 + 0.5j), problem.y * (1 - 2j)))
    for Phi, y in cases:
        expected = recover(Phi, y, 6, method, max_iter=200)
        found = recover(on_gpu(Phi), on_gpu(y), 6, method, max_iter=200)
        assert to_numpy(found.x).dtype == expected.x.dtype
        np.testing.assert_array_equal(to_numpy(found.support), expected.support)
        np.testing.assert_allclose(to_numpy(found.x), expected.x, atol=1e-4)


@pytest.mark.parametrize("method", ["annealed-difference-map", "difference-map", "admm", "vamp", "subspace-pursuit"])
def test_cupy_arrays_stay_what_they_are(clean, method):
    cupy = pytest.importorskip("cupy")
    found = recover(cupy.asarray(clean.Phi), cupy.asarray(clean.y), 12, method, max_iter=200)
    assert isinstance(found.x, cupy.ndarray)
    np.testing.assert_array_equal(to_numpy(found.support), clean.x != 0)
    np.testing.assert_allclose(to_numpy(found.x), clean.x, atol=0.1)


SETS = {
    "nonnegative": sets.Sparse(20, nonnegative=True),
    "bounded": sets.Sparse(20, low=-3.0, high=3.0),
    "groups": sets.GroupSparse(8, np.random.default_rng(0).permutation(200) // 4),
    "levels": sets.LevelSparse([8, 12], np.arange(200) % 2),
    "joint": sets.JointSparse(10),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["auto", "difference-map", sparsect.DifferenceMap(1.0), "vamp"])
@pytest.mark.parametrize("kind", SETS)
def test_sets_are_the_cpus(rng, kind, method, dtype):
    Phi, start = rng.standard_normal((100, 200)), rng.standard_normal((6, 200))
    chosen = sets.Sparse(10) if kind == "joint" else SETS[kind]
    x = chosen.project(start)
    if kind == "joint":
        x = (x[:, None, :] != 0) * rng.standard_normal((6, 3, 200))
    y = x @ Phi.T
    Phi, y = Phi.astype(dtype), y.astype(dtype)
    result = sparsect.recover(torch.as_tensor(Phi).cuda(), torch.as_tensor(y).cuda(), SETS[kind], method)
    assert result.x.is_cuda
    np.testing.assert_allclose(result.x.cpu().numpy(), x, atol=1e-2 if dtype == "float32" else 1e-4)


def test_fits_are_accurate_to_single_precision(rng):
    Phi = rng.standard_normal((100, 150)).astype(np.float32)
    Phi[:, 7] = 0
    y = rng.standard_normal((300, 100)).astype(np.float32)
    support = rng.random((300, 150)) < rng.uniform(0, 0.5, (300, 1))
    support[0] = False
    operator = sparsect.as_operator(on_gpu(Phi))
    found = to_numpy(on_support(operator, on_gpu(y), on_gpu(support)))
    for row in range(300):
        columns = np.flatnonzero(support[row] & (np.arange(150) != 7))
        expected = np.linalg.lstsq(Phi[:, columns].astype(float), y[row].astype(float), rcond=None)[0]
        np.testing.assert_allclose(found[row, columns], expected, rtol=1e-5, atol=1e-5)
        assert not found[row][~support[row]].any()


def test_fits_with_dependent_columns(rng):
    Phi = rng.standard_normal((20, 30)).astype(np.float32)
    Phi[:, 1] = Phi[:, 0]
    y, support = rng.standard_normal((5, 20)).astype(np.float32), np.zeros((5, 30), bool)
    support[:, :6] = True
    x = to_numpy(on_support(sparsect.as_operator(on_gpu(Phi)), on_gpu(y), on_gpu(support)))
    best = np.linalg.lstsq(Phi[:, :6], y.T, rcond=None)[0].T @ Phi[:, :6].T
    np.testing.assert_allclose(x @ Phi.T, best, atol=1e-4)


@pytest.mark.parametrize("method", ON_GPU)
def test_rows_that_are_done_between_two_looks_stay_so(method):
    """Without noise, the messages of vamp would swing away again."""
    problem = random_problem(40, 80, 6, batch=12, rng=1)
    expected = recover(problem.Phi, problem.y, 6, method, max_iter=300, record=())
    found = recover(on_gpu(problem.Phi), on_gpu(problem.y), 6, method, max_iter=300, record=())
    done = expected.converged
    assert to_numpy(found.converged)[done].all()
    np.testing.assert_allclose(to_numpy(found.x)[done], expected.x[done], atol=1e-3)


def test_callbacks_are_called_now_and_then_and_checkpoints_go_on(clean, tmp_path):
    Phi, y = on_gpu(clean.Phi), on_gpu(clean.y)
    seen = []
    options = {"tol": 0.0, "record": (), "max_iter": 60, "callback": lambda run: seen.append(run.iteration)}
    recover(Phi, y, 12, "difference-map", **options)
    assert seen == [25, 50, 60]
    options = {"method": "difference-map", "tol": 0.0, "record": (), "checkpoint": tmp_path / "run.npz"}
    recover(Phi, y, 12, max_iter=50, **options)
    resumed = recover(Phi, y, 12, max_iter=100, **options)
    whole = recover(Phi, y, 12, "difference-map", tol=0.0, record=(), max_iter=100)
    assert resumed.x.device.type == "cuda"
    np.testing.assert_array_equal(to_numpy(resumed.x), to_numpy(whole.x))


def test_torchs_own_setting_is_left_alone(clean):
    for allowed in (True, False):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        recover(on_gpu(clean.Phi), on_gpu(clean.y), 12, "difference-map", max_iter=5)
        assert torch.backends.cuda.matmul.allow_tf32 == allowed


def test_torchs_newer_setting_is_left_alone(clean):
    code = """
import torch, sparsect
torch.backends.cuda.matmul.fp32_precision = "tf32"
problem = sparsect.random_problem(50, 100, 5, batch=10, rng=0, dtype="float32")
sparsect.recover(*(torch.from_numpy(array).cuda() for array in (problem.Phi, problem.y)), 5, max_iter=5)
assert torch.backends.cuda.matmul.fp32_precision == "tf32"
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def patches(rng, count=3000):
    images = [sparsect.images.to_gray(sparsect.images.sample(name)) for name in ("chelsea", "coffee")]
    return images, PatchSource(images, 8, count, rng=1, batch_size=1000)


def test_learning_gives_the_dictionary_of_the_cpu(rng):
    images, source = patches(rng)
    on_device = PatchSource([on_gpu(image) for image in images], 8, 3000, rng=1, batch_size=1000)
    np.testing.assert_allclose(to_numpy(on_device.batch(1)), source.batch(1), atol=1e-6)
    expected = learn(source, 100, rounds=3)
    with gpu_options(precision="float32"):
        found = learn(on_device, 100, rounds=3)
    np.testing.assert_allclose(to_numpy(found.Phi), expected.Phi, atol=5e-3)
    fast = learn(on_device, 100, rounds=3)
    for name in ("error", "nonzeros"):
        np.testing.assert_allclose(fast.rounds[-1][name], expected.rounds[-1][name], rtol=5e-3)
    # Signals without mean give atoms without mean, whatever the precision of products.
    assert np.abs(to_numpy(fast.Phi).sum(axis=0)).max() < 1e-3


def test_learning_for_a_sparsity(rng, tmp_path):
    """Mini-batches run on the GPU, too; they are larger there, so that errors are compared, not atoms."""
    images, source = patches(rng, 20_000)
    on_device = PatchSource([on_gpu(image) for image in images], 8, 20_000, rng=1, batch_size=1000)
    options = {"sparsity": 5, "rounds": 8}
    expected, found = (learn(each, 100, **options) for each in (source, on_device))
    assert found.Phi.device.type == "cuda"
    best = [min(numbers["validation_error"] for numbers in each.rounds) for each in (expected, found)]
    assert best[1] < 1.02 * best[0]

    def stop(step):
        if step.round == 4:
            raise KeyboardInterrupt

    path = tmp_path / "mine.npz"
    with pytest.raises(KeyboardInterrupt):
        learn(on_device, 100, checkpoint=path, progress=stop, **options)
    resumed = learn(on_device, 100, checkpoint=path, **options)
    np.testing.assert_allclose(
        [numbers["validation_error"] for numbers in resumed.rounds],
        [numbers["validation_error"] for numbers in found.rounds],
        rtol=1e-2,
    )


def test_nonnegative_learning(rng):
    """Codes and atoms without negative entries, with an error like that on a CPU, from tensors and from arrays."""
    planted = np.abs(rng.standard_normal((40, 30))) * (rng.random((40, 30)) < 0.3)
    codes = rng.uniform(0.5, 2, (6000, 40)) * (np.argsort(rng.random((6000, 40)), axis=1) < 3)
    X = (codes @ planted).astype(np.float32)
    options = {"n_atoms": 40, "sparsity": 3, "rounds": 12, "nonnegative_codes": True, "nonnegative_atoms": True}
    errors = {}
    for name, signals, device in (("cpu", X, None), ("array", X, "cuda"), ("tensor", on_gpu(X), None)):
        learner = sparsect.DictionaryLearner(device=device, **options).fit(signals)
        found = learner.transform(signals)
        atoms, values = to_numpy(learner.components_), to_numpy(found.values() if name == "tensor" else found.data)
        assert atoms.min() >= 0
        assert values.min() > 0
        assert values.size <= 3 * X.shape[0]
        back = to_numpy(learner.inverse_transform(found))
        errors[name] = np.linalg.norm(back - X) / np.linalg.norm(X)
    assert learner.components_.device.type == "cuda"
    assert max(errors["array"], errors["tensor"]) < 1.05 * errors["cpu"] + 0.01


def test_learning_on_workers_with_a_gpu(rng):
    pytest.importorskip("distributed")
    _, source = patches(rng)
    expected = learn(source.on_device("cuda"), 100, rounds=2)
    with Cluster(workers=1, device="cuda") as running:
        found = learn(source, 100, rounds=2, cluster=running)
    assert isinstance(found.Phi, np.ndarray)
    np.testing.assert_allclose(found.Phi, to_numpy(expected.Phi), atol=1e-3)


def test_learning_within_a_memory_limit(rng):
    _, source = patches(rng, 20_000)
    signals = on_gpu(np.concatenate([source.batch(index) for index in range(source.batches)]))
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    start, limit = torch.cuda.memory_allocated(), 20e6
    with gpu_options(memory=limit):
        small = learn(ArraySource(signals, 20_000), 100, rounds=2)
    assert torch.cuda.max_memory_allocated() - start < 1.5 * limit
    large = learn(ArraySource(signals, 20_000), 100, rounds=2)
    np.testing.assert_allclose(to_numpy(small.Phi), to_numpy(large.Phi), atol=1e-3)


def test_learner_and_coder(rng):
    _, source = patches(rng)
    X = source.batch(0)
    learner = sparsect.DictionaryLearner(n_atoms=100, rounds=2, sparsity=10).fit(on_gpu(X))
    assert learner.components_.device.type == "cuda"
    codes = learner.transform(on_gpu(X))
    assert codes.layout == torch.sparse_csr
    assert codes.device.type == "cuda"
    assert codes.shape == (1000, 100)
    back = learner.inverse_transform(codes)
    assert back.device.type == "cuda"
    plain = sparsect.DictionaryLearner(n_atoms=100, rounds=2, sparsity=10, device="cuda").fit(X)
    assert isinstance(plain.components_, np.ndarray)
    ours = plain.transform(X)
    assert ours.format == "csr"
    assert ours.nnz <= 10_000
    np.testing.assert_allclose(plain.inverse_transform(ours), to_numpy(back), atol=0.3)
    np.testing.assert_allclose(
        np.linalg.norm(plain.inverse_transform(ours) - X), float((back - on_gpu(X)).norm()), rtol=0.01
    )


def test_signals_from_codes(rng):
    """Whatever the estimator was fitted on, and whatever codes are given to it."""
    X = rng.standard_normal((20, 30)).astype(np.float32)
    for fitted, coded in ((X, on_gpu(X)), (on_gpu(X), on_gpu(X)), (on_gpu(X), X)):
        coder = sparsect.SparseCoder(sparsity=4, transform_max_iter=30).fit(fitted)
        codes = coder.transform(coded)
        back = coder.inverse_transform(codes)
        assert back.shape == (20, 30)
        assert type(back) is type(coded)
        dense = codes.toarray() if coded is X else to_numpy(codes.to_dense())
        np.testing.assert_allclose(coder.inverse_transform(dense), to_numpy(back), atol=1e-5)
    with pytest.raises(InputError, match="at least one row"):
        coder.transform(on_gpu(X)[:0])
    with pytest.raises(InputError, match="real numbers"):
        coder.transform(on_gpu(X * 1j))


def test_reversed_and_read_only_arrays(rng):
    X = rng.standard_normal((20, 400)).astype(np.float32)
    X.flags.writeable = False
    coder = sparsect.SparseCoder(sparsity=4, transform_max_iter=5, device="cuda").fit(X)
    assert coder.transform(X[:, ::-1]).shape == (20, 1000)
    image = sparsect.images.to_gray(sparsect.images.sample())[:40, 60:0:-1]
    assert sparsect.images.reconstruct(image, 5, max_iter=5, device="cuda").image.shape == (40, 60)


def test_methods_for_a_cpu_stay_there_if_that_is_up_to_them(rng):
    X = rng.standard_normal((20, 400)).astype(np.float32)
    assert sparsect.SparseCoder(sparsity=4, method="omp", device="auto").fit(X).transform(X).nnz == 80
    with pytest.raises(InputError, match=r"device 'cpu'"):
        sparsect.SparseCoder(sparsity=4, method="omp", device="cuda").fit(X).transform(X)
    image = sparsect.images.to_gray(sparsect.images.sample())[:40, :40]
    assert sparsect.images.reconstruct(image, 5, "ormp", device="auto").codes.matrix.nnz <= 20


def test_what_comes_back_can_be_written(tmp_path):
    image = on_gpu(sparsect.images.to_gray(sparsect.images.sample())[:60, :60])
    seen = sparsect.images.reconstruct(image, 5, max_iter=5)
    sparsect.images.write_image(tmp_path / "seen.png", seen.image)
    sparsect.images.write_image(tmp_path / "difference.png", sparsect.images.difference(image, seen.image))
    sparsect.images.write_image(tmp_path / "clean.png", sparsect.images.denoise(image, 0.1))


def test_coding_in_blocks_is_as_good_as_coding_at_once(rng):
    X = on_gpu(rng.standard_normal((500, 400)).astype(np.float32))
    coder = sparsect.SparseCoder(sparsity=20, transform_max_iter=30).fit(X)
    whole = coder.transform(X)
    with gpu_options(memory=5e6):
        assert rows_at_a_time(X, (400, 1000), 1) < 100
        parts = coder.transform(X)
    assert parts.shape == whole.shape == (500, 1000)
    assert parts.values().shape == (500 * 20,)
    ours, theirs = (((coder.inverse_transform(codes) - X) ** 2).sum(1) for codes in (parts, whole))
    # Products of another size round otherwise, and a search amplifies that.
    np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), rtol=0.1)
    np.testing.assert_allclose(float(ours.sum()), float(theirs.sum()), rtol=3e-3)


def test_reconstructing_is_the_cpus():
    image = sparsect.images.sample("chelsea")[:200, :250]
    options = {"sparsity": 40, "max_iter": 60, "stride": 10}
    expected = sparsect.images.reconstruct(image, **options)
    found = sparsect.images.reconstruct(image, device="cuda", **options)
    assert isinstance(found.image, np.ndarray)
    assert abs(found.patch_snr_db - expected.patch_snr_db) < 0.05
    assert abs(found.snr_db - expected.snr_db) < 0.05
    assert found.codes.matrix.nnz <= 40 * found.codes.matrix.shape[0]
    np.testing.assert_allclose(found.codes.image(), found.image, atol=1e-4)
    tensor = sparsect.images.reconstruct(on_gpu(image), **options)
    assert tensor.image.device.type == "cuda"
    np.testing.assert_allclose(to_numpy(tensor.image), found.image, atol=1e-5)
    bytes_ = sparsect.images.reconstruct(on_gpu(np.round(255 * image).astype(np.uint8)), **options)
    assert abs(bytes_.snr_db - found.snr_db) < 0.1


@pytest.mark.parametrize("shape", [(200, 250, 3), (130, 90), (9, 60), (3, 3)])
def test_restoring_is_the_cpus(shape, rng):
    image = np.resize(sparsect.images.sample("chelsea")[:200, :250], shape)
    noisy = (image + 0.1 * rng.standard_normal(shape)).astype(np.float32)
    missing = rng.random(shape[:2]) < 0.3
    for restore, options in ((sparsect.images.denoise, (0.1,)), (sparsect.images.inpaint, (missing,))):
        expected = restore(noisy, *options)
        found = restore(noisy, *options, device="cuda")
        assert isinstance(found, np.ndarray)
        # Where two patches are equally far from a third, either may be taken.
        assert np.sqrt(np.mean((found - expected) ** 2)) < 1e-3
        tensor = restore(on_gpu(noisy), *options)
        assert tensor.device.type == "cuda"
        np.testing.assert_allclose(to_numpy(tensor), found, atol=1e-5)


def test_restoring_needs_memory_for_some_copies_of_the_image():
    image = np.full((3000, 3000), 0.5, dtype=np.float32)
    image[::2] = 0.6
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    sparsect.images.denoise(image, 0.1, quality="fast", device="cuda")
    assert torch.cuda.max_memory_allocated() - before < 2 * 2**30 + 12 * image.nbytes


def test_command_line(shell, tmp_path):
    done = shell("recover", "--random", "50x100", "-s", "5", "--device", "cuda", "--out", "x.npz")
    assert done.returncode == 0, done.stderr
    assert isinstance(sparsect.load_result(tmp_path / "x.npz").x, np.ndarray)
    arguments = ("chelsea", "-s", "20", "--max-iter", "40", "--device", "auto", "--precision", "tf32", "--memory", "1")
    done = shell("reconstruct", *arguments)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "reconstruct-chelsea" / "index.html").exists()
    sparsect.images.write_image(tmp_path / "photos" / "cat.png", sparsect.images.sample("chelsea"))
    arguments = ("--atoms", "70", "--patch", "8", "--patches", "2000", "--rounds", "2", "--device", "cuda")
    done = shell("learn", "photos", *arguments, "--plot", "atoms.png")
    assert done.returncode == 0, done.stderr
    assert sparsect.load_dictionary(tmp_path / "dictionary.npz").Phi.shape == (64, 70)


def test_bad_input(clean):
    Phi, y = on_gpu(clean.Phi), on_gpu(clean.y)
    with pytest.raises(InputError, match=r"one device.*cuda.*cpu"):
        recover(Phi, torch.from_numpy(clean.y), 12)
    with pytest.raises(InputError, match="arrays of one library"):
        recover(Phi, clean.y, 12)
    for kind in (torch.float16, torch.bfloat16):
        with pytest.raises(InputError, match="float32, float64"):
            recover(Phi.to(kind), y.to(kind), 12)
    with pytest.raises(InputError, match="needs NumPy arrays"):
        recover(Phi, y, 12, "omp")
    with pytest.raises(InputError, match="cuda:0"):
        place(clean.y, "cuda:99")
    with pytest.raises(InputError, match="'auto', 'cpu', 'cuda'"):
        place(clean.y, "tpu")
    with pytest.raises(InputError, match="at least"), gpu_options(memory=10):
        sparsect.SparseCoder(sparsity=5).fit(on_gpu(np.eye(400, dtype=np.float32))).transform(
            on_gpu(np.eye(400, dtype=np.float32))
        )
    with pytest.raises(InputError, match="NaN"):
        recover(Phi, y * float("nan"), 12)


def test_too_little_memory_says_what_would_work(clean):
    Phi = on_gpu(clean.Phi)
    rows = 20_000
    y = on_gpu(np.resize(clean.y, (rows, clean.y.shape[1])))
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(60e6 / torch.cuda.get_device_properties(0).total_memory)
    try:
        with pytest.raises(
            InputError, match=r"y` must .*fewer rows.*got more rows than the memory of the GPU can hold"
        ):
            recover(Phi, y, 12)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert has_fused_steps(y)
    assert recover(Phi, y[:10], 12, max_iter=3).x.shape == (10, 240)
