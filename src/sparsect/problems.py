"""What is asked (:class:`Problem`), and how are random problems drawn (:func:`random_problem`)?"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array, check_magnitude, floating, from_numpy, generator, namespace, real_dtype, take_rows, to_numpy
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
        check_magnitude("y", self.y)
        self.sparsity = whole_number("sparsity", sparsity, 0, n)
        self.noise_norm = None if noise_norm is None else _noise_norms(noise_norm, self.y)
        self.x = None if x is None else _truth(x, (self.batch, n))

    @property
    def batch(self) -> int:
        """Number of signals."""
        return int(self.y.shape[0])

    def take(self, rows: np.ndarray[Any, Any], sparsity: int | None = None) -> Problem:
        """The problem of the given rows alone, sharing Phi and what was factored of it; perhaps with another s."""
        part = object.__new__(Problem)
        part.Phi, part.operator, part.single = self.Phi, self.operator, False
        part.sparsity = self.sparsity if sparsity is None else sparsity
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
        snr_db = real_number(
            "snr_db", snr_db, "from -300 to 300 decibels, or None for no noise", low=-300.0, high=300.0
        )
    if dtype not in ("float32", "float64", np.float32, np.float64, np.dtype(np.float32), np.dtype(np.float64)):
        raise reject("dtype", repr(dtype), "float32 or float64")
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
