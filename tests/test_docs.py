"""The code in README.md and CONTRIBUTING.md runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import sparsect

ROOT = Path(__file__).parent.parent


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def test_readme():
    names = {}
    exec("\n".join(python_blocks("README.md")), names)
    assert names["result"].x.shape == (10, 1000)


def test_the_solver_in_contributing():
    (code,) = python_blocks("CONTRIBUTING.md")
    names = {"__name__": "sparsect.solvers.hard_thresholding"}
    exec(code.replace("from ..", "from sparsect."), names)
    problem = sparsect.random_problem(100, 200, 5, batch=3, rng=0)
    result = sparsect.recover(problem.Phi, problem.y, 5, names["HardThresholding"]())
    assert result.converged.all()
    np.testing.assert_allclose(result.x, problem.x, atol=1e-3)


def test_the_script_in_cluster(tmp_path):
    (code,) = python_blocks("docs/cluster.md")
    (tmp_path / "script.py").write_text(code)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Dictionary(64x100, 3 rounds) 40000" in done.stdout
    assert (tmp_path / "mine.npz").exists()
