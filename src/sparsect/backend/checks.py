"""Is what came in acceptable? One error type, one wording: the argument, what came, what is accepted."""

from __future__ import annotations

import difflib
import math
import operator
import sys
import warnings
from collections.abc import Iterable
from typing import Any

# Characters of a value that an error shows.
LONGEST = 120


class InputError(ValueError):
    """An argument, file or option that cannot be used; the message names it and says what would work."""


class ConvergenceWarning(UserWarning):
    """An answer not to be trusted: rows ran away, or an inner iteration stopped above its stated tolerance."""


class PoorFitWarning(ConvergenceWarning):
    """An answer that does not explain the data."""


def warn(remarks: Iterable[str | None], poor_fits: Iterable[str] = ()) -> None:
    """One warning for a whole call that holds all remarks there are."""
    words, fits = [remark for remark in remarks if remark is not None], list(poor_fits)
    if words or fits:
        kind = ConvergenceWarning if words else PoorFitWarning
        warnings.warn(". ".join(words + fits), kind, stacklevel=_outside())


def _outside() -> int:
    """How many calls lie between :func:`warn` and the first caller that is not part of the package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "sparsect":
        frame, level = frame.f_back, level + 1
    return level


def reject(name: str, received: object, accepted: str) -> InputError:
    """The error every check raises: ``name``, what was received and what is accepted."""
    return InputError(f"{name}: got {received}, accepted is {accepted}")


def shown(value: object) -> str:
    """``value`` as errors show it: in one line, and cut off where it is long."""
    try:
        words = " ".join(repr(value).split())
    except ValueError:  # a whole number with more digits than Python writes
        words = f"a number of type {type(value).__name__}"
    return words if len(words) <= LONGEST else words[: LONGEST - 3] + "..."


def whole_number(name: str, value: Any, low: int, high: int | None = None) -> int:
    """``value`` as an int within ``low`` and ``high`` (both included)."""
    accepted = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
    if isinstance(value, bool):
        raise reject(name, shown(value), accepted)
    try:
        number = operator.index(value)
    except TypeError:
        raise reject(name, shown(value), accepted) from None
    if number < low or (high is not None and number > high):
        raise reject(name, shown(number), accepted)
    return number


def real_number(
    name: str, value: Any, accepted: str, low: float = -math.inf, high: float = math.inf, nonzero: bool = False
) -> float:
    """``value`` as a finite float within ``low`` and ``high``; ``accepted`` words the rule for the error."""
    if isinstance(value, str):
        raise reject(name, shown(value), accepted)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise reject(name, shown(value), accepted) from None
    if not math.isfinite(number) or not low <= number <= high or (nonzero and number == 0):
        raise reject(name, shown(value), accepted)
    return number


def truth_value(name: str, value: Any) -> bool:
    """``value`` as True or False; what only behaves like one of them, or may not, is refused."""
    try:
        return {True: True, False: False}[value]
    except (KeyError, TypeError):
        raise reject(name, shown(value), "True or False") from None


def settle_number(settings: Any, name: str, accepted: str, **limits: Any) -> None:
    """Check the field ``name`` of a frozen dataclass and keep it as a plain float, whatever kind of number it was."""
    object.__setattr__(settings, name, real_number(name, getattr(settings, name), accepted, **limits))


def within(name: str, values: Any, low: float, high: float) -> None:
    """Refuse an array with entries that are not numbers from ``low`` to ``high``."""
    if not ((values >= low) & (values <= high)).all():
        raise reject(name, "an entry out of range", f"numbers from {low} to {high}")


def choice(name: str, value: object, options: Iterable[str]) -> str:
    """``value`` if it is one of ``options``; otherwise an error that suggests the nearest one."""
    known = list(options)
    if isinstance(value, str) and value in known:
        return value
    spelled = {option.lower(): option for option in known}
    nearest = difflib.get_close_matches(value.lower(), spelled, n=1) if isinstance(value, str) else []
    hint = f" (did you mean {spelled[nearest[0]]!r}?)" if nearest else ""
    raise reject(name, shown(value), "one of " + ", ".join(repr(option) for option in known) + hint)
