"""Code signals with a given dictionary."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..backend.arrays import (
    Array,
)
from ..backend.checks import reject
from ..dictionary import DaskSource, Dictionary, as_dictionary
from ..solvers.base import Solver
from .base import CodingEstimator, is_dask


class SparseCoder(CodingEstimator):
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
        if is_dask(X):
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


def _cosines(features: int) -> Array:
    """(features, 2 features), cosines of frequencies half as far apart as in the discrete cosine transform."""
    times, frequencies = np.arange(features) + 0.5, np.arange(2 * features) / 2
    atoms: Array = np.cos(np.pi * times[:, None] * frequencies[None, :] / features)
    atoms /= np.linalg.norm(atoms, axis=0)
    return atoms
