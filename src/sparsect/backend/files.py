"""Reading and writing of arrays, text and JSON; contents are checked as they are read, and pickle is never used."""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import text_tables
from .array_checks import check_indices
from .arrays import NumpyArray
from .checks import LONGEST, InputError, choice, reject, shown
from .writing import replacing

ARRAY_SUFFIXES = ".npy, .npz, .mat, .csv, .tsv or .txt"


def path_name(name: str, value: Any) -> str:
    """Check that an argument is a path.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    value : object
        The value to check.

    Returns
    -------
    str
        The path as text.

    Raises
    ------
    InputError
        If it is not a path, is empty, or contains a null character.
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(path, str) and "\0" in path:
        raise reject(name, shown(path), "a name without null characters")
    if not isinstance(path, str):
        raise reject(name, f"an object of type {type(value).__name__}", "the name of a file")
    if not path:
        raise reject(name, "an empty text", "the name of a file")
    return path


def may_be_another_name(name: str) -> bool:
    """Whether a text may be something other than a file name: no such file exists, and it has no extension.

    Parameters
    ----------
    name : str
        The text.

    Returns
    -------
    bool
        True if there is no file of this name and the name has no extension.
    """
    return not os.path.splitext(name)[1] and not os.path.exists(name)


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any], compress: bool = True) -> None:
    """Write named arrays to an ``.npz`` file.

    Parameters
    ----------
    path : str or path-like
        The file to write.
    arrays : mapping of str to array
        The arrays by name.
    compress : bool, optional
        Whether to compress the file, which is worthwhile if many entries are zero or equal.
    """
    save = np.savez_compressed if compress else np.savez
    with replacing(path) as temporary, temporary.open("wb") as stream:
        save(stream, allow_pickle=False, **arrays)


def csr_arrays(matrix: Any) -> dict[str, NumpyArray]:
    """Convert a SciPy CSR array to the named arrays that ``scipy.sparse.load_npz`` reads.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array
        The sparse array.

    Returns
    -------
    dict of str to numpy.ndarray
        The arrays by name.
    """
    return {
        "format": np.array(b"csr"),
        "_is_array": np.array(True),
        "shape": np.array(matrix.shape),
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
    }


def read_npz(path: str | os.PathLike[str]) -> dict[str, NumpyArray]:
    """Read all arrays of an ``.npz`` file.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    dict of str to numpy.ndarray
        The arrays by name.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged or does not fit into memory.
    """
    path = path_name("path", path)
    with _clear_errors(path):
        with zipfile.ZipFile(path) as archive:
            check_size(path, sum(entry.file_size for entry in archive.infolist()))
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        # NumPy returns members that are not arrays as bytes.
        if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
            raise ValueError(f"{shown(others[0])} is not an array")
        return arrays


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a UTF-8 text file.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    str
        Its text.

    Raises
    ------
    InputError
        If the file cannot be read or does not fit into memory.
    """
    with _clear_errors(path):
        check_size(path, os.stat(path).st_size)
        return Path(path).read_text(encoding="utf-8")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    object
        The value in the file.

    Raises
    ------
    InputError
        If the file cannot be read or is not valid JSON.
    """
    text = read_text(path)
    with _clear_errors(path):
        return json.loads(text)


def read_array(path: str | os.PathLike[str], prefer: tuple[str, ...] = ()) -> Any:
    """Read an array from a NumPy, MATLAB or text file (see ``ARRAY_SUFFIXES``).

    Parameters
    ----------
    path : str or path-like
        The file to read. One of several arrays in a file can be selected by its name after a colon:
        ``data.npz:y``.
    prefer : tuple of str, optional
        Names to look for, one of which the file must have, if it holds several arrays and none is selected.

    Returns
    -------
    numpy.ndarray or SciPy sparse matrix
        The array.

    Raises
    ------
    InputError
        If the file cannot be read, or if it holds several arrays and it is not clear which one is meant.
    """
    name = path_name("path", path)
    wanted: str | None = None
    if not os.path.exists(name) and ":" in name:
        name, _, wanted = name.rpartition(":")
    readers: dict[str, Callable[[str], Any]] = {
        ".npy": _read_npy,
        ".npz": _read_npz,
        ".mat": _read_mat,
        **dict.fromkeys(text_tables.SUFFIXES, text_tables.read),
    }
    suffix = Path(name).suffix.lower()
    if suffix not in readers:
        raise reject(name, f"a file of type {suffix or 'unknown'!r}", f"a file of type {ARRAY_SUFFIXES}")
    with _clear_errors(name):
        check_size(name, os.stat(name).st_size)
        found = readers[suffix](name)
    if not isinstance(found, dict):
        if wanted is not None:
            raise reject(f"{name}:{wanted}", "a file with one array that has no name", f"given as {name}")
        return found
    if wanted is not None:
        return found[choice(f"{name}: array", wanted, found)]
    known = [key for key in prefer if key in found]
    if len(known or found) == 1:
        return found[next(iter(known or found))]
    hint = f"Name one of them: {name}:{next(iter(known or found))}." if found else ""
    raise reject(name, f"{len(found)} arrays ({', '.join(found)})" if found else "none", "hold one array", hint)


def map_npy(path: str) -> Any:
    """Map the array in an ``.npy`` file into memory, without reading it.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    numpy.memmap
        The array, read-only.

    Raises
    ------
    InputError
        If the file is not a valid ``.npy`` file, or holds Python objects, which would need pickle.
    """
    with _clear_errors(path):
        return np.lib.format.open_memmap(path, mode="r")


def _read_npy(path: str) -> Any:
    # A memory map compares the declared shape with the size of the file before memory is allocated.
    return np.array(map_npy(path))


def _read_npz(path: str) -> Any:
    """Read an ``.npz`` file: a sparse matrix, or named arrays."""
    arrays = read_npz(path)
    if {"format", "shape", "data"} <= set(arrays):
        import scipy.sparse

        matrix = scipy.sparse.load_npz(path)
        _check_sparse(path, matrix)
        return matrix
    return arrays


def _read_mat(path: str) -> dict[str, Any]:
    """Read the arrays of a MATLAB file by name."""
    import scipy.io
    import scipy.sparse

    declared = scipy.io.whosmat(path)
    check_size(path, sum(8 * math.prod(shape) for _, shape, kind in declared if kind != "sparse"))
    arrays = {name: value for name, value in scipy.io.loadmat(path).items() if not name.startswith("__")}
    for array in arrays.values():
        if scipy.sparse.issparse(array):
            _check_sparse(path, array)
    return arrays


def _check_sparse(path: str, matrix: Any) -> None:
    """Refuse a sparse matrix with an unusable shape or indices, since a file may declare anything."""
    check_size(path, 8 * sum(matrix.shape))
    check_indices(matrix)


@contextlib.contextmanager
def _clear_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert any error raised while a regular file is read into one that names the file."""
    try:
        check_regular(path)
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except NotImplementedError:
        raise InputError(f"{path}: a MATLAB 7.3 file; save it with '-v7', or as .npy, .npz or .csv") from None
    except MemoryError:
        raise InputError(f"{path}: does not fit into memory") from None
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        reason = (str(error).splitlines() or [type(error).__name__])[0][:LONGEST]
        raise InputError(f"{path}: damaged, or not of the type that its name suggests ({reason})") from None


def check_regular(path: str | os.PathLike[str]) -> None:
    """Check that a path is a regular file: reading a device or waiting for a pipe may never end.

    Parameters
    ----------
    path : str or path-like
        The file to check.

    Raises
    ------
    InputError
        If it does not exist or is not a regular file.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(mode):
        found = "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
        raise reject(str(path), found, "a regular file")


def check_size(path: str | os.PathLike[str], size: int, hint: str = "") -> None:
    """Check that the contents of a file, or what is computed from an argument, fit into memory beforehand.

    Parameters
    ----------
    path : str or path-like
        The file or argument, for the error.
    size : int
        Size of the arrays in bytes.
    hint : str, optional
        A sentence that suggests what to do.

    Raises
    ------
    InputError
        If they take more than half of the memory of this machine.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**36
    if size > memory // 2:
        limit = f"half of memory, {memory / 2**31:.1f} GiB"
        raise reject(str(path), f"arrays of {size / 2**30:.1f} GiB", f"fit into {limit}", hint)
