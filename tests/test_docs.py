"""The code in README.md, CONTRIBUTING.md, docs/ and examples/ runs as it stands; `make docs` runs the examples."""

import importlib.util
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
# Pages with commands of sparsect.
COMMANDS = [
    "README.md",
    *(f"docs/{name}.md" for name in ("start", "images", "gpu", "cluster", "command-line", "paper")),
]


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def shell_lines(text):
    """Arguments of every command of sparsect in a text, comments left out."""
    lines = re.findall(rf"^ *sparsect ({'|'.join(cli.commands)})( .*)?$", text, re.MULTILINE)
    return [(name, shlex.split(words, comments=True)) for name, words in lines]


def outputs(lines):
    """Where every command writes, with all its settings."""
    for name, words in lines:
        given = cli.commands[name].make_context(name, list(words), resilient_parsing=True).params
        # Who works does not matter to what is made, but for a GPU, which has batches of its own.
        where, settings = given.pop("out", None), {key: given[key] for key in given if key not in ("scheduler", "tls")}
        yield where and where.rstrip("/"), (name, settings)


@pytest.mark.parametrize("document", [*COMMANDS, "all", *cli.commands])
def test_commands_can_be_given_one_after_the_other_in_one_folder(document):
    """No two of them write to one place with different settings."""
    if document in cli.commands:
        text = cli.commands[document].epilog or ""
    else:
        texts = {name: (ROOT / name).read_text() for name in COMMANDS}
        text = texts.get(document) or "\n".join(texts.values())
    taken = {}
    for where, settings in outputs(shell_lines(text)):
        if where is not None:
            assert taken.setdefault(where, settings) == settings
    scripted = set(re.findall(r'checkpoint="([^"/]+)"', text))
    assert not scripted & set(taken)


@pytest.fixture
def small_photographs(tmp_path, monkeypatch):
    """A smaller photograph shows as well that the code runs."""
    monkeypatch.chdir(tmp_path)
    small = sparsect.images.resize(sparsect.images.sample("chelsea"), 40)
    monkeypatch.setattr(sparsect.images, "sample", {"chelsea": small}.__getitem__)


def run_blocks(name):
    """Run the Python code of a page from its beginning to its end; return the names that it defines."""
    names = {}
    exec("\n".join(python_blocks(name)), names)
    return names


@pytest.mark.parametrize("name", ["README.md", "docs/start.md"])
def test_first_steps(name, small_photographs):
    names = run_blocks(name)
    assert names["result"].support.nonzero()[0].tolist() == [3, 50, 120]
    np.testing.assert_allclose(names["result"].x, names["x"], atol=1e-6)
    assert names["restored"].snr_db > 15
    assert list(Path().glob("*.png"))


def test_readme_is_short_and_its_files_are_there():
    text = (ROOT / "README.md").read_text()
    assert len(text.encode()) < 6000
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert target.startswith("https://") or (ROOT / target).exists(), target
    made = set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE))
    assert made == {"demo", "test", "docs"}
    assert made <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_links_of_the_readme_on_a_package_index():
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    spec = importlib.util.spec_from_file_location("package_readme", ROOT / "docs" / "package_readme.py")
    readme = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readme)
    text = (ROOT / "README.md").read_text()
    assert readme.absolute(text, "", "") == text
    shown = readme.absolute(text, "https://host/blob/v1/", "https://host/raw/v1/")
    assert "![SNR of coded patches" in shown
    assert "](https://host/raw/v1/benchmarks/results/against-peers.png)" in shown
    assert "](https://host/blob/v1/docs/result.md#when-not-to-trust-it)" in shown
    assert all(target.startswith("https://") for target in re.findall(r"\]\(([^)]+)\)", shown))


def test_guide_to_methods():
    names = run_blocks("docs/methods.md")
    assert names["fit"].swap_optimal.all()
    assert (names["fit"].residual_norm < names["fast"].residual_norm).all()


def test_guide_to_sparsity_and_noise():
    names = run_blocks("docs/sparsity-and-noise.md")
    truth = names["problem"].x
    assert ((names["found"].support.sum(axis=1) > 20) & (names["found"].support.sum(axis=1) < 40)).all()
    for result in ("known", "incomplete"):
        assert (sparsect.snr_db(truth, names[result].x) > 15).all()


def test_guide_to_results():
    names = run_blocks("docs/result.md")
    assert np.median(sparsect.snr_db(names["x"], names["again"].x)) > 15


def test_guide_to_operators():
    names = run_blocks("docs/operators.md")
    assert sparsect.snr_db(names["x"], names["result"].x) > 60


