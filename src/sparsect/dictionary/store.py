"""The dictionary, its file format, and the dictionaries included in the package."""

from __future__ import annotations

import json
import math
import os
import re
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

# The dictionaries included in the package, and the default.
BUNDLED, DEFAULT = ("8x8", "12x12", "20x20", "paper"), "paper"
# Up to this many nonzeros per patch of photographs, '20x20' has a smaller error than 'paper'; with more, a larger one.
FEW = 60


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
    usage : numpy.ndarray, shape (n,), optional
        The fraction of the signals of the last round that use each atom.

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
    usage: NumpyArray | None = None

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
    def sparsity(self) -> int | None:
        """The number of nonzeros of codes for which the atoms were learned; None if it was not limited."""
        learned = self.provenance.get("sparsity")
        if isinstance(learned, int):
            return learned
        # Dictionaries of the package, and files of earlier versions, have it in the settings only.
        settings = re.search(r"\bsparsity=(\d+)", str(self.provenance.get("online", "")))
        return int(settings[1]) if settings else None

    @property
    def channels(self) -> int:
        """Number of channels of the patches that the atoms represent: 3 for colours, else 1."""
        return 3 if self.provenance.get("colour") is True else 1

    @property
    def patch(self) -> int:
        """Side of the square patches that the atoms represent; an error if their length is not a square."""
        side = math.isqrt(self.Phi.shape[0] // self.channels)
        if side * side * self.channels != self.Phi.shape[0]:
            raise reject(
                "dictionary",
                f"atoms of {self.Phi.shape[0]} numbers",
                "have atoms that are square patches (400 numbers for 20x20)",
            )
        return side

    def plot(self, sort: str | None = None, axes: Any = None) -> Any:
        """Plot the atoms of a dictionary of patches, how often each one is used, and the error of each round.

        Parameters
        ----------
        sort : {'use', 'frequency'}, optional
            Which atoms come first: those used most, or those of low frequency. The default is 'use' if ``usage`` is
            known.
        axes : matplotlib.axes.Axes, optional
            Where to plot the atoms, alone. By default a new figure is made.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Examples
        --------
        >>> import sparsect
        >>> figure = sparsect.load_dictionary("paper").plot()
        >>> figure.savefig("atoms.png")  # doctest: +SKIP
        """
        from .pictures import plot

        return plot(self, sort, axes)

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
        usage = {} if self.usage is None else {"use": self.usage}
        return {"Phi": to_numpy(self.Phi)} | words | usage

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
    """Load a dictionary of the package, or one from a file written by :meth:`Dictionary.save` or ``sparsect learn``.

    Parameters
    ----------
    path : str or path-like, optional
        The name of a bundled dictionary, see :func:`list_dictionaries`; an ``.npz`` file that contains Phi, or an
        ``.npy`` file of Phi. The default is 'paper': 1,000 atoms of 20x20 pixels, learned with the paper's recipe from
        10 million patches of photographs.

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
    >>> dictionary = sparsect.load_dictionary("8x8")
    >>> dictionary.Phi.shape, dictionary.patch
    ((64, 256), 8)
    """
    return _loaded("path", path)


def _loaded(argument: str, path: str | os.PathLike[str] | None) -> Dictionary:
    """Load a dictionary that an argument names."""
    if path is None:
        return _bundled(DEFAULT)
    if isinstance(path, str) and path in BUNDLED:
        return _bundled(path)
    name = files.path_name(argument, path)
    if files.may_be_another_name(name):
        raise reject(argument, repr(name), f"a file, or one of {', '.join(BUNDLED)}")
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
        Phi, usage = _atoms(name, _widened(arrays["Phi"])), arrays.get("use")
        if usage is not None and (usage.shape != (Phi.shape[1],) or not _are_fractions(usage)):
            raise InputError(f"{name}: damaged (the use of its atoms cannot be read)")
        return Dictionary(Phi, **words, usage=usage)
    return Dictionary(_atoms(name, files.read_array(name, prefer=("Phi",))))


def as_dictionary(value: Any, name: str = "dictionary") -> Dictionary:
    """Convert a value to a dictionary.

    Parameters
    ----------
    value : Dictionary, array, str, path-like or None
        A dictionary, an array Phi of shape (m, n), the name of a file, or None for the bundled dictionary.
    name : str, optional
        The argument's name for error messages.

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
        return _loaded(name, value)
    if isinstance(value, Dictionary):
        return value
    return Dictionary(_atoms(name, floating(name, value, dimensions=(2,))))


def list_dictionaries() -> dict[str, Dictionary]:
    """Return the dictionaries included in the package.

    '8x8', '12x12' and '20x20' were learned for codes with 6, 14 and 40 nonzeros, a tenth of the pixels of a patch;
    'paper' with the paper's recipe, whose codes had 177. With up to 60 nonzeros, '20x20' has the smaller error, with
    more 'paper'.

    Returns
    -------
    dict of str to Dictionary
        The dictionaries by the names that :func:`load_dictionary` takes. Their ``provenance`` tells what they were
        learned from, and how.

    Examples
    --------
    >>> import sparsect
    >>> for name, dictionary in sparsect.list_dictionaries().items():
    ...     print(name, dictionary.Phi.shape[1], dictionary.provenance["patches"])
    8x8 256 10000000
    12x12 512 10000000
    20x20 1000 10000000
    paper 1000 10000000
    """
    return {name: _bundled(name) for name in BUNDLED}


@lru_cache
def _bundled(name: str) -> Dictionary:
    with resources.as_file(resources.files("sparsect") / "data" / f"dictionary-{name}.npz") as path:
        return load_dictionary(path)


def _are_fractions(usage: NumpyArray) -> bool:
    return usage.dtype.kind == "f" and bool(np.all((usage >= 0) & (usage <= 1)))


def _widened(Phi: Any) -> Any:
    """Return atoms stored in half precision in single precision, with norm 1 again."""
    if getattr(Phi, "dtype", None) != np.float16 or Phi.ndim != 2:
        return Phi
    Phi = Phi.astype(np.float32)
    lengths = np.linalg.norm(Phi, axis=0)
    return Phi / np.where(lengths > 0, lengths, 1)


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
