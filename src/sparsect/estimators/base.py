"""Base class of the estimators: transform and inverse_transform."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from ..backend.array_checks import check_magnitude, floating, refuse_masked
from ..backend.arrays import Array, contiguous, from_numpy, is_complex, namespace, on_host, to_numpy
from ..backend.checks import choice, reject, whole_number
from ..backend.devices import place
from ..dictionary import Dictionary
from ..dictionary.cluster import coded_chunks
from ..dictionary.coding import codes_of, for_coding
from ..dictionary.sources import is_dask
from ..sets import Sparse
from ..solvers import METHODS, AnnealedDifferenceMap, OrderRecursiveMatchingPursuit
from ..solvers.base import Solver, device_for

# Iterations of the annealed map for nonnegative codes on a CPU, if the method is 'auto'. On scikit-learn's digits they
# take about as long as 'omp' and leave a smaller error; eight times as many lower it by another 1 to 3 per cent.
NONNEGATIVE_ITER = 50


class CodingEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of estimators that code signals with a dictionary.

    Provides ``transform`` and ``inverse_transform`` for subclasses that have the parameters ``sparsity``, ``method``,
    ``refit``, ``transform_max_iter`` and ``device`` and set ``dictionary_`` and ``components_`` in ``fit``. Subclasses
    may also have the parameters ``nonnegative`` and ``missing``.

    Attributes
    ----------
    components_ : array, shape (n_atoms, n_features)
        The atoms, one per row: Phi transposed.
    dictionary_ : Dictionary
        The dictionary.
    nonnegative : bool
        Whether codes are nonnegative.
    missing : str or None
        The marker of entries of X that were not measured: 'nan' or None.
    """

    nonnegative: bool = False
    missing: str | None = None
    sparsity: int | None
    method: str | Solver
    refit: bool
    transform_max_iter: int
    device: str | None
    components_: Array

    def transform(self, X: Any) -> Any:
        """Compute sparse codes of the rows of X.

        Parameters
        ----------
        X : array, shape (n_samples, n_features)
            The signals, one per row: an array of NumPy, torch, CuPy or Dask. If ``missing`` is 'nan', each row is
            coded from its entries that are not NaN; rows that lack the same entries are coded together.

        Returns
        -------
        CSR matrix, shape (n_samples, n_atoms)
            The codes, with at most ``sparsity`` nonzeros per row: a SciPy array or, for X on a GPU, a torch tensor or
            CuPy matrix on that GPU. For a Dask array X, a Dask array whose chunks are SciPy arrays. With
            ``set_output(transform="pandas")`` or ``"polars"``, a data frame.
        """
        check_is_fitted(self)
        if is_dask(X):
            self._check_length(X)
            return coded_chunks(self, X, self.n_components_)
        X = self._checked(X, reset=False)
        n_atoms, n_features = self.components_.shape
        default = max(1, n_features // 10)
        sparsity = default if self.sparsity is None else whole_number("sparsity", self.sparsity, 0, n_atoms)
        codes = Sparse(min(sparsity, n_atoms), nonnegative=self.nonnegative)
        mask = None if self.missing is None else namespace(X).isnan(X)
        solver, max_iter, device = self._solver(X)
        found = codes_of(X, self.dictionary_, solver, codes, max_iter, self.refit, device, mask)
        # scikit-learn makes data frames of dense arrays only.
        framed = _get_output_config("transform", self)["dense"] != "default"
        return found.toarray() if framed and issparse(found) else found

    def inverse_transform(self, codes: Any) -> Array:
        """Compute the signals from their codes.

        Parameters
        ----------
        codes : array or CSR matrix, shape (n_samples, n_atoms)
            The codes, as ``transform`` returns them or dense.

        Returns
        -------
        array, shape (n_samples, n_features)
            The signals, one per row, in the array library of the codes; a NumPy array for SciPy codes.
        """
        check_is_fitted(self)
        refuse_masked("codes", codes)
        if getattr(codes, "ndim", 0) != 2 or codes.shape[1] != self.n_components_:
            raise reject(
                "codes", f"shape {tuple(getattr(codes, 'shape', ()))}", f"have shape (n_samples, {self.n_components_})"
            )
        if is_dask(codes):
            meta = np.empty((0, 0), dtype=np.result_type(codes.dtype, to_numpy(self.components_).dtype))
            return codes.map_blocks(self.inverse_transform, chunks=(codes.chunks[0], (self.n_features_in_,)), meta=meta)
        atoms, library = to_numpy(self.components_), type(codes).__module__.partition(".")[0]
        if library == "torch":
            return codes @ from_numpy(atoms, codes).to(codes.dtype)
        if library in ("cupy", "cupyx"):
            return codes @ import_module("cupy").asarray(atoms, dtype=codes.dtype)
        return np.asarray(codes @ atoms)

    def _checked(self, X: Any, reset: bool = True) -> Array:
        """Return X as a checked array on its own device; scikit-learn's checks apply to main memory only."""
        refuse_masked("X", X)
        if compat.is_torch_array(X) and on_host(X):
            X = to_numpy(floating("X", X, dimensions=(2,), finite=False))
        if not (hasattr(X, "device") and not on_host(X)):
            X = validate_data(self, X, reset=reset, dtype=(np.float64, np.float32), ensure_all_finite=False)
            self._check_entries(X)
            check_magnitude("X", X if self.missing is None else X[np.isfinite(X)])
            return X
        X = floating("X", X, dimensions=(2,), finite=False)
        self._check_entries(X)
        if X.shape[0] == 0 or is_complex(X):
            raise reject("X", f"{X.shape[0]} rows of {X.dtype}", "have at least one row of real numbers")
        if reset:
            self.n_features_in_ = int(X.shape[1])
        else:
            self._check_length(X)
        return X

    def _check_entries(self, X: Array) -> None:
        """Refuse infinite entries, NaN unless it marks missing entries, and rows without a measurement."""
        if self.missing is not None:
            choice("missing", self.missing, ("nan",))
        xp = namespace(X)
        if bool(xp.all(xp.isfinite(X))):
            return
        absent = xp.isnan(X)
        infinite, unknown = (int(xp.count_nonzero(entries)) for entries in (xp.isinf(X), absent))
        if self.missing is None:
            hints = unknown and "missing" in self.get_params()
            hint = "Use missing='nan' if NaN stands for entries that were not measured." if hints else ""
            raise reject(
                "X", f"{infinite + unknown} entries that are NaN or infinite", "have finite entries only", hint
            )
        if infinite:
            raise reject("X", f"{infinite} infinite entries", "have entries that are finite, or NaN if not measured")
        nothing = np.flatnonzero(to_numpy(xp.all(absent, axis=1)))
        if nothing.size:
            raise reject("X", f"only NaN in row {nothing[0]}", "have at least one measured entry in each row")

    def _check_length(self, X: Any) -> None:
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise reject("X", f"shape {tuple(X.shape)}", f"have shape (n_samples, {self.n_features_in_}), as in fit")

    def _solver(self, X: Array) -> tuple[Solver, int, str | None]:
        """Return the solver that codes X, its maximum number of iterations, and the device on which it codes."""
        max_iter = whole_number("transform_max_iter", self.transform_max_iter, 1)
        if isinstance(self.method, str) and choice("method", self.method, METHODS) == "auto":
            on_cpu = on_host(place(X[:1, :], self.device))
            if on_cpu and not self.nonnegative:
                return for_coding(OrderRecursiveMatchingPursuit.name), max_iter, self.device
            few = min(max_iter, NONNEGATIVE_ITER) if on_cpu else max_iter
            return for_coding(AnnealedDifferenceMap.name), few, self.device
        solver = for_coding(self.method)
        return solver, max_iter, device_for(solver, self.device)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "nan"
        return tags

    @property
    def _n_features_out(self) -> int:
        """Number of columns of the codes, for ``get_feature_names_out`` of scikit-learn."""
        return self.n_components_

    @property
    def n_components_(self) -> int:
        """Number of atoms."""
        return int(self.components_.shape[0])

    def _set_dictionary(self, dictionary: Dictionary) -> None:
        self.dictionary_ = dictionary
        self.components_ = contiguous(dictionary.Phi.T)
