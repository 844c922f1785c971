"""Sparse coding with a given dictionary."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from ..backend.array_checks import floating
from ..backend.arrays import Array, contiguous
from ..backend.checks import reject
from ..dictionary import DaskSource, Dictionary, as_dictionary
from ..dictionary.sources import is_dask
from ..solvers.base import Solver
from .base import CodingEstimator


class SparseCoder(CodingEstimator):
    """Code signals with a fixed dictionary, using at most ``sparsity`` atoms per signal.

    Parameters
    ----------
    dictionary : array, shape (n_atoms, n_features), Dictionary or str, optional
        The atoms, one per row, as in scikit-learn; an array is always read in this way, even if it is square. A
        :class:`sparsect.Dictionary`, or the name of its file, has its atoms in the columns of Phi. The default for
        signals of length 400 (20x20 patches) is the bundled dictionary; for any other length it is a set of cosines,
        twice as many as features.
    sparsity : int, optional
        Maximum number of nonzeros per code. The default is a tenth of the number of features.
    method : str or Solver, optional
        A name from ``sparsect.METHODS``, or a configured solver. Here, 'auto' is 'ormp' on a CPU and
        'annealed-difference-map' on a GPU. Codes approximate signals, so this name stands for
        ``AnnealedDifferenceMap("approximation")`` here, unlike in :func:`sparsect.recover`. For nonnegative codes on a
        CPU, 'auto' is 'annealed-difference-map' with at most 50 iterations, which take about as long as 'omp' and leave
        a smaller error. To use ``transform_max_iter`` iterations, name the method.
    refit : bool, optional
        If True, debias the codes: refit the coefficients by least squares on the selected atoms.
    transform_max_iter : int, optional
        Maximum number of iterations.
    device : {'cpu', 'cuda', 'auto'}, optional
        Where to compute; 'auto' uses a GPU if there is one and the method supports it. The default is the device of X.
        For X in main memory, the codes are in main memory, too.
    nonnegative : bool, optional
        Whether the codes are nonnegative, as in nonnegative matrix factorization. The method must be one that takes
        bounds; 'lars', for example, does not.
    missing : {'nan'}, optional
        The marker of entries of X that were not measured. With 'nan', each row is coded from its other entries, at
        least one of which is needed; ``inverse_transform`` then estimates all entries. By default, NaN is refused.

    Attributes
    ----------
    components_ : array, shape (n_atoms, n_features)
        The atoms, one per row: Phi transposed.
    dictionary_ : Dictionary
        The dictionary in use.
    n_features_in_ : int
        Number of features seen in ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> patches = np.random.default_rng(0).standard_normal((5, 400))
    >>> codes = sparsect.SparseCoder(sparsity=10).fit_transform(patches)
    >>> codes.shape, codes.nnz
    ((5, 1000), 50)

    Entries that were not measured are estimated from the others:

    >>> atoms = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]])
    >>> coder = sparsect.SparseCoder(atoms, sparsity=2, nonnegative=True, missing="nan")
    >>> X = np.array([[3.0, np.nan, 1.0, 2.0], [5.0, 5.0, np.nan, 4.0]])
    >>> coder.inverse_transform(coder.fit_transform(X)).round(6)
    array([[3., 3., 1., 2.],
           [5., 5., 2., 4.]])
    """

    def __init__(
        self,
        dictionary: Array | Dictionary | str | os.PathLike[str] | None = None,
        *,
        sparsity: int | None = None,
        method: str | Solver = "auto",
        refit: bool = False,
        transform_max_iter: int = 400,
        device: str | None = None,
        nonnegative: bool = False,
        missing: str | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.sparsity = sparsity
        self.method = method
        self.refit = refit
        self.transform_max_iter = transform_max_iter
        self.device = device
        self.nonnegative = nonnegative
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that the dictionary matches the signals; nothing is learned.

        Parameters
        ----------
        X : array, shape (n_samples, n_features)
            Signals, one per row: an array of NumPy, torch, CuPy or Dask, with NaN only if ``missing`` is 'nan'.
        y : object, optional
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        SparseCoder
            The estimator itself.

        Raises
        ------
        InputError
            If the atoms do not have the length of the signals.
        """
        if is_dask(X):
            self.n_features_in_ = int(DaskSource(X).signals.shape[1])
        else:
            X = self._checked(X)
        features = self.n_features_in_
        if self.dictionary is None and features != 400:
            dictionary = Dictionary(_cosines(features))
        elif self.dictionary is None or isinstance(self.dictionary, Dictionary | str | os.PathLike):
            dictionary = as_dictionary(self.dictionary)
        else:
            dictionary = as_dictionary(contiguous(floating("dictionary", self.dictionary, dimensions=(2,)).T))
        m, n = dictionary.Phi.shape
        if m != features:
            hint = "Transpose it?" if n == features else ""
            expected = f"hold atoms of {features} numbers, one per row of an array, since X has {features} features"
            raise reject("dictionary", f"{n} atoms of {m} numbers", expected, hint)
        self._set_dictionary(dictionary)
        return self


def _cosines(features: int) -> Array:
    """Phi of cosines, shape (features, 2 features), at half the frequency spacing of the discrete cosine transform."""
    times, frequencies = np.arange(features) + 0.5, np.arange(2 * features) / 2
    atoms: Array = np.cos(np.pi * times[:, None] * frequencies[None, :] / features)
    atoms /= np.linalg.norm(atoms, axis=0)
    return atoms