@pytest.mark.parametrize("name", ["docs/images.md", "docs/gpu.md"])
def test_guides_to_images(name, small_photographs):
    assert run_blocks(name)["restored"].snr_db > 15


def test_guide_to_sets():
    names = run_blocks("docs/sets.md")
    assert names["positive"].support.sum() == 3
    for name, expected in (("grouped", "x"), ("joint", "X")):
        np.testing.assert_allclose(names[name].x, names[expected], atol=1e-6)
    assert (names["incomplete"].support == (names["X"][0] != 0)).all()
    assert min(np.linalg.norm(names["found"].x - candidate) for candidate in names["candidates"]) < 1e-4


def test_guide_to_dictionaries(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names = {}
    exec("\n".join(python_blocks("docs/dictionaries.md")), names)
    assert names["names"] == ["8x8", "12x12", "20x20", "paper"]
    assert np.diff(names["codes"].indptr).max() <= 4
    assert names["colours"].channels == 3
    assert names["together"].snr_db > names["apart"].snr_db + 1


def test_guide_to_regression():
    names = {}
    exec("\n".join(python_blocks("docs/regression.md")), names)
    for model in ("model", "chosen"):
        assert np.flatnonzero(names[model].support_).tolist() == [5, 40, 41]
    names["figure"].clf()


def test_guide_to_source_imaging():
    names = {}
    exec("\n".join(python_blocks("docs/source-imaging.md")), names)
    assert names["places"].tolist() == [30, 210, 350]


def test_guide_to_diffusion():
    names = {}
    first, handed = python_blocks("docs/diffusion.md")
    exec(first, names)
    assert np.mean((names["found"].x > 0) == (names["signals"] > 0)) > 0.98
    pytest.importorskip("dipy", reason="DIPY is not installed: pip install dipy")
    exec(handed, names)
    assert names["fit"].beta.shape[0] == 5


def test_guide_to_restoration(capsys):
    names = {}
    exec("\n".join(python_blocks("docs/restoration.md")), names)
    before, after = map(int, capsys.readouterr().out.split())
    assert after > before + 6
    known = ~names["missing"]
    np.testing.assert_array_equal(names["whole"][known], names["clean"][known])
    for name, words in shell_lines((ROOT / "docs/restoration.md").read_text()):
        cli.commands[name].make_context(name, list(words))


def test_dir_lists_the_public_names():
    public = [name for name in dir(sparsect) if not re.fullmatch("__.*__", name)]
    assert public == sorted(sparsect.__all__)
    assert {"SparseCoder", "DictionaryLearner", "images", "tuning", "dictionary"} <= set(public)
    # The command line, imported above, has loaded these and the submodules that are not public.
    assert not {"Any", "TYPE_CHECKING", "import_module", "backend", "cli", "reporting"} & set(public)
    assert {"__all__", "__doc__", "__version__"} <= set(dir(sparsect))
    assert all(hasattr(sparsect, name) for name in dir(sparsect))


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "api" / "index.rst").read_text()
    listed = set(re.findall(r"^   ([\w.]+)$", text, re.MULTILINE))
    modules = {"dictionary", "images", "sets", "tuning"}
    names = set(sparsect.__all__) - modules - {"METHODS"} | set(sparsect.images.__all__) | set(sparsect.tuning.__all__)
    names |= {name if name in sparsect.__all__ else f"dictionary.{name}" for name in sparsect.dictionary.__all__}
    names |= set(sparsect.sets.__all__)
    assert not names - listed
    assert not listed - names - {"dictionary.cluster.Cluster"}


def test_citation():
    text = (ROOT / "CITATION.cff").read_text()
    entries = dict(re.findall(r"^([a-z-]+): *(.*)$", text, re.MULTILINE))
    assert {"cff-version", "message", "title", "authors"} <= set(entries)
    assert entries["cff-version"] == "1.2.0"
    assert entries["version"] == sparsect.__version__
    assert entries["license"] == "BSD-3-Clause"
    assert f"## {sparsect.__version__}" in (ROOT / "CHANGELOG.md").read_text().replace("[", "").replace("]", "")


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


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("regression_path.py", "bmi"),
        ("source_imaging.py", "sparsect, number unknown: 0, 0, 0 mm"),
        ("diffusion.py", "576 voxels"),
    ],
)
def test_examples(tmp_path, name, printed):
    picture = tmp_path / "picture.png"
    command = [sys.executable, str(ROOT / "examples" / name), "--out", str(picture)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert printed in done.stdout
    assert picture.exists()
