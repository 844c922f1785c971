"""The front door: problem and method in, result out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .backend import files
from .backend.checks import choice, reject
from .backend.devices import too_many_rows
from .operators import as_operator
from .problems import Problem
from .run.loop import Snapshot, solve
from .run.result import Result
from .run.trace import Measure
from .solvers import METHODS
from .solvers.base import Solver, check_solver
from .unknown_sparsity import recover_unknown

# The method, if none is asked for.
DEFAULT = "annealed-difference-map"


def check_noise_norm(solver: Solver, noise_norm: Any) -> None:
    """Refuse a noise level that the method would not look at."""
    if noise_norm is not None and not solver.uses_noise_norm:
        using = ", ".join(name for name, kind in METHODS.items() if kind.uses_noise_norm)
        raise reject("noise_norm", f"a value with {solver.name!r}, which does not use it", f"it with {using}")


def recover(
    Phi: Any,
    y: Any,
    sparsity: int | str,
    method: str | Solver = DEFAULT,
    *,
    noise_norm: Any = None,
    max_iter: int = 1000,
    max_seconds: float | None = None,
    tol: float | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    record: Iterable[str] | Mapping[str, Measure] = ("gap",),
    record_at: int | Iterable[int] = 10,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 100,
    refit: bool = False,
) -> Result:
    """Find x with at most ``sparsity`` nonzeros and Phi x close to y.

    Parameters
    ----------
    Phi : (m, n) array of NumPy, torch or CuPy, SciPy sparse matrix or LinearOperator, or a ``sparsect.Operator``.
        To solve several times with one Phi, pass ``sparsect.as_operator(Phi)``: it is then factored only once.
    y : (m,) or (batch, m); every row is a signal of its own. The answer has y's library and device, and the wider of
        Phi's and y's dtypes.
    sparsity : s, the number of nonzeros allowed, from 0 to n; or "auto", with the annealed map: then, with
        ``noise_norm``, the smallest that reaches it, and without, the number that is most likely.
    method : a name from ``sparsect.METHODS``, or a configured solver such as ``DifferenceMap(beta=0.5)``.
    noise_norm : norm of the noise in y (not squared), a number or one for each row. If given, the paper's two maps use
        the exact ball ||Phi x - y|| <= noise_norm instead of Phi x = y, matching pursuits stop there, and vamp and the
        annealed map take the noise level from it; other methods refuse it.
    max_iter, max_seconds : when to stop at the latest; seconds count iterating only.
    tol : a row has converged when its gap is at most tol times the norm of its starting point. Default 1e-6, or 1e-4
        in single precision. Converged rows leave the batch and cost no more time.
    callback : called with a :class:`~sparsect.Snapshot` after every step, on a GPU every 25 or fewer; True stops.
    record : measures for ``result.history``: names among gap, residual_norm, converged, support, x, or a mapping
        from names of your own to functions of a snapshot, ``{"snr": lambda run: sparsect.snr_db(truth, run.x)}``.
    record_at : every so many iterations, or a list of iterations. The clock stands still while measuring.
    checkpoint : an ``.npz`` file to save the run in, every ``checkpoint_every`` steps, at the end and on Ctrl-C. If it
        exists, the run goes on from it, and ends bit for bit as if it had never stopped; iterations and seconds go on
        counting, so raise the limits to go further; the annealed map then follows the schedule of the new ones.
    refit : replace the nonzeros of every answer by the least-squares fit on their support.

    Returns
    -------
    Result

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=12, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=12)
    >>> bool(result.converged[0]), int(result.support.sum())
    (True, 12)
    """
    solver = METHODS[choice("method", method, METHODS)]() if isinstance(method, str) else check_solver("method", method)
    check_noise_norm(solver, noise_norm)
    if checkpoint is not None and os.path.isdir(files.path_name("checkpoint", checkpoint)):
        raise reject("checkpoint", f"{os.fspath(checkpoint)!r}, which is a folder", "the name of an .npz file")
    options: dict[str, Any] = {
        "max_iter": max_iter,
        "max_seconds": max_seconds,
        "tol": tol,
        "callback": callback,
        "record": record,
        "record_at": record_at,
        "checkpoint": checkpoint,
        "checkpoint_every": checkpoint_every,
        "refit": refit,
    }
    if isinstance(sparsity, str):
        choice("sparsity", sparsity, ("auto",))
        with too_many_rows():
            return recover_unknown(as_operator(Phi), y, solver, noise_norm, **options)
    with too_many_rows():
        problem = Problem(Phi, y, sparsity, noise_norm)
    return solve(problem, solver, **options)
