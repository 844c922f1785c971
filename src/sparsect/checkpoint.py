"""How is a run kept in a file so that it can go on later as if it had never stopped?"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import files
from .arrays import from_numpy, generator, namespace, to_numpy
from .checks import InputError
from .trace import Trace

if TYPE_CHECKING:
    from .solve import Run


class Checkpoint:
    """The file of one run. If it exists, the run goes on from it; a file of another run is refused, not overwritten."""

    def __init__(self, path: str | os.PathLike[str], run: Run, trace: Trace, tol: float) -> None:
        self.path, self.run, self.trace = Path(path), run, trace
        self.identity = _identity(run, trace, tol)
        self.response = _response(run)
        if self.path.exists():
            self._restore()

    def write(self) -> None:
        """Save where the run stands."""
        progress = self.run.progress
        arrays = {
            "identity": np.array(self.identity),
            "response": self.response,
            "iteration": np.array(progress.iteration),
            "seconds": np.array([self.run.clock.seconds, self.run.setup_seconds]),
            "rows": progress.rows,
        }
        arrays |= {f"state/{name}": to_numpy(value) for name, value in progress.state.arrays().items()}
        arrays |= {f"history/{name}": column for name, column in self.trace.history().items()}
        for index, answers in enumerate(progress.done):
            parts = {field.name: getattr(answers, field.name) for field in dataclasses.fields(answers)}
            arrays |= {f"done/{index}/{name}": to_numpy(value) for name, value in parts.items()}
        files.write_npz(self.path, arrays)

    def _restore(self) -> None:
        arrays = files.read_npz(self.path)
        if "identity" not in arrays or "response" not in arrays:
            raise InputError(f"{self.path}: not a checkpoint of sparsect")
        found = str(arrays["identity"])
        if found != self.identity or not np.allclose(arrays["response"], self.response, rtol=1e-4):
            what = "another Phi" if found == self.identity else _first_difference(found, self.identity)
            raise InputError(
                f"{self.path}: a checkpoint of another run ({what}); give another file, or remove this one"
            )
        run, like = self.run, self.run.problem.y
        rows = arrays["rows"]
        state = {_tail(name): from_numpy(value, like) for name, value in arrays.items() if name.startswith("state/")}
        done: list[dict[str, Any]] = []
        while f"done/{len(done)}/rows" in arrays:
            prefix = f"done/{len(done)}/"
            done.append({name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)})
        run.restore(int(arrays["iteration"]), rows, state, done)
        run.clock.seconds, run.setup_seconds = (float(value) for value in arrays["seconds"])
        self.trace.restore({_tail(name): value for name, value in arrays.items() if name.startswith("history/")})


def _tail(name: str) -> str:
    return name.partition("/")[2]


def _identity(run: Run, trace: Trace, tol: float) -> str:
    """What has to be the same for a run to go on: solver, problem, tolerance and what is recorded."""
    problem = run.problem
    digest = hashlib.sha256(np.ascontiguousarray(to_numpy(problem.y)).tobytes())
    if problem.noise_norm is not None:
        digest.update(to_numpy(problem.noise_norm).tobytes())
    lines = {
        "method": repr(run.solver),
        "sparsity": problem.sparsity,
        "tol": tol,
        "shape": (problem.batch, *problem.operator.shape),
        "dtype": to_numpy(problem.y).dtype.name,
        "record": trace.describe(),
        "y and noise_norm": digest.hexdigest(),
    }
    return "\n".join(f"{name}: {value}" for name, value in lines.items())


def _response(run: Run) -> np.ndarray[Any, Any]:
    """Phi's answer to a fixed random vector: tells one Phi from another, whatever kind of operator it is."""
    problem = run.problem
    probe = from_numpy(generator(0).standard_normal((1, problem.operator.shape[1])), problem.y)
    return to_numpy(problem.operator.forward(namespace(probe).astype(probe, problem.y.dtype)))


def _first_difference(found: str, expected: str) -> str:
    for theirs, ours in zip(found.splitlines(), expected.splitlines(), strict=False):
        if theirs != ours:
            return f"its {theirs}, now {ours.partition(': ')[2]}"
    return "written by another version"
