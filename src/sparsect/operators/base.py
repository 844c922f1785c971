"""Base class of the operators Phi: products, the adjoint, and the pseudo-inverse that projections need.

Signals are rows: ``forward`` maps (..., n) to (..., m) and ``adjoint`` maps (..., m) to (..., n).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from ..backend.arrays import Array, FloatArray, IntArray, namespace, to_numpy
from ..backend.checks import reject
from ..backend.norms import norm, units
from ..backend.rng import generator
from .pseudo_inverse import ConjugateGradients, PseudoInverse, TightFrame

# Column norms whose relative difference is smaller than this count as equal.
EQUAL = 1e-5


class Operator(ABC):
    """Linear map Phi of shape (m, n) that acts on rows.

    Subclasses set ``shape`` and implement :meth:`forward`, :meth:`adjoint` and :meth:`prepared`. Everything else is
    derived from these.

    Attributes
    ----------
    shape : tuple of int
        Shape (m, n) of Phi.
    is_dense : bool
        Whether Phi is stored as an array. Only then does the operator have ``gram_matrix``,
        ``double_gram_matrix`` and ``columns``.
    gram_matrix : array, shape (n, n)
        Phi^H Phi, for dense operators only.
    double_gram_matrix : array, shape (n, n)
        Phi^H Phi computed in double precision, for dense operators only.
    columns : array, shape (n, m)
        Contiguous transpose of Phi, for dense operators only.
    rank_tol : float
        Singular values up to ``rank_tol`` times the largest one count as zero. Only dense and sparse operators
        have this attribute.
    Phi : object
        The array, sparse matrix or LinearOperator that is wrapped, if there is one.
    times : int
        The number of parts of a row to which Phi is applied, one for each time of joint supports.
    frame_bound : float or None
        The constant c if Phi Phi^H = c I is known to hold (a tight frame), otherwise None.

    See Also
    --------
    as_operator : Wrap an array, a sparse matrix or a LinearOperator.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> class Average(sparsect.Operator):
    ...     '''Mean of neighbouring pairs of entries.'''
    ...     shape = (2, 4)
    ...     def forward(self, x):
    ...         return (x[..., ::2] + x[..., 1::2]) / 2
    ...     def adjoint(self, r):
    ...         return np.repeat(r, 2, axis=-1) / 2
    ...     def prepared(self, y):
    ...         return self, y
    >>> operator = Average()
    >>> operator.forward(np.array([[1.0, 3.0, 5.0, 7.0]]))
    array([[2., 6.]])
    >>> operator.dot_test() < 1e-12
    True
    """

    shape: tuple[int, int]
    is_dense: bool = False
    gram_matrix: Any
    double_gram_matrix: Any
    columns: Any
    rank_tol: float
    Phi: Any
    frame_bound: float | None = None
    times: int = 1
    _seconds: float = 0.0

    @property
    def inner(self) -> Operator:
        """The operator that is applied to each of ``times`` parts of a row: this one, if there is one part."""
        return self

    @abstractmethod
    def forward(self, x: Array) -> Array:
        """Compute Phi x for every row of ``x``.

        Parameters
        ----------
        x : array, shape (..., n)
            Signals, one per row.

        Returns
        -------
        array, shape (..., m)
            Their images Phi x.
        """

    @abstractmethod
    def adjoint(self, r: Array) -> Array:
        """Compute Phi^H r for every row of ``r``.

        Parameters
        ----------
        r : array, shape (..., m)
            Vectors in the space of the measurements, one per row.

        Returns
        -------
        array, shape (..., n)
            Phi^H r.
        """

    @abstractmethod
    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Convert this operator and ``y`` to a common dtype, which is the dtype of the solution.

        Parameters
        ----------
        y : array, shape (batch, m)
            Measurements.

        Returns
        -------
        operator : Operator
            This operator, or a copy in the common dtype.
        y : array, shape (batch, m)
            The measurements in the common dtype.
        """

    @property
    def factor_seconds(self) -> float:
        """Time spent so far on computations that depend on Phi alone, in seconds, scaled copies included."""
        copies = (self.__dict__.get(name, self) for name in ("nonzero_columns", "unit_columns", "to_scale"))
        return self._seconds + float(sum(copy.factor_seconds for copy in copies if copy is not self))

    @cached_property
    def pseudo_inverse(self) -> PseudoInverse:
        """Pseudo-inverse of Phi, for which Phi is factored on first use; cached."""
        start = time.perf_counter()
        inverse = self._factor()
        self._seconds += time.perf_counter() - start
        return inverse

    @cached_property
    def column_energy(self) -> float:
        """Mean squared norm of the columns of Phi, or 1 if Phi is zero.

        It is estimated from random rows where Phi is not stored as an array.
        """
        generate = generator(0)
        each = [self._probe(generate, self.shape[1]) for _ in range(16)]
        probes = namespace(each[0]).concat(each, axis=0)
        return float(sum(to_numpy(norm(self.forward(probes))) ** 2)) / 16 / self.shape[1] or 1.0

    @cached_property
    def unit(self) -> float:
        """Power of two near the root mean square norm of the columns of Phi; 1 if that norm is near 1."""
        return float(units(np.asarray(self.column_energy**0.5)))

    @cached_property
    def to_scale(self) -> Operator:
        """Phi / unit, whose columns have norms near 1; the operator itself if ``unit`` is 1."""
        return self if self.unit == 1 else self._divided(self.unit)

    @cached_property
    def column_norms(self) -> FloatArray:
        """Norms of the columns of Phi in double precision, shape (n,).

        Where Phi is not stored and has many columns, they are estimated from random vectors.
        """
        from .scaled import column_norms

        return column_norms(self)

    @property
    def coherence(self) -> float:
        """Largest absolute cosine between two columns of Phi, for dense operators only."""
        raise NotImplementedError

    def among(self, columns: IntArray) -> Operator:
        """Return the operator of some of the columns, for dense operators only.

        Parameters
        ----------
        columns : array of int
            Their numbers.

        Returns
        -------
        Operator
            An operator of shape (m, number of columns).
        """
        raise NotImplementedError

    @property
    def similar(self) -> tuple[int, int]:
        """How many pairs of columns are similar, and how many were compared, for dense operators only."""
        raise NotImplementedError

    @property
    def copies(self) -> IntArray:
        """The first of the columns that are multiples of each column, shape (n,), for dense operators only."""
        raise NotImplementedError

    @cached_property
    def nonzero_columns(self) -> Operator:
        """Phi without its columns of zeros; the operator itself if it has none, or nothing else, or is not dense."""
        return self

    @cached_property
    def unit_columns(self) -> Operator:
        """Phi with columns of norm 1; the operator itself if their norms are equal or if Phi is a tight frame.

        Columns of zeros are unchanged.
        """
        if self.frame_bound is not None:
            return self
        start = time.perf_counter()
        norms = self.column_norms
        if not np.isfinite(norms).all():
            raise reject("Phi", "columns whose norms are NaN or infinite", "have finite columns")
        positive = norms > 0
        differ = np.any(norms[positive] < (1 - EQUAL) * norms.max())
        scaled = self._divided(np.where(positive, norms, 1.0)) if differ else self
        self._seconds += time.perf_counter() - start
        return scaled

    def _divided(self, by: float | FloatArray) -> Operator:
        """Phi with its columns divided by one number or by one number each."""
        from .scaled import ScaledColumns

        return ScaledColumns(self, by)

    def _factor(self) -> PseudoInverse:
        if self.frame_bound is not None:
            return TightFrame(self.forward, self.adjoint, self.frame_bound)
        return ConjugateGradients(self.forward, self.adjoint, self.shape)

    def dot_test(self, rng: Any = 0) -> float:
        """Test on random vectors whether ``adjoint`` is the adjoint of ``forward``.

        Parameters
        ----------
        rng : int, numpy.random.Generator or None, optional
            Seed or generator of the random vectors x and r.

        Returns
        -------
        float
            Relative difference of <Phi x, r> and <x, Phi^H r>, at rounding level for a matching pair.
        """
        generate = generator(rng)
        m, n = self.shape
        x, r = (self._probe(generate, size) for size in (n, m))
        image, back = self.forward(x), self.adjoint(r)
        xp = namespace(image, back)
        mismatch = xp.abs(xp.vecdot(r, image) - xp.vecdot(back, x))
        scale = norm(image) * norm(r) + norm(x) * norm(back)
        return float(mismatch[0]) / max(float(scale[0]), 1e-300)

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        """One random row that this operator accepts."""
        return generate.standard_normal((1, size))
