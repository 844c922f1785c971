"""scikit-learn skins: code signals with a dictionary, learn one."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .algorithm import Solver
from .checks import choice, reject, whole_number
from .dictionary import ArraySource, Dictionary, as_dictionary, learn
from .operators import Operator
from .problems import Problem
from .solve import solve
from .solvers import METHODS

Array = np.ndarray[Any, Any]

# Signals coded at once; their dense codes are never all in memory.
BLOCK = 2000


class _Coder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """transform and inverse_transform, for estimators with a dictionary_ and the parameters below."""

    sparsity: int | None
    method: str | Solver
    refit: bool
    transform_max_iter: int
    components_: Array

    def transform(self, X: Any) -> Any:
        """Sparse codes of the rows of X.

        Parameters
        ----------
        X : (n_samples, n_features)

        Returns
        -------
        codes : SciPy CSR array (n_samples, n_atoms), at most ``sparsity`` nonzeros a row
        """
        from scipy.sparse import csr_array, vstack

        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        method = self.method
        solver: Solver = METHODS[choice("method", method, METHODS)]() if isinstance(method, str) else method
        n_atoms, n_features = self.components_.shape
        default = max(1, n_features // 10)
        sparsity = default if self.sparsity is None else whole_number("sparsity", self.sparsity, 0, n_atoms)
        codes = []
        for start in range(0, X.shape[0], BLOCK):
            problem = Problem(self._operator, X[start : start + BLOCK], min(sparsity, n_atoms))
            result = solve(problem, solver, max_iter=self.transform_max_iter, record=(), refit=self.refit)
            codes.append(csr_array(result.x.astype(X.dtype, copy=False)))
        return vstack(codes, format="csr")

    def inverse_transform(self, codes: Any) -> Array:
        """The signals that codes stand for, (n_samples, n_features)."""
        check_is_fitted(self)
        if codes.ndim != 2 or codes.shape[1] != self.n_components_:
            raise reject("codes", f"shape {codes.shape}", f"(n_samples, {self.n_components_})")
        return np.asarray(codes @ self.components_)

    @property
    def n_components_(self) -> int:
        """Number of atoms."""
        return int(self.components_.shape[0])

    def _keep(self, dictionary: Dictionary) -> None:
        self.dictionary_ = dictionary
        self.components_ = np.ascontiguousarray(dictionary.Phi.T)

    @property
    def _operator(self) -> Operator:
        return self.dictionary_.operator


class SparseCoder(_Coder):
    """Code signals with a fixed dictionary, at most ``sparsity`` atoms each.

    Parameters
    ----------
    dictionary : a :class:`sparsect.dictionary.Dictionary` or an array Phi (n_features, n_atoms), the transpose of
        scikit-learn's ``components_``. Default: the bundled one for signals of 400 numbers (20x20 patches), and twice
        as many cosines as features for signals of any other length.
    sparsity : nonzeros allowed in each code; default a tenth of the number of features
    method : a name from ``sparsect.METHODS``, or a configured solver
    refit : least-squares fit on the atoms chosen
    transform_max_iter : iterations at the most

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
        method: str | Solver = "ormp",
        refit: bool = False,
        transform_max_iter: int = 400,
    ) -> None:
        self.dictionary = dictionary
        self.sparsity = sparsity
        self.method = method
        self.refit = refit
        self.transform_max_iter = transform_max_iter

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that the dictionary is one for signals like the rows of X; nothing is learned."""
        X = validate_data(self, X, dtype=(np.float64, np.float32))
        features = X.shape[1]
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
    method, refit, transform_max_iter : how ``transform`` codes, see :class:`SparseCoder`
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
        method: str | Solver = "ormp",
        refit: bool = False,
        transform_max_iter: int = 400,
        coder: Solver | None = None,
        code_sparsity: int | None = None,
        code_iter: int = 20,
        rounds: int = 20,
        random_state: int | None = None,
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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn atoms that code the rows of X sparsely."""
        X = validate_data(self, X, dtype=(np.float64, np.float32))
        self._keep(
            learn(
                ArraySource(X),
                X.shape[1] if self.n_atoms is None else self.n_atoms,
                coder=self.coder,
                sparsity=self.code_sparsity,
                code_iter=self.code_iter,
                rounds=self.rounds,
                rng=0 if self.random_state is None else self.random_state,
            )
        )
        self.n_iter_ = self.rounds
        return self


def _cosines(features: int) -> Array:
    """(features, 2 features), cosines of frequencies half as far apart as in the discrete cosine transform."""
    times, frequencies = np.arange(features) + 0.5, np.arange(2 * features) / 2
    atoms: Array = np.cos(np.pi * times[:, None] * frequencies[None, :] / features)
    atoms /= np.linalg.norm(atoms, axis=0)
    return atoms
