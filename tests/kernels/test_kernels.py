"""Every operation has one meaning: compiled versions, and with --gpu those for a GPU, give what the plain one does."""

import itertools

import numpy as np
import pytest

import sparsect
from sparsect import sets
from sparsect.backend import arrays
from sparsect.kernels import fitting, posterior, supports, thresholding

pytestmark = pytest.mark.numerical
BATCH, M, N, S = 300, 40, 120, 9


def keep(place, rng, dtype):
    return (thresholding.keep_largest(place(rng.standard_normal((BATCH, N)).astype(dtype)), S),)


def keep_ties(place, rng, dtype):
    return (thresholding.keep_largest(place(rng.integers(-2, 3, (BATCH, N)).astype(dtype)), S),)


def advance(place, rng, dtype):
    x, w, before = (place(rng.standard_normal((BATCH, N)).astype(dtype)) for _ in range(3))
    return thresholding.advance(x, w, thresholding.keep_largest(before, S), sets.Sparse(S).structure(N), 1.5)


def structures(rng):
    """Every kind of set, with groups of unequal sizes in no order, and levels of which one is empty and one is full."""
    labels = np.concatenate([np.arange(40), rng.integers(0, 40, N - 40)])
    levels = np.concatenate([np.arange(4), rng.integers(0, 4, N - 4)])
    sizes = [0, 3, 2, int(np.count_nonzero(levels == 3))]
    return [
        sets.Sparse(S, nonnegative=True).structure(N),
        sets.Sparse(S, low=-0.5, high=1.0).structure(N),
        sets.GroupSparse(4, groups=labels).structure(N),
        sets.JointSparse(5, times=4).structure(N),
        sets.LevelSparse(sizes, levels=levels).structure(N),
    ]


def project(place, rng, dtype):
    x, ties = rng.standard_normal((BATCH, N)), rng.integers(-2, 3, (BATCH, N))
    return tuple(
        thresholding.project(place(rows.astype(dtype)), structure)
        for structure in structures(rng)
        for rows in ((x,) if structure.grouped else (x, ties))
    )


def advance_structured(place, rng, dtype):
    x, w, before = (place(rng.standard_normal((BATCH, N)).astype(dtype)) for _ in range(3))
    found = []
    for structure in structures(rng):
        found += thresholding.advance(x, w, thresholding.project(before, structure), structure, 1.5)
    return tuple(found)


def denoise(place, rng, dtype):
    r, gamma = rng.standard_normal((BATCH, N)), 10.0 ** rng.uniform(-2, 4, BATCH)
    density, variance = rng.uniform(0.01, 1, BATCH), rng.uniform(0.1, 2, BATCH)
    prior = [place(array.astype(dtype)) for array in (r, gamma, density, variance)]
    plain = sets.Sparse(S).structure(N)
    *others, levels = structures(rng)
    found = [posterior.denoise(*prior, structure) for structure in (plain, *others)]
    of_levels = (place(rng.uniform(*ends, (BATCH, 4)).astype(dtype)) for ends in ((0.01, 1), (0.1, 2)))
    return tuple(itertools.chain(*found, posterior.denoise(*prior[:2], *of_levels, levels)))


def fit_bounded(place, rng, dtype):
    Phi, start = rng.standard_normal((M, N)), rng.uniform(size=(BATCH, N)) * (rng.uniform(size=(BATCH, N)) < 0.1)
    operator, y = sparsect.as_operator(place(Phi.astype(dtype))), place(rng.standard_normal((BATCH, M)).astype(dtype))
    structure = sets.Sparse(S, nonnegative=True).structure(N)
    return (fitting.fit_bounded(operator, y, place(start.astype(dtype)), structure),)


def fit(place, rng, dtype):
    Phi, support = rng.standard_normal((M, N)), rng.uniform(size=(BATCH, N)) < 0.1
    # A column that is zero, one that is another one's double, and rows with none at all.
    Phi[:, 3], Phi[:, 5], support[:4] = 0, 2 * Phi[:, 4], False
    support[:, 4] = False
    operator = sparsect.as_operator(place(Phi.astype(dtype)))
    return (fitting.fit(operator, place(rng.standard_normal((BATCH, M)).astype(dtype)), place(support)),)


