"""What is asked (:class:`Problem`), and how are random problems drawn (:func:`random_problem`)?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .backend.arrays import (
    Array,
    floating,
    from_numpy,
    generator,
    is_complex,
    is_single,
    magnitudes,
    namespace,
    real_dtype,
    take_rows,
    to_numpy,
    units,
)
from .backend.checks import real_number, reject, shown, whole_number
from .operators import as_operator


class Problem:
    """Find x with at most ``sparsity`` nonzeros and Phi x close to y, for every row of y.

    Parameters
    ----------
    Phi : array, SciPy sparse matrix, LinearOperator or :class:`~sparsect.operators.Operator`, shape (m, n)
    y : (m,) or (batch, m); one row is one signal
    sparsity : s, number of nonzeros allowed, 0 to n
    noise_norm : norm of the noise, a number or one for each row; None if unknown
    x : the truth, where it is known, for measuring errors

    Attributes
    ----------
    operator : Phi as an Operator, of the dtype that answers will have
    y : always (batch, m), same dtype; rows so small that their squares leave its range, 1e-15 in single precision,
        are zero
    vanishing : how many such rows there were
    single : whether y came as one vector
    """

    def __init__(self, Phi: Any, y: Any, sparsity: int, noise_norm: Any = None, x: Any = None) -> None:
        operator = as_operator(Phi)
        m, n = operator.shape
        y = floating("y", y)
        expected = f"({m},) or (batch, {m}) with at least one row, to match Phi of shape ({m}, {n})"
        if y.ndim not in (1, 2) or y.shape[-1] != m or y.shape[0] == 0:
            turned = y.ndim == 2 and y.shape[0] == m and y.shape[-1] != m
            hint = "; signals are rows: pass y.T" if turned else ""
            raise reject("y", f"shape {tuple(y.shape)}", expected + hint)
        self.single = y.ndim == 1
        self.Phi = Phi
        self.operator, y = operator.prepared(y[None, :] if self.single else y)
        self.y, self.vanishing = _without_rounding(y)
        self.sparsity = whole_number("sparsity", sparsity, 0, n)
        self.noise_norm = None if noise_norm is None else _noise_norms(noise_norm, self.y)
        self.x = None if x is None else _truth(x, (self.batch, n))

    @property
    def batch(self) -> int:
        """Number of signals."""
        return int(self.y.shape[0])

    def take(self, rows: np.ndarray[Any, Any], sparsity: int | None = None) -> Problem:
        """The problem of the given rows alone, sharing Phi and what was factored of it; perhaps with another s."""
        return self._replaced(
            single=False,
            sparsity=self.sparsity if sparsity is None else sparsity,
            y=take_rows(self.y, rows),
            noise_norm=None if self.noise_norm is None else take_rows(self.noise_norm, rows),
            x=None if self.x is None else take_rows(self.x, rows),
        )

    def in_double(self) -> Problem:
        """The same problem in double precision, Phi being converted once for all calls."""
        if not is_single(self.y):
            return self
        xp = namespace(self.y)
        operator, y = self.operator.prepared(xp.astype(self.y, xp.complex128 if is_complex(self.y) else xp.float64))
        return self._replaced(operator=operator, y=y)

    def to_scale(self) -> tuple[Problem, Units]:
        """The same problem with columns of Phi and rows of y near 1 in size, and the units that x and y are then in.

        Units are powers of two, so that nothing is rounded; the problem comes back as it is where it is to scale.
        """
        xp, like = namespace(self.y), self.y
        y_unit = units(to_numpy(xp.max(magnitudes(like), axis=-1)).astype(np.float64))
        with np.errstate(over="ignore", under="ignore"):
            x_unit = y_unit / self.operator.unit
        if self.operator.unit == 1 and (y_unit == 1).all():
            return self, Units(None, None)
        limits = xp.finfo(like.dtype)
        if not ((x_unit > 1e4 * float(limits.smallest_normal)) & (x_unit < 1e-4 * float(limits.max))).all():
            raise reject("y", f"sizes at which x leaves the range of {like.dtype}", "y scaled nearer to Phi")
        of_x, of_y = (xp.astype(from_numpy(unit, like), real_dtype(like)) for unit in (x_unit, y_unit))
        scaled = self._replaced(
            operator=self.operator.to_scale,
            y=like / of_y[:, None],
            noise_norm=None if self.noise_norm is None else self.noise_norm / of_y,
            x=None,
        )
        return scaled, Units(of_x, of_y)

    def _replaced(self, **changes: Any) -> Problem:
        other = object.__new__(Problem)
        other.__dict__ |= self.__dict__ | changes
        return other


@dataclass(frozen=True)
class Units:
    """What x and y of a problem brought to scale are to be multiplied by, one number for each row; None for 1."""

    x: Array | None
    y: Array | None

    def take(self, rows: np.ndarray[Any, Any]) -> Units:
        """Those of the given rows."""
        return Units(*(None if unit is None else take_rows(unit, rows) for unit in (self.x, self.y)))


def random_problem(
    m: int,
    n: int,
    sparsity: int,
    snr_db: float | None = None,
    batch: int = 1,
    rng: Any = None,
    dtype: Any = np.float64,
) -> Problem:
    """The paper's random measurements (its section 3), as NumPy arrays.

    Phi has standard normal entries, then columns of zero mean and unit norm (so its rank is m - 1 at most). Every
    signal has ``sparsity`` standard normal entries at random places; y = Phi x + noise, the noise normal and scaled
    so that 20 log10(||Phi x|| / ||noise||) is ``snr_db`` exactly.

    Parameters
    ----------
    m, n : shape of Phi; m >= 2, since a single centred entry is zero
    sparsity : nonzeros of each signal
    snr_db : signal-to-noise ratio of y in decibels; None for no noise
    batch : number of signals measured by the one Phi
    rng : seed, Generator, or None
    dtype : float32 or float64

    Returns
    -------
    Problem
        with ``Phi``, ``y``, ``sparsity``, the truth ``x`` and ``noise_norm`` (zeros if there is no noise).
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


