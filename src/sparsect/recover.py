"""The main entry point, :func:`recover`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from .backend import files
from .backend.array_checks import floating
from .backend.arrays import Array, IntArray, NumpyArray, namespace, on_host, to_numpy
from .backend.checks import choice, reject, truth_value, warn
from .backend.devices import place, too_many_rows
from .backend.norms import row_norms
from .missing_data import recover_measured
from .operators import Operator, as_operator
from .operators.convert import Matrix
from .operators.rows import select_rows, whitened, whitening_matrix
from .problems import Problem
from .run import Snapshot, solve
from .run.diagnosis import poor_fits
from .run.result import Result, check_joinable
from .run.trace import Measure
from .sets import Affine, DataSet, JointSparse, Relaxed, SignalSet, Sparse
from .sets.base import OwnDataSet, OwnSignalSet
from .sets.own import as_data_set
from .solvers import METHODS, MethodName
from .solvers.base import Solver, check_solver, device_for
from .solvers.two_sets import TwoSetMap
from .unknown_sparsity import recover_unknown

# The method that is used if none is given.
DEFAULT: Final = "auto"


def recover(
    Phi: Matrix,
    y: ArrayLike,
    sparsity: int | Literal["auto"] | SignalSet | OwnSignalSet,
    method: MethodName | Solver = DEFAULT,
    *,
    noise_norm: ArrayLike | None = None,
    noise_std: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    data: DataSet | OwnDataSet | None = None,
    max_iter: int = 1000,
    max_seconds: float | None = None,
    tol: float | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    record: Iterable[str] | Mapping[str, Measure] | None = None,
    record_at: int | Iterable[int] = 10,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 100,
    refit: bool = False,
    polish: bool = False,
    scale_columns: bool = True,
    check_fit: bool = True,
    device: str | None = None,
) -> Result:
    """Find x with at most ``sparsity`` nonzeros and Phi x close to y.

    Parameters
    ----------
    Phi : array, shape (m, n), SciPy sparse matrix, LinearOperator or Operator
        The measurement matrix or dictionary. Arrays may be NumPy, torch or CuPy arrays. To solve several problems with
        the same Phi, pass ``sparsect.as_operator(Phi)``: Phi is then factored only once.
    y : array, shape (m,) or (batch, m); for joint supports (times, m) or (batch, times, m)
        The data. Each row is a separate signal. The result uses the array library and device of y, and the wider of the
        dtypes of Phi and y.
    sparsity : int, {'auto'}, SignalSet or object
        The number of nonzeros allowed, from 0 to n, or the set that contains x: one of :mod:`sparsect.sets`
        (nonnegative or bounded x, groups, joint supports, levels), or an object of your own with ``size``, the largest
        number of nonzeros, and ``project(x)``, which returns the nearest point of the set for every row. ``'auto'``
        (also as the size of a Sparse, GroupSparse or JointSparse set) requires the default method or the annealed
        Difference Map and determines the number for each signal: if ``noise_norm`` is given, the smallest number with
        which a search for the best fit reaches it (the residual of x, which is recovered with this number, may be
        larger), otherwise the most likely number.
    method : str or Solver, optional
        A name from ``sparsect.METHODS`` or a configured solver such as ``DifferenceMap(beta=0.5)``. The default,
        ``'auto'``, chooses and combines methods according to Phi and y; see :class:`Automatic`. The goal of ``'auto'``
        and ``'annealed-difference-map'`` is recovery, a small error of x; ``Automatic("approximation")`` and
        ``AnnealedDifferenceMap("approximation")`` aim at a small error of Phi x.
    noise_norm : float or array, shape (batch,), optional
        The norm (not squared) of the noise in y, one value or one for each row. It counts all measurements that are not
        masked; with joint supports, those of all times. If given, the Difference Map and the Alternating Map use the
        ball ||Phi x - y|| <= noise_norm instead of Phi x = y, the matching pursuits stop as soon as the residual is
        that small, and ``auto``, the annealed map, ``vamp`` and the support sampler take the noise level from it. Other
        methods reject it.
    noise_std : float or array, shape (m,) or (m, m), optional
        The standard deviation of the noise of each measurement, or its covariance matrix. Phi and y are multiplied by a
        matrix W that makes the noise white with variance 1; ``noise_norm`` and ``result.residual_norm`` then refer to
        W y. The level of the noise is still estimated, so that only ratios of deviations matter, unless you also give
        ``noise_norm``, which is about sqrt(m).
    mask : array of bool, shape (m,) or (batch, m), optional
        True where y was not measured (with a joint support, at any time); the values of y there are ignored. Each row
        is fitted to the other measurements. Rows with the same mask are solved together.
    data : DataSet or object, optional
        The set B of points that agree with the data, for the Difference Map (the default method if this is given) and
        the Alternating Map: ``sets.Affine()``, ``sets.Ball()``, ``sets.Relaxed(alpha)``, or an object of your own with
        ``project(x, y)``, which returns the nearest point that agrees with y for every row. ``result.residual_norm`` is
        then the distance of x to your set.
    max_iter : int, optional
        The maximum number of iterations.
    max_seconds : float, optional
        The maximum time in seconds. Only the time spent iterating counts. By default there is no limit.
    tol : float, optional
        A row has converged when the method's stopping criterion is at most ``tol`` times the norm of its starting
        point. The default is 1e-6, or 1e-4 in single precision. Converged rows leave the batch and take no further
        time.
    callback : callable, optional
        Called with a :class:`~sparsect.Snapshot` after every iteration, or on a GPU at least every 25 iterations. If it
        returns True, the run stops.
    record : iterable of str or mapping of str to callable, optional
        The measures stored in ``result.history``: names among 'residual_norm', 'converged', 'support', 'x' and the name
        of the method's stopping criterion (``Solver.criterion``), or a mapping from names to functions of a snapshot,
        for example ``{"snr": lambda run: sparsect.snr_db(truth, run.x)}``. The default is the stopping criterion.
    record_at : int or iterable of int, optional
        The interval between recorded iterations, or the list of iterations to record. The time spent on recording is
        not counted.
    checkpoint : str or path-like, optional
        An ``.npz`` file in which the run is saved every ``checkpoint_every`` iterations, at the end and on Ctrl-C. If
        the file exists, the run resumes from it and ends with bitwise the same result as an uninterrupted run. The
        counts of iterations and seconds continue, so raise the limits to continue a run that has reached them; the
        default method and the annealed map then follow the schedule of the new limits.
    checkpoint_every : int, optional
        The number of iterations between two saves.
    refit : bool, optional
        Whether to replace the nonzeros of each solution by the least-squares fit on their support (debiasing).
    polish : bool, optional
        Whether to exchange single columns (or groups) of each support as long as that lowers the residual, and then to
        refit. ``result.swap_optimal`` tells whether no further exchange lowers it. Phi must be dense, and the set not
        one of your own. This improves the fit to y; with strong noise, the posterior mean that the default method
        returns is closer to x.
    scale_columns : bool, optional
        Whether the method works on columns of norm 1, so that its answer does not depend on the units of the entries of
        x. Settings of a method then refer to such columns. Tight frames are not changed.
    check_fit : bool, optional
        Whether to warn about solutions that leave a large part of y unexplained. Use False if you want the best
        approximation with few nonzeros, however large its residual is.
    device : str, optional
        Where to compute: "cpu", "cuda", one of several GPUs as in "cuda:1", or "auto" for a GPU if there is one and the
        method runs on it. If y is in main memory, so is the result. The default is the device of y.

    Returns
    -------
    Result
        The solutions, how well they fit, and the history of the run.

    Raises
    ------
    InputError
        If an argument is invalid, or if the method cannot solve this kind of problem.

    Warns
    -----
    PoorFitWarning
        If a solution leaves a large part of y unexplained, or is hardly determined by it, unless ``check_fit`` is
        False.
    ConvergenceWarning
        If the iterates of a row diverge.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=12, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=12)
    >>> bool(result.converged[0]), int(result.support.sum())
    (True, 12)
    """
    solver = _solver(method, data)
    if noise_norm is not None and not solver.uses_noise_norm:
        using = ", ".join(name for name, kind in METHODS.items() if kind.uses_noise_norm)
        raise reject("noise_norm", f"a value with {solver.name!r}, which does not use it", f"given with {using} only")
    if noise_norm is not None and isinstance(solver, TwoSetMap) and isinstance(solver.data_set, Affine | Relaxed):
        got = f"a value with data={solver.data_set!r}, which does not use it"
        raise reject("noise_norm", got, "left out, or data left out or Ball()")
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
        "polish": polish,
        "scale_columns": scale_columns,
        "check_fit": truth_value("check_fit", check_fit),
    }
    given = {"noise_std": noise_std is not None, "noise_norm": noise_norm is not None, "mask": mask is not None}
    _check_own_data(solver, given | {"refit": truth_value("refit", refit), "polish": truth_value("polish", polish)})
    with too_many_rows():
        operator, placed = _placed(as_operator(Phi), y, device_for(solver, device), finite=mask is None)

        def solved(operator: Operator, y: Any, noise_std: Any, noise_norm: Any, **options: Any) -> Result:
            if noise_std is not None:
                operator, y = whitened(operator, y, noise_std)
            if isinstance(sparsity, str):
                choice("sparsity", sparsity, ("auto",))
                return recover_unknown(operator, y, Sparse("auto"), solver, noise_norm, **options)
            if isinstance(sparsity, SignalSet) and getattr(sparsity, "size", None) == "auto":
                return recover_unknown(operator, y, sparsity, solver, noise_norm, **options)
            return solve(Problem(operator, y, sparsity, noise_norm), solver, **options)

        if mask is None:
            result = solved(operator, placed, noise_std, noise_norm, **options)
        else:
            result = _from_incomplete(operator, placed, mask, sparsity, solver, noise_std, noise_norm, solved, options)
    return result if placed is y or not on_host(y) else result.to_numpy()


def _solver(method: MethodName | Solver, data: Any) -> Solver:
    """Return the solver, with the data set that is given to :func:`recover`."""
    if data is not None and method == DEFAULT:
        method = "difference-map"
    solver = METHODS[choice("method", method, METHODS)]() if isinstance(method, str) else check_solver("method", method)
    if data is None:
        return solver
    if not isinstance(solver, TwoSetMap):
        raise reject("data", f"a set with {solver.name!r}", "given with difference-map and alternating-map only")
    configured: Any = solver
    return cast(Solver, dataclasses.replace(configured, data_set=as_data_set("data", data)))


def _check_own_data(solver: Solver, given: Mapping[str, bool]) -> None:
    """Reject options that have no meaning with a data set of the user's own."""
    if solver.scales_columns:
        return
    for name, present in given.items():
        if present:
            raise reject(name, "a value with a data set of your own", "left out, because only your set knows the data")