def chains(rng, energy, n, s):
    batch = energy.size
    support = np.argsort(rng.random((batch, n)), axis=1)[:, :s]
    rows = {name: np.zeros((batch, n)) for name in ("mean", "square", "inclusion", "c", "d")}
    numbers = {name: np.zeros(batch) for name in ("misfit", "ridge")}
    counts = {"visited": np.arange(batch), "moves": np.zeros(batch, dtype=np.int64)}
    state = {"support": support, "best": support, "x": np.zeros((batch, s)), "H": np.zeros((batch, s, s))}
    return {**state, **rows, **numbers, **counts, "variance": 0.01 * energy, "slab": energy / s, "least": energy}


def correlated(rng):
    """Unit columns that resemble their neighbours, a column of zeros, one that is another one's negative; a zero y."""
    Phi, y = rng.standard_normal((M, N)), rng.standard_normal((BATCH, M))
    Phi[:, 1:] += Phi[:, :-1]
    Phi /= np.linalg.norm(Phi, axis=0)
    Phi[:, 3], Phi[:, 5], y[7] = 0, -Phi[:, 4], 0
    gram = Phi.T @ Phi
    return gram, np.diag(gram).copy(), y @ Phi, np.sum(y**2, axis=1)


def sample(place, rng, known):
    data = correlated(rng)
    energy = data[-1]
    heat = np.maximum(0, 1 - np.arange(60) / 40)
    limits = (place(energy / (S * np.log(N))), place(1e-12 * energy))
    state = {name: place(array.copy()) for name, array in chains(rng, energy, N, S).items()}
    A = sets.Sparse(S).structure(N)
    supports.sample(*map(place, data), M, known, heat, heat == 0, *limits, supports.Chains(**state), A)
    return tuple(state.values())


def swap(place, rng, limit):
    data = correlated(rng)
    support, counts = place(chains(rng, data[-1], N, S)["support"]), place(rng.integers(0, S + 1, BATCH))
    return support, *supports.swap(*map(place, data), support, counts, limit)


OPERATIONS = [keep, keep_ties, advance, project, advance_structured, denoise, fit, fit_bounded]
MOVES = [(sample, True), (sample, False), (swap, 2), (swap, 1000)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_compiled_is_plain(operation, dtype, monkeypatch):
    compare(operation, dtype, np.asarray, monkeypatch)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_gpu_is_plain(operation, dtype, monkeypatch, on_gpu):
    compare(operation, dtype, on_gpu, monkeypatch)


@pytest.mark.parametrize(("operation", "setting"), MOVES)
def test_gpu_makes_the_moves_of_the_cpu(operation, setting, on_gpu):
    found, expected = (operation(place, np.random.default_rng(0), setting) for place in (on_gpu, np.array))
    # Two columns that fit equally well up to rounding may be taken for each other.
    for ours, theirs in zip(found, expected, strict=True):
        equal = np.isclose(arrays.to_numpy(ours), theirs, rtol=1e-7, atol=1e-7)
        assert equal.reshape(equal.shape[0], -1).all(axis=1).mean() > 0.99


@pytest.fixture
def on_gpu(request):
    if not request.config.getoption("--gpu"):
        pytest.skip("needs a GPU: make test-gpu")
    import torch

    return lambda array: torch.from_numpy(np.ascontiguousarray(array)).cuda()


def compare(operation, dtype, place, monkeypatch):
    fast = operation(place, np.random.default_rng(0), dtype)
    with monkeypatch.context() as patch:
        for kernels in (thresholding, posterior, fitting):
            for choice in ("worth_compiling", "has_kernels"):
                patch.setattr(kernels, choice, lambda *_: False)
        plain = operation(np.asarray, np.random.default_rng(0), dtype)
    tolerance = 2e-4 if dtype == np.float32 else 1e-9
    for ours, theirs in zip(fast, plain, strict=True):
        np.testing.assert_allclose(arrays.to_numpy(ours), theirs, rtol=tolerance, atol=tolerance)
