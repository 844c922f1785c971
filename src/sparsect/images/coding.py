"""Coding of data sets larger than memory: partitions of arrays or photographs in, files of sparse codes out."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import files
from ..backend.array_checks import floating
from ..backend.arrays import Array, to_numpy
from ..backend.checks import InputError, reject, whole_number
from ..backend.journal import Journal
from ..backend.norms import squared_norm
from ..dictionary import Dictionary
from ..dictionary.cluster import Cluster
from ..dictionary.coding import codes_of
from ..dictionary.sources import digest
from ..sets import Sparse
from ..solvers.base import Solver, device_for
from . import read_image, reconstruct
from .photograph import IMAGE_SUFFIXES
from .reconstruct import decibels

# Rows of an array in one partition.
ROWS = 50_000
JOURNAL = "codes.jsonl"

# The outcome of a partition: numbers of rows and nonzeros and the signal-to-noise ratio, or the reason of the failure.
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A unit of work: a photograph, or consecutive rows of an array in a file.

    Parameters
    ----------
    name : str
        Name of the file of codes, without extension.
    path : str
        The photograph, or the file or folder of the array.
    kind : {'photograph', 'npy', 'zarr'}
        Kind of the input.
    version : str
        Size and modification time of the input, so that changed inputs are coded again.
    first : int, optional
        First row, for arrays.
    last : int, optional
        Row after the last one, for arrays.
    """

    name: str
    path: str
    kind: str
    version: str
    first: int = 0
    last: int = 0

    def read(self) -> Array:
        """Read the rows of an array; photographs are read by :func:`coded_part`.

        Returns
        -------
        array, shape (rows, m)
            The rows in single precision.

        Raises
        ------
        InputError
            If the rows cannot be read or are not finite in single precision.
        """
        try:
            rows = np.asarray(_opened(self.path, self.kind)[self.first : self.last])
        except InputError:
            raise
        except (OSError, ValueError, EOFError, RuntimeError) as error:
            raise InputError(f"{self.path}: rows {self.first} to {self.last} cannot be read ({error})") from None
        # Values beyond the range of single precision become infinite, which the check rejects.
        with np.errstate(over="ignore"):
            return floating(self.path, rows.astype(np.float32))


@dataclass(frozen=True)
class Settings:
    """Coding settings, as plain values.

    Parameters
    ----------
    solver : Solver
        The solver that codes.
    sparsity : int or Sparse
        Maximum number of atoms per signal, or the set that contains the codes.
    max_iter : int, optional
        Maximum number of iterations.
    refit : bool, optional
        Whether to refit the coefficients by least squares on the selected atoms.
    stride : int, optional
        Distance between the starts of adjacent patches of a photograph. The default is the side of a patch.
    device : str, optional
        Where to compute, see :func:`sparsect.backend.devices.place`.
    """

    solver: Solver
    sparsity: int | Sparse
    max_iter: int = 1000
    refit: bool = True
    stride: int | None = None
    device: str | None = None


def partitions(path: str | os.PathLike[str], length: int, rows: int = ROWS) -> list[Part]:
    """List the units of work in a file or folder.

    Parameters
    ----------
    path : str or path-like
        A folder of photographs and ``.npy`` files, one such file, or a Zarr array.
    length : int
        Number of entries of a signal, which the rows of arrays must have.
    rows : int, optional
        Number of rows of an array in a partition.

    Returns
    -------
    list of Part
        The partitions.

    Raises
    ------
    InputError
        If nothing to code is found, or an array cannot be read or has the wrong shape.
    """
    # Absolute, because workers may have another working directory.
    found = Path(path).absolute()
    if not found.exists():
        raise InputError(f"{path}: no such file or folder")
    if (found / "zarr.json").exists() or (found / ".zarray").exists():
        return _rows_of(found, found.parent, "zarr", length, rows)
    # A broken link is not a folder: it is kept here, and reported by name when it is read.
    inside = sorted(name for name in found.rglob("*") if not name.is_dir()) if found.is_dir() else [found]
    folder = found if found.is_dir() else found.parent
    parts = []
    for name in inside:
        if name.suffix.lower() in IMAGE_SUFFIXES:
            parts.append(Part(_stem(name, folder), str(name), "photograph", _version([name])))
        elif name.suffix == ".npy":
            parts += _rows_of(name, folder, "npy", length, rows)
    if not parts:
        raise reject(
            str(path), "nothing to code", f"hold photographs ({', '.join(IMAGE_SUFFIXES)}), .npy files, or a Zarr array"
        )
    return parts