def _from_incomplete(
    operator: Operator,
    y: Any,
    mask: Any,
    sparsity: Any,
    solver: Solver,
    noise_std: Any,
    noise_norm: Any,
    solved: Callable[..., Result],
    options: dict[str, Any],
) -> Result:
    """Recover the rows of each pattern of measurements, and warn once about all of them."""
    check_joinable(options, "mask")
    m, axes = operator.shape[0], 2 if isinstance(sparsity, JointSparse) else 1
    data = floating("y", y, dimensions=(axes, axes + 1), finite=False)
    if data.shape[-1] != m or 0 in data.shape:
        shapes = f"(times, {m}) or (batch, times, {m})" if axes == 2 else f"({m},) or (batch, {m})"
        raise reject("y", f"shape {tuple(data.shape)}", f"have shape {shapes}")
    rows = data if data.ndim > axes else data[None, ...]
    batch = int(rows.shape[0])
    if noise_std is not None:
        noise_std = to_numpy(floating("noise_std", noise_std, finite=False))
        # Deviations and covariances may be unknown where nothing was measured.
        whitening_matrix("noise_std", _with_unknown_replaced(noise_std), m)
    if noise_norm is not None:
        noise_norm = np.broadcast_to(to_numpy(Problem(np.eye(1), np.ones((batch, 1)), 0, noise_norm).noise_norm), batch)
    budget, sizes = options["max_seconds"], np.ones((batch, 1))

    def rows_of(y: Array, rows: IntArray, kept: IntArray) -> Result:
        weights = noise_std
        if noise_std is not None and noise_std.ndim:
            weights = noise_std[kept] if noise_std.ndim == 1 else noise_std[np.ix_(kept, kept)]
        measured = operator if kept.size == m else select_rows(operator, kept)
        white = y if weights is None else whitened(measured, y, weights)[1]
        sizes[rows, 0] = row_norms(namespace(white).reshape(floating("y", white), (rows.size, -1)))
        limits = {"check_fit": False, "max_seconds": None if budget is None else budget * rows.size / batch}
        return solved(measured, y, weights, None if noise_norm is None else noise_norm[rows], **options | limits)

    result = recover_measured(rows, mask, rows_of)
    if options["check_fit"] and result.sparsity != 0:
        # One row with the norms of the columns stands for Phi, and one entry with the norm of y for each y.
        dtype, entries = to_numpy(result.residual_norm).dtype, int(np.prod(result.x.shape[1:]))
        lengths = np.resize(operator.column_norms, entries) if operator.is_dense else np.ones(1)
        stand_in = Problem(lengths[None, :].astype(dtype), sizes.astype(dtype), 1, noise_norm)
        warn((), poor_fits(stand_in, solver, result))
    return result.first() if rows is not data else result


def _with_unknown_replaced(noise_std: NumpyArray) -> NumpyArray:
    """Replace NaN in deviations, or in a covariance, by values that are possible."""
    unknown = np.isnan(noise_std)
    if noise_std.ndim < 2 or noise_std.shape[0] != noise_std.shape[1]:
        return np.where(unknown, 1.0, noise_std)
    variances = np.diag(noise_std)[~np.diag(unknown)]
    return np.where(unknown, np.eye(len(noise_std)) * (variances.mean() if variances.size else 1.0), noise_std)


def _placed(operator: Operator, y: Any, device: str | None, finite: bool) -> tuple[Operator, Any]:
    """Move Phi and y to a device; return them unchanged if they are there already or "auto" finds no GPU."""
    if device is None or (device == "auto" and not operator.is_dense):
        return operator, y
    data = floating("y", y, finite=finite)
    placed = place(data, device)
    if placed is data or (on_host(placed) and on_host(data)):
        return operator, y
    if not operator.is_dense:
        raise reject("device", f"{device!r} with a sparse or matrix-free Phi", "'cpu', or a dense Phi")
    return as_operator(place(operator.Phi, device)), placed
