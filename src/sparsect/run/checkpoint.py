"""Checkpoints: a run saved in a file, from which it resumes as if it had not been interrupted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import files
from ..backend.arrays import Array, IntArray, NumpyArray, from_numpy, is_numpy, namespace, to_numpy
from ..backend.checks import LONGEST, InputError, within
from ..backend.norms import norm
from ..backend.rng import generator
from ..backend.writing import check_writable
from ..operators import Operator
from .result import DETAILS
from .trace import Trace

if TYPE_CHECKING:
    from .run import Run


Arrays = Mapping[str, NumpyArray]

# The arrays saved for finished rows.
FINISHED = ("rows", "x", "criterion", "converged", "n_iter", "stable", "diverged")
CHECKSUM = "checksum"


class Checkpoint:
    """The checkpoint file of one run.

    If the file exists, the run resumes from it. A file of another run is rejected, not overwritten.

    Parameters
    ----------
    path : str or path-like
        The name of the ``.npz`` file.
    run : Run
        The run to save and restore.
    trace : Trace
        The history of the run.
    tol : float
        The tolerance of the run, which is part of its identity.

    Notes
    -----
    A checksum detects a damaged file. The contents are validated as well, because they are passed to compiled kernels
    that do not check bounds, and a manipulated file can contain a matching checksum.
    """

    def __init__(self, path: str | os.PathLike[str], run: Run, trace: Trace, tol: float) -> None:
        self.path, self.run, self.trace = Path(path), run, trace
        check_writable(self.path)
        self.identity = _identity(run, trace, tol)
        self.response = _response(run)
        if self.path.exists():
            self._restore()

    def write(self) -> None:
        """Save the current state of the run."""
        state = self.run.state
        arrays = {
            "identity": np.array(self.identity),
            "response": self.response,
            "iteration": np.array(state.iteration),
            "seconds": np.array([self.run.clock.seconds, self.run.setup_seconds]),
            "rows": state.rows,
        }
        arrays |= {f"state/{name}": to_numpy(value) for name, value in state.state.arrays().items()}
        arrays |= {f"history/{name}": column for name, column in self.trace.history().items()}
        for index, finished in enumerate(state.done):
            arrays |= {f"done/{index}/{name}": to_numpy(getattr(finished, name)) for name in FINISHED}
            arrays |= {f"done/{index}/details/{name}": to_numpy(value) for name, value in finished.details.items()}
        files.write_npz(self.path, arrays | {CHECKSUM: np.array(checksum(arrays))})

    def _restore(self) -> None:
        arrays = files.read_npz(self.path)
        if "identity" not in arrays or "response" not in arrays:
            raise InputError(f"{self.path}: not a checkpoint of sparsect")
        found, response = str(arrays["identity"]), arrays["response"]
        if found != self.identity:
            self._refuse(_first_difference(found, self.identity))
        if not _same_operator(response, self.response, self.run.problem.operator.shape[0]):
            self._refuse("another Phi, or Phi factored otherwise")
        try:
            if str(arrays.pop(CHECKSUM)) != checksum(arrays):
                raise ValueError("its checksum does not match")
            self._resume(arrays)
        except KeyError as error:
            raise InputError(f"{self.path}: damaged, {error.args[0]} is missing") from None
        except ValueError as error:
            raise InputError(f"{self.path}: damaged ({error})") from None

    def _resume(self, arrays: Arrays) -> None:
        run = self.run
        seconds = _expect(arrays, "seconds", (2,), np.float64)
        within("seconds", seconds, 0, np.finfo(np.float64).max)
        iteration = int(_expect(arrays, "iteration", (), np.int64))
        within("iteration", np.array(iteration), 0, np.iinfo(np.int64).max)
        history = self._history(arrays, iteration)
        done: list[dict[str, Any]] = []
        while f"done/{len(done)}/rows" in arrays:
            done.append(self._finished(arrays, f"done/{len(done)}/", iteration))
        rows = _expect(arrays, "rows", (-1,), np.int64)
        all_rows = np.concatenate([*(part["rows"] for part in done), rows])
        if not np.array_equal(np.sort(all_rows), np.arange(run.problem.batch)):
            raise ValueError("rows that are done and rows that are not do not make up the batch")
        state = self._state(arrays, rows, iteration)
        if rows.size:
            with np.errstate(all="ignore"):
                found = to_numpy(run.answer(run.scaled.take(rows), state)[0])
            self._check_solution("the solution so far", found)
        self.trace.restore(history)
        run.restore(iteration, rows, state, done)
        run.clock.seconds, run.setup_seconds = seconds.tolist()

    def _state(self, arrays: Arrays, rows: IntArray, iteration: int) -> Any:
        """Return the solver's state, after comparing dtype, shape and finiteness of each array with a fresh state."""
        run, found = self.run, {}
        fresh = run.state.state
        if not np.isin(rows, run.state.rows).all():
            raise ValueError("rows that are finished at the start are not finished in it")
        places = np.searchsorted(run.state.rows, rows)
        for name, value in fresh.arrays().items():
            before, grows = to_numpy(value), name in fresh.growing
            shape = (rows.size, *((-1,) * (before.ndim - 1) if grows else before.shape[1:]))
            array = _expect(arrays, f"state/{name}", shape, before.dtype)
            if not grows and not (np.isfinite(array) | ~np.isfinite(before[places])).all():
                raise ValueError(f"state/{name} has entries that are NaN or infinite")
            found[name] = array
        within("state/criterion", found["criterion"], 0, np.inf)
        for name in {"taken", "unchanged"} & set(found):
            within(f"state/{name}", found[name], 0, iteration)
        # The compiled kernels expect contiguous rows.
        found = {name: np.ascontiguousarray(array) for name, array in found.items()}
        fresh.replaced(found).check(run.problem)
        like = run.problem.y
        placed = {
            name: found[name] if is_numpy(namespace(value)) else from_numpy(found[name], like)
            for name, value in fresh.arrays().items()
        }
        return fresh.replaced(placed)

    def _finished(self, arrays: Arrays, prefix: str, iteration: int) -> dict[str, Any]:
        """Return the saved arrays of a group of finished rows, validated."""
        problem, n = self.run.problem, self.run.scaled.operator.shape[1]
        rows = _expect(arrays, f"{prefix}rows", (-1,), np.int64)
        x = _expect(arrays, f"{prefix}x", (rows.size, n), to_numpy(problem.y).dtype)
        dtype = to_numpy(self.run.state.state.criterion).dtype
        criterion = _expect(arrays, f"{prefix}criterion", rows.shape, dtype)
        n_iter = _expect(arrays, f"{prefix}n_iter", rows.shape, np.int64)
        self._check_solution(f"{prefix}x", x)
        within(f"{prefix}criterion", criterion, 0, np.inf)
        within(f"{prefix}n_iter", n_iter, 0, iteration)
        details, start = {}, f"{prefix}details/"
        for name in (name.removeprefix(start) for name in arrays if name.startswith(start)):
            details[name] = _expect(arrays, start + name, (rows.size, n)[: arrays[start + name].ndim], None)
            if name not in DETAILS or details[name].dtype.kind not in DETAILS[name]:
                raise ValueError(f"{start}{name} has dtype {details[name].dtype}")
        names = ("converged", "stable", "diverged")
        flags = {name: _expect(arrays, f"{prefix}{name}", rows.shape, np.bool_) for name in names}
        return {"rows": rows, "x": x, "criterion": criterion, "n_iter": n_iter, "details": details} | flags

    def _check_solution(self, name: str, x: NumpyArray) -> None:
        like = self.run.scaled.y
        with np.errstate(over="ignore", invalid="ignore"):
            image = to_numpy(norm(self.run.scaled.operator.forward(from_numpy(x, like))))
        if not np.isfinite(image).all():
            raise ValueError(f"{name} has entries that are NaN, infinite, or too large for Phi")
        most = x.shape[1] if self.run.solver.finds_sparsity else self.run.problem.sparsity
        within(f"nonzeros of {name}", np.count_nonzero(x, axis=1), 0, most)

    def _history(self, arrays: Arrays, iteration: int) -> dict[str, NumpyArray]:
        """Return the recorded history, after checking that all columns have the same length."""
        found = {name: arrays[f"history/{name}"] for name in self.trace.columns}
        moments, seconds = found["iteration"], found["seconds"]
        if moments.ndim != 1 or seconds.ndim != 1:
            raise ValueError("history/iteration and history/seconds are not one number for each moment")
        for name, column in found.items():
            if column.dtype.kind not in "biufc" or column.shape[:1] != moments.shape:
                raise ValueError(f"history/{name} does not fit the others")
        within("history/iteration", moments, 0, iteration)
        within("history/seconds", seconds, 0, np.finfo(np.float64).max)
        return found

    def _refuse(self, what: str) -> None:
        raise InputError(f"{self.path}: a checkpoint of another run ({what}); give another file, or remove this one")


