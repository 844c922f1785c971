"""Fixtures, and options: which array libraries the library tests run on, and how much is tried at random."""

import contextlib
import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    # Timings belong in benchmarks; a slow moment of the machine must not fail a property.
    settings.register_profile("sparsect", deadline=None, max_examples=60, derandomize=True)
    settings.load_profile("sparsect")


def pytest_addoption(parser):
    parser.addoption(
        "--library", default="numpy,array_api_strict", help="array libraries for tests/backend/test_libraries.py"
    )
    parser.addoption("--fuzz-cases", type=int, default=150, help="cases of each kind in tests/fuzz/test_fuzz.py")
    parser.addoption(
        "--fuzz-seed", type=int, default=0, help="what the cases in tests/fuzz/test_fuzz.py are drawn from"
    )
    parser.addoption("--gpu", action="store_true", help="run tests/test_gpu.py, which needs a GPU")


def pytest_ignore_collect(collection_path, config):
    return True if collection_path.name == "test_gpu.py" and not config.getoption("--gpu") else None


def pytest_generate_tests(metafunc):
    if "xp" in metafunc.fixturenames:
        names = metafunc.config.getoption("--library").split(",")
        metafunc.parametrize("xp", [importlib.import_module(name) for name in names], ids=names)


@pytest.fixture
def rng():
    return np.random.default_rng(12345)


@pytest.fixture
def shell(tmp_path):
    """Run the command line in an empty folder."""

    def run(*arguments):
        command = [sys.executable, "-m", "sparsect", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"COLUMNS": "120"}, check=False
        )

    return run


@pytest.fixture
def called(tmp_path, monkeypatch, capsys):
    """Run the command line in an empty folder and in this process, which saves the time that a new one takes."""
    from sparsect.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    # What the command line changes, and what is put back in its place.
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    handler = signal.getsignal(signal.SIGINT)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["sparsect", *map(str, arguments)])
        capsys.readouterr()
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            signal.signal(signal.SIGINT, handler)
        return subprocess.CompletedProcess(sys.argv, ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def started(tmp_path):
    """Start the command line in the same folder, in a process group of its own, and go on; end it when the test does.

    Ctrl-C reaches it even where the tests themselves run with it ignored, as in a background job.
    """
    running = []

    def start(*arguments):
        command = [sys.executable, "-m", "sparsect", *map(str, arguments)]
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        running.append(process)
        return process

    yield start
    for process in running:
        # What it has started may outlive it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
