"""Locks, so that two processes never write to the same place at once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .checks import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


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
                stack.enter_context(lock(final.with_name(f".{final.name}.lock")))
            except BlockingIOError:
                hint = "wait until it has finished, or write to another file"
                raise InputError(f"{path}: another process is writing to it; {hint}") from None
            except OSError as error:
                raise unwritable(final, error) from None
        yield


@contextlib.contextmanager
def lock(path: Path) -> Iterator[bool]:
    """Lock ``path``, a file that is created for this purpose and removed at the end.

    The operating system releases the lock when the process ends, however it ends. A killed process therefore blocks no
    other, and there is no need to find out whether a process is still running, perhaps on another machine.

    Parameters
    ----------
    path : pathlib.Path
        The file, in a folder that exists.

    Yields
    ------
    bool
        Whether the file is locked; False if the system or file system has no locks.

    Raises
    ------
    BlockingIOError
        If another process holds the lock.
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


def unwritable(path: Path, error: OSError) -> InputError:
    """Build the error for a file that cannot be written.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    error : OSError
        The reason.

    Returns
    -------
    InputError
        The error, to be raised by the caller.
    """
    return InputError(f"{path}: cannot be written ({error.strerror or error})")
