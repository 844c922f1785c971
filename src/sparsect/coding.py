"""Coding what does not fit into memory: partitions of rows or photographs in, files of sparse codes out."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import files
from .algorithm import Solver
from .arrays import (
    Array,
    compressed,
    compressed_on_host,
    floating,
    joined_rows,
    namespace,
    on_host,
    squared_norm,
    to_numpy,
)
from .checks import InputError, reject, whole_number
from .cluster import Cluster
from .devices import place, rows_at_a_time
from .dictionary import Dictionary
from .dictionary.sources import digest
from .images import Folder, read_image, reconstruct
from .images.reconstruct import decibels
from .problems import Problem
from .solve import solve

# Signals coded at once on a CPU; their dense codes are never all in memory.
BLOCK = 2000
# Rows of an array that make a partition.
ROWS = 50_000
MANIFEST = "codes.json"
# Seconds after which it is written again; what is not in it when a process is killed is coded again.
WRITE_EVERY = 1.0


@dataclass(frozen=True)
class Part:
    """A piece of work: a photograph, or some rows of an array in a file."""

    name: str
    path: str
    kind: str
    first: int = 0
    last: int = 0

    @property
    def version(self) -> str:
        """Size and time of the file, so that one which has changed is coded again."""
        found = Path(self.path, "zarr.json") if self.kind == "zarr" else Path(self.path)
        status = (found if found.exists() else Path(self.path)).stat()
        return f"{status.st_size} bytes, {status.st_mtime_ns}"

    def read(self) -> Array:
        """The rows, (rows, m), in single precision; photographs are read elsewhere."""
        try:
            rows = np.asarray(_opened(self.path, self.kind)[self.first : self.last])
        except (OSError, ValueError, EOFError, RuntimeError) as error:
            raise InputError(f"{self.path}: rows {self.first} to {self.last} cannot be read ({error})") from None
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


def codes_of(
    X: Array, dictionary: Dictionary, solver: Solver, sparsity: int, max_iter: int, refit: bool, device: str | None
) -> Any:
    """Sparse codes of the rows of X, coded a block at a time on ``device``; where X is, CSR."""
    first = place(X[:1, :], device)
    dictionary = dictionary.placed_like(first)
    at_hand, block = on_host(X), rows_at_a_time(first, dictionary.Phi.shape, BLOCK)
    codes = []
    for start in range(0, X.shape[0], block):
        rows = place(X[start : start + block, :], device)
        result = solve(Problem(dictionary.operator, rows, sparsity), solver, max_iter=max_iter, record=(), refit=refit)
        x = namespace(rows).astype(result.x, rows.dtype, copy=False)
        codes.append(compressed_on_host(x) if at_hand else compressed(x))
    return joined_rows(codes)


def partitions(path: str | os.PathLike[str], length: int, rows: int = ROWS) -> list[Part]:
    """What there is to code: the photographs or ``.npy`` files in a folder, one ``.npy`` file, or a Zarr array.

    Parameters
    ----------
    length : numbers of a signal, to check arrays against
    rows : of an array that make a partition
    """
    found = Path(path)
    if not found.exists():
        raise InputError(f"{path}: no such file or folder")
    if (found / "zarr.json").exists() or (found / ".zarray").exists():
        return _rows_of(found, "zarr", length, rows)
    arrays = sorted(found.rglob("*.npy")) if found.is_dir() else [found]
    if arrays:
        return [part for name in arrays for part in _rows_of(name, "npy", length, rows)]
    photographs = Folder(found)
    return [Part(_stem(name, found), str(name), "photograph") for name in photographs.paths]


def _rows_of(path: Path, kind: str, length: int, rows: int) -> list[Part]:
    """Partitions of the rows of one array."""
    try:
        array = _opened(str(path), kind)
    except ImportError:
        raise InputError(f"{path}: zarr is not installed; pip install 'sparsect[cluster]'") from None
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: cannot be read as an array ({str(error).splitlines()[0]})") from None
    shape, number = tuple(array.shape), array.dtype
    if len(shape) != 2 or shape[1] != length or shape[0] == 0 or number.kind not in "fiu":
        raise reject(str(path), f"an array of shape {shape} and dtype {number}", f"(rows, {length}) of real numbers")
    starts = range(0, shape[0], rows)
    stem = _stem(path, path.parent)
    return [
        Part(stem if len(starts) == 1 else f"{stem}-{number:05d}", str(path), kind, start, min(start + rows, shape[0]))
        for number, start in enumerate(starts)
    ]


def _opened(path: str, kind: str) -> Any:
    """An array in a file, of which nothing is read yet; objects, which would have to be unpickled, are refused."""
    if kind == "npy":
        return np.load(path, mmap_mode="r", allow_pickle=False)
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
    if len({part.name for part in parts}) < len(parts):
        raise reject("input", "files whose names differ only in what they end with", "names of their own")
    atoms = digest([to_numpy(dictionary.Phi)])
    made_with = asdict(settings) | {"solver": repr(settings.solver), "dictionary": atoms, "rows": rows}
    known = _known(folder, {name: value for name, value in made_with.items() if name != "device"})
    versions = {part.name: part.version for part in parts}
    found = {
        name: known[name]
        for name, version in versions.items()
        if known.get(name, {}).get("version") == version and (folder / f"{name}.npz").exists()
    }
    waiting = [part for part in parts if part.name not in found]
    failed: dict[str, str] = {}
    written = time.monotonic()

    def write() -> dict[str, Any]:
        manifest = made_with | {"parts": found, "failed": failed}
        with files.replacing(folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(manifest, indent=1))
        return manifest

    def seen(part: Part, outcome: dict[str, Any] | str) -> None:
        nonlocal written
        if isinstance(outcome, str):
            failed[part.name] = outcome
        else:
            found[part.name] = outcome | {"version": versions[part.name]}
        if time.monotonic() > written + WRITE_EVERY:
            write()
            written = time.monotonic()
        if progress is not None:
            progress(len(found) + len(failed), len(parts))

    try:
        if cluster is None:
            for part in waiting:
                seen(part, coded_part(dictionary, part, settings, str(folder.resolve())))
        else:
            cluster.each(coded_part, dictionary, waiting, (settings, str(folder.resolve())), seen)
    finally:
        manifest = write()
    return manifest


def coded_part(dictionary: Dictionary, part: Part, settings: Settings, folder: str) -> dict[str, Any] | str:
    """Code one partition and write its codes; what came out, or why nothing did."""
    try:
        out = Path(folder) / f"{part.name}.npz"
        if part.kind == "photograph":
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
        codes = codes_of(signals, dictionary, settings.solver, *limits, settings.device)
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
        manifest = json.loads((folder / MANIFEST).read_text())
        known, before = dict(manifest["parts"]), {name: manifest[name] for name in made_with}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{folder / MANIFEST}: damaged; give another folder, or remove it to start anew") from None
    other = [name for name, value in json.loads(json.dumps(made_with)).items() if before[name] != value]
    if other:
        raise InputError(f"{folder}: holds codes with other values of {', '.join(other)}; give another folder")
    return known
