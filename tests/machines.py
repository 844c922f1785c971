"""Run the numerical tests as on other machines: other CPUs, one thread, memory with NaN where nothing was written yet.

``make test-machines`` calls it. Conditions that have nothing to do with each other share a run; to see which of them
makes a test fail, name one: ``python tests/machines.py "one thread"``. Those that the machine cannot meet are left out.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy  # noqa: F401 - loads the library that computes products, which threadpool_info then knows
from threadpoolctl import threadpool_info

NEHALEM, HASWELL, SKYLAKE = (f"products as on {name}" for name in ("Nehalem", "Haswell", "SkylakeX"))
GENERIC, THREAD, NAN = "compiled for any CPU", "one thread", "NaN where nothing was written yet"
RUNS = ((NEHALEM, GENERIC, THREAD), (HASWELL, NAN), (SKYLAKE,))
# Instructions that the CPU must have.
NEEDED = {NEHALEM: "sse4_2", HASWELL: "avx2", SKYLAKE: "avx512vl"}


def settings(condition: str, folder: str) -> dict[str, str]:
    """What to set in the environment for a condition; nothing if the machine at hand cannot meet it."""
    if condition == GENERIC:
        return {"NUMBA_CPU_NAME": "generic"}
    if condition == THREAD:
        return {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if condition == NAN:
        return nan_memory(folder)
    return {"OPENBLAS_CORETYPE": condition.split()[-1]} if NEEDED[condition] in instructions() else {}


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


def usual(condition: str) -> bool:
    """Whether the machine at hand meets a condition anyway, so that ``make test`` has tested it."""
    return condition in NEEDED and condition.split()[-1] in {info.get("architecture") for info in threadpool_info()}


def passes(environment: dict[str, str]) -> bool:
    """Whether the numerical tests pass in this environment."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "numerical", "-p", "no:cacheprovider", "tests"]
    return subprocess.run(command, env=os.environ | environment, check=False).returncode == 0


def main() -> int:
    """The number of runs in which tests failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [condition for run in RUNS for condition in run]
    parser.add_argument("conditions", nargs="*", help=f"conditions to test alone, of: {', '.join(every)}")
    named = parser.parse_args().conditions
    if unknown := set(named).difference(every):
        parser.error(f"unknown condition: {', '.join(sorted(unknown))}")
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for run in [(condition,) for condition in named] or RUNS:
            found = {condition: settings(condition, folder) for condition in run}
            for condition in run:
                if not found[condition]:
                    print(f"-- {condition}: left out, this machine cannot meet it", flush=True)
            met = [condition for condition in run if found[condition]]
            if not met or (not named and all(map(usual, met))):
                continue
            print(f"-- {', '.join(met)}", flush=True)
            if not passes({name: value for condition in met for name, value in found[condition].items()}):
                failed.append(", ".join(met))
    print("-- failed: " + "; ".join(failed) if failed else "-- the same on all of them")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
