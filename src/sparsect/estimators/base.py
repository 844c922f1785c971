"""Base class of the estimators: transform and inverse_transform."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..backend.array_checks import check_magnitude, floating, refuse_masked
from ..backend.arrays import Array, contiguous, from_numpy, is_complex, on_host, to_numpy
from ..backend.checks import choice, reject, whole_number
from ..backend.devices import place
from ..dictionary import Dictionary
from ..dictionary.cluster import coded_chunks
from ..dictionary.coding import codes_of, for_coding
from ..solvers import METHODS, AnnealedDifferenceMap, OrderRecursiveMatchingPursuit
from ..solvers.base import Solver, device_for


class CodingEstimator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of estimators that code signals with a dictionary.

    Provides ``transform`` and ``inverse_transform`` for subclasses that have the parameters ``sparsity``, ``method``,
    ``refit``, ``transform_max_iter`` and ``device`` and set ``dictionary_`` and ``components_`` in ``fit``.

    Attributes
    ----------
    components_ : array, shape (n_atoms, n_features)
        The atoms, one per row: Phi transposed.
    dictionary_ : Dictionary
        The dictionary.
    """

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
            The signals, one per row: an array of NumPy, torch, CuPy or Dask.

        Returns
        -------
        CSR matrix, shape (n_samples, n_atoms)
            The codes, with at most ``sparsity`` nonzeros per row: a SciPy array or, for X on a GPU, a torch tensor or
            CuPy matrix on that GPU. For a Dask array X, a Dask array whose chunks are SciPy arrays.
        """
        check_is_fitted(self)
        if is_dask(X):
            self._check_length(X)
            return coded_chunks(self, X, self.n_components_)
        X = self._checked(X, reset=False)
        n_atoms, n_features = self.components_.shape
        default = max(1, n_features // 10)
        sparsity = default if self.sparsity is None else whole_number("sparsity", self.sparsity, 0, n_atoms)
        solver, device = self._solver(X)
        limits = (min(sparsity, n_atoms), self.transform_max_iter, self.refit)
        return codes_of(X, self.dictionary_, solver, *limits, device)

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
        """Return X as an array of finite numbers on its own device; scikit-learn's checks apply to main memory only."""
        refuse_masked("X", X)
        if compat.is_torch_array(X) and on_host(X):
            X = to_numpy(floating("X", X, dimensions=(2,)))
        if not (hasattr(X, "device") and not on_host(X)):
            X = validate_data(self, X, reset=reset, dtype=(np.float64, np.float32))
            check_magnitude("X", X)
            return X
        X = floating("X", X, dimensions=(2,))
        if X.shape[0] == 0 or is_complex(X):
            raise reject("X", f"{X.shape[0]} rows of {X.dtype}", "have at least one row of real numbers")
        if reset:
            self.n_features_in_ = int(X.shape[1])
        else:
            self._check_length(X)
        return X

    def _check_length(self, X: Any) -> None:
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise reject("X", f"shape {tuple(X.shape)}", f"have shape (n_samples, {self.n_features_in_}), as in fit")

    def _solver(self, X: Array) -> tuple[Solver, str | None]:
        """Return the solver that codes X, and the device on which it does so."""
        if isinstance(self.method, str) and choice("method", self.method, ("auto", *METHODS)) == "auto":
            on_cpu = on_host(place(X[:1, :], self.device))
            name = OrderRecursiveMatchingPursuit.name if on_cpu else AnnealedDifferenceMap.name
            return for_coding(name), self.device
        solver = for_coding(self.method)
        return solver, device_for(solver, self.device)

    @property
    def n_components_(self) -> int:
        """Number of atoms."""
        return int(self.components_.shape[0])

    def _set_dictionary(self, dictionary: Dictionary) -> None:
        self.dictionary_ = dictionary
        self.components_ = contiguous(dictionary.Phi.T)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask object.

    Parameters
    ----------
    X : object
        Any object.

    Returns
    -------
    bool
        True for Dask arrays and other Dask collections.
    """
    return type(X).__module__.startswith("dask.")
