"""What came out of a run, and how it is kept in a file."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import files
from .arrays import Array, to_numpy
from .checks import InputError


@dataclass(frozen=True)
class Result:
    """The answers and how they came about; arrays are of the kind that came in, without the batch axis if y had none.

    Attributes
    ----------
    x : (batch, n), at most ``sparsity`` nonzeros in each row
    support : (batch, n), true where x is not zero
    residual_norm : (batch,), ||Phi x - y||
    gap : (batch,), distance between the point of A and the point of B the solver last compared
    converged : (batch,), whether the gap closed: gap <= tol * ||x at the start||
    n_iter : (batch,), steps each row took
    setup_seconds : time spent factoring Phi during this run (none if it was factored before)
    seconds : time spent iterating; measuring, callbacks and checkpoints are not counted
    history : measures along the way (NumPy), by name, with ``iteration`` and ``seconds``
    method : the solver and its settings, in words
    sparsity : the s that was asked for
    """

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
    sparsity: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to an ``.npz`` file that :func:`load_result` reads back; whole or not at all."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        history = fields.pop("history")
        arrays = {name: to_numpy(value) for name, value in fields.items()}
        files.write_npz(path, arrays | {f"history/{name}": value for name, value in history.items()})


def load_result(path: str | os.PathLike[str]) -> Result:
    """A :class:`Result` that :meth:`Result.save` wrote, as NumPy arrays."""
    arrays = files.read_npz(path)
    history = {name.partition("/")[2]: arrays.pop(name) for name in list(arrays) if name.startswith("history/")}
    names = {field.name for field in dataclasses.fields(Result)} - {"history"}
    if not names <= set(arrays):
        raise InputError(f"{path}: not a result of sparsect, {', '.join(sorted(names - set(arrays)))} missing")
    plain: dict[str, Any] = {name: arrays[name].item() if arrays[name].ndim == 0 else arrays[name] for name in names}
    return Result(history=history, **plain)
