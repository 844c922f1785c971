"""What came out of a run, and how it is kept in a file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backend import files
from ..backend.arrays import Array, to_numpy
from ..backend.checks import InputError


@dataclass(frozen=True)
class Result:
    """The answers and how they came about; arrays are of the kind that came in, without the batch axis if y had none.

    Attributes
    ----------
    x : (batch, n), at most ``sparsity`` nonzeros in each row
    support : (batch, n), true where x is not zero
    residual_norm : (batch,), ||Phi x - y||
    gap : (batch,), a distance that vanishes where a solution is found: between the two points the solver last compared,
        or ||Phi x - y||; each solver says which
    converged : (batch,), whether the row came to rest: its gap closed, gap <= tol * scale, the scale being the norm of
        the solver's starting point (of y where the gap is a residual), or the solver settled and further steps would
        change nothing. False where a limit of iterations or seconds ended it, where it ran away, and where the
        iteration broke down. How well x fits is for ``residual_norm`` to say
    n_iter : (batch,), steps each row took; on a GPU, where rows are looked at now and then, it may be a few too many
    stable : (batch,), whether the support of the solver's sparse point stayed the same in the last hundredth of those
        steps, one at least; None from solvers that do not look
    setup_seconds : time spent factoring Phi during this run (none if it was factored before)
    seconds : time spent iterating; measuring, callbacks and checkpoints are not counted
    history : measures along the way (NumPy), by name, with ``iteration`` and ``seconds``
    method : the solver and its settings, in words
    sparsity : the s that was asked for, or "auto"
    """

    PER_ROW: ClassVar[tuple[str, ...]] = ("x", "support", "residual_norm", "gap", "converged", "n_iter", "stable")

    x: Array
    support: Array
    residual_norm: Array
    gap: Array
    converged: Array
    n_iter: Array
    setup_seconds: float
    seconds: float
    history: dict[str, np.ndarray[Any, Any]]
    method: str
    sparsity: int | str
    stable: Array | None = None

    def first(self) -> Result:
        """The first row alone, without the batch axis."""
        rows = {name: getattr(self, name) for name in self.PER_ROW}
        fields: dict[str, Any] = {
            name: value if value is None else value[0, ...] if value.ndim > 1 else to_numpy(value).item()
            for name, value in rows.items()
        }
        history = {name: column[:, 0] if column.shape[1:2] == (1,) else column for name, column in self.history.items()}
        return dataclasses.replace(self, history=history, **fields)

    def to_numpy(self) -> Result:
        """The same in main memory, as NumPy arrays."""
        rows = {name: getattr(self, name) for name in self.PER_ROW}
        arrays: dict[str, Any] = {name: to_numpy(value) for name, value in rows.items() if hasattr(value, "ndim")}
        return dataclasses.replace(self, **arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to an ``.npz`` file that :func:`load_result` reads back; whole or not at all."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        history = fields.pop("history")
        arrays = {name: to_numpy(value) for name, value in fields.items() if value is not None}
        files.write_npz(path, arrays | {f"history/{name}": value for name, value in history.items()})


# Kinds of numbers or words that each part of a result may be of, as NumPy abbreviates them.
KINDS = {
    "x": "fc",
    "support": "b",
    "residual_norm": "f",
    "gap": "f",
    "converged": "b",
    "n_iter": "iu",
    "stable": "b",
    "setup_seconds": "f",
    "seconds": "f",
    "method": "U",
    "sparsity": "iuU",
}


def load_result(path: str | os.PathLike[str]) -> Result:
    """A :class:`Result` that :meth:`Result.save` wrote, as NumPy arrays."""
    arrays = files.read_npz(path)
    history = {name.partition("/")[2]: arrays.pop(name) for name in list(arrays) if name.startswith("history/")}
    if missing := set(KINDS) - set(arrays) - {"stable"}:
        raise InputError(f"{path}: not a result of sparsect, {', '.join(sorted(missing))} missing")
    found = {name: arrays[name] for name in KINDS if name in arrays}
    if problem := _first_problem(found, history):
        raise InputError(f"{path}: damaged ({problem})")
    plain: dict[str, Any] = {name: value.item() if value.ndim == 0 else value for name, value in found.items()}
    return Result(history=history, **plain)


def _first_problem(found: Mapping[str, np.ndarray[Any, Any]], history: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """What is wrong with the parts of a result that come from a file; empty if nothing is."""
    x = found["x"]
    for name, value in found.items():
        whole = name in ("x", "support")
        shape = x.shape if whole else x.shape[:-1] if name in Result.PER_ROW else ()
        if value.dtype.kind not in KINDS[name] or value.shape != shape or (whole and value.ndim not in (1, 2)):
            return f"{name} has dtype {value.dtype} and shape {value.shape}"
        if value.dtype.kind in "fc" and np.isnan(value).any():
            return f"{name} has entries that are NaN"
    if not np.isfinite(x).all() or not np.array_equal(found["support"], x != 0):
        return "x is not finite, or support is not where it is nonzero"
    lengths = {column.shape[:1] for column in history.values()}
    if len(lengths) > 1 or () in lengths or any(column.dtype.kind not in "biufc" for column in history.values()):
        return "the columns of its history do not fit each other"
    return ""
