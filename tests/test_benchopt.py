"""The Benchopt benchmark runs, and its problems are what they are said to be."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "benchopt"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("benchopt"), reason="benchopt is not installed (sparsect[peers])"),
]


def test_it_runs_small(tmp_path):
    dataset = "Gaussian[m=60,n=120,sparsity=6,snr_db=20,problems=2]"
    solvers = ["-s", "sparsect[method=auto]", "-s", "scikit-learn OMP"]
    command = [
        "-m",
        "benchopt",
        "run",
        str(BENCHMARK),
        "-d",
        dataset,
        *solvers,
        "--no-plot",
        "--no-display",
        "--no-cache",
    ]
    output = ["--seed", "0", "--output", str(tmp_path / "small")]
    done = subprocess.run([sys.executable, *command, *output], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    import pandas as pd

    (written,) = [*BENCHMARK.glob("outputs/small*.parquet"), *tmp_path.rglob("*.parquet")]
    run = pd.read_parquet(written)
    assert sorted(run["solver_name"]) == ["scikit-learn OMP", "sparsect[method=auto]"]
    assert (run["objective_snr_db"] > 15).all()
    assert run["objective_f1"].between(0.5, 1).all()
    assert (run["objective_residual"] < 0.2).all()


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARK))
    yield
    for name in [name for name in sys.modules if name.startswith("benchmark_utils")]:
        del sys.modules[name]


def test_sparco_problems(benchmark):
    spec = importlib.util.spec_from_file_location("sparco", BENCHMARK / "datasets" / "sparco.py")
    sparco = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sparco)
    shapes = {3: (1024, 2048), 5: (300, 2048), 7: (600, 2560), 9: (128, 128), 10: (1024, 1024), 11: (256, 1024),
              902: (200, 1000), 903: (1024, 1024)}  # fmt: skip
    for number, (problem, sparsity) in sparco.PROBLEMS.items():
        Phi, x = problem(np.random.default_rng(0), 2)
        assert Phi.shape == shapes[number]
        assert (np.count_nonzero(x, axis=1) <= sparsity).all()
        assert np.count_nonzero(x[0]) == sparsity
    Phi, x = sparco.blkheavi(np.random.default_rng(0), 1)
    blocks = Phi @ x[0]
    assert blocks[0] == 0
    np.testing.assert_allclose(blocks[[14, 18, 64]], [4.0, -1.0, 0.9], atol=1e-12)
    cosines = sparco.cosines(16)
    np.testing.assert_allclose(cosines.T @ cosines, np.eye(16), atol=1e-12)
    np.testing.assert_allclose(cosines[:, 3], np.sqrt(1 / 8) * np.cos(np.pi * 3 * (np.arange(16) + 0.5) / 16))


def test_scores(benchmark):
    from benchmark_utils.scores import largest, refitted, scores

    Phi = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    truth = np.array([[1.0, 0.0, 0.0]])
    result = scores(Phi, truth @ Phi.T, truth, 1, np.array([[0.9, 1.0, 0.0]]))
    # In units of columns of norm 1 the first entry is the largest: 1.8 instead of 2.
    assert {name: round(float(value[0]), 6) for name, value in result.items()} == {
        "residual": 0.1,
        "snr_db": 20,
        "f1": 1,
    }
    assert largest(np.array([[1.0, -3.0, 2.0]]), 2).tolist() == [[0, -3, 2]]
    assert refitted(Phi, np.array([[4.0, 5.0]]), np.array([[1.0, 1.0, 0.0]])).tolist() == [[2, 5, 0]]
