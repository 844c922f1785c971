"""scikit-learn skins: code signals with a dictionary, learn one."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..backend.arrays import (
    Array,
    check_magnitude,
    contiguous,
    floating,
    from_numpy,
    is_complex,
    on_host,
    refuse_masked,
    to_numpy,
)
from ..backend.checks import choice, reject, whole_number
from ..backend.devices import batch_rows, place
from ..dictionary import ArraySource, DaskSource, Dictionary, as_dictionary, learn
from ..dictionary.cluster import Cluster, coded_chunks
from ..images.coding import codes_of
from ..solvers import METHODS, AnnealedDifferenceMap, OrderRecursiveMatchingPursuit
from ..solvers.base import Solver, check_solver, device_for


class _Coder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """transform and inverse_transform, for estimators with a dictionary_ and the parameters below."""

    sparsity: int | None
    method: str | Solver
    refit: bool
    transform_max_iter: int
    device: str | None
    components_: Array

    def transform(self, X: Any) -> Any:
        """Sparse codes of the rows of X.

        Parameters
        ----------
        X : (n_samples, n_features), an array of NumPy, torch or CuPy

        Returns
        -------
        codes : CSR (n_samples, n_atoms), at most ``sparsity`` nonzeros a row: a SciPy array, or for X on a GPU a torch
            tensor or a CuPy matrix there; for a Dask array X another one, its chunks SciPy arrays
        """
        check_is_fitted(self)
        if _is_dask(X):
            self._check_length(X)
            return coded_chunks(self, X, self.n_components_)
        X = self._checked(X, reset=False)
        n_atoms, n_features = self.components_.shape
        default = max(1, n_features // 10)
        sparsity = default if self.sparsity is None else whole_number("sparsity", self.sparsity, 0, n_atoms)
        known = METHODS.get(self.method) if isinstance(self.method, str) else check_solver("method", self.method)
        device = self.device if known is None else device_for(known, self.device)
        solver = self._solver(place(X[:1, :], device))
        limits = (min(sparsity, n_atoms), self.transform_max_iter, self.refit)
        return codes_of(X, self.dictionary_, solver, *limits, device)

    def inverse_transform(self, codes: Any) -> Array:
        """The signals that codes stand for, (n_samples, n_features)."""
        check_is_fitted(self)
        refuse_masked("codes", codes)
        if getattr(codes, "ndim", 0) != 2 or codes.shape[1] != self.n_components_:
            raise reject("codes", f"shape {tuple(getattr(codes, 'shape', ()))}", f"(n_samples, {self.n_components_})")
        if _is_dask(codes):
            meta = np.empty((0, 0), dtype=np.result_type(codes.dtype, to_numpy(self.components_).dtype))
            return codes.map_blocks(self.inverse_transform, chunks=(codes.chunks[0], (self.n_features_in_,)), meta=meta)
        atoms, library = to_numpy(self.components_), type(codes).__module__.partition(".")[0]
        if library == "torch":
            return codes @ from_numpy(atoms, codes).to(codes.dtype)
        if library in ("cupy", "cupyx"):
            return codes @ import_module("cupy").asarray(atoms, dtype=codes.dtype)
        return np.asarray(codes @ atoms)

    def _checked(self, X: Any, reset: bool = True) -> Array:
        """X as an array of finite numbers, wherever it is; scikit-learn's own checks are for main memory."""
        refuse_masked("X", X)
        if compat.is_torch_array(X) and on_host(X):
            X = to_numpy(floating("X", X, dimensions=(2,)))
        if not (hasattr(X, "device") and not on_host(X)):
            X = validate_data(self, X, reset=reset, dtype=(np.float64, np.float32))
            check_magnitude("X", X)
            return X
        X = floating("X", X, dimensions=(2,))
        if X.shape[0] == 0 or is_complex(X):
            raise reject("X", f"{X.shape[0]} rows of {X.dtype}", "at least one row of real numbers")
        if reset:
            self.n_features_in_ = int(X.shape[1])
        else:
            self._check_length(X)
        return X

    def _check_length(self, X: Any) -> None:
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise reject("X", f"shape {tuple(X.shape)}", f"(n_samples, {self.n_features_in_}), as fit saw")

    def _solver(self, like: Array) -> Solver:
        if not isinstance(self.method, str):
            return self.method
        if self.method == "auto":
            return OrderRecursiveMatchingPursuit() if on_host(like) else AnnealedDifferenceMap("approximation")
        solver: Solver = METHODS[choice("method", self.method, ("auto", *METHODS))]()
        return solver

    @property
    def n_components_(self) -> int:
        """Number of atoms."""
        return int(self.components_.shape[0])

    def _keep(self, dictionary: Dictionary) -> None:
        self.dictionary_ = dictionary
        self.components_ = contiguous(dictionary.Phi.T)