def _expect(arrays: Arrays, name: str, shape: tuple[int, ...], dtype: Any) -> NumpyArray:
    """Return the named array if it has the given dtype (None: any) and shape, where -1 stands for any length."""
    array = arrays[name]
    fits = len(shape) == array.ndim and all(
        length in (-1, found) for length, found in zip(shape, array.shape, strict=True)
    )
    if (dtype is not None and array.dtype != dtype) or not fits:
        raise ValueError(f"{name} has dtype {array.dtype} and shape {array.shape}")
    return array


def checksum(arrays: Arrays) -> str:
    """Return a digest of the names, dtypes, shapes and contents of arrays.

    Parameters
    ----------
    arrays : mapping of str to array
        The contents of a checkpoint.

    Returns
    -------
    str
        The SHA-256 digest in hexadecimal digits.
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.dtype.str, arrays[name].shape)).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _identity(run: Run, trace: Trace, tol: float) -> str:
    """Describe what must be unchanged for a run to resume: solver, problem, tolerance and recorded measures."""
    problem = run.problem
    digest = hashlib.sha256(np.ascontiguousarray(to_numpy(problem.y)).tobytes())
    if problem.noise_norm is not None:
        digest.update(to_numpy(problem.noise_norm).tobytes())
    lines = {
        "method": repr(run.solver),
        "sparsity": problem.structure.describe(),
        "tol": tol,
        "shape": (problem.batch, *problem.operator.shape),
        "arrays": f"{type(problem.y).__module__.split('.')[0]} {to_numpy(problem.y).dtype.name}",
        "Phi": type(problem.operator).__name__,
        "refit": run.refit,
        "polish": run.polish,
        "scale_columns": run.scale_columns,
        "record": trace.describe(),
        "y and noise_norm": digest.hexdigest(),
    }
    return "\n".join(f"{name}: {value}" for name, value in lines.items())


def _response(run: Run) -> NumpyArray:
    """Apply Phi to a fixed random vector, which identifies Phi whatever kind of operator it is.

    States hold coordinates in the basis of the scaled Phi's row space, so the image of such a vector in this basis, if
    in use, is included.
    """

    def probe(operator: Operator) -> Array:
        drawn = from_numpy(generator(0).standard_normal((1, operator.shape[1])), run.problem.y)
        return namespace(drawn).astype(drawn, run.problem.y.dtype)

    given, scaled = run.problem.operator, run.scaled.operator
    responses = [to_numpy(given.forward(probe(given)))]
    if "pseudo_inverse" in vars(scaled):
        responses.append(to_numpy(scaled.pseudo_inverse.image(probe(scaled))))
    return np.concatenate(responses, axis=1)


def _same_operator(first: NumpyArray, second: NumpyArray, m: int) -> bool:
    """Whether two responses belong to the same Phi: the m measurements agree and, if both contain it, the image.

    An operator shared by several runs may already be factored when a run starts whose solver does not need the
    factors, so only one of the two responses may contain the image.
    """
    if (first.ndim, first.dtype) != (second.ndim, second.dtype):
        return False
    if m in (first.shape[-1], second.shape[-1]):
        first, second = first[..., :m], second[..., :m]
    # Norms are compared, not entries: differences that are small in each entry can add up.
    return first.shape == second.shape and bool(np.linalg.norm(first - second) <= 1e-4 * np.linalg.norm(second))


def _first_difference(found: str, expected: str) -> str:
    """Describe the first line in which two identities differ."""
    for theirs, ours in zip(found.splitlines(), expected.splitlines(), strict=False):
        if theirs != ours:
            return f"its {theirs[:LONGEST]}, now {ours.partition(': ')[2]}"
    return "written by another version"
