"""Reading and writing of arrays: files are written completely or not at all, and never with pickle."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import stat
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import text_tables
from .array_checks import check_indices
from .checks import LONGEST, InputError, choice, reject, shown

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

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
        If it is not a path, or contains a null character.
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(path, str) and "\0" in path:
        raise reject(name, shown(path), "a name without the character 0")
    if not isinstance(path, str):
        raise reject(name, f"an object of type {type(value).__name__}", "the name of a file")
    return path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file through a temporary one, which replaces it only if the block succeeds.

    If the block fails, the temporary file is removed. Ctrl-C is deferred until the block ends.

    Parameters
    ----------
    path : str or path-like
        The file to write. Missing folders are created.

    Yields
    ------
    pathlib.Path
        The temporary file, in the same folder.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    final = Path(path)
    with uninterrupted(), contextlib.ExitStack() as stack:
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            # All processes use the same name, so that the file left by a killed process is overwritten by the next.
            temporary = final.with_name(f".{final.stem}.part{final.suffix}")
            try:
                alone = stack.enter_context(_lock(temporary))
            except (BlockingIOError, PermissionError):  # in use by another process, or left by another user's process
                alone = False
            if not alone:
                temporary = final.with_name(f".{final.stem}.{os.getpid()}{final.suffix}")
                stack.callback(temporary.unlink, missing_ok=True)
            yield temporary
            os.replace(temporary, final)
        except OSError as error:
            raise _unwritable(final, error) from None


@contextlib.contextmanager
def reserved(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Reserve a path for this process while the block runs.

    Parameters
    ----------
    path : str, path-like or None
        The path to reserve. None reserves nothing.

    Yields
    ------
    None
        The path is reserved until the block ends.

    Raises
    ------
    InputError
        If another process has reserved the path, or if it cannot be written.
    """
    with contextlib.ExitStack() as stack:
        if path is not None:
            final = Path(path)
            try:
                final.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_lock(final.with_name(f".{final.name}.lock")))
            except BlockingIOError:
                hint = "wait until it is done, or write to another place"
                raise InputError(f"{path}: another process is writing to it; {hint}") from None
            except OSError as error:
                raise _unwritable(final, error) from None
        yield


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Lock ``path``, a file that is created for this purpose and removed at the end.

    Raises BlockingIOError if another process holds the lock. The operating system releases the lock when the process
    ends, however it ends. A killed process therefore blocks no other, and there is no need to find out whether a
    process is still running, perhaps on another machine. Yields False if the system or file system has no locks.
    """
    descriptor = None if fcntl is None else _locked(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            if _is_open_at(descriptor, path):
                path.unlink()
            os.close(descriptor)


def _locked(path: Path) -> int | None:
    """Open and lock ``path`` and return its descriptor; None if the file system has no locks."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise
            path.unlink(missing_ok=True)
            return None
        if _is_open_at(descriptor, path):
            return descriptor
        # The process that held the lock has removed or renamed the file in the meantime: try again.
        os.close(descriptor)


def _is_open_at(descriptor: int, path: Path) -> bool:
    """Whether the descriptor still belongs to the file at ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C until the block ends, since code that closes a file cannot be interrupted safely at every point.

    Yields
    ------
    None
        Ctrl-C is deferred until the block ends. Outside the main thread nothing is changed.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received:
            signal.raise_signal(signal.SIGINT)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check that a path can be written, before time is spent on computing its contents.

    Parameters
    ----------
    path : str or path-like
        The file to be written later. Its folder need not exist.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    final = Path(path)
    try:
        if stat.S_ISDIR(os.stat(final).st_mode):
            raise InputError(f"{path}: cannot be written (a folder)")
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # for example, a name that is too long
        raise _unwritable(final, error) from None
    folder = final.parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(final, error) from None


def _unwritable(path: Path, error: OSError) -> InputError:
    """Error for a file that cannot be written."""
    return InputError(f"{path}: cannot be written ({error.strerror or error})")


def append_text(path: Path, text: str) -> None:
    """Append text to a file.

    Parameters
    ----------
    path : pathlib.Path
        The file; it is created if it does not exist.
    text : str
        The text to append.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise _unwritable(path, error) from None


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


def csr_arrays(matrix: Any) -> dict[str, np.ndarray[Any, Any]]:
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


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
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
            raise ValueError(f"{shown(others[0])} is no array")
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
        Names to look for, in this order, if the file holds several arrays and none is selected.

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
    for key in prefer:
        if key in found:
            return found[key]
    if len(found) == 1:
        return next(iter(found.values()))
    raise InputError(
        f"{name}: got {len(found)} arrays ({', '.join(found)}), say which one: {name}:{next(iter(found), 'NAME')}"
    )


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
        raise InputError(f"{path}: damaged or not what its name says ({reason})") from None


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


def check_size(path: str | os.PathLike[str], size: int) -> None:
    """Check that the contents of a file fit into memory, before they are read.

    Parameters
    ----------
    path : str or path-like
        The file, for the error.
    size : int
        Size of its contents in bytes.

    Raises
    ------
    InputError
        If they take more than half of the memory of this machine.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**36
    if size > memory // 2:
        limit = f"half of memory, {memory / 2**31:.1f} GiB"
        raise reject(str(path), f"arrays of {size / 2**30:.1f} GiB", f"fit into {limit}")
