"""How is a run kept in a file so that it can go on later as if it had never stopped?"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import files
from .arrays import from_numpy, generator, is_numpy, namespace, to_numpy
from .checks import InputError
from .trace import Trace

if TYPE_CHECKING:
    from .solve import Run


# What is kept of rows that are done.
ANSWERS = ("rows", "x", "gap", "n_iter", "stable", "lost")


class Checkpoint:
    """The file of one run. If it exists, the run goes on from it; a file of another run is refused, not overwritten."""

    def __init__(self, path: str | os.PathLike[str], run: Run, trace: Trace, tol: float) -> None:
        self.path, self.run, self.trace = Path(path), run, trace
        files.check_writable(self.path)
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
            arrays |= {f"done/{index}/{name}": to_numpy(getattr(answers, name)) for name in ANSWERS}
        files.write_npz(self.path, arrays)

    def _restore(self) -> None:
        arrays = files.read_npz(self.path)
        if "identity" not in arrays or "response" not in arrays:
            raise InputError(f"{self.path}: not a checkpoint of sparsect")
        found, response = str(arrays["identity"]), arrays["response"]
        if found != self.identity:
            self._refuse(_first_difference(found, self.identity))
        # Norms rather than entries: what is small in one entry may be large in all of them.
        if response.shape != self.response.shape or (
            np.linalg.norm(response - self.response) > 1e-4 * np.linalg.norm(self.response)
        ):
            self._refuse("another Phi, or Phi factored otherwise")
        try:
            self._go_on(arrays)
        except KeyError as error:
            raise InputError(f"{self.path}: damaged, {error.args[0]} is missing") from None

    def _go_on(self, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        run, like = self.run, self.run.problem.y
        state = {
            name: arrays[f"state/{name}"] if is_numpy(namespace(value)) else from_numpy(arrays[f"state/{name}"], like)
            for name, value in run.progress.state.arrays().items()
        }
        done: list[dict[str, Any]] = []
        while f"done/{len(done)}/rows" in arrays:
            done.append({name: arrays[f"done/{len(done)}/{name}"] for name in ANSWERS})
        seconds = [float(value) for value in arrays["seconds"]]
        self.trace.restore({name: arrays[f"history/{name}"] for name in self.trace.columns})
        run.restore(int(arrays["iteration"]), arrays["rows"], state, done)
        run.clock.seconds, run.setup_seconds = seconds

    def _refuse(self, what: str) -> None:
        raise InputError(f"{self.path}: a checkpoint of another run ({what}); give another file, or remove this one")


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
        "arrays": f"{type(problem.y).__module__.split('.')[0]} {to_numpy(problem.y).dtype.name}",
        "Phi": type(problem.operator).__name__,
        "refit": run.refit,
        "record": trace.describe(),
        "y and noise_norm": digest.hexdigest(),
    }
    return "\n".join(f"{name}: {value}" for name, value in lines.items())


def _response(run: Run) -> np.ndarray[Any, Any]:
    """Phi's answer to a fixed random vector, which tells one Phi from another, whatever kind of operator it is.

    States hold coordinates in the basis of Phi's row space, so where that is in use its answer is part of it.
    """
    problem = run.problem
    operator = problem.operator
    probe = from_numpy(generator(0).standard_normal((1, operator.shape[1])), problem.y)
    probe = namespace(probe).astype(probe, problem.y.dtype)
    answers = [to_numpy(operator.forward(probe))]
    if "row_space" in vars(operator):
        answers.append(to_numpy(operator.row_space.image(probe)))
    return np.concatenate(answers, axis=1)


def _first_difference(found: str, expected: str) -> str:
    for theirs, ours in zip(found.splitlines(), expected.splitlines(), strict=False):
        if theirs != ours:
            return f"its {theirs}, now {ours.partition(': ')[2]}"
    return "written by another version"
