"""Check that the docstrings of the public API are valid numpydoc: ``python tests/docstrings.py``."""

import enum
import functools
import importlib
import inspect
import re
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("sparsect", "sparsect.images", "sparsect.dictionary", "sparsect.sets", "sparsect.tuning")
# Names in the API reference, which need an example.
REFERENCE = set(re.findall(r"^   ([\w.]+)$", (ROOT / "docs" / "api" / "index.rst").read_text(), re.MULTILINE))
# What the docstring of a method that overrides another one need not repeat.
EXPLAINED_ONCE = {"PR01", "RT01"}
CODES = {"GL08", "SS03", "PR01", "PR02", "PR03", "PR04", "PR07", "RT01", "RT03", "YD01"}
PROPERTIES = (property, functools.cached_property)


def documented():
    """Name, object and codes of every public class, function and method, each of them once.

    Data such as ``METHODS`` and modules are skipped: numpydoc has no sections for them.
    """
    seen = set()
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if id(thing) in seen or not (inspect.isclass(thing) or inspect.isroutine(thing)):
                continue
            seen.add(id(thing))
            listed = {name, f"{module.__name__}.{name}".removeprefix("sparsect.")} & REFERENCE
            yield f"{module.__name__}.{name}", thing, CODES | ({"EX01"} if listed else set())
            for method, found in methods(thing) if inspect.isclass(thing) else ():
                if id(found) not in seen:
                    seen.add(id(found))
                    codes = CODES - {"RT01"} if isinstance(found, PROPERTIES) else CODES
                    # Parameters and what is returned are explained once, where a method is first defined.
                    codes = codes - EXPLAINED_ONCE if overrides(thing, method) else codes
                    yield f"{module.__name__}.{name}.{method}", found, codes


def overrides(kind, method):
    """Whether another class of sparsect has explained a method before."""
    owners = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "sparsect" and method in vars(base)]
    return len(owners) > 1


def methods(kind):
    """Name and object of the public methods and properties of a class that sparsect defines, inherited ones too."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "sparsect":
            for name, found in vars(base).items():
                is_method = isinstance(found, (types.FunctionType, classmethod, staticmethod, *PROPERTIES))
                # numpydoc looks methods up by name, so it cannot see those that the class overrides.
                if is_method and not name.startswith("_") and inspect.getattr_static(kind, name) is found:
                    yield name, found


def failures(name, thing, codes):
    """One line for each code that a docstring fails."""
    # Imported here, so that pytest can import this file where numpydoc is not installed.
    from numpydoc.validate import validate

    if inspect.isclass(thing) and not missing(thing):
        codes = codes - {"PR01"}
    report = validate(name)
    path = Path(report["file"] or "unknown")
    path = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    for code, message in report["errors"]:
        if code in codes:
            yield f"{path}:{report['file_line']}: {name}: {code} {message}"


def missing(kind):
    """Parameters of a class that neither Parameters nor Attributes explain, as result-like classes have the latter."""
    from numpydoc.docscrape import ClassDoc

    # These are not constructed with parameters of their own.
    if getattr(kind, "_is_protocol", False) or issubclass(kind, enum.Enum | BaseException):
        return set()
    doc = ClassDoc(kind, config={"show_class_members": False})
    entries = [entry for section in ("Parameters", "Attributes") for entry in doc[section]]
    explained = {name.strip(" *") for entry in entries for name in entry.name.split(",")}
    return set(inspect.signature(kind).parameters) - explained


def main():
    """Print what fails; the exit code is 1 if anything does."""
    lines = [line for found in documented() for line in failures(*found)]
    print("\n".join(lines) or "docstrings: all valid")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
