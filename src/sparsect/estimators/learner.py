"""Learn a dictionary, and code signals with it."""

from __future__ import annotations

from typing import Any, Self

from ..backend.arrays import (
    on_host,
)
from ..backend.devices import batch_rows, place
from ..dictionary import ArraySource, DaskSource, learn
from ..dictionary.cluster import Cluster
from ..solvers.base import Solver
from .base import CodingEstimator, is_dask


class DictionaryLearner(CodingEstimator):
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
        if not is_dask(X):
            X = self._checked(X)
        settings: dict[str, Any] = {
            "n_atoms": X.shape[1] if self.n_atoms is None else self.n_atoms,
            "coder": self.coder,
            "sparsity": self.code_sparsity,
            "code_iter": self.code_iter,
            "rounds": self.rounds,
            "rng": 0 if self.random_state is None else self.random_state,
        }
        if is_dask(X):
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
