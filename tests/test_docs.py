"""The code in README.md, CONTRIBUTING.md, docs/ and examples/ runs as it stands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparsect
from sparsect.cli import cli

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def shell_lines(text):
    """Arguments of every command of sparsect in a text, comments left out."""
    lines = re.findall(r"^ *sparsect ([a-z]+)( .*)?$", text, re.MULTILINE)
    return [(name, shlex.split(words, comments=True)) for name, words in lines]


def outputs(lines):
    """Where every command writes, with all its settings."""
    for name, words in lines:
        given = cli.commands[name].make_context(name, list(words), resilient_parsing=True).params
        # Who works does not matter to what is made, but for a GPU, which has batches of its own.
        where, settings = given.pop("out", None), {key: given[key] for key in given if key not in ("scheduler", "tls")}
        yield where and where.rstrip("/"), (name, settings)


@pytest.mark.parametrize("document", ["README.md", "docs/cluster.md", "all", *cli.commands])
def test_commands_can_be_given_one_after_the_other_in_one_folder(document):
    """No two of them write to one place with different settings."""
    if document in cli.commands:
        text = cli.commands[document].epilog or ""
    else:
        texts = {name: (ROOT / name).read_text() for name in ("README.md", "docs/cluster.md")}
        text = texts.get(document) or "\n".join(texts.values())
    taken = {}
    for where, settings in outputs(shell_lines(text)):
        if where is not None:
            assert taken.setdefault(where, settings) == settings
    scripted = set(re.findall(r'checkpoint="([^"/]+)"', text))
    assert not scripted & set(taken)


def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A smaller photograph shows as well that the code runs.
    small = sparsect.images.resize(sparsect.images.sample("chelsea"), 120)
    monkeypatch.setattr(sparsect.images, "sample", {"chelsea": small}.__getitem__)
    names = {}
    exec("\n".join(python_blocks("README.md")), names)
    assert names["result"].x.shape == (10, 1000)


def test_guide_to_sets():
    names = {}
    exec("\n".join(python_blocks("docs/sets.md")), names)
    assert names["positive"].support.sum() == 3
    for name, expected in (("grouped", "x"), ("joint", "X")):
        np.testing.assert_allclose(names[name].x, names[expected], atol=1e-6)
    assert (names["incomplete"].support == (names["X"][0] != 0)).all()
    assert min(np.linalg.norm(names["found"].x - candidate) for candidate in names["candidates"]) < 1e-4


def test_dir_lists_the_public_names():
    public = [name for name in dir(sparsect) if not re.fullmatch("__.*__", name)]
    assert public == sorted(sparsect.__all__)
    assert {"SparseCoder", "DictionaryLearner", "images", "tuning", "dictionary"} <= set(public)
    # The command line, imported above, has loaded these and the submodules that are not public.
    assert not {"Any", "TYPE_CHECKING", "import_module", "backend", "cli", "reporting"} & set(public)
    assert {"__all__", "__doc__", "__version__"} <= set(dir(sparsect))
    assert all(hasattr(sparsect, name) for name in dir(sparsect))


def test_the_solver_in_contributing():
    (code,) = python_blocks("CONTRIBUTING.md")
    names = {"__name__": "sparsect.solvers.hard_thresholding", "__package__": "sparsect.solvers"}
    exec(code, names)
    problem = sparsect.random_problem(100, 200, 5, batch=3, rng=0)
    result = sparsect.recover(problem.Phi, problem.y, 5, names["HardThresholding"]())
    assert result.converged.all()
    np.testing.assert_allclose(result.x, problem.x, atol=1e-3)


def test_the_script_in_cluster(tmp_path):
    (code,) = python_blocks("docs/cluster.md")
    (tmp_path / "script.py").write_text(code)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Dictionary(64x100, 8 rounds) 40000" in done.stdout
    assert (tmp_path / "from-dask.npz").exists()


def test_example_of_regression(tmp_path):
    script, picture = ROOT / "examples" / "regression_path.py", tmp_path / "path.png"
    command = [sys.executable, str(script), "--out", str(picture)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "bmi" in done.stdout
    assert picture.exists()
