"""Generated calls: data of all kinds and sizes, arguments that make sense or do not; what answers have to be like."""

import tempfile

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from fuzzing import answer, pick, words

import sparsect
from sparsect import images, sets
from sparsect.dictionary import ArraySource, learn
from sparsect.images import PatchSource

# What no argument is.
JUNK = [
    None,
    "",
    "abc",
    b"abc",
    -1,
    10**30,
    2**63,
    1.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    1j,
    True,
    object(),
    object,
    len,
    (),
    [],
    {},
    [[1, 2], [3]],
    ["a"],
    [None],
    range(3),
    np.float16(1),
    np.array(2.0),
    np.array([]),
    np.ones((2, 0)),
    np.ones((1, 2, 3)),
    np.array(["a"]),
    np.array([object()]),
    np.array([np.nan, 1]),
    np.full((3, 4), np.inf),
    np.ones((3, 4), np.longdouble),
    np.ones((3, 4), np.float16),
    np.ma.masked_equal([1.0, 2.0], 2),
    np.array(["2020-01-01"], "datetime64[D]"),
    np.zeros(2, [("a", float)]),
    np.random.default_rng(0),
    scipy.sparse.csr_array((2, 0)),
    scipy.sparse.coo_array(np.eye(3)),
    "x" * 300,
    "a\0b",
    [0] * 5000,
    10**5000,
]
FLOATS = ["float32", "float64"]
DTYPES = [*FLOATS, "complex64", "complex128", "int8", "uint16", "int64", "bool", ">f8", ">f4", ">c8", ">i4"]
WITH_NOISE = ("omp", "ormp", "difference-map", "vamp", "alternating-map", "annealed-difference-map")
COUNTS = (
    "max_iter",
    "transform_max_iter",
    "rounds",
    "code_iter",
    "stages",
    "batch",
    "m",
    "n",
    "passes",
    "n_atoms",
    "size",
)