def _version(names: Iterable[Path]) -> str:
    try:
        found = [name.stat() for name in names]
    except OSError:
        return "missing"
    return f"{sum(each.st_size for each in found)} bytes, {max(each.st_mtime_ns for each in found)}"


def _rows_of(path: Path, folder: Path, kind: str, length: int, rows: int) -> list[Part]:
    """Return the partitions of the rows of one array."""
    try:
        array = _opened(str(path), kind)
    except InputError:
        raise
    except ImportError:
        raise InputError(f"{path}: zarr is not installed; pip install 'sparsect[cluster]'") from None
    except (OSError, ValueError, EOFError, AttributeError, KeyError, TypeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{path}: cannot be read as an array ({reason})") from None
    shape, number = tuple(array.shape), array.dtype
    if len(shape) != 2 or shape[1] != length or shape[0] == 0 or number.kind not in "fiu":
        raise reject(
            str(path), f"an array of shape {shape} and dtype {number}", f"have shape (rows, {length}) and real numbers"
        )
    starts = range(0, shape[0], rows)
    stem = _stem(path, folder)
    version = _version(path.rglob("*") if kind == "zarr" else [path])
    names = [stem] if len(starts) == 1 else [f"{stem}-{number:05d}" for number in range(len(starts))]
    return [
        Part(name, str(path), kind, version, start, min(start + rows, shape[0]))
        for name, start in zip(names, starts, strict=True)
    ]


def _opened(path: str, kind: str) -> Any:
    """Open an array in a file without reading its values."""
    if kind == "npy":
        return files.map_npy(path)
    import zarr

    return zarr.open_array(path, mode="r")


def _stem(name: Path, folder: Path) -> str:
    """Return a name for an output file, made of the names of the input file and its folders."""
    return "-".join(name.relative_to(folder).with_suffix("").parts)


def code(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    dictionary: Dictionary,
    settings: Settings,
    *,
    rows: int = ROWS,
    cluster: Cluster | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Code everything that :func:`partitions` finds, and write the codes of each partition to a separate file.

    Existing files made with the same dictionary and settings are kept: the file ``codes.jsonl`` next to them lists the
    finished partitions. A partition that cannot be coded is also listed, and the others are still coded.

    Parameters
    ----------
    path : str or path-like
        The input, see :func:`partitions`.
    out : str or path-like
        Folder for the codes and the list.
    dictionary : Dictionary
        The dictionary.
    settings : Settings
        The coding settings.
    rows : int, optional
        Number of rows of an array in a partition.
    cluster : Cluster, optional
        A :class:`sparsect.dictionary.cluster.Cluster` on which to code; by default, coding runs in this process.
    progress : callable, optional
        Called as ``progress(done, total)`` with the number of finished partitions and of all partitions.

    Returns
    -------
    dict
        Under "parts", for every coded partition its numbers of rows and nonzeros and its signal-to-noise ratio in
        decibels (None if the error is zero); under "failed", for every other one the reason.
    """
    folder = Path(out)
    parts = partitions(path, dictionary.Phi.shape[0], whole_number("rows", rows, 1))
    named = {part.name: part for part in parts}
    for part in parts:
        if named[part.name] is not part:
            both = f"{part.path} and {named[part.name].path}"
            raise reject(
                "input",
                f"{both}, whose codes would be written to the same file",
                "have names that differ in more than the extension",
            )
    # The device does not change what is computed.
    made_with = {name: value for name, value in asdict(settings).items() if name != "device"}
    made_with |= {"solver": repr(settings.solver), "dictionary": digest([to_numpy(dictionary.Phi)]), "rows": rows}
    journal = Journal(folder / JOURNAL, made_with | {"input": str(Path(path).absolute())}, _finished)
    with journal.writing():
        return _code_parts(folder, named, dictionary, settings, journal, cluster, progress)


def _code_parts(
    folder: Path,
    named: dict[str, Part],
    dictionary: Dictionary,
    settings: Settings,
    journal: Journal[Outcome],
    cluster: Cluster | None,
    progress: Callable[[int, int], None] | None,
) -> dict[str, dict[str, Any]]:
    """Code the partitions whose codes are not yet in ``folder``."""
    known = journal.results
    found = {
        name: known[name]
        for name, part in named.items()
        if name in known
        and known[name]["version"] == part.version
        and _is_complete(folder / f"{name}.npz", known[name])
    }
    waiting = [part for name, part in named.items() if name not in found]
    failed: dict[str, str] = {}

    def report(part: Part, outcome: Outcome) -> None:
        journal.add(part.name, outcome := outcome | {"version": part.version})
        if "failed" in outcome:
            failed[part.name] = outcome["failed"]
        else:
            found[part.name] = outcome
        if progress is not None:
            progress(len(found) + len(failed), len(named))

    where = os.path.realpath(folder)
    if cluster is None:
        for part in waiting:
            report(part, coded_part(dictionary, part, settings, where))
    else:
        cluster.each(coded_part, dictionary, waiting, (settings, where), report)
    return {"parts": found, "failed": failed}


def coded_part(dictionary: Dictionary, part: Part, settings: Settings, folder: str) -> Outcome:
    """Code one partition and write its codes.

    Parameters
    ----------
    dictionary : Dictionary
        The dictionary.
    part : Part
        The partition.
    settings : Settings
        The coding settings.
    folder : str
        Folder for the codes.

    Returns
    -------
    dict
        The numbers of rows and nonzeros and the signal-to-noise ratio, or the error message under "failed" if the
        partition cannot be coded.
    """
    try:
        out = Path(folder) / f"{part.name}.npz"
        if part.kind == "photograph":
            files.check_regular(part.path)
            result = reconstruct(
                read_image(part.path),
                settings.sparsity,
                settings.solver,
                dictionary=dictionary,
                stride=settings.stride,
                refit=settings.refit,
                max_iter=settings.max_iter,
                device=settings.device,
            )
            result.codes.save(out)
            return _outcome(result.codes.matrix, result.patch_snr_db)
        signals = part.read()
        limits = (settings.sparsity, settings.max_iter, settings.refit)
        device = device_for(settings.solver, settings.device)
        codes = codes_of(signals, dictionary, settings.solver, *limits, device)
        files.write_npz(out, files.csr_arrays(codes))
        left = codes @ to_numpy(dictionary.Phi).T - signals
        return _outcome(codes, decibels(float(squared_norm(signals).sum()), float(squared_norm(left).sum())))
    except InputError as error:
        return {"failed": str(error)}


def _outcome(codes: Any, snr_db: float) -> Outcome:
    return {
        "rows": int(codes.shape[0]),
        "nonzeros": int(codes.nnz),
        "snr_db": float(snr_db) if math.isfinite(snr_db) else None,
    }


def _finished(outcome: Any) -> Outcome | None:
    """Check an entry of the journal; partitions that could not be coded are tried again."""
    if "failed" in outcome:
        return None
    whole_number("rows", outcome["rows"], 0)
    whole_number("nonzeros", outcome["nonzeros"], 0)
    return dict(outcome, version=str(outcome["version"]))


def _is_complete(path: Path, outcome: dict[str, Any]) -> bool:
    """Whether a file holds the codes that the journal lists; damaged files are coded again."""
    try:
        codes = files.read_array(path)
    except InputError:
        return False
    found = getattr(codes, "nnz", None), codes.shape[:1]
    return found == (outcome["nonzeros"], (outcome["rows"],))
