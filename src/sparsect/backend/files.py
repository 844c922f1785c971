"""How do arrays get into and out of files: whole or not at all, and never by pickle?"""

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
from .arrays import check_indices
from .checks import LONGEST, InputError, choice, reject, shown

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FORMATS = ".npy, .npz, .mat, .csv, .tsv or .txt"


def path_name(name: str, value: Any) -> str:
    """The path that the argument ``name`` stands for, as text; anything else is refused."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(path, str) and "\0" in path:
        raise reject(name, shown(path), "a name without the character 0")
    if not isinstance(path, str):
        raise reject(name, f"an object of type {type(value).__name__}", "the name of a file")
    return path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path``: takes its place when the block ends well, is removed when it does not.

    Ctrl-C is held back until then.
    """
    final = Path(path)
    with uninterrupted(), contextlib.ExitStack() as stack:
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            # All processes share one name, so what a killed one has left behind is written over by the next.
            temporary = final.with_name(f".{final.stem}.part{final.suffix}")
            try:
                alone = stack.enter_context(_lock(temporary))
            except (BlockingIOError, PermissionError):  # another process writes it now, or another user's has left it
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
    """Refuse any other process that reserves ``path`` while the block runs; None is free for all."""
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
    """Hold ``path``, a file made for the purpose and removed at the end; BlockingIOError if another process holds it.

    The system releases the lock when the process ends, however it ends: a killed process keeps nobody out, and nobody
    has to find out whether a process still runs, perhaps on another machine. Yields False if there are no locks here.
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
    """The descriptor of ``path``, opened and locked; None if the file system has no locks."""
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
        # The process that held it has removed or renamed it in the meantime.
        os.close(descriptor)


def _is_open_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block ends: code that closes a file is not sound wherever it is interrupted."""
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
    """Refuse a path that could not be written, before any work is done for it."""
    final = Path(path)
    try:
        if stat.S_ISDIR(os.stat(final).st_mode):
            raise InputError(f"{path}: cannot be written (a folder)")
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a name that is too long, for one
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
    return InputError(f"{path}: cannot be written ({error.strerror or error})")


def append_text(path: Path, text: str) -> None:
    """Add ``text`` at the end of a file."""
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise _unwritable(path, error) from None


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any], compress: bool = True) -> None:
    """Write named arrays to an ``.npz`` file; compressing pays where many entries are zero, or alike."""
    save = np.savez_compressed if compress else np.savez
    with replacing(path) as temporary, temporary.open("wb") as stream:
        save(stream, allow_pickle=False, **arrays)


def csr_arrays(matrix: Any) -> dict[str, np.ndarray[Any, Any]]:
    """A SciPy CSR array as the named arrays that ``scipy.sparse.load_npz`` knows."""
    return {
        "format": np.array(b"csr"),
        "_is_array": np.array(True),
        "shape": np.array(matrix.shape),
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
    }


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of an ``.npz`` file, by name."""
    path = path_name("path", path)
    with _clear_errors(path):
        with zipfile.ZipFile(path) as archive:
            check_size(path, sum(entry.file_size for entry in archive.infolist()))
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        # NumPy gives whatever does not begin like an array as bytes.
        if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
            raise ValueError(f"{shown(others[0])} is no array")
        return arrays


def read_text(path: str | os.PathLike[str]) -> str:
    """All text of a UTF-8 file."""
    with _clear_errors(path):
        check_size(path, os.stat(path).st_size)
        return Path(path).read_text(encoding="utf-8")


def read_json(path: str | os.PathLike[str]) -> Any:
    """The value in a JSON file."""
    text = read_text(path)
    with _clear_errors(path):
        return json.loads(text)


def read_array(path: str | os.PathLike[str], prefer: tuple[str, ...] = ()) -> Any:
    """The array in a NumPy, MATLAB or text file (see ``FORMATS``); a SciPy sparse matrix where the file holds one.

    A file with several arrays is asked for the first of the names in ``prefer`` it holds, or for the one named after a
    colon: ``data.npz:y``.
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
        raise InputError(f"{name}: got a file of type {suffix or 'unknown'!r}, accepted is {FORMATS}")
    with _clear_errors(name):
        check_size(name, os.stat(name).st_size)
        found = readers[suffix](name)
    if not isinstance(found, dict):
        if wanted is not None:
            raise InputError(f"{name}:{wanted}: got a file that holds one array without a name, accepted is {name}")
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
    """The array in an ``.npy`` file, of which nothing is read yet; objects, which are pickled, are refused."""
    with _clear_errors(path):
        return np.lib.format.open_memmap(path, mode="r")


def _read_npy(path: str) -> Any:
    # A memory map checks the declared shape against the file's size before anything is allocated.
    return np.array(map_npy(path))


def _read_npz(path: str) -> Any:
    arrays = read_npz(path)
    if {"format", "shape", "data"} <= set(arrays):
        import scipy.sparse

        matrix = scipy.sparse.load_npz(path)
        _check_sparse(path, matrix)
        return matrix
    return arrays


def _read_mat(path: str) -> dict[str, Any]:
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
    """Refuse a sparse matrix that could not be used: its shape is said to be anything, and so are its indices."""
    check_size(path, 8 * sum(matrix.shape))
    check_indices(matrix)


@contextlib.contextmanager
def _clear_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a reader of a regular file raises into one error that names the file."""
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
    """Refuse what is not a regular file: reading a device may never end, and neither may waiting for a pipe."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(mode):
        found = "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
        raise InputError(f"{path}: got {found}, accepted is a regular file")


def check_size(path: str | os.PathLike[str], size: int) -> None:
    """Refuse a file whose contents cannot fit into this machine's memory before reading any of it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**36
    if size > memory // 2:
        limit = f"half of memory, {memory / 2**31:.1f} GiB"
        raise InputError(f"{path}: its arrays take {size / 2**30:.1f} GiB, accepted is up to {limit}")
