"""Writing of files: completely or not at all, or line by line."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from .checks import InputError
from .locks import lock, unwritable


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file through a temporary one, which replaces it only if the block succeeds.

    If the block fails, the temporary file is removed. Ctrl-C is deferred until the block ends.

    Parameters
    ----------
    path : str or path-like
        The file to write, or a symbolic link to it, which stays. Missing folders are created.

    Yields
    ------
    pathlib.Path
        The temporary file, in the same folder as the file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    final = _followed(path)
    with uninterrupted(), contextlib.ExitStack() as stack:
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            # All processes use the same name, so that the file left by a killed process is overwritten by the next.
            temporary = final.with_name(f".{final.stem}.part{final.suffix}")
            try:
                alone = stack.enter_context(lock(temporary))
            except (BlockingIOError, PermissionError):  # in use by another process, or left by another user's process
                alone = False
            if not alone:
                temporary = final.with_name(f".{final.stem}.{os.getpid()}{final.suffix}")
                stack.callback(temporary.unlink, missing_ok=True)
            yield temporary
            os.replace(temporary, final)
        except OSError as error:
            raise unwritable(Path(path), error) from None


def _followed(path: str | os.PathLike[str]) -> Path:
    """Return the file to which a symbolic link leads; other paths are returned as they are."""
    return Path(os.path.realpath(path) if os.path.islink(path) else path)


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
        raise unwritable(path, error) from None


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
    final = _followed(path)
    try:
        if stat.S_ISDIR(os.stat(final).st_mode):
            raise InputError(f"{path}: cannot be written (a folder)")
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # for example, a name that is too long
        raise unwritable(Path(path), error) from None
    folder = final.parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise unwritable(Path(path), error) from None


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