class Cases:
    """One call after another; called with a random generator and a list for notes on what was drawn."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, rng, log):
        rest = (projections, metrics, drawn_problems, configured, estimators, sources, loading)
        call = pick(rng, *[recovery] * 12, *[on_images] * 3, *rest)
        log.append(call.__name__)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            call(rng, log, folder)


def on_images(rng, log, folder):
    """What is done with images."""
    dictionary = _dictionary(*pick(rng, (1, 3), (2, 4), (3, 20)))
    image, method = _image(rng), pick(rng, "admm", *WITH_NOISE)
    options = {
        "dictionary": dictionary,
        "stride": pick(rng, 1, 2, None),
        "max_iter": 4,
        "sparsity": pick(rng, 0, 1, 3),
    }
    mask = rng.random(image.shape[:2]) < pick(rng, 0, 0.3, 0.3, 1)
    calls = {
        "reconstruct": (images.reconstruct, {"image": image, "method": method, **options}),
        "denoise": (
            images.denoise,
            {"image": image, "sigma": pick(rng, None, 0.1, 1e-9, 1e9), "quality": pick(rng, "fast", "best")},
        ),
        "inpaint": (images.inpaint, {"image": image, "mask": mask, "passes": 2}),
        "estimate_sigma": (images.estimate_sigma, {"image": image}),
        "psnr_db": (images.psnr_db, {"truth": image, "estimate": pick(rng, image, _image(rng))}),
        "difference": (images.difference, {"original": image, "image": pick(rng, image, _image(rng))}),
        "grey": (images.to_gray, {"image": image}),
        "resize": (images.resize, {"image": image, "longest": pick(rng, 1, 5, 40, 10**9)}),
        "write_image": (
            images.write_image,
            {"path": f"{folder}/{pick(rng, 'a.png', 'a.jpg', 'a.tif', 'a')}", "image": image},
        ),
    }
    name = pick(rng, *calls)
    function, arguments = calls[name]
    log.append(name)
    spoil(rng, log, arguments)
    found = kept(function, arguments)
    if name == "reconstruct":
        assert found.image.shape[:2] == image.shape[:2]
        assert np.isfinite(found.image).all()
        assert not np.isnan([found.snr_db, found.patch_snr_db]).any()
        assert (np.diff(found.codes.matrix.indptr) <= arguments["sparsity"]).all()
    elif name == "write_image":
        assert images.read_image(arguments["path"]).shape[:2] == arguments["image"].shape[:2]
    elif name == "psnr_db":
        assert not np.isnan(found)
    else:
        assert np.isfinite(found).all()


def sources(rng, log, folder):
    """Where training signals come from, and learning."""
    if rng.random() < 0.5:
        planes = [
            _layout(rng, rng.random(rng.integers(1, 9, 2)).astype(pick(rng, *FLOATS))) for _ in range(rng.integers(4))
        ]
        arguments = {
            "images": planes,
            "patch": pick(rng, 1, 2, 3),
            "size": pick(rng, 1, 7, 100),
            "rng": 0,
            "batch_size": pick(rng, 1, 5, 10**6),
        }
        spoil(rng, log, arguments)
        source = kept(PatchSource, arguments)
    else:
        signals = _numbers(rng, (rng.integers(1, 30), rng.integers(1, 6)), pick(rng, *FLOATS))
        arguments = {"signals": signals * _scale(rng, signals.dtype), "batch_size": pick(rng, 1, 5, 10**6)}
        spoil(rng, log, arguments)
        source = kept(ArraySource, arguments)
    for index in range(min(source.batches, 3)):
        assert np.isfinite(source.batch(index)).all()
    settings = {
        "n_atoms": pick(rng, 1, 2, 5),
        "rounds": 1,
        "code_iter": 2,
        "sparsity": pick(rng, None, 1),
        "rng": 0,
    }
    spoil(rng, log, settings, chance=0.2)
    check_dictionary(kept(learn, {"source": source} | settings))


def loading(rng, log, folder):
    """Names of files that are none."""
    function = pick(
        rng, sparsect.load_result, sparsect.load_dictionary, images.load_codes, images.read_image, images.ImageFolder
    )
    name = pick(rng, *JUNK, "/dev/null", "nowhere.npz", folder, "a\0b.npz")
    log.append(f"{function.__name__}({words(name)})")
    if function is not sparsect.load_dictionary or name is not None:
        answer(function, name)


def recovery(rng, log, folder):
    """The front door."""
    Phi, dense = _matrix(rng, log)
    m, n = dense.shape
    y, single = _data(rng, log, dense)
    s = pick(rng, *[int(rng.integers(0, n + 1))] * 5, min(2, n), n, "auto")
    solver = pick(rng, _solver(rng), "annealed-difference-map") if s == "auto" else _solver(rng)
    if isinstance(s, int) and rng.random() < 0.3:
        s = _set(rng, s, n)
    arguments = {"Phi": Phi, "y": y, "sparsity": s, "method": solver}
    log.append(f"{m}x{n}, s {s}, {solver}")
    known = sparsect.METHODS[solver] if isinstance(solver, str) else solver
    needed = isinstance(getattr(solver, "data_set", None), sparsect.Ball)
    if needed or rng.random() < (0.4 if getattr(known, "uses_noise_norm", False) else 0.02):
        size = float(np.abs(np.asarray(y)).max(initial=0))
        level = pick(rng, 0, 0.1 * size, size, 1e3 * size, 1e30)
        arguments["noise_norm"] = pick(rng, level, level, np.full(1 if single else len(y), level), [level])
        log.append(f"noise_norm {words(arguments['noise_norm'])}")
    arguments |= {
        "max_iter": pick(rng, 1, 2, 5, 20, 20, 60),
        "max_seconds": pick(rng, None, None, 0, 600),
        "tol": pick(rng, None, None, 0, 1e-3, 1e9),
        "record": pick(rng, None, (), "x", ["residual_norm", "x", "support", "converged"]),
        "record_at": pick(rng, 1, 10, [1, 3, 1000], 10**12),
        "refit": pick(rng, False, True),
        "checkpoint": pick(rng, None, None, None, f"{folder}/run.npz"),
        "checkpoint_every": pick(rng, 1, 3, 100),
    }
    bad = spoil(rng, log, arguments)
    result = kept(sparsect.recover, arguments)
    if bad in ("Phi", "y"):
        # Some of what was put in their place happens to be a problem.
        dense, y, single = np.asarray(arguments["Phi"]), np.asarray(arguments["y"]), np.ndim(arguments["y"]) == 1
    check_result(result, arguments, dense, y, single)
    if isinstance(arguments["checkpoint"], str) and bad != "max_iter":
        # A run always goes on from its own checkpoint.
        arguments["max_iter"] += 3
        check_result(sparsect.recover(**arguments), arguments, dense, y, single)


def _set(rng, s, n):
    """A set of vectors with up to s nonzeros, or of s groups."""
    labels = np.minimum(np.arange(n) // pick(rng, 1, 2, 3), max(n - 2, 0))
    labels = np.unique(rng.permutation(labels), return_inverse=True)[1]
    count, counts = int(labels.max()) + 1, np.bincount(labels)
    return pick(
        rng,
        sets.Sparse(s, nonnegative=True),
        sets.Sparse(s, low=-1.0, high=float(rng.integers(0, 3))),
        sets.GroupSparse(min(s, count), labels),
        sets.LevelSparse([int(rng.integers(0, most + 1)) for most in counts], labels),
    )


def check_result(result, arguments, dense, y, single):
    """What every answer promises."""
    Phi, given = arguments["Phi"], [np.asarray(y).dtype, dense.dtype]
    # Of transforms, only whether they are complex is known.
    if isinstance(Phi, sparsect.SubsampledDCT | sparsect.SubsampledFourier):
        given[1] = np.dtype(np.complex64 if np.iscomplexobj(dense) else np.float32)
    dtype = np.result_type(*(kind.newbyteorder("=") if kind.kind in "fc" else np.float64 for kind in given))
    y = np.atleast_2d(np.asarray(y, np.result_type(dtype, np.float64)))
    batch, n = y.shape[0], dense.shape[1]
    assert result.x.shape == ((n,) if single else (batch, n))
    assert result.x.dtype == dtype, (result.x.dtype, dtype)
    x = np.atleast_2d(result.x)
    assert np.isfinite(x).all(), "x is not finite"
    limit = arguments["sparsity"]
    if isinstance(limit, sparsect.SignalSet):
        np.testing.assert_allclose(limit.project(x), x, rtol=1e-5, err_msg="x is not in its set")
        limit = n
    limit = n if isinstance(limit, str) else limit
    assert (np.count_nonzero(x, axis=1) <= limit).all(), "too many nonzeros"
    np.testing.assert_array_equal(result.support, result.x != 0)
    for name in ("residual_norm", "converged", "n_iter", *(["gap"] if result.gap is not None else [])):
        assert np.shape(getattr(result, name)) == (() if single else (batch,)), name
    assert result.gap is None or not np.isnan(result.gap).any()
    assert (np.asarray(result.n_iter) <= arguments["max_iter"]).all()
    lengths = {len(column) for column in result.history.values()}
    assert len(lengths) <= 1
    found = np.atleast_1d(result.residual_norm).astype(np.float64)
    assert np.isfinite(found).all(), "the residual is not finite"
    wide = np.asarray(dense, np.result_type(dense.dtype, np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        residual = _norms(x @ wide.T - y)
        products = _norms(np.abs(x) @ np.abs(wide).T)
    # What rounding can amount to; and rows of y so small that their squares would vanish count as zero.
    numbers = np.finfo(dtype)
    slack = 50 * (n + 10) * numbers.eps * (products + _norms(y)) + 1e5 * float(numbers.smallest_normal) ** 0.5
    assert (np.abs(found - residual) <= slack).all(), f"residual {found}, really {residual}, slack {slack}"


def _norms(rows):
    """Norms of rows that may be of any size."""
    unit = np.maximum(np.abs(rows).max(axis=1), 1e-300)
    return np.linalg.norm(rows / unit[:, None], axis=1) * unit


def projections(rng, log, folder):
    """Nearest points."""
    if rng.random() < 0.5:
        x = _layout(rng, _numbers(rng, tuple(rng.integers(0, 9, rng.integers(1, 4))), pick(rng, *DTYPES)))
        arguments = {"x": x, "sparsity": int(rng.integers(0, 9))}
        spoil(rng, log, arguments)
        found = kept(sparsect.project_sparse, arguments)
        assert (np.count_nonzero(found, axis=-1) <= arguments["sparsity"]).all()
        assert np.isfinite(found).all()
        return
    Phi, dense = _matrix(rng, log)
    y, single = _data(rng, log, dense)
    x = _numbers(rng, pick(rng, dense.shape[1], (1 if single else len(y), dense.shape[1])), pick(rng, *DTYPES))
    data_set = pick(rng, None, sparsect.Affine(), sparsect.Relaxed(pick(rng, 0, 1e-3, 1e30)), sparsect.Ball())
    noise_norm = pick(rng, 0, 0.1, 1e9) if isinstance(data_set, sparsect.Ball) else pick(rng, None, None, 0, 0.1, 1e9)
    arguments = {"x": x, "Phi": Phi, "y": y, "data_set": data_set, "noise_norm": noise_norm}
    log.append(f"x {x.dtype} {x.shape}, {data_set}, {arguments['noise_norm']}")
    spoil(rng, log, arguments)
    assert np.isfinite(kept(sparsect.project_data, arguments)).all()


def metrics(rng, log, folder):
    """How good an estimate is; NaN stands for itself."""
    shape = tuple(rng.integers(0, 5, rng.integers(1, 4)))
    pair = [_layout(rng, _numbers(rng, shape, kind)) for kind in (pick(rng, *DTYPES), pick(rng, *DTYPES))]
    pair = [value * _scale(rng, value.dtype) for value in pair]
    arguments = {"truth": pair[0], "estimate": pick(rng, *pair)}
    spoil(rng, log, arguments)
    for measure in (sparsect.snr_db, sparsect.mse, sparsect.support_recall):
        log.append(measure.__name__)
        found = kept(measure, arguments)
        assert np.shape(found) == np.shape(arguments["truth"])[:-1]


def drawn_problems(rng, log, folder):
    """Random problems."""
    arguments = {"m": int(rng.integers(1, 9)), "n": int(rng.integers(0, 9)), "sparsity": int(rng.integers(0, 5))}
    arguments |= {
        "snr_db": pick(rng, None, 0, -300, 300, 20.0),
        "batch": pick(rng, 1, 3),
        "rng": pick(rng, 0, None, [1, 2]),
    }
    arguments |= {"dtype": pick(rng, np.float32, "float64")}
    spoil(rng, log, arguments)
    problem = kept(sparsect.random_problem, arguments)
    assert np.isfinite(problem.y).all()
    assert (np.count_nonzero(problem.x, axis=1) <= arguments["sparsity"]).all()


def configured(rng, log, folder):
    """Settings of solvers and operators."""
    calls = [
        (sparsect.DifferenceMap, {"beta": 0.5, "data_set": None}),
        (sparsect.ADMM, {"mu": 1.0, "lam": 1.0, "p": 0.5}),
        (sparsect.IRLS, {"alpha": 1.0, "beta": 1.0, "p": 0.5}),
        (sparsect.VectorAMP, {"density": 0.1, "variance": 1.0, "noise_variance": 1.0, "damping": 0.9}),
        (sparsect.StagewiseOMP, {"threshold": sparsect.FalseAlarmRate(), "stages": 3}),
        (sparsect.FalseAlarmRate, {"rate": 0.1}),
        (sparsect.FalseDiscoveryRate, {"rate": 0.1}),
        (sparsect.AnnealedDifferenceMap, {"goal": "recovery", "learn_sparsity": False}),
        (sparsect.Relaxed, {"alpha": 1.0}),
        (sparsect.DenseOperator, {"Phi": np.eye(2), "rank_tol": 0.1}),
        (sparsect.SparseOperator, {"Phi": scipy.sparse.csr_array(np.eye(2))}),
        (sparsect.MatrixFree, {"Phi": scipy.sparse.linalg.aslinearoperator(np.eye(2)), "frame_bound": 1.0}),
        (sparsect.as_operator, {"Phi": np.eye(2), "frame_bound": None}),
        (sparsect.SubsampledDCT, {"shape_of_signal": pick(rng, 8, (2, 4), [8]), "samples": [1, 3]}),
        (sparsect.SubsampledFourier.random, {"shape_of_signal": 8, "m": 3, "rng": 0}),
    ]
    function, arguments = pick(rng, *calls)
    log.append(function.__name__)
    spoil(rng, log, arguments, chance=1)
    made = kept(function, arguments)
    if hasattr(made, "step"):
        answer(sparsect.recover, np.eye(2, 3), np.ones(2), 1, made, max_iter=3)


def estimators(rng, log, folder):
    """scikit-learn's skins; what its own checks say is as good."""
    X = _layout(rng, _numbers(rng, tuple(rng.integers(1, 12, 2)), pick(rng, *FLOATS, *DTYPES[4:])))
    X = X * _scale(rng, np.float32)
    common = {
        "sparsity": pick(rng, None, 1, 2),
        "method": pick(rng, "auto", *sparsect.METHODS),
        "refit": pick(rng, True, False),
        "transform_max_iter": 4,
        "device": pick(rng, None, "cpu", "auto"),
    }
    if rng.random() < 0.5:
        kind, own = sparsect.SparseCoder, {"dictionary": pick(rng, None, rng.standard_normal((5, X.shape[1])))}
    else:
        kind, own = sparsect.DictionaryLearner, {"n_atoms": pick(rng, None, 1, 4), "rounds": 1, "code_iter": 2}
        own["random_state"] = pick(rng, None, 3)
    log.append(f"{kind.__name__} {X.dtype} {X.shape} {common['method']}")
    settings = own | common
    spoil(rng, log, settings)
    if rng.random() < 0.2:
        X = pick(rng, *JUNK)
        log.append(f"X is {type(X)}")
    estimator = answer(kind, **settings)
    codes = answer(estimator.fit_transform, X, others=(ValueError, TypeError, OverflowError))
    assert np.isfinite(codes.data).all()
    assert np.isfinite(answer(estimator.inverse_transform, codes)).all()


