"""The result of a run, and how it is saved to a file."""

from __future__ import annotations

import dataclasses
import html
import os
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backend import files
from ..backend.arrays import Array, IntArray, NumpyArray, namespace, take_rows, to_numpy
from ..backend.checks import LONGEST, InputError, reject


@dataclass(frozen=True)
class Result:
    """The solutions of a run and how they were obtained.

    Arrays belong to the same library and device as y. They have a batch axis only if y has one.

    Attributes
    ----------
    x : array, shape (batch, n), or (batch, times, n) for joint supports
        The solutions, with at most ``sparsity`` nonzeros (groups, places) in each row. Other arrays of shape (batch, n)
        below have the same shape as x.
    support : array of bool, shape (batch, n)
        True where x is not zero.
    residual_norm : array, shape (batch,)
        The norm of the residual, ||Phi x - y||, over all times of a signal.
    gap : array, shape (batch,), or None
        The distance between the two sets where the solver last compared them. None for solvers whose stopping criterion
        is not such a distance.
    converged : array of bool, shape (batch,)
        Whether the row has converged: either criterion <= tol * scale, where criterion is the solver's stopping
        criterion and scale the norm of its starting point (the norm of y if the criterion is a residual), or the solver
        has settled and further steps would not change the solution. False if the run ended at a limit of iterations or
        seconds, if the row diverged, or if the iteration broke down. It does not tell how well x fits the data; see
        ``residual_norm``.
    n_iter : array of int, shape (batch,)
        The number of iterations of each row. On a GPU, where rows are checked only at intervals, it can be a few too
        many.
    stable : array of bool, shape (batch,), or None
        Whether the support of the solver's sparse point did not change during the last hundredth of the iterations (at
        least one). None for solvers that do not track it.
    source : array of str, shape (batch,), or None
        Which part of the method gave the answer of each row, for methods that have several; see :class:`Automatic`.
    inclusion_probability : array, shape (batch, n), or None
        The posterior probability of each entry of being nonzero, for methods that know it; NaN in rows where it is not
        known, as in those that polishing has changed.
    standard_deviation : array, shape (batch, n), or None
        The posterior standard deviation of each entry, likewise.
    swaps : array of int, shape (batch,), or None
        The number of columns exchanged by polishing; None without it.
    swap_optimal : array of bool, shape (batch,), or None
        Whether polishing ended because no exchange of one column lowers the residual any more; None without it.
    setup_seconds : float
        The time spent on factoring Phi during this run; 0 if it was factored before.
    seconds : float
        The time spent on iterating, without recording, callbacks and checkpoints.
    history : dict of str to array
        The recorded measures as NumPy arrays, together with ``iteration`` and ``seconds``.
    method : str
        The solver and its settings.
    sparsity : int or str
        The number of nonzeros (groups, places) allowed, or ``'auto'``.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=12, batch=3, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=12)
    >>> result.x.shape
    (3, 120)
    >>> result.support.sum(axis=1).tolist()
    [12, 12, 12]
    >>> sorted(result.history)
    ['disagreement', 'iteration', 'seconds']
    """

    PER_ROW: ClassVar[tuple[str, ...]] = (
        "x", "support", "residual_norm", "gap", "converged", "n_iter", "stable", "source", "inclusion_probability",
        "standard_deviation", "swaps", "swap_optimal",
    )  # fmt: skip

    x: Array
    support: Array
    residual_norm: Array
    converged: Array
    n_iter: Array
    setup_seconds: float
    seconds: float
    history: dict[str, NumpyArray]
    method: str
    sparsity: int | str
    gap: Array | None = None
    stable: Array | None = None
    source: Array | None = None
    inclusion_probability: Array | None = None
    standard_deviation: Array | None = None
    swaps: Array | None = None
    swap_optimal: Array | None = None

    def __repr__(self) -> str:
        """Return a summary of a few lines; the arrays themselves would fill pages."""
        lines = [f"  {name + ':':14} {value}" for name, value in self._summary().items()]
        return "\n".join([f"{type(self).__name__} of {_shortened(self.method)}", *lines])

    def _repr_html_(self) -> str:
        """Return the summary as a table, which notebooks show."""
        cells = {"method": _shortened(self.method)} | self._summary()
        rows = [f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in cells.items()]
        return f"<table>{''.join(rows)}</table>"

    def _summary(self) -> dict[str, str]:
        """Describe the result in a few words for each property, by name."""
        x = self.x
        dtype = str(x.dtype).removeprefix("torch.")
        count = int(np.size(to_numpy(self.residual_norm)))
        nonzeros = namespace(x).count_nonzero(self.support, axis=-1)
        converged = int(np.count_nonzero(to_numpy(self.converged)))
        return {
            "signals": f"{count} (x: shape {tuple(x.shape)}, {dtype})",
            "nonzeros": f"{_range(nonzeros, 'd')} (sparsity {_shortened(str(self.sparsity))})",
            "||Phi x - y||": _range(self.residual_norm, ".3g"),
            "converged": f"{converged} of {count}",
            "iterations": _range(self.n_iter, "d"),
            "seconds": f"{self.seconds:.3g} (set-up {self.setup_seconds:.3g})",
        }

    def per_row(self) -> dict[str, Array]:
        """Return the arrays with one row for each signal, by name, without those that are None.

        Returns
        -------
        dict of str to array
            The arrays.
        """
        rows = {name: getattr(self, name) for name in self.PER_ROW}
        return {name: value for name, value in rows.items() if value is not None}

    def first(self) -> Result:
        """Remove the batch axis from the result of a batch of one signal.

        Returns
        -------
        Result
            The result of the signal.
        """
        fields: dict[str, Any] = {
            name: value[0, ...] if value.ndim > 1 else to_numpy(value).item() for name, value in self.per_row().items()
        }
        history = {name: column[:, 0] if column.shape[1:2] == (1,) else column for name, column in self.history.items()}
        return dataclasses.replace(self, history=history, **fields)

    def to_numpy(self) -> Result:
        """Copy the result to main memory, as NumPy arrays.

        Returns
        -------
        Result
            The same result with NumPy arrays.
        """
        arrays: dict[str, Any] = {
            name: to_numpy(value) for name, value in self.per_row().items() if hasattr(value, "ndim")
        }
        return dataclasses.replace(self, **arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the result to an ``.npz`` file.

        The file is written completely or not at all. :func:`load_result` reads it.

        Parameters
        ----------
        path : str or path-like
            The name of the file.
        """
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        history = fields.pop("history")
        arrays = {name: to_numpy(value) for name, value in fields.items() if value is not None}
        files.write_npz(path, arrays | {f"history/{name}": value for name, value in history.items()})


def check_joinable(options: Mapping[str, Any], given: str) -> None:
    """Reject options that concern a single run.

    Parameters
    ----------
    options : mapping
        Options of :func:`sparsect.solve`.
    given : str
        What makes several runs necessary, for the message.
    """
    for name in ("checkpoint", "callback", "record"):
        value = options.get(name)
        empty = name == "record" and isinstance(value, Sized) and not len(value)
        if value is not None and not empty:
            raise reject(name, f"a value with {given}", "None, since several runs are made")


def joined(parts: Sequence[tuple[IntArray, Result]], seconds: float = 0.0) -> Result:
    """Join the results of several groups of rows, without history.

    Parameters
    ----------
    parts : sequence of tuple of array and Result
        The numbers of the rows of each group, and its result. Later results of a row replace earlier ones.
    seconds : float, optional
        Time to be added to that of the results.

    Returns
    -------
    Result
        The result of all rows, in their order.
    """
    rows, results = np.concatenate([rows for rows, _ in parts]), [result for _, result in parts]
    order = np.empty(int(rows.max()) + 1, dtype=np.int64)
    order[rows] = np.arange(rows.size)
    xp = namespace(results[0].x)

    def join(name: str) -> Array:
        values = [getattr(result, name) for result in results]
        library = np if isinstance(values[0], np.ndarray) else xp
        return take_rows(library.concat(values, axis=0), order)

    values: dict[str, Any] = {name: join(name) for name in results[0].per_row()}
    spent = {name: sum(getattr(result, name) for result in results) for name in ("setup_seconds", "seconds")}
    spent["seconds"] += seconds
    return dataclasses.replace(results[0], **values, **spent, history={})


def _range(values: Any, form: str) -> str:
    """Format the least and the largest value, or the value if all are equal."""
    numbers = np.ravel(to_numpy(values))
    ends = [format(end(numbers).item(), form) for end in (np.min, np.max)] if numbers.size else ["none"]
    return " to ".join(dict.fromkeys(ends))


def _shortened(text: str) -> str:
    """Limit the length of a text."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


# The NumPy dtype kinds of what a solver may know about its solutions.
DETAILS = {
    "source": "U",
    "inclusion_probability": "f",
    "standard_deviation": "f",
    "swaps": "iu",
    "swap_optimal": "b",
}
# The NumPy dtype kinds allowed for each field of a saved result.
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
} | DETAILS


