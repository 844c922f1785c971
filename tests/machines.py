"""Run the numerical tests as on other machines: other CPUs, one thread, memory with NaN where nothing was written yet.

``make test-machines`` calls it. What the machine at hand cannot run is left out, and said to be.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# What to set, and the instructions that the CPU must have for it.
MACHINES = {
    "products as on Nehalem": ({"OPENBLAS_CORETYPE": "Nehalem"}, "sse4_2"),
    "products as on Haswell": ({"OPENBLAS_CORETYPE": "Haswell"}, "avx2"),
    "products as on SkylakeX": ({"OPENBLAS_CORETYPE": "SkylakeX"}, "avx512vl"),
    "compiled for any CPU": ({"NUMBA_CPU_NAME": "generic"}, ""),
    "one thread": ({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}, ""),
}


def instructions() -> set[str]:
    """Names of instruction sets that the CPU at hand has, as Linux tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def nan_memory(folder: str) -> dict[str, str]:
    """Settings with which new memory holds NaN; none without Linux and a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return {}
    library, source = Path(folder) / "nan_memory.so", Path(__file__).with_name("nan_memory.c")
    built = subprocess.run([compiler, "-shared", "-fPIC", "-O2", source, "-o", library], check=False)
    return {} if built.returncode else {"LD_PRELOAD": str(library)}


def passes(name: str, settings: dict[str, str]) -> bool:
    """Whether the numerical tests pass with these settings of the environment."""
    print(f"-- {name}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "numerical", "-p", "no:cacheprovider", "tests"]
    return subprocess.run(command, env=os.environ | settings, check=False).returncode == 0


def main() -> int:
    """The number of machines on which tests failed."""
    failed, known = [], instructions()
    for name, (settings, needed) in MACHINES.items():
        if needed and needed not in known:
            print(f"-- {name}: left out, this CPU has no {needed}", flush=True)
        elif not passes(name, settings):
            failed.append(name)
    name = "NaN where nothing was written yet"
    with tempfile.TemporaryDirectory() as folder:
        if not (settings := nan_memory(folder)):
            print(f"-- {name}: left out, it needs Linux with the GNU C library and a C compiler", flush=True)
        elif not passes(name, settings):
            failed.append(name)
    print("-- failed: " + ", ".join(failed) if failed else "-- the same on all of them")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
