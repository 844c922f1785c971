"""The dictionary, its file format, and the dictionary included in the package."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any

import array_api_compat as compat
import numpy as np

from ..backend import files
from ..backend.array_checks import floating
from ..backend.arrays import Array, NumpyArray, from_numpy, namespace, to_numpy
from ..backend.checks import InputError, reject
from ..backend.norms import norm
from ..operators import Operator, as_operator

BUNDLED = "dictionary-20x20.npz"


@dataclass(frozen=True)
class Dictionary:
    """Atoms with which signals are coded, and their origin.

    Parameters
    ----------
    Phi : array, shape (m, n)
        The atoms, one per column; those of a learned dictionary have norm 1.
    rounds : list of dict, optional
        For every learning round, the error and the mean number of nonzeros on the training signals and, if there were
        any, on the validation signals.
    provenance : dict, optional
        The training data and the learning settings, in plain values.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> sparsect.Dictionary(np.eye(16))
    Dictionary(16x16, 0 rounds)
    """

    Phi: Array
    rounds: list[dict[str, float]] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def operator(self) -> Operator:
        """Phi as an operator, factored once for all signals."""
        return as_operator(self.Phi)

    def placed_like(self, array: Array) -> Dictionary:
        """Return the dictionary in the array library and on the device of an array.

        The copy is kept and returned by later calls.

        Parameters
        ----------
        array : array
            An array of the library and on the device wanted.

        Returns
        -------
        Dictionary
            The dictionary itself if Phi is already there, else a copy.
        """
        where = f"{namespace(array).__name__} {compat.device(array)}"
        if where == f"{namespace(self.Phi).__name__} {compat.device(self.Phi)}":
            return self
        if where not in self._placed:
            self._placed[where] = replace(self, Phi=from_numpy(to_numpy(self.Phi), array))
        return self._placed[where]

    @cached_property
    def _placed(self) -> dict[str, Dictionary]:
        return {}

    @property
    def patch(self) -> int:
        """Side of the square patches that the atoms represent; an error if their length is not a square."""
        side = math.isqrt(self.Phi.shape[0])
        if side * side != self.Phi.shape[0]:
            raise reject(
                "dictionary",
                f"atoms of {self.Phi.shape[0]} numbers",
                "have atoms that are square patches (400 numbers for 20x20)",
            )
        return side

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the dictionary to an ``.npz`` file that :func:`load_dictionary` reads.

        The file is written under a temporary name and then renamed, so that it is never left incomplete.

        Parameters
        ----------
        path : str or path-like
            The file.
        """
        files.write_npz(path, self.arrays(), compress=False)

    def arrays(self) -> dict[str, NumpyArray]:
        """Return what is saved.

        Returns
        -------
        dict of numpy.ndarray
            The arrays of the file, by name.
        """
        words = {name: np.array(json.dumps(getattr(self, name))) for name in ("rounds", "provenance")}
        return {"Phi": to_numpy(self.Phi)} | words

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: no copies, and no factorization, which is large and quick to recompute."""
        return {name: value for name, value in self.__dict__.items() if name not in ("operator", "_placed")}

    def __sizeof__(self) -> int:
        """Size in bytes, from which Dask estimates transfer costs."""
        return object.__sizeof__(self) + int(self.Phi.nbytes)

    def __repr__(self) -> str:
        m, n = self.Phi.shape
        return f"Dictionary({m}x{n}, {len(self.rounds)} rounds)"


def load_dictionary(path: str | os.PathLike[str] | None = None) -> Dictionary:
    """Load a dictionary from a file written by :meth:`Dictionary.save` or ``sparsect learn``.

    Parameters
    ----------
    path : str or path-like, optional
        An ``.npz`` file that contains Phi, or an ``.npy`` file of Phi. The default is the bundled dictionary: 1,000
        atoms of 20x20 pixels, learned from 10 million patches of photographs.

    Returns
    -------
    Dictionary
        The dictionary.

    Raises
    ------
    InputError
        If the file cannot be read, holds no dictionary, or is damaged.

    Examples
    --------
    >>> import sparsect
    >>> dictionary = sparsect.load_dictionary()
    >>> dictionary.Phi.shape, dictionary.patch
    ((400, 1000), 20)
    """
    if path is None:
        return _bundled()
    name = files.path_name("path", path)
    if name.endswith(".npz"):
        arrays = files.read_npz(name)
        if "Phi" not in arrays:
            raise InputError(f"{name}: not a dictionary of sparsect: it has no Phi")
        try:
            words = {key: json.loads(str(arrays[key])) for key in ("rounds", "provenance") if key in arrays}
        except (ValueError, RecursionError):
            words = {"rounds": None}
        if not _are_rounds(words.get("rounds", [])) or not isinstance(words.get("provenance", {}), dict):
            raise InputError(f"{name}: damaged (its rounds or its provenance cannot be read)")
        return Dictionary(_atoms(name, arrays["Phi"]), **words)
    return Dictionary(_atoms(name, files.read_array(name, prefer=("Phi",))))


def as_dictionary(value: Any) -> Dictionary:
    """Convert a value to a dictionary.

    Parameters
    ----------
    value : Dictionary, array, str, path-like or None
        A dictionary, an array Phi of shape (m, n), the name of a file, or None for the bundled dictionary.

    Returns
    -------
    Dictionary
        The dictionary.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsect.dictionary import as_dictionary
    >>> as_dictionary(np.eye(16)).Phi.shape
    (16, 16)
    """
    if value is None or isinstance(value, str | os.PathLike):
        return load_dictionary(value)
    if isinstance(value, Dictionary):
        return value
    return Dictionary(_atoms("dictionary", floating("dictionary", value, dimensions=(2,))))


@lru_cache(maxsize=1)
def _bundled() -> Dictionary:
    with resources.as_file(resources.files("sparsect") / "data" / BUNDLED) as path:
        return load_dictionary(path)


def _are_rounds(value: Any) -> bool:
    """Whether a value from a file is a list of dictionaries of numbers, with the same keys in every round."""
    return (
        isinstance(value, list)
        and all(isinstance(numbers, dict) and numbers.keys() == value[0].keys() for numbers in value)
        and all(isinstance(number, int | float) for numbers in value for number in numbers.values())
    )


def _atoms(name: str, Phi: Any) -> Array:
    """Return Phi, or raise an error if its columns cannot be atoms."""
    if (
        getattr(Phi, "ndim", 0) != 2
        or str(Phi.dtype).rpartition(".")[2] not in ("float32", "float64")
        or 0 in Phi.shape
    ):
        shape, kind = getattr(Phi, "shape", "nothing"), getattr(Phi, "dtype", "unknown")
        accepted = "a matrix of float32 or float64"
        raise reject(name, f"Phi of shape {tuple(shape)} and dtype {kind}", accepted)
    lengths = to_numpy(norm(namespace(Phi).permute_dims(Phi, (1, 0))))
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise reject(name, "columns that are zero or not finite", "have atoms that are finite and not zero")
    return Phi
