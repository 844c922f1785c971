"""Handling of Ctrl-C on the command line: one line of text, exit code 130 and no traceback, at any moment.

The package imports this module before all others, because importing those takes time.
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
    "sparsect: stopped (to resume tune, learn, code, experiment or recover with --checkpoint, run the same command "
    "again)"
)
# Seconds after which an interrupt that could not be raised is raised again.
RETRY_SECONDS = 0.05

# Interrupts received since :func:`raise_from_now_on` was called.
received: list[int] = []


def _exit_while_loading() -> None:
    """Make Ctrl-C end the process at once while the command line is loading, when nothing needs an orderly shutdown.

    An exception would have to pass through other packages that are being imported, and some of them suppress it.
    """
    called_as_module = ("-m", "sparsect") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    script = "".join(sys.argv[:1])  # empty where Python is embedded in another program
    called_as_script = os.path.splitext(os.path.basename(script))[0] == "sparsect"
    if called_as_module or called_as_script:
        _replace(signal.default_int_handler, _exit)


def raise_from_now_on() -> None:
    """Raise KeyboardInterrupt from now on and record it, since interrupted code may raise another exception."""
    if _replace(_exit, _raise) or _replace(signal.default_int_handler, _raise):
        sys.unraisablehook = _raise_again


def ignore_from_now_on() -> None:
    """Ignore Ctrl-C from now on, since only the end of the process is left to interrupt."""
    if _replace(_raise, signal.SIG_IGN):
        # If the last code executed from a string was interrupted, Python exits with the signal itself, even if the
        # exception was caught. Numba executes code from strings, so run some that is not interrupted.
        exec("")


def _replace(before: object, after: Any) -> bool:
    """Replace the handler ``before`` by ``after`` and return whether this was done.

    Another handler is left in place: a shell makes background jobs ignore the signal, for example.
    """
    if signal.getsignal(signal.SIGINT) is not before:
        return False
    try:
        signal.signal(signal.SIGINT, after)
    except ValueError:  # not in the main thread
        return False
    return True


def _exit(number: int, frame: object) -> None:
    """Print one line and end the process."""
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(EXIT_CODE)


def _raise(number: int, frame: object) -> None:
    """Record the interrupt and raise it."""
    received.append(number)
    raise KeyboardInterrupt


def _raise_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise an interrupt again that Python discarded because it was raised in a destructor or callback."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    import threading

    again = threading.Timer(RETRY_SECONDS, _interrupt, (threading.main_thread().ident,))
    again.daemon = True
    again.start()


def _interrupt(main_thread: int) -> None:
    """Send the interrupt to the main thread."""
    if hasattr(signal, "pthread_kill"):
        # This wakes the main thread, too, if it is waiting.
        signal.pthread_kill(main_thread, signal.SIGINT)
    else:
        _thread.interrupt_main()


_exit_while_loading()