def _without_rounding(y: Array) -> tuple[Array, int]:
    """y, with rows whose squares leave the range of its dtype at the lower end set to zero, and their number."""
    xp = namespace(y)
    size = xp.max(magnitudes(y), axis=-1)
    least = 1e4 * float(xp.finfo(y.dtype).smallest_normal) ** 0.5
    tiny = (size > 0) & (size < least / y.shape[-1] ** 0.5)
    count = int(xp.count_nonzero(tiny))
    return (xp.where(tiny[:, None], xp.zeros_like(y), y) if count else y), count


def _noise_norms(noise_norm: Any, y: Array) -> Array:
    """``noise_norm`` as one real number for each row of ``y``, in y's library and precision."""
    values = to_numpy(floating("noise_norm", noise_norm, dimensions=(0, 1)))
    xp, batch = namespace(y), y.shape[0]
    if np.iscomplexobj(values):
        raise reject("noise_norm", "complex numbers", "numbers of at least 0")
    if values.ndim == 1 and values.size not in (1, batch):
        raise reject("noise_norm", f"{values.size} values", f"one number, or one for each of {batch} rows")
    if (values < 0).any():
        raise reject("noise_norm", f"{values.min():g}", "a number of at least 0 (a norm, not a squared norm)")
    return xp.astype(from_numpy(np.broadcast_to(values, (batch,)).copy(), y), real_dtype(y))


def _truth(x: Any, shape: tuple[int, int]) -> Array:
    x = floating("x", x, dimensions=(1, 2))
    rows = x[None, :] if x.ndim == 1 else x
    if tuple(rows.shape) != shape:
        raise reject("x", f"shape {tuple(x.shape)}", f"{shape}, one row for each row of y")
    return rows
