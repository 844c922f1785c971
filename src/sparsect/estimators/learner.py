"""Dictionary learning, and sparse coding with the learned dictionary."""

from __future__ import annotations

from typing import Any, Self

from ..backend.arrays import on_host
from ..backend.devices import batch_rows, place
from ..dictionary import ArraySource, DaskSource, learn
from ..dictionary.cluster import Cluster
from ..solvers.base import Solver
from .base import CodingEstimator, is_dask


class DictionaryLearner(CodingEstimator):
    """Learn a dictionary from signals.

    Each round codes all signals and then updates the dictionary by the method of optimal directions, see
    :func:`sparsect.dictionary.learn`.

    Parameters
    ----------
    n_atoms : int, optional
        Number of atoms to learn. The default is the number of features.
    sparsity : int, optional
        Maximum number of nonzeros per code in ``transform``. The default is a tenth of the number of features.
    method : str or Solver, optional
        Method of ``transform``, see :class:`SparseCoder`.
    refit : bool, optional
        If True, ``transform`` refits the coefficients by least squares on the selected atoms.
    transform_max_iter : int, optional
        Maximum number of iterations of ``transform``.
    coder : Solver, optional
        The solver that codes during learning. The default is ADMM with p-shrinkage, p = 1/2, which adapts to the scale
        of the signals.
    code_sparsity : int, optional
        Maximum number of nonzeros per code during learning. By default there is no limit, and the coder determines the
        number.
    code_iter : int, optional
        Number of iterations of the coder for each signal.
    rounds : int, optional
        Number of rounds of coding and updating.
    random_state : int, optional
        Seed, a non-negative integer; None is the same as 0.
    device : {'cpu', 'cuda', 'auto'}, optional
        Where ``fit`` and ``transform`` compute, see :class:`SparseCoder`.

    Attributes
    ----------
    components_ : array, shape (n_atoms, n_features)
        The atoms, one per row, of norm 1.
    dictionary_ : Dictionary
        The dictionary, with the errors of each round.
    n_features_in_ : int
        Number of features seen in ``fit``.
    n_iter_ : int
        Number of completed rounds.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
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

        For a Dask array, learning runs on the cluster of the ``distributed.Client`` of this process or, if there is
        none, on local processes started for it.

        Parameters
        ----------
        X : array, shape (n_samples, n_features)
            Training signals, one per row: an array of NumPy, torch, CuPy or Dask.
        y : object, optional
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        DictionaryLearner
            The estimator itself.
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
            with Cluster.default(self.device) as cluster:
                self._set_dictionary(learn(source, cluster=cluster, **settings))
        else:
            first = place(X[:1, :], self.device)
            batch = ArraySource.BATCH if on_host(first) else batch_rows(X.shape[1])
            self._set_dictionary(learn(ArraySource(X, batch, self.device), **settings).placed_like(X))
        self.n_iter_ = self.rounds
        return self
