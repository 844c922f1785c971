"""Operator given as a LinearOperator, of which only products with vectors are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.array_checks import floating
from ..backend.arrays import Array
from ..backend.checks import real_number, reject
from ..backend.norms import norm
from ..backend.rng import generator
from .base import Operator
from .host import HostOperator, through_columns


class MatrixFree(HostOperator):
    """Operator given as a ``scipy.sparse.linalg.LinearOperator`` (a PyLops operator, for example).

    Parameters
    ----------
    Phi : LinearOperator, shape (m, n)
        Object with ``matmat`` and ``rmatmat``. Before its first use with a dtype, a random vector is used to check
        that the two are adjoint to each other.
    frame_bound : float, optional
        The constant c if Phi Phi^H = c I holds. A projection then costs one product with Phi and one with its
        adjoint instead of a conjugate-gradient run.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> from scipy.sparse.linalg import aslinearoperator
    >>> operator = sparsect.MatrixFree(aslinearoperator(np.eye(3, 5)), frame_bound=1.0)
    >>> operator.forward(np.arange(5.0)[None, :])
    array([[0., 1., 2.]])
    """

    def __init__(self, Phi: Any, frame_bound: float | None = None) -> None:
        if not hasattr(Phi, "matmat") or len(Phi.shape) != 2 or 0 in Phi.shape:
            received = f"{type(Phi).__name__} of shape {getattr(Phi, 'shape', None)}"
            raise reject("Phi", received, "a LinearOperator with at least one row and one column")
        self.Phi = Phi
        self.shape = (int(Phi.shape[0]), int(Phi.shape[1]))
        self.dtype = floating("Phi", np.zeros(1, dtype=Phi.dtype or np.float64)).dtype
        self._checked: set[str] = set()
        if frame_bound is not None:
            self.frame_bound = real_number("frame_bound", frame_bound, "a positive number", low=1e-300)

    def forward(self, x: Array) -> Array:
        """Compute Phi x for every row of ``x``, with ``Phi.matmat``."""
        return through_columns(self.Phi.matmat, x)

    def adjoint(self, r: Array) -> Array:
        """Compute Phi^H r for every row of ``r``, with ``Phi.rmatmat``."""
        return through_columns(self.Phi.rmatmat, r)

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Convert ``y`` to the common dtype of Phi and ``y``.

        The operator is tested before its first use with this dtype.
        """
        operator, y = super().prepared(y)
        if y.dtype.name not in self._checked:
            self._check(y.dtype)
            self._checked.add(y.dtype.name)
        return operator, y

    def _check(self, dtype: Any) -> None:
        """Test the operator on random vectors of the dtype it is about to be used with."""
        probe, r = (self._probe(generator(0), size).astype(dtype) for size in self.shape[::-1])
        if dtype.kind == "c":
            probe, r = probe * (1 + 0.5j), r * (1 - 2j)
        try:
            image, back = self.forward(probe), self.adjoint(r)
        except Exception as error:
            reason = "has no rmatvec" if isinstance(error, NotImplementedError) else f"failed: {error}"
            raise reject(
                "Phi", f"a LinearOperator whose matvec or rmatvec {reason}", f"a LinearOperator that takes {dtype}"
            ) from None
        for product, found, vector in (("matmat", image, r), ("rmatmat", back, probe)):
            if found.shape != vector.shape:
                lengths = found.shape[-1], vector.shape[-1]
                got, wanted = (f"a LinearOperator whose {product} returns {length} rows" for length in lengths)
                raise reject("Phi", got, wanted)
            if not np.isfinite(found).all():
                got = f"a LinearOperator whose {product} returns NaN or infinity for finite vectors"
                raise reject("Phi", got, "have finite entries only")
        if image.dtype.kind != dtype.kind or back.dtype.kind != dtype.kind:
            raise reject(
                "Phi",
                f"a LinearOperator that turns {dtype} into {image.dtype}",
                "a LinearOperator that keeps complex numbers",
            )
        mismatch = abs(np.vdot(r, image) - np.vdot(back, probe)) / float((norm(image) * norm(r))[0] or 1)
        if not mismatch < 1e-3:
            received = f"a LinearOperator whose rmatvec is not the adjoint of matvec (dot-test {mismatch:.1e})"
            raise reject("Phi", received, "have an rmatvec that is the adjoint of its matvec")
        if self.frame_bound is not None:
            twice = self.forward(back)
            mismatch = float((norm(twice - self.frame_bound * r) / norm(self.frame_bound * r))[0])
            if not mismatch < 1e-3:
                received = f"{self.frame_bound:g}, which differs from Phi Phi^H by {mismatch:.1e}"
                raise reject("frame_bound", received, "the constant c for which Phi Phi^H = c I")
