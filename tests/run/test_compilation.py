"""Kernels are compiled before the clock of a run starts."""

import os
import subprocess
import sys

import pytest

COMPILATIONS_ON_THE_CLOCK = """
import contextlib, sys
from numba.core import event
import sparsect
from sparsect.run.trace import Clock

running, found, counted = [], [], Clock.running

@contextlib.contextmanager
def running_clock(clock):
    with counted(clock):
        running.append(clock)
        yield
        running.pop()

class Listener(event.Listener):
    def on_start(self, event):
        if running:
            found.append((method, event.data["dispatcher"].py_func.__qualname__))

    def on_end(self, event):
        pass

Clock.running = running_clock
event.register("numba:compile", Listener())
image = sparsect.images.sample("camera")[:160, :160]
for method in ("subspace-pursuit", "lars", "difference-map", "auto"):
    for sparsity in (20, 60):
        sparsect.images.reconstruct(image, sparsity, method, seconds_per_patch=0.01)
sys.exit(str(found) if found else 0)
"""


@pytest.mark.slow
def test_time_limit_does_not_include_compilation(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COMPILATIONS_ON_THE_CLOCK]
    run = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
