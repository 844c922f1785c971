"""A benchmark report: printed as it grows, written whole, with machine, versions and duration at its end."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version

import sparsect
from sparsect.backend.writing import replacing


class Report:
    """Markdown that is printed line by line and written to ``path`` when the block ends well."""

    def __init__(self, path, title, packages=("numpy", "scipy"), gpu=None):
        self._path, self._packages, self._lines, self._start = path, packages, [], time.monotonic()
        self._title, self._gpu = title, gpu

    def __enter__(self):
        self._add(f"# {self._title}")
        return self

    def section(self, title, text, lines):
        """A heading, a paragraph and the lines of a table (a generator: they are measured while they are printed)."""
        self._add("", f"## {title}", "", text, "")
        for line in lines:
            self._add(line)

    def __exit__(self, kind, *_):
        if kind is not None:
            return
        minutes = (time.monotonic() - self._start) / 60
        self._add("", f"{described(self._packages, self._gpu)}; {minutes:.1f} minutes.")
        with replacing(self._path) as temporary:
            temporary.write_text("\n".join(self._lines) + "\n")

    def _add(self, *lines):
        for line in lines:
            print(line, flush=True)
            self._lines.append(line)


def described(packages, gpu=None):
    """The machine and the versions of Python, sparsect and other packages, in one line."""
    versions = ", ".join([f"sparsect {sparsect.__version__}", *(f"{name} {version(name)}" for name in packages)])
    device = f"{gpu}; " if gpu else ""
    return f"{device}{_processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}"


def _processor():
    try:
        with open("/proc/cpuinfo") as info:
            return next(line.partition(": ")[2].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
