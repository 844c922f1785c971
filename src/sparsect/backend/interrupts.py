"""How does the command line answer Ctrl-C? At any moment with one line, exit code 130, and no traceback.

The package loads this module before any other, since loading them takes a while.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXIT_CODE = 130
STOPPED = (
    "sparsect: stopped (recover with --checkpoint, tune, learn, code and experiment go on when called the same way "
    "again)"
)
# Seconds after which an interrupt is raised again that came where it could not be raised.
AGAIN = 0.05

# Interrupts that have come since :func:`raise_them`.
came: list[int] = []


def _leave_while_loading() -> None:
    """End the process at once, if it is the command line's: nothing has begun that would have to be ended in order.

    An exception would have to pass through other packages that are being imported, not all of which let it through.
    """
    called_as_module = ("-m", "sparsect") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    script = "".join(sys.argv[:1])  # none where Python is embedded in another program
    called_as_script = os.path.splitext(os.path.basename(script))[0] == "sparsect"
    if called_as_module or called_as_script:
        _replace(signal.default_int_handler, _leave)


def raise_them() -> None:
    """From now on, raise a KeyboardInterrupt and remember that: code that is interrupted may raise something else."""
    if _replace(_leave, _raise) or _replace(signal.default_int_handler, _raise):
        sys.unraisablehook = _raise_again


def ignore_them() -> None:
    """From now on, nothing is left to be interrupted but the end of the process."""
    if _replace(_raise, signal.SIG_IGN):
        # Python ends with the signal itself if the last code that was executed from a string was interrupted, as
        # Numba's is, even if the exception was caught.
        exec("")


def _replace(before: object, after: Any) -> bool:
    """Whether the signal was handled by ``before``, and is by ``after`` now; a shell has background jobs ignore it."""
    if signal.getsignal(signal.SIGINT) is not before:
        return False
    try:
        signal.signal(signal.SIGINT, after)
    except ValueError:  # not in the main thread
        return False
    return True


def _leave(number: int, frame: object) -> None:
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(EXIT_CODE)


def _raise(number: int, frame: object) -> None:
    came.append(number)
    raise KeyboardInterrupt


def _raise_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Python drops an exception that is raised in a destructor or a callback; an interrupt must not get lost there."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    import threading

    again = threading.Timer(AGAIN, _interrupt, (threading.main_thread().ident,))
    again.daemon = True
    again.start()


def _interrupt(main_thread: int) -> None:
    if hasattr(signal, "pthread_kill"):
        # Wakes it up, too, if it waits for something.
        signal.pthread_kill(main_thread, signal.SIGINT)
    else:
        _thread.interrupt_main()


_leave_while_loading()
