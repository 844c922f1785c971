"""Sparse recovery problems (:class:`Problem`), and random problems for tests (:func:`random_problem`)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from .backend.array_checks import floating
from .backend.arrays import (
    Array,
    BoolArray,
    NumpyArray,
    at_columns,
    from_numpy,
    is_complex,
    is_single,
    namespace,
    real_dtype,
    take_rows,
    to_numpy,
)
from .backend.checks import real_number, reject, shown, whole_number
from .backend.norms import magnitudes, units
from .backend.rng import generator
from .operators import Operator, Repeated, as_operator
from .sets import JointSparse
from .sets.own import as_structure


class Problem:
    """Find x with at most ``sparsity`` nonzeros, or in another set, and Phi x close to y, for every row of y.

    Parameters
    ----------
    Phi : array, SciPy sparse matrix, LinearOperator or Operator, shape (m, n)
        Linear map.
    y : array, shape (m,) or (batch, m)
        Measurements, one signal per row; for a JointSparse set, shape (times, m) or (batch, times, m).
    sparsity : int, SignalSet or object
        Maximum number of nonzeros s, from 0 to n, or the set that contains x (:mod:`sparsect.sets`, or one of your
        own).
    noise_norm : float or array, shape (batch,), optional
        Norm of the noise, one number for all rows or one for each row; None if unknown.
    x : array, shape (n,) or (batch, n), optional
        The true signals if they are known, for measuring errors.

    Attributes
    ----------
    Phi : array, SciPy sparse matrix, LinearOperator or Operator
        Linear map as it was given.
    operator : Operator
        Phi as an operator, in the dtype of the solution.
    y : array, shape (batch, m)
        Measurements in the same dtype. Rows so small that their squares leave the range of the dtype (below about
        1e-15 in single precision) are set to zero.
    vanishing : int
        Number of rows that were set to zero for this reason.
    single : bool
        Whether y was given as one vector.
    structure : Structure
        The set that contains x, in the form that solvers use.
    times : int or None
        The number of measurements with the same support, for a JointSparse set. A row of y then consists of all of
        them, and ``operator`` applies Phi to each.
    noise_norm : array, shape (batch,), or None
        Norm of the noise in each row.
    x : array, shape (batch, n), or None
        The true signals.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> problem = sparsect.Problem(np.eye(3, 5), np.ones(3), sparsity=2, noise_norm=0.1)
    >>> problem
    <Problem: 1 signal, sparsity 2, float64
     Phi: DenseOperator of shape (3, 5)
     noise_norm: known, truth: unknown>
    >>> problem.y.shape
    (1, 3)
    """

    def __init__(self, Phi: Any, y: Any, sparsity: Any, noise_norm: Any = None, x: Any = None) -> None:
        operator = as_operator(Phi)
        m, n = operator.shape
        y = floating("y", y)
        joint = isinstance(sparsity, JointSparse)
        shapes = f"(times, {m}) or (batch, times, {m})" if joint else f"({m},) or (batch, {m})"
        expected = f"have shape {shapes} with at least one row, to match Phi of shape ({m}, {n})"
        if y.ndim not in ((2, 3) if joint else (1, 2)) or y.shape[-1] != m or 0 in y.shape:
            turned = y.ndim == 2 and y.shape[0] == m and y.shape[-1] != m
            hint = "Signals are rows: pass y.T." if turned else ""
            raise reject("y", f"shape {tuple(y.shape)}", expected, hint)
        self.single = y.ndim == 1 + joint
        self.Phi, self.times = Phi, None
        if self.single:
            y = y[None, ...]
        if joint:
            self.times = int(y.shape[1])
            if sparsity.times not in (None, self.times):
                raise reject("y", f"{self.times} times", f"have {sparsity.times} times, like the set")
            operator = operator if self.times == 1 else Repeated(operator, self.times)
            sparsity = JointSparse(sparsity.size, self.times)
            y = namespace(y).reshape(y, (y.shape[0], self.times * m))
        self.operator, y = operator.prepared(y)
        self.y, self.vanishing = _without_underflow(y)
        self.structure = as_structure(sparsity, self.operator.shape[1])
        if self.structure.bounded and is_complex(self.y):
            raise reject("sparsity", "bounds of x with complex data", "without bounds, because x is complex")
        self.noise_norm = None if noise_norm is None else _noise_norms(noise_norm, self.y)
        self.x = None if x is None else _truth(x, (self.batch, self.operator.shape[1]), self.times)

    def __repr__(self) -> str:
        noise, truth = ("unknown" if value is None else "known" for value in (self.noise_norm, self.x))
        signals = f"{self.batch} signal" if self.batch == 1 else f"{self.batch} signals"
        if self.times is not None:
            signals += f" at {self.times} times"
        return (
            f"<Problem: {signals}, sparsity {sum(self.structure.counts)}, {self.y.dtype}\n"
            f" Phi: {type(self.operator.inner).__name__} of shape {self.operator.inner.shape}\n"
            f" noise_norm: {noise}, truth: {truth}>"
        )

    @property
    def batch(self) -> int:
        """Number of signals."""
        return int(self.y.shape[0])

    @property
    def sparsity(self) -> int:
        """Maximum number of nonzeros of a signal."""
        return self.structure.size

    def take(self, rows: NumpyArray, sparsity: int | None = None, single: bool = False) -> Problem:
        """Select rows of the problem.

        The selection shares Phi and its factorization with this problem.

        Parameters
        ----------
        rows : array of int
            Indices of the rows to keep.
        sparsity : int, optional
            Number of nonzeros (for groups, of groups) of the new problem. The default is that of this one.
        single : bool, optional
            Whether the new problem counts as one of a single vector.

        Returns
        -------
        Problem
            The problem of these rows.
        """
        return self._replaced(
            single=single,
            structure=self.structure if sparsity is None else self.structure.resized(sparsity),
            y=take_rows(self.y, rows),
            noise_norm=None if self.noise_norm is None else take_rows(self.noise_norm, rows),
            x=None if self.x is None else take_rows(self.x, rows),
        )

    def on(self, columns: Operator) -> Problem:
        """Return the same problem with an operator that has some of the columns of Phi.

        Parameters
        ----------
        columns : Operator
            The operator.

        Returns
        -------
        Problem
            The problem, in which only the number of nonzeros is limited.
        """
        n = columns.shape[1]
        return self._replaced(operator=columns, x=None, structure=as_structure(min(self.sparsity, n), n))

    def with_noise_norm(self, noise_norm: Array) -> Problem:
        """Return the same problem with another level of noise.

        Parameters
        ----------
        noise_norm : array, shape (batch,)
            Norm of the noise, in the library and precision of y.

        Returns
        -------
        Problem
            The problem, which shares everything else with this one.
        """
        return self._replaced(noise_norm=noise_norm)

    def in_double(self) -> Problem:
        """Convert the problem to double precision.

        Phi is converted only once, however often this method is called.

        Returns
        -------
        Problem
            The converted problem, or this one if it is in double precision already.
        """
        if not is_single(self.y):
            return self
        xp = namespace(self.y)
        operator, y = self.operator.prepared(xp.astype(self.y, xp.complex128 if is_complex(self.y) else xp.float64))
        return self._replaced(operator=operator, y=y)

    def to_scale(self, columns: bool = True, powers: bool = True) -> tuple[Problem, Units]:
        """Scale the columns of Phi and the rows of y to sizes near 1.

        Parameters
        ----------
        columns : bool, optional
            Whether to bring the columns of Phi to one norm. Columns of zeros are left out if Phi is dense and only the
            number of nonzeros is limited; otherwise they are unchanged.
        powers : bool, optional
            Whether to divide Phi and the rows of y by powers of two near their sizes, which does not round. If no entry
            of x may be positive, y also changes its sign, so that none may be negative.

        Returns
        -------
        problem : Problem
            The scaled problem, or this one if it is scaled already. The true signals are not kept.
        units : Units
            The units in which x and y of the scaled problem are expressed.
        """
        xp, like = namespace(self.y), self.y
        # A set of the user's own has units of its own.
        own = self.structure.nearest is not None
        columns, powers = columns and not own, powers and not own
        if powers and self.structure.nonpositive:
            mirrored = self._replaced(y=-like, x=None, structure=self.structure.mirrored)
            scaled, factors = mirrored.to_scale(columns)
            return scaled, dataclasses.replace(factors, sign=-1)
        scaled, given, kept = self, self.operator, None
        if columns and self.structure.plain and given.nonzero_columns is not given:
            kept = given.column_norms > 0
            given = given.nonzero_columns
            scaled = scaled.on(given)
        operator = given.unit_columns if columns else given
        norms = None if operator is given else np.where(given.column_norms > 0, given.column_norms, 1)
        with np.errstate(over="ignore"):
            # What is found for columns of zeros, in groups with others, is rounding noise.
            inverse = None if norms is None else np.where(given.column_norms > 0, 1 / norms, 0.0)
            of_columns = None if inverse is None else xp.astype(from_numpy(inverse, like), real_dtype(like))
        if norms is not None and not bool(xp.all(xp.isfinite(of_columns))):
            got = f"a column of norm {norms.min():g}, whose coefficient leaves the range of {like.dtype}"
            raise reject("Phi", got, "have columns of zeros, or of norms nearer to 1")
        if norms is not None:
            scaled = scaled._replaced(operator=operator, x=None, structure=scaled.structure.scaled(norms))
        if not powers:
            return scaled, Units(None, None, of_columns, kept)
        sizes = to_numpy(xp.max(magnitudes(like), axis=-1)).astype(np.float64)
        if not self.structure.scalable:
            # Bounds are the same for all rows, and scaled with them.
            sizes[:] = sizes.max()
        y_unit = units(sizes)
        with np.errstate(over="ignore", under="ignore"):
            x_unit = y_unit / operator.unit
        if operator.unit == 1 and (y_unit == 1).all():
            return scaled, Units(None, None, of_columns, kept)
        limits = xp.finfo(like.dtype)
        if not ((x_unit > 1e4 * float(limits.smallest_normal)) & (x_unit < 1e-4 * float(limits.max))).all():
            raise reject(
                "y", f"entries for which x leaves the range of {like.dtype}", "have a scale closer to that of Phi"
            )
        of_x, of_y = (xp.astype(from_numpy(unit, like), real_dtype(like)) for unit in (x_unit, y_unit))
        scaled = scaled._replaced(
            operator=operator.to_scale,
            structure=scaled.structure.scaled(np.full(operator.shape[1], 1 / x_unit[0])),
            y=like / of_y[:, None],
            noise_norm=None if self.noise_norm is None else self.noise_norm / of_y,
            x=None,
        )
        return scaled, Units(of_x, of_y, of_columns, kept)

    def _replaced(self, **changes: Any) -> Problem:
        """Copy of the problem with some attributes replaced."""
        other = object.__new__(Problem)
        other.__dict__ |= self.__dict__ | changes
        return other


@dataclass(frozen=True)
class Units:
    """Factors by which x and y of a scaled problem are multiplied to obtain the original ones.

    Parameters
    ----------
    x : array, shape (batch,), or None
        Factors of x, one for each row; None stands for 1.
    y : array, shape (batch,), or None
        Factors of y, one for each row; None stands for 1.
    columns : array, or None
        Further factors of x, one for each column of the scaled problem; None stands for 1.
    kept : array of bool, shape (n,), or None
        The columns that the scaled problem keeps; None stands for all.
    sign : int
        A further factor of x and y.
    """

    x: Array | None
    y: Array | None
    columns: Array | None = None
    kept: BoolArray | None = None
    sign: int = 1

    def original(self, x: Array) -> Array:
        """Express solutions of the scaled problem in the original units.

        Parameters
        ----------
        x : array, shape (batch, n)
            Solutions of the scaled problem.

        Returns
        -------
        array, shape (batch, n)
            Solutions of the original problem.
        """
        # A difference, because products have zeros with a sign.
        return self.magnified(x if self.sign == 1 else 0 - x)

    def magnified(self, x: Array) -> Array:
        """Express magnitudes of solutions, such as standard deviations, in the original units.

        Parameters
        ----------
        x : array, shape (batch, columns of the scaled problem)
            Magnitudes for the scaled problem.

        Returns
        -------
        array, shape (batch, n)
            Magnitudes for the original problem.
        """
        x = x if self.x is None else x * self.x[:, None]
        return self.widened(x if self.columns is None else x * self.columns)

    def widened(self, x: Array) -> Array:
        """Insert zeros at the columns that were left out.

        Parameters
        ----------
        x : array, shape (batch, columns of the scaled problem)
            Values of the entries.

        Returns
        -------
        array, shape (batch, n)
            The same values, and zeros.
        """
        return x if self.kept is None else at_columns(x, np.flatnonzero(self.kept), self.kept.size)


def random_problem(
    m: int,
    n: int,
    sparsity: int,
    snr_db: float | None = None,
    batch: int = 1,
    rng: Any = None,
    dtype: Any = np.float64,
) -> Problem:
    """Draw a random problem as in section 3 of the paper, with NumPy arrays.

    Phi has standard normal entries, which are then centred and scaled so that every column has zero mean and unit
    norm. Its rank is therefore at most m - 1. Every signal has ``sparsity`` standard normal entries at random
    positions. The noise in y = Phi x + noise is normal and scaled so that 20 log10(||Phi x|| / ||noise||) equals
    ``snr_db`` exactly.

    Parameters
    ----------
    m : int
        Number of rows of Phi, at least 2, since a single centred entry is zero.
    n : int
        Number of columns of Phi.
    sparsity : int
        Number of nonzeros of each signal.
    snr_db : float, optional
        Signal-to-noise ratio of y in decibels; None for no noise.
    batch : int, optional
        Number of signals, all measured with the same Phi.
    rng : int, numpy.random.Generator or None, optional
        Seed or random generator.
    dtype : {'float32', 'float64'} or dtype, optional
        Precision of the arrays.

    Returns
    -------
    Problem
        A problem with ``Phi``, ``y``, ``sparsity``, the true signals ``x`` and ``noise_norm`` (zeros if there is no
        noise).

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=40, n=100, sparsity=7, snr_db=20, batch=5, rng=0)
    >>> problem.Phi.shape, problem.y.shape, problem.x.shape
    ((40, 100), (5, 40), (5, 100))
    >>> int((problem.x[0] != 0).sum())
    7
    """
    m, n, batch = whole_number("m", m, 2), whole_number("n", n, 1), whole_number("batch", batch, 1)
    sparsity = whole_number("sparsity", sparsity, 0, n)
    if snr_db is not None:
        snr_db = real_number(
            "snr_db", snr_db, "from -300 to 300 decibels, or None for no noise", low=-300.0, high=300.0
        )
    known = ("float32", "float64", np.float32, np.float64, np.dtype(np.float32), np.dtype(np.float64))
    if not isinstance(dtype, str | type | np.dtype) or dtype not in known:
        raise reject("dtype", shown(dtype), "float32 or float64")
    generate = generator(rng)
    Phi = generate.standard_normal((m, n))
    Phi -= Phi.mean(axis=0)
    Phi /= np.linalg.norm(Phi, axis=0)
    places = generate.permuted(np.tile(np.arange(n), (batch, 1)), axis=1)[:, :sparsity]
    x = np.zeros((batch, n))
    np.put_along_axis(x, places, generate.standard_normal((batch, sparsity)), axis=1)
    clean = x @ Phi.T
    noise = np.zeros_like(clean)
    if snr_db is not None:
        noise = generate.standard_normal((batch, m))
        noise *= np.linalg.norm(clean, axis=1, keepdims=True) / np.linalg.norm(noise, axis=1, keepdims=True)
        noise *= 10 ** (-snr_db / 20)
    return Problem(
        Phi.astype(dtype),
        (clean + noise).astype(dtype),
        sparsity,
        noise_norm=np.linalg.norm(noise, axis=1),
        x=x.astype(dtype),
    )


def _without_underflow(y: Array) -> tuple[Array, int]:
    """Replace the rows of y whose squares underflow by zeros, and count these rows."""
    xp = namespace(y)
    size = xp.max(magnitudes(y), axis=-1)
    least = 1e4 * float(xp.finfo(y.dtype).smallest_normal) ** 0.5
    tiny = (size > 0) & (size < least / y.shape[-1] ** 0.5)
    count = int(xp.count_nonzero(tiny))
    return (xp.where(tiny[:, None], xp.zeros_like(y), y) if count else y), count


def _noise_norms(noise_norm: Any, y: Array) -> Array:
    """Convert ``noise_norm`` to one real number for each row of ``y``, in the library and precision of y."""
    values = to_numpy(floating("noise_norm", noise_norm, dimensions=(0, 1)))
    xp, batch = namespace(y), y.shape[0]
    if np.iscomplexobj(values):
        raise reject("noise_norm", "complex numbers", "numbers of at least 0")
    if values.ndim == 1 and values.size not in (1, batch):
        raise reject("noise_norm", f"{values.size} values", f"be one number, or one for each of {batch} rows")
    if (values < 0).any():
        raise reject("noise_norm", f"{values.min():g}", "a number of at least 0 (a norm, not a squared norm)")
    return xp.astype(from_numpy(np.broadcast_to(values, (batch,)).copy(), y), real_dtype(y))


def _truth(x: Any, shape: tuple[int, int], times: int | None = None) -> Array:
    """Check the true signals and convert them to shape (batch, n)."""
    x = floating("x", x, dimensions=(1, 2) if times is None else (2, 3))
    rows = x[None, ...] if x.ndim == (1 if times is None else 2) else x
    if times is not None:
        rows = namespace(rows).reshape(rows, (rows.shape[0], rows.shape[1] * rows.shape[2]))
    if tuple(rows.shape) != shape:
        raise reject("x", f"shape {tuple(x.shape)}", f"have shape {shape}, one row for each row of y")
    return rows
