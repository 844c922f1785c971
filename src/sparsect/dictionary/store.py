"""What is a dictionary, and how is it kept in a file? The one that comes with the package, too."""

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
from ..backend.arrays import Array, floating, from_numpy, namespace, norm, to_numpy
from ..backend.checks import InputError, reject
from ..operators import Operator, as_operator

BUNDLED = "dictionary-20x20.npz"


@dataclass(frozen=True)
class Dictionary:
    """Atoms to code signals with, and where they come from.

    Attributes
    ----------
    Phi : (m, n), one atom a column, of norm 1 where it was learned
    rounds : numbers of every round of learning: error, nonzeros, and those on validation signals
    provenance : what it was learned from and how, in plain values
    """

    Phi: Array
    rounds: list[dict[str, float]] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def operator(self) -> Operator:
        """Phi, factored once for all that is coded with it."""
        return as_operator(self.Phi)

    def placed_like(self, array: Array) -> Dictionary:
        """This dictionary in the array library and on the device of ``array``, where it is kept for the next time."""
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
        """Side of the square patches that the atoms are; refused where they are none."""
        side = math.isqrt(self.Phi.shape[0])
        if side * side != self.Phi.shape[0]:
            raise InputError(
                f"dictionary: got atoms of {self.Phi.shape[0]} numbers, accepted are square patches (400 for 20x20)"
            )
        return side

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to an ``.npz`` file that :func:`load_dictionary` reads back; whole or not at all."""
        words = {name: np.array(json.dumps(getattr(self, name))) for name in ("rounds", "provenance")}
        files.write_npz(path, {"Phi": to_numpy(self.Phi)} | words, compress=False)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the factorisation, which is many times larger and soon made again, and copies."""
        return {name: value for name, value in self.__dict__.items() if name not in ("operator", "_placed")}

    def __sizeof__(self) -> int:
        """Bytes, by which Dask decides what is worth moving."""
        return object.__sizeof__(self) + int(self.Phi.nbytes)

    def __repr__(self) -> str:
        m, n = self.Phi.shape
        return f"Dictionary({m}x{n}, {len(self.rounds)} rounds)"


def load_dictionary(path: str | os.PathLike[str] | None = None) -> Dictionary:
    """The dictionary in a file that :meth:`Dictionary.save` or ``sparsect learn`` wrote.

    Parameters
    ----------
    path : an ``.npz`` file with Phi, an ``.npy`` file that is Phi; default the bundled dictionary, 1,000 atoms of
        20x20 pixels learned from 10 million patches of photographs
    """
    if path is None:
        return _bundled()
    name = files.path_name("path", path)
    if name.endswith(".npz"):
        arrays = files.read_npz(name)
        if "Phi" not in arrays:
            raise InputError(f"{name}: not a dictionary of sparsect, Phi missing")
        try:
            words = {key: json.loads(str(arrays[key])) for key in ("rounds", "provenance") if key in arrays}
        except (ValueError, RecursionError):
            words = {"rounds": None}
        if not _are_rounds(words.get("rounds", [])) or not isinstance(words.get("provenance", {}), dict):
            raise InputError(f"{name}: damaged (its rounds or its provenance cannot be read)")
        return Dictionary(_atoms(name, arrays["Phi"]), **words)
    return Dictionary(_atoms(name, files.read_array(name, prefer=("Phi",))))


def as_dictionary(value: Any) -> Dictionary:
    """A dictionary from whatever stands for one: itself, an array Phi, the name of a file, None for the bundled one."""
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
    """Whether a value from a file is a list of numbers by name, the same names in every round."""
    return (
        isinstance(value, list)
        and all(isinstance(numbers, dict) and numbers.keys() == value[0].keys() for numbers in value)
        and all(isinstance(number, int | float) for numbers in value for number in numbers.values())
    )


def _atoms(name: str, Phi: Any) -> Array:
    """Phi, refused if its columns could not be atoms."""
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
        raise reject(name, "Phi with columns that are zero or not finite", "atoms")
    return Phi