def load_result(path: str | os.PathLike[str]) -> Result:
    """Load a result that was saved with :meth:`Result.save`.

    Parameters
    ----------
    path : str or path-like
        The name of the ``.npz`` file.

    Returns
    -------
    Result
        The result, with NumPy arrays.

    Raises
    ------
    InputError
        If the file is not a result, or is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=30, n=60, sparsity=3, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=3, method="omp")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "result.npz")
    ...     result.save(path)
    ...     again = sparsect.load_result(path)
    >>> bool((again.x == result.x).all())
    True
    """
    arrays = files.read_npz(path)
    history = {name.partition("/")[2]: arrays.pop(name) for name in list(arrays) if name.startswith("history/")}
    if missing := set(KINDS) - set(DETAILS) - set(arrays) - {"gap", "stable"}:
        raise InputError(f"{path}: not a result of sparsect, {', '.join(sorted(missing))} missing")
    found = {name: arrays[name] for name in KINDS if name in arrays}
    if problem := _first_problem(found, history):
        raise InputError(f"{path}: damaged ({problem})")
    plain: dict[str, Any] = {name: value.item() if value.ndim == 0 else value for name, value in found.items()}
    return Result(history=history, **plain)


def _first_problem(found: Mapping[str, NumpyArray], history: Mapping[str, NumpyArray]) -> str:
    """Describe the first problem with the contents of a file; empty if there is none."""
    x = found["x"]
    for name, value in found.items():
        whole = name in ("x", "support", "inclusion_probability", "standard_deviation")
        each = x.shape[:-1] if value.ndim == x.ndim - 1 else x.shape[:-2]
        shape = x.shape if whole else each if name in Result.PER_ROW else ()
        if value.dtype.kind not in KINDS[name] or value.shape != shape or (whole and value.ndim not in (1, 2, 3)):
            return f"{name} has dtype {value.dtype} and shape {value.shape}"
        if value.dtype.kind in "fc" and name not in DETAILS and np.isnan(value).any():
            return f"{name} has entries that are NaN"
    if not np.isfinite(x).all() or not np.array_equal(found["support"], x != 0):
        return "x is not finite, or support is not where it is nonzero"
    lengths = {column.shape[:1] for column in history.values()}
    if len(lengths) > 1 or () in lengths or any(column.dtype.kind not in "biufc" for column in history.values()):
        return "the columns of its history do not fit each other"
    return ""
