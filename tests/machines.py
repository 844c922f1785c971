"""Run the numerical tests as on other machines: kernels of other CPUs for products and compiled code, and one thread.

``make test-machines`` calls it. What the CPU at hand cannot run is left out, and said to be.
"""

import os
import subprocess
import sys
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


def main() -> int:
    """The number of machines on which tests failed."""
    failed, known = [], instructions()
    for name, (settings, needed) in MACHINES.items():
        if needed and needed not in known:
            print(f"-- {name}: left out, this CPU has no {needed}", flush=True)
            continue
        print(f"-- {name}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "numerical", "-p", "no:cacheprovider", "tests"]
        if subprocess.run(command, env=os.environ | settings, check=False).returncode:
            failed.append(name)
    print("-- failed: " + ", ".join(failed) if failed else "-- the same on all of them")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
