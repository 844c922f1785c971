"""Validation of arguments: one error type, whose message names the argument, its value and what is accepted."""

from __future__ import annotations

import difflib
import math
import operator
import sys
import warnings
from collections.abc import Iterable
from typing import Any

# Maximum number of characters of a value in an error message.
LONGEST = 120


# Verbs that the rule of an error may begin with instead of "be".
VERBS = ("be ", "come ", "differ ", "exist", "fit ", "have ", "hold ", "leave ", "lie ", "not ", "vary", "yield ")


class InputError(ValueError):
    """Error raised for an argument, file or option that cannot be used.

    The message names the argument and says what is accepted.

    Examples
    --------
    >>> import sparsect
    >>> try:
    ...     sparsect.project_sparse([1.0, 2.0], sparsity=3)
    ... except sparsect.InputError as error:
    ...     print(error)
    `sparsity` must be a whole number from 0 to 2, got 3.
    """


class ConvergenceWarning(UserWarning):
    """Warning that a solution is not reliable.

    Rows diverged, or an inner iteration stopped above its tolerance.

    Examples
    --------
    >>> import sparsect
    >>> issubclass(sparsect.ConvergenceWarning, UserWarning)
    True
    """


class PoorFitWarning(ConvergenceWarning):
    """Warning that a solution does not explain the data, or that the data hardly determine it.

    Examples
    --------
    To turn the warning into an error:

    >>> import warnings
    >>> import sparsect
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", sparsect.PoorFitWarning)
    ...     problem = sparsect.random_problem(m=40, n=80, sparsity=4, rng=0)
    ...     result = sparsect.recover(problem.Phi, problem.y, sparsity=4)
    """


def warn(remarks: Iterable[str | None], poor_fits: Iterable[str] = ()) -> None:
    """Issue at most one warning, which contains all remarks of a call.

    Parameters
    ----------
    remarks : iterable of str or None
        Remarks on convergence; None is skipped.
    poor_fits : iterable of str, optional
        Remarks on rows that do not fit the data. The warning is a PoorFitWarning if there are only these.
    """
    words, fits = [remark for remark in remarks if remark is not None], list(poor_fits)
    if words or fits:
        kind = ConvergenceWarning if words else PoorFitWarning
        warnings.warn(". ".join(words + fits), kind, stacklevel=outside())


def outside() -> int:
    """Return the ``stacklevel`` at which a warning names the first caller outside the package.

    Returns
    -------
    int
        The number of calls from the caller of this function to that one, at least 1.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "sparsect":
        frame, level = frame.f_back, level + 1
    return level


def reject(name: str, received: object, rule: str, hint: str = "") -> InputError:
    """Build the error that every check raises: "`name` must be ..., got ...".

    Parameters
    ----------
    name : str
        Name of the argument, option or file.
    received : object
        Description of the value received.
    rule : str
        Description of the accepted values. It follows "must be", or "must" if it begins with one of ``VERBS``.
    hint : str, optional
        A sentence that suggests what to do.

    Returns
    -------
    InputError
        The error, to be raised by the caller.
    """
    must = rule if rule.startswith(VERBS) else f"be {rule}"
    return InputError(f"`{name}` must {must}, got {received}." + (f" {hint}" if hint else ""))


def shown(value: object) -> str:
    """Format a value for an error message: on one line, and truncated if it is long.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    str
        At most ``LONGEST`` characters.
    """
    try:
        words = " ".join(repr(value).split())
    except ValueError:  # an integer with more digits than Python converts to text
        words = f"a number of type {type(value).__name__}"
    return words if len(words) <= LONGEST else words[: LONGEST - 3] + "..."


def whole_number(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Check that a value is an integer within bounds.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    value : object
        The value to check.
    low : int
        Smallest accepted value.
    high : int, optional
        Largest accepted value.

    Returns
    -------
    int
        The value.

    Raises
    ------
    InputError
        If it is not an integer within the bounds.
    """
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
    """Check that a value is a finite number within bounds.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    value : object
        The value to check.
    accepted : str
        Description of the accepted values, for the error.
    low : float, optional
        Smallest accepted value.
    high : float, optional
        Largest accepted value.
    nonzero : bool, optional
        Whether zero is rejected.

    Returns
    -------
    float
        The value.

    Raises
    ------
    InputError
        If it is not a finite number within the bounds.
    """
    if isinstance(value, str | bool) or str(getattr(value, "dtype", "")) == "bool":
        raise reject(name, shown(value), accepted)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise reject(name, shown(value), accepted) from None
    if not math.isfinite(number) or not low <= number <= high or (nonzero and number == 0):
        raise reject(name, shown(value), accepted)
    return number


def truth_value(name: str, value: Any) -> bool:
    """Check that a value is True or False, or equal to one of them.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    value : object
        The value to check. Values that are merely truthy or falsy, such as strings, are rejected.

    Returns
    -------
    bool
        The value.

    Raises
    ------
    InputError
        If it is neither True nor False.
    """
    try:
        return {True: True, False: False}[value]
    except (KeyError, TypeError):
        raise reject(name, shown(value), "True or False") from None


def settle_number(settings: Any, name: str, accepted: str, **limits: Any) -> None:
    """Check a field of a frozen dataclass and store it as a plain float.

    Parameters
    ----------
    settings : dataclass instance
        Object whose field is checked.
    name : str
        Name of the field.
    accepted : str
        Description of the accepted values, for the error.
    **limits : float or bool
        Bounds, as for :func:`real_number`.
    """
    object.__setattr__(settings, name, real_number(name, getattr(settings, name), accepted, **limits))


def within(name: str, values: Any, low: float, high: float) -> None:
    """Check that all entries of an array are numbers from ``low`` to ``high``.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    values : array
        The array to check.
    low : float
        Smallest accepted entry.
    high : float
        Largest accepted entry.

    Raises
    ------
    InputError
        If an entry is out of range or NaN.
    """
    if not ((values >= low) & (values <= high)).all():
        raise reject(name, "an entry out of range", f"lie between {low} and {high}")


def choice(name: str, value: object, options: Iterable[str]) -> str:
    """Check that a value is one of several options.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    value : object
        The value to check.
    options : iterable of str
        The accepted values.

    Returns
    -------
    str
        The value.

    Raises
    ------
    InputError
        If it is not one of the options; the message suggests the most similar one.
    """
    known = list(options)
    if isinstance(value, str) and value in known:
        return value
    spelled = {option.lower(): option for option in known}
    nearest = difflib.get_close_matches(value.lower(), spelled, n=1) if isinstance(value, str) else []
    hint = f"Did you mean {spelled[nearest[0]]!r}?" if nearest else ""
    raise reject(name, shown(value), "one of " + ", ".join(repr(option) for option in known), hint)
