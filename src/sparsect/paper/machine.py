"""Description of the machine that runs the experiments, and of the load from other programs."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """Clock time and processor time at one moment.

    Attributes
    ----------
    clock : float
        Seconds of a monotonic clock.
    all_programs : float or None
        Processor seconds of all programs on all cores; None where the system does not report them.
    own : float
        Processor seconds of this program and its finished child processes.
    """

    clock: float
    all_programs: float | None
    own: float

    @classmethod
    def now(cls) -> Usage:
        """Read the counters now.

        Returns
        -------
        Usage
            The counters at this moment.
        """
        return cls(time.monotonic(), _busy_seconds(), sum(os.times()[:4]))

    def cores_used_by_others(self, start: Usage) -> float | None:
        """Return how many cores other programs have kept busy since an earlier moment, on average.

        Parameters
        ----------
        start : Usage
            The counters at the earlier moment.

        Returns
        -------
        float or None
            Number of cores; None where the system does not report it.
        """
        if self.all_programs is None or start.all_programs is None or self.clock <= start.clock:
            return None
        others = (self.all_programs - start.all_programs) - (self.own - start.own)
        return max(0.0, others / (self.clock - start.clock))


def _busy_seconds() -> float | None:
    """Return the seconds in which cores were not idle, summed over all cores; None on systems other than Linux."""
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        user, nice, system, _, _, irq, softirq, stolen = (int(word) for word in words[1:9])
    except (OSError, ValueError):
        return None
    # Stolen time, which the host gives to other virtual machines, slows this program down as other programs do.
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")


def described() -> list[str]:
    """Describe the machine, the versions of the packages, and the commit.

    Returns
    -------
    list of str
        One line for each of them; no line for the commit where it is not known.
    """
    packages = ", ".join(f"{name} {version(name)}" for name in ("sparsect", "numpy", "scipy", "numba"))
    lines = [f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"]
    commit = _commit()
    return [*lines, f"commit {commit}"] if commit else lines


def _commit() -> str:
    """Return the commit that is checked out if this package runs from its own repository, or an empty string."""
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
