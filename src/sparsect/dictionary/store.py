"""What is a dictionary, and how is it kept in a file? The one that comes with the package, too."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any

import numpy as np

from .. import files
from ..arrays import Array, namespace, norm, to_numpy
from ..checks import InputError
from ..operators import Operator, as_operator

BUNDLED = "dictionary-20x20.npz"


@dataclass(frozen=True)
class Dictionary:
    """Atoms to code signals with, and where they come from.

    Attributes
    ----------
    Phi : (m, n), columns of norm 1
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
        files.write_npz(path, {"Phi": to_numpy(self.Phi)} | words)

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
    name = os.fspath(path)
    if name.endswith(".npz"):
        arrays = files.read_npz(name)
        if "Phi" not in arrays:
            raise InputError(f"{name}: not a dictionary of sparsect, Phi missing")
        try:
            words = {key: json.loads(str(arrays[key])) for key in ("rounds", "provenance") if key in arrays}
        except ValueError:
            raise InputError(f"{name}: damaged (its provenance cannot be read)") from None
        return Dictionary(_checked(name, arrays["Phi"]), **words)
    return Dictionary(_checked(name, files.read_array(name, prefer=("Phi",))))


@lru_cache(maxsize=1)
def _bundled() -> Dictionary:
    with resources.as_file(resources.files("sparsect") / "data" / BUNDLED) as path:
        return load_dictionary(path)


def _checked(path: str, Phi: Any) -> Array:
    """Phi, refused if its columns could not be atoms."""
    if getattr(Phi, "ndim", 0) != 2 or Phi.dtype.kind != "f" or min(Phi.shape) == 0:
        shape, kind = getattr(Phi, "shape", "nothing"), getattr(Phi, "dtype", "")
        raise InputError(f"{path}: got Phi of shape {shape} and dtype {kind}, accepted is a real matrix")
    lengths = norm(namespace(Phi).permute_dims(Phi, (1, 0)))
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise InputError(f"{path}: got Phi with columns that are zero or not finite, accepted are atoms")
    return Phi
