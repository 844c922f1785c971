"""What is asked (:class:`Problem`), and how are random problems drawn (:func:`random_problem`)?"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array, floating, from_numpy, generator, namespace, norm, real_dtype, take_rows
from .checks import real_number, reject, whole_number
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
    y : always (batch, m), same dtype
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
        self.operator, self.y = operator.prepared(y[None, :] if self.single else y)
        _check_magnitude(self.y)
        self.sparsity = whole_number("sparsity", sparsity, 0, n)
        self.noise_norm = None if noise_norm is None else _noise_norms(noise_norm, self.y)
        self.x = None if x is None else _truth(x, (self.batch, n))

    @property
    def batch(self) -> int:
        """Number of signals."""
        return int(self.y.shape[0])

    def take(self, rows: np.ndarray[Any, Any]) -> Problem:
        """The problem of the given rows alone, sharing Phi and what was factored of it."""
        part = object.__new__(Problem)
        part.Phi, part.operator, part.sparsity, part.single = self.Phi, self.operator, self.sparsity, False
        part.y = take_rows(self.y, rows)
        part.noise_norm = None if self.noise_norm is None else take_rows(self.noise_norm, rows)
        part.x = None if self.x is None else take_rows(self.x, rows)
        return part


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
        snr_db = real_number("snr_db", snr_db, "a number of decibels, or None for no noise")
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise reject("dtype", dtype, "float32 or float64")
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


def _check_magnitude(y: Array) -> None:
    """Refuse rows whose norm leaves the range of their dtype: every later sum of squares would too."""
    xp = namespace(y)
    with np.errstate(over="ignore"):
        length, largest = norm(y), xp.max(xp.abs(y), axis=-1)
    if not bool(xp.all(xp.isfinite(length) & ((length > 0) | (largest == 0)))):
        raise reject(
            "y", f"entries whose squares leave the range of {y.dtype}", "y scaled nearer to 1, or a wider dtype"
        )


def _noise_norms(noise_norm: Any, y: Array) -> Array:
    """``noise_norm`` as one real number for each row of ``y``."""
    if not hasattr(noise_norm, "shape"):
        noise_norm = np.asarray(floating("noise_norm", noise_norm))
    values = floating("noise_norm", noise_norm, dimensions=(0, 1))
    xp = namespace(y)
    if values.ndim == 1 and values.shape[0] not in (1, y.shape[0]):
        raise reject("noise_norm", f"{values.shape[0]} values", f"one number, or one for each of {y.shape[0]} rows")
    if "complex" in str(values.dtype):
        raise reject("noise_norm", "complex numbers", "numbers of at least 0")
    if isinstance(values, np.ndarray):
        values = from_numpy(values, y)
    if bool(xp.any(values < 0)):
        raise reject("noise_norm", f"{float(xp.min(values)):g}", "a number of at least 0 (a norm, not a squared norm)")
    dtype = real_dtype(y)
    return xp.astype(values, dtype) + xp.zeros((y.shape[0],), dtype=dtype, device=y.device)


def _truth(x: Any, shape: tuple[int, int]) -> Array:
    x = floating("x", x, dimensions=(1, 2))
    rows = x[None, :] if x.ndim == 1 else x
    if tuple(rows.shape) != shape:
        raise reject("x", f"shape {tuple(x.shape)}", f"{shape}, one row for each row of y")
    return rows
