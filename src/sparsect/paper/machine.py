"""On what machine was it measured, and what else was that machine doing?"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Work:
    """Seconds by the clock, and of all cores for all programs and for this one; None where nobody counts them."""

    clock: float
    everybody: float | None
    own: float

    @classmethod
    def so_far(cls) -> Work:
        """Work since the machine was started."""
        return cls(time.monotonic(), _busy_seconds(), sum(os.times()[:4]))

    def others_since(self, start: Work) -> float | None:
        """How many cores other programs have kept busy since then, on average; None where that is not known."""
        if self.everybody is None or start.everybody is None or self.clock <= start.clock:
            return None
        others = (self.everybody - start.everybody) - (self.own - start.own)
        return max(0.0, others / (self.clock - start.clock))


def _busy_seconds() -> float | None:
    """Seconds in which cores were not idle, of all cores together, where the system is Linux."""
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        user, nice, system, _, _, irq, softirq, stolen = (int(word) for word in words[1:9])
    except (OSError, ValueError):
        return None
    # What a host gives to other virtual machines, too, is taken from this program.
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")


def described() -> list[str]:
    """The machine, versions and the commit."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("sparsect", "numpy", "scipy", "numba"))
    lines = [f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"]
    commit = _commit()
    return [*lines, f"commit {commit}"] if commit else lines


def _commit() -> str:
    """The commit that is checked out, if this package runs from its own repository."""
    here = Path(__file__).resolve().parents[1]
    words = []
    for question in ("--show-toplevel", "--short=10 HEAD"):
        try:
            command = ["git", "rev-parse", *question.split()]
            done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return ""
        words.append(done.stdout.strip())
    return words[1] if here == Path(words[0]) / "src" / "sparsect" else ""
