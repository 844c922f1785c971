"""Coding what does not fit into memory: partitions of rows or photographs in, files of sparse codes out."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import files
from ..backend.arrays import (
    Array,
    floating,
    squared_norm,
    to_numpy,
)
from ..backend.checks import InputError, reject, whole_number
from ..dictionary import Dictionary
from ..dictionary.cluster import Cluster
from ..dictionary.coding import codes_of
from ..dictionary.sources import digest
from ..solvers.base import Solver, device_for
from . import read_image, reconstruct
from .files import FORMATS
from .reconstruct import decibels

# Rows of an array that make a partition.
ROWS = 50_000
MANIFEST = "codes.json"
# Seconds after which it is written again; what is not in it when a process is killed is coded again.
WRITE_EVERY = 1.0


@dataclass(frozen=True)
class Part:
    """A piece of work: a photograph, or some rows of an array in a file.

    ``version`` is size and time of what it is in, so that what has changed is coded again.
    """

    name: str
    path: str
    kind: str
    version: str
    first: int = 0
    last: int = 0

    def read(self) -> Array:
        """The rows, (rows, m), in single precision; photographs are read elsewhere."""
        try:
            rows = np.asarray(_opened(self.path, self.kind)[self.first : self.last])
        except InputError:
            raise
        except (OSError, ValueError, EOFError, RuntimeError) as error:
            raise InputError(f"{self.path}: rows {self.first} to {self.last} cannot be read ({error})") from None
        # What single precision has no room for becomes infinite, and is refused as that.
        with np.errstate(over="ignore"):
            return floating(self.path, rows.astype(np.float32))


@dataclass(frozen=True)
class Settings:
    """How everything is coded, in plain values."""

    solver: Solver
    sparsity: int
    max_iter: int = 1000
    refit: bool = True
    stride: int | None = None
    device: str | None = None


def partitions(path: str | os.PathLike[str], length: int, rows: int = ROWS) -> list[Part]:
    """What there is to code: photographs and ``.npy`` files in a folder, one of them, or a Zarr array.

    Parameters
    ----------
    length : numbers of a signal, to check arrays against
    rows : of an array that make a partition
    """
    # Workers may be at work in another folder.
    found = Path(path).absolute()
    if not found.exists():
        raise InputError(f"{path}: no such file or folder")
    if (found / "zarr.json").exists() or (found / ".zarray").exists():
        return _rows_of(found, found.parent, "zarr", length, rows)
    # A link that leads nowhere is no folder: it fails by name when it is read.
    inside = sorted(name for name in found.rglob("*") if not name.is_dir()) if found.is_dir() else [found]
    folder = found if found.is_dir() else found.parent
    parts = []
    for name in inside:
        if name.suffix.lower() in FORMATS:
            parts.append(Part(_stem(name, folder), str(name), "photograph", _version([name])))
        elif name.suffix == ".npy":
            parts += _rows_of(name, folder, "npy", length, rows)
    if not parts:
        raise reject(str(path), "nothing to code", f"photographs ({', '.join(FORMATS)}), .npy files, or a Zarr array")
    return parts


def _version(names: Iterable[Path]) -> str:
    try:
        found = [name.stat() for name in names]
    except OSError:
        return "missing"
    return f"{sum(each.st_size for each in found)} bytes, {max(each.st_mtime_ns for each in found)}"


def _rows_of(path: Path, folder: Path, kind: str, length: int, rows: int) -> list[Part]:
    """Partitions of the rows of one array."""
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
        raise reject(str(path), f"an array of shape {shape} and dtype {number}", f"(rows, {length}) of real numbers")
    starts = range(0, shape[0], rows)
    stem = _stem(path, folder)
    version = _version(path.rglob("*") if kind == "zarr" else [path])
    names = [stem] if len(starts) == 1 else [f"{stem}-{number:05d}" for number in range(len(starts))]
    return [
        Part(name, str(path), kind, version, start, min(start + rows, shape[0]))
        for name, start in zip(names, starts, strict=True)
    ]


def _opened(path: str, kind: str) -> Any:
    """An array in a file, of which nothing is read yet."""
    if kind == "npy":
        return files.map_npy(path)
    import zarr

    return zarr.open_array(path, mode="r")


def _stem(name: Path, folder: Path) -> str:
    """A file name for what is made of a file: that of the file, and of the folders it is in."""
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
) -> dict[str, Any]:
    """Code everything that :func:`partitions` finds, and write the codes of each partition to a file of its own.

    Files that are there already, from the same dictionary and settings, are kept. A partition that cannot be coded is
    named in the outcome, and the others are coded nevertheless.

    Returns
    -------
    The manifest, as it is written beside the codes: what they were made with and, for every partition, its rows,
    nonzeros, and SNR in decibels, None without an error.
    """
    folder = Path(out)
    files.check_writable(folder / MANIFEST)
    parts = partitions(path, dictionary.Phi.shape[0], whole_number("rows", rows, 1))
    named = {part.name: part for part in parts}
    for part in parts:
        if named[part.name] is not part:
            both = f"{part.path} and {named[part.name].path}"
            raise reject(
                "input", f"{both}, whose codes would be in one file", "names that differ in more than their ends"
            )
    atoms = digest([to_numpy(dictionary.Phi)])
    made_with = asdict(settings) | {"solver": repr(settings.solver), "dictionary": atoms, "rows": rows}
    made_with["input"] = str(Path(path).absolute())
    with files.reserved(folder / MANIFEST):
        return _code_parts(folder, named, dictionary, settings, made_with, cluster, progress)


def _code_parts(
    folder: Path,
    named: dict[str, Part],
    dictionary: Dictionary,
    settings: Settings,
    made_with: dict[str, Any],
    cluster: Cluster | None,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    """Code the parts that ``folder`` does not hold yet; the manifest."""
    known = _known(folder, {name: value for name, value in made_with.items() if name != "device"})
    found = {
        name: known[name]
        for name, part in named.items()
        if name in known and known[name]["version"] == part.version and _is_whole(folder / f"{name}.npz", known[name])
    }
    waiting = [part for name, part in named.items() if name not in found]
    failed: dict[str, str] = {}
    written = time.monotonic()

    def write() -> dict[str, Any]:
        manifest = made_with | {"parts": found, "failed": failed}
        with files.replacing(folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        return manifest

    def seen(part: Part, outcome: dict[str, Any] | str) -> None:
        nonlocal written
        if isinstance(outcome, str):
            failed[part.name] = outcome
        else:
            found[part.name] = outcome | {"version": part.version}
        if time.monotonic() > written + WRITE_EVERY:
            write()
            written = time.monotonic()
        if progress is not None:
            progress(len(found) + len(failed), len(named))

    where = os.path.realpath(folder)
    try:
        if cluster is None:
            for part in waiting:
                seen(part, coded_part(dictionary, part, settings, where))
        else:
            cluster.each(coded_part, dictionary, waiting, (settings, where), seen)
    finally:
        manifest = write()
    return manifest


def coded_part(dictionary: Dictionary, part: Part, settings: Settings, folder: str) -> dict[str, Any] | str:
    """Code one partition and write its codes; what came out, or why nothing did."""
    try:
        out = Path(folder) / f"{part.name}.npz"
        if part.kind == "photograph":
            files.check_regular(part.path)
            seen = reconstruct(
                read_image(part.path),
                settings.sparsity,
                settings.solver,
                dictionary=dictionary,
                stride=settings.stride,
                refit=settings.refit,
                max_iter=settings.max_iter,
                device=settings.device,
            )
            seen.codes.save(out)
            return _outcome(seen.codes.matrix, seen.patch_snr_db)
        signals = part.read()
        limits = (settings.sparsity, settings.max_iter, settings.refit)
        device = device_for(settings.solver, settings.device)
        codes = codes_of(signals, dictionary, settings.solver, *limits, device)
        files.write_npz(out, files.csr_arrays(codes))
        left = codes @ to_numpy(dictionary.Phi).T - signals
        return _outcome(codes, decibels(float(squared_norm(signals).sum()), float(squared_norm(left).sum())))
    except InputError as error:
        return str(error)


def _outcome(codes: Any, snr_db: float) -> dict[str, Any]:
    return {
        "rows": int(codes.shape[0]),
        "nonzeros": int(codes.nnz),
        "snr_db": float(snr_db) if math.isfinite(snr_db) else None,
    }


def _known(folder: Path, made_with: dict[str, Any]) -> dict[str, Any]:
    """Partitions that were coded before; refused if they were coded otherwise."""
    if not (folder / MANIFEST).exists():
        return {}
    try:
        manifest = files.read_json(folder / MANIFEST)
        known, before = dict(manifest["parts"]), {name: manifest[name] for name in made_with}
        for outcome in known.values():
            whole_number("rows", outcome["rows"], 0)
            whole_number("nonzeros", outcome["nonzeros"], 0)
            str(outcome["version"])
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{folder / MANIFEST}: damaged; give another folder, or remove it to start anew") from None
    if not known:
        return {}
    other = [name for name, value in json.loads(json.dumps(made_with)).items() if before[name] != value]
    if other:
        raise InputError(f"{folder}: holds codes with other values of {', '.join(other)}; give another folder")
    return known


def _is_whole(path: Path, outcome: dict[str, Any]) -> bool:
    """Whether a file holds the codes that it is said to hold; what is damaged is coded again."""
    try:
        codes = files.read_array(path)
    except InputError:
        return False
    found = getattr(codes, "nnz", None), codes.shape[:1]
    return found == (outcome["nonzeros"], (outcome["rows"],))