def kept(function, arguments):
    """What a call returns, whose arguments may not change."""
    before = {name: _bytes(value) for name, value in arguments.items()}
    try:
        return answer(function, **arguments)
    finally:
        assert before == {name: _bytes(value) for name, value in arguments.items()}, "an argument was changed"


def spoil(rng, log, arguments, chance=0.25):
    """Put junk in place of an argument, now and then; its name."""
    if rng.random() >= chance:
        return None
    name, value = pick(rng, *arguments), pick(rng, *JUNK)
    # Nothing is wrong with a number of steps or of numbers that nobody has the time or the room for.
    if name in COUNTS and isinstance(value, int) and value > 1:
        value = 1.5
    arguments[name] = value
    log.append(f"{name} is {words(value)}")
    return name


def _bytes(value):
    if isinstance(value, list):
        return [_bytes(each) for each in value[:10]]
    if scipy.sparse.issparse(value):
        value = value.toarray()
    return value.tobytes() if isinstance(value, np.ndarray) else None


def _numbers(rng, shape, dtype):
    """Random numbers of any dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        return rng.integers(0, 2 if dtype.kind == "b" else 9, shape).astype(dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def _scale(rng, dtype):
    """1 as a rule, otherwise anything that the dtype has room for."""
    if np.dtype(dtype).kind not in "fc" or rng.random() < 0.7:
        return np.dtype(dtype).type(1)
    most = 30 if np.finfo(dtype).eps > 1e-10 else pick(rng, 30, 150)
    return np.dtype(dtype).type(10.0 ** rng.uniform(-most, most))


def _layout(rng, array):
    """The same numbers, laid out in memory in some way or other."""
    kind = rng.integers(6)
    if kind == 0:
        array = np.asfortranarray(array)
    elif kind == 1 and array.ndim:
        array = np.repeat(array, 2, axis=-1)[..., ::2]
    elif kind == 2 and array.ndim:
        array = array[::-1].copy()[::-1]
    elif kind == 3:
        array = array.copy()
        array.flags.writeable = False
    return array


def _matrix(rng, log):
    """Phi in some form or other, and as a dense array."""
    m, n = int(rng.integers(1, 13)), int(rng.integers(1, 21))
    dtype = np.dtype(pick(rng, *DTYPES[:4] * 2, *DTYPES))
    form = pick(rng, *["dense"] * 6, "list", "csr", "csc", "coo", "linear", "cosine", "fourier", "operator")
    if form in ("cosine", "fourier"):
        kind = sparsect.SubsampledDCT if form == "cosine" else sparsect.SubsampledFourier
        operator = kind.random(pick(rng, n, (n, 2)), min(m, n), rng=rng)
        log.append(form)
        unit_vectors = np.eye(operator.shape[1], dtype=np.complex128 if form == "fourier" else np.float64)
        return operator, operator.forward(unit_vectors).T
    Phi = _numbers(rng, (m, n), dtype)
    shape = pick(rng, *["plain"] * 4, "zero column", "zero row", "twins", "rank one", "zero", "uneven")
    if shape == "zero column":
        Phi[:, rng.integers(n)] = 0
    elif shape == "zero row":
        Phi[rng.integers(m)] = 0
    elif shape == "twins":
        Phi[:, rng.integers(n)] = Phi[:, rng.integers(n)]
    elif shape == "rank one":
        Phi[:] = Phi[:, :1]
    elif shape == "zero":
        Phi[:] = 0
    elif shape == "uneven" and dtype.kind in "fc":
        Phi *= (10.0 ** rng.uniform(-8, 8, n)).astype(dtype)
    Phi = Phi * _scale(rng, dtype)
    log.append(f"Phi {form} {shape} {dtype} up to {np.abs(Phi).max()}")
    forms = {
        "dense": lambda: _layout(rng, Phi),
        "list": Phi.tolist,
        "csr": lambda: scipy.sparse.csr_array(Phi.astype(dtype.newbyteorder("="))),
        "csc": lambda: scipy.sparse.csc_matrix(Phi.astype(dtype.newbyteorder("="))),
        "coo": lambda: scipy.sparse.coo_array(Phi.astype(dtype.newbyteorder("="))),
        "linear": lambda: scipy.sparse.linalg.aslinearoperator(Phi),
        "operator": lambda: answer(sparsect.as_operator, Phi),
    }
    given = forms[form]()
    return given, np.asarray(given) if form == "list" else Phi


def _data(rng, log, dense):
    """y, for one signal or several."""
    single, batch = rng.random() < 0.4, int(pick(rng, 1, 2, 5, 5, 2000))
    dtype = np.dtype(pick(rng, *DTYPES[:4] * 2, *DTYPES))
    m, n = dense.shape
    rows = 1 if single else batch
    kind = pick(rng, *["sparse"] * 3, "random", "zero", "a row of zeros", "a tiny row")
    if kind == "random":
        y = _numbers(rng, (rows, m), dtype)
    else:
        x = _numbers(rng, (rows, n), np.float64) * (rng.random((rows, n)) < 0.2)
        size = np.abs(dense).max()
        y = x @ (dense / (size or 1)).T + pick(rng, 0, 0.01) * rng.standard_normal((rows, m))
        y = (y.real if dtype.kind != "c" else y).astype(dtype)
    if kind == "zero":
        y[:] = 0
    elif kind == "a row of zeros":
        y[0] = 0
    elif kind == "a tiny row" and dtype.kind in "fc":
        y[0] *= dtype.type(1e-30)
    y = y * _scale(rng, dtype)
    log.append(f"y {kind} {dtype} up to {np.abs(y).max()}")
    y = _layout(rng, y[0] if single else y)
    return (y.tolist() if rng.random() < 0.1 else y), single


def _solver(rng):
    """A method by name, or with settings of its own."""
    sets = [None, sparsect.Affine(), sparsect.Ball(), sparsect.Relaxed(pick(rng, 0, 1e-6, 0.1, 1e9))]
    configured = [
        sparsect.DifferenceMap(pick(rng, -1, 0.5, 1, 1e-9, 1e9), pick(rng, *sets)),
        sparsect.AlternatingMap(pick(rng, *sets)),
        sparsect.ADMM(pick(rng, 1e-9, 1, 1e9), pick(rng, 0, 1, 1e9), pick(rng, -5, 0, 0.5, 1)),
        sparsect.IRLS(pick(rng, 0, 1, 1e9), pick(rng, 1e-12, 1, 1e9), pick(rng, 0, 0.5, 2)),
        sparsect.VectorAMP(
            pick(rng, None, 1e-6, 1), pick(rng, None, 1e-9, 1e9), pick(rng, None, 1e-9, 1e9), pick(rng, 1e-3, 1)
        ),
        sparsect.StagewiseOMP(
            pick(rng, sparsect.FalseAlarmRate(0.5), sparsect.FalseDiscoveryRate(1e-6)), pick(rng, 1, 30)
        ),
        sparsect.AnnealedDifferenceMap("approximation"),
        sparsect.AnnealedDifferenceMap(),
    ]
    return pick(rng, pick(rng, *sparsect.METHODS), pick(rng, *configured))


def _dictionary(side, atoms):
    Phi = np.random.default_rng(side).standard_normal((side * side, atoms))
    return sparsect.Dictionary(Phi / np.linalg.norm(Phi, axis=0))


def check_dictionary(dictionary):
    assert np.isfinite(dictionary.Phi).all()
    np.testing.assert_allclose(np.linalg.norm(dictionary.Phi, axis=0), 1, rtol=1e-3)


def _image(rng):
    """An image of some size, dtype and number of channels."""
    shape = tuple(rng.integers(1, 9, 2)) + pick(rng, (), (), (1,), (2,), (3,), (4,), (5,))
    dtype = pick(rng, "float32", "float64", "uint8", "uint16", "bool", "float16", "int32", "complex64", ">u2", ">f4")
    values = pick(
        rng,
        rng.random(shape),
        np.zeros(shape),
        np.ones(shape),
        1e9 * rng.standard_normal(shape),
        1e-30 * rng.random(shape),
    )
    if np.dtype(dtype).kind in "iu":
        values = rng.integers(0, 256, shape)
    with np.errstate(all="ignore"):
        return _layout(rng, np.asarray(values).astype(dtype))
