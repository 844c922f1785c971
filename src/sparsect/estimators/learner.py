"""Dictionary learning, and sparse coding with the learned dictionary."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..backend.arrays import contiguous, on_host, to_numpy
from ..backend.checks import choice, reject, whole_number
from ..backend.devices import batch_rows, place
from ..backend.norms import squared_norm
from ..dictionary import ArraySource, DaskSource, Dictionary, learn
from ..dictionary.cluster import Cluster
from ..dictionary.online import Online
from ..dictionary.samples import completed, draw_rows
from ..dictionary.sources import is_dask
from ..dictionary.stream import Stream
from ..solvers.base import Solver
from .base import CodingEstimator

# Signals from which ``fit`` determines the mean energy, which ``partial_fit`` needs.
MEASURED = 1000


class DictionaryLearner(CodingEstimator):
    """Learn a dictionary from signals, for codes with a given number of nonzeros.

    See :func:`sparsect.dictionary.learn` for the method.

    Parameters
    ----------
    n_atoms : int, optional
        Number of atoms to learn. The default is the number of features.
    sparsity : int, optional
        Maximum number of nonzeros per code, both in ``fit`` and in ``transform``. The default is a tenth of the number
        of features, at least 1.
    method : str or Solver, optional
        Method of ``transform``, see :class:`SparseCoder`.
    refit : bool, optional
        If True, ``transform`` refits the coefficients by least squares on the selected atoms.
    transform_max_iter : int, optional
        Maximum number of iterations of ``transform``.
    objective : {'l0', 'lp'}, optional
        With 'l0', codes have at most ``sparsity`` nonzeros while learning. With 'lp', learning is that of the paper:
        codes have a penalty, and ``sparsity`` is used in ``transform`` only.
    nonnegative_codes, nonnegative_atoms : bool, optional
        Whether the codes, and the entries of the atoms, are nonnegative; for 'l0' only.
    max_coherence : float, optional
        The largest absolute inner product of two atoms, see :func:`sparsect.dictionary.learn` for what is guaranteed.
        For 'l0' only.
    coder : Solver, optional
        The solver that codes during learning, see :func:`sparsect.dictionary.learn` for the default.
    code_iter : int, optional
        Maximum number of iterations of the coder, see :func:`sparsect.dictionary.learn` for the default.
    rounds : int, optional
        Number of rounds of coding and updating. The default is 45, and 20 for few samples, whose codes are shrunk; see
        :func:`sparsect.dictionary.learn`.
    patience : int, optional
        Number of rounds without a smaller error on signals held out after which learning ends with passes over all
        signals; for 'l0' only.
    missing : {'nan'}, optional
        With 'nan', NaN in X marks entries that were not measured. While learning, they have the values that the
        dictionary gives them; ``transform`` fits codes to the other entries. By default, NaN is refused.
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
        Number of rounds of ``fit``, or of steps of ``partial_fit``.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> patches = np.random.default_rng(0).standard_normal((500, 16))
    >>> learner = sparsect.DictionaryLearner(n_atoms=20, sparsity=3, rounds=3).fit(patches)
    >>> learner.components_.shape
    (20, 16)
    """

    _stream: Stream | None
    _energy: float

    def __init__(
        self,
        n_atoms: int | None = None,
        *,
        sparsity: int | None = None,
        method: str | Solver = "auto",
        refit: bool = False,
        transform_max_iter: int = 400,
        objective: str = "l0",
        nonnegative_codes: bool = False,
        nonnegative_atoms: bool = False,
        max_coherence: float = 0.95,
        coder: Solver | None = None,
        code_iter: int | None = None,
        rounds: int | None = None,
        patience: int = 10,
        missing: str | None = None,
        random_state: int | None = None,
        device: str | None = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.sparsity = sparsity
        self.method = method
        self.refit = refit
        self.transform_max_iter = transform_max_iter
        self.objective = objective
        self.nonnegative_codes = nonnegative_codes
        self.nonnegative_atoms = nonnegative_atoms
        self.max_coherence = max_coherence
        self.coder = coder
        self.code_iter = code_iter
        self.rounds = rounds
        self.patience = patience
        self.missing = missing
        self.random_state = random_state
        self.device = device

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether codes are nonnegative."""
        return self.nonnegative_codes

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn atoms that code the rows of X sparsely.

        For a Dask array, passes over all signals run on the cluster of the ``distributed.Client`` of this process or,
        if there is none, on local processes started for it.

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
            "objective": self.objective,
            "nonnegative_codes": self.nonnegative_codes,
            "nonnegative_atoms": self.nonnegative_atoms,
            "max_coherence": self.max_coherence,
            "coder": self.coder,
            "code_iter": self.code_iter,
            "rounds": self.rounds,
            "patience": self.patience,
            "rng": self._seed(),
        }
        if self.objective != "lp":
            settings["sparsity"] = self._sparsity(X.shape[1], settings["n_atoms"])
        source: ArraySource | DaskSource
        if is_dask(X):
            source = DaskSource(X, self.missing)
            self.n_features_in_ = int(X.shape[1])
            with Cluster.default(self.device) as cluster:
                self._set_dictionary(learn(source, cluster=cluster, **settings))
        else:
            first = place(X[:1, :], self.device)
            batch = ArraySource.BATCH if on_host(first) else batch_rows(X.shape[1])
            source = ArraySource(X, batch, self.device, self.missing)
            self._set_dictionary(learn(source, **settings).placed_like(X))
        self.n_iter_ = len(self.dictionary_.rounds)
        some = draw_rows(source, MEASURED, np.random.default_rng(self._seed()))
        self._energy = float(to_numpy(squared_norm(completed(some))).mean(dtype=float))
        self._stream = None
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning with more signals, which need not be kept.

        Each step codes 64 signals and adds their statistics to those of earlier ones, which fade; see
        :func:`sparsect.dictionary.learn`. The first atoms are the first signals, unless ``fit`` was called before.
        It does not matter how the signals are divided among calls: those that do not suffice for a step are kept, and
        added to those of the next call. Rows of zeros are left out. X must be in main memory, and ``objective`` 'l0'.

        Parameters
        ----------
        X : array, shape (n_samples, n_features)
            Signals, one per row.
        y : object, optional
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        DictionaryLearner
            The estimator itself.
        """
        choice("objective", self.objective, ("l0",))
        begun = hasattr(self, "components_")
        rows = to_numpy(self._checked(X, reset=not begun))
        n_atoms = rows.shape[1] if self.n_atoms is None else whole_number("n_atoms", self.n_atoms, 1)
        if begun and n_atoms != self.n_components_:
            raise reject("n_atoms", n_atoms, f"be {self.n_components_}, as in earlier calls")
        sparsity = whole_number("sparsity", self._sparsity(rows.shape[1], n_atoms), 1, min(n_atoms, rows.shape[1]))
        signs = (self.nonnegative_codes, self.nonnegative_atoms)
        online = Online(sparsity, self.coder, self.code_iter, *signs, self.max_coherence)
        if begun and self._stream is not None:
            stream = replace(self._stream, online=online, seed=self._seed())
        else:
            stream = Stream(online, n_atoms, self._seed(), rows[:0])
        if begun and self._stream is None:
            Phi = contiguous(to_numpy(self.components_).T)
            stream = replace(stream, Phi=Phi, recent=online.recalled(Phi, self._energy), seen=math.inf)
        stream = stream.followed(rows)
        ended = stream.ended()
        self._stream, self.n_iter_ = stream, ended.steps
        self._set_dictionary(Dictionary(ended.Phi))
        return self

    def _seed(self) -> int:
        return 0 if self.random_state is None else whole_number("random_state", self.random_state, 0)

    def _sparsity(self, features: int, n_atoms: int) -> int:
        """Return the maximum number of nonzeros per code."""
        return min(max(1, features // 10), n_atoms) if self.sparsity is None else self.sparsity