class SparseCoder(_Coder):
    """Code signals with a fixed dictionary, at most ``sparsity`` atoms each.

    Parameters
    ----------
    dictionary : a :class:`sparsect.dictionary.Dictionary` or an array Phi (n_features, n_atoms), the transpose of
        scikit-learn's ``components_``. Default: the bundled one for signals of 400 numbers (20x20 patches), and twice
        as many cosines as features for signals of any other length.
    sparsity : nonzeros allowed in each code; default a tenth of the number of features
    method : a name from ``sparsect.METHODS``, or a configured solver; "auto" is ormp on a CPU and the annealed map, for
        approximation, on a GPU
    refit : least-squares fit on the atoms chosen
    transform_max_iter : iterations at the most
    device : "cpu", "cuda", or "auto" for a GPU if there is one and the method takes it; default where X is. For X in
        main memory, codes are there, too.

    Attributes
    ----------
    components_ : (n_atoms, n_features), Phi transposed
    dictionary_ : the :class:`~sparsect.dictionary.Dictionary` in use

    Examples
    --------
    >>> import numpy as np, sparsect
    >>> patches = np.random.default_rng(0).standard_normal((5, 400))
    >>> codes = sparsect.SparseCoder(sparsity=10).fit_transform(patches)
    >>> codes.shape, codes.nnz
    ((5, 1000), 50)
    """

    def __init__(
        self,
        dictionary: Dictionary | Array | None = None,
        *,
        sparsity: int | None = None,
        method: str | Solver = "auto",
        refit: bool = False,
        transform_max_iter: int = 400,
        device: str | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.sparsity = sparsity
        self.method = method
        self.refit = refit
        self.transform_max_iter = transform_max_iter
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that the dictionary is one for signals like the rows of X; nothing is learned."""
        if _is_dask(X):
            self.n_features_in_ = int(DaskSource(X).signals.shape[1])
        else:
            X = self._checked(X)
        features = self.n_features_in_
        plain = self.dictionary is None and features != 400
        dictionary = as_dictionary(_cosines(features) if plain else self.dictionary)
        if dictionary.Phi.shape[0] != features:
            shape = dictionary.Phi.shape
            hint = "; transpose it?" if shape[1] == features else ""
            raise reject("dictionary", f"Phi of shape {shape}", f"({features}, n_atoms), as X has {features}{hint}")
        self._keep(dictionary)
        return self


class DictionaryLearner(_Coder):
    """Learn a dictionary from signals: sparse-code, update by the method of optimal directions, repeat.

    Parameters
    ----------
    n_atoms : atoms to learn; default as many as there are features
    sparsity : nonzeros allowed in the codes that ``transform`` gives; default a tenth of the number of features
    method, refit, transform_max_iter, device : how and where ``transform`` codes, see :class:`SparseCoder`; ``fit``
        learns there, too
    coder : the solver that codes while learning; default ADMM with p-shrinkage, p = 1/2, suited to signals of any scale
    code_sparsity : nonzeros allowed while learning; default no limit, the coder decides
    code_iter : iterations of the coder for each signal
    rounds : how often to code and update
    random_state : seed, a whole number; None is 0

    Attributes
    ----------
    components_ : (n_atoms, n_features), unit rows
    dictionary_ : the :class:`~sparsect.dictionary.Dictionary`, with the numbers of each round
    n_iter_ : rounds done

    Examples
    --------
    >>> import numpy as np, sparsect
    >>> patches = np.random.default_rng(0).standard_normal((500, 16))
    >>> learner = sparsect.DictionaryLearner(n_atoms=20, rounds=3).fit(patches)
    >>> learner.components_.shape
    (20, 16)
    """

    def __init__(
        self,
        n_atoms: int | None = None,
        *,
        sparsity: int | None = None,
        method: str | Solver = "auto",
        refit: bool = False,
        transform_max_iter: int = 400,
        coder: Solver | None = None,
        code_sparsity: int | None = None,
        code_iter: int = 20,
        rounds: int = 20,
        random_state: int | None = None,
        device: str | None = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.sparsity = sparsity
        self.method = method
        self.refit = refit
        self.transform_max_iter = transform_max_iter
        self.coder = coder
        self.code_sparsity = code_sparsity
        self.code_iter = code_iter
        self.rounds = rounds
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn atoms that code the rows of X sparsely.

        A Dask array is learned from on the cluster of the ``distributed.Client`` at hand, or on processes started here.
        """
        if not _is_dask(X):
            X = self._checked(X)
        settings: dict[str, Any] = {
            "n_atoms": X.shape[1] if self.n_atoms is None else self.n_atoms,
            "coder": self.coder,
            "sparsity": self.code_sparsity,
            "code_iter": self.code_iter,
            "rounds": self.rounds,
            "rng": 0 if self.random_state is None else self.random_state,
        }
        if _is_dask(X):
            source = DaskSource(X)
            self.n_features_in_ = int(X.shape[1])
            with Cluster.at_hand(self.device) as cluster:
                self._keep(learn(source, cluster=cluster, **settings))
        else:
            first = place(X[:1, :], self.device)
            batch = ArraySource.BATCH if on_host(first) else batch_rows(X.shape[1])
            self._keep(learn(ArraySource(X, batch, self.device), **settings).placed_like(X))
        self.n_iter_ = self.rounds
        return self


def _is_dask(X: Any) -> bool:
    return type(X).__module__.startswith("dask.")


def _cosines(features: int) -> Array:
    """(features, 2 features), cosines of frequencies half as far apart as in the discrete cosine transform."""
    times, frequencies = np.arange(features) + 0.5, np.arange(2 * features) / 2
    atoms: Array = np.cos(np.pi * times[:, None] * frequencies[None, :] / features)
    atoms /= np.linalg.norm(atoms, axis=0)
    return atoms
