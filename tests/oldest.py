"""Run the faster tests with the oldest versions that pyproject.toml allows: ``python tests/oldest.py [OPTION...]``.

The environment is made in out/oldest, once; remove it to make it again.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "out" / "oldest"
# SciPy before 1.17 itself crashes on a damaged sparse matrix in a .mat file.
CRASHES = "tests/backend/test_files.py::TestSparseMatricesWhoseIndicesLeadNowhere::test_mat"
VERSIONS = """
import sys
from importlib.metadata import version
print(", ".join(f"{name} {version(name)}" for name in sys.argv[1:]))
"""


def constraints():
    """Return a line for pip for each dependency of the package, with its lower bound as the only version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = (re.fullmatch(r"([\w-]+)>=([\d.]+)", line) for line in project["dependencies"])
    return [f"{bound[1]}=={bound[2]}.*" for bound in bounds]


def main():
    """Make the environment if it is not there, and run the tests in it."""
    python = PLACE / "bin" / "python"
    if not (PLACE / "installed").exists():
        venv.create(PLACE, clear=True, with_pip=True)
        (PLACE / "constraints.txt").write_text("\n".join(constraints()) + "\n")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt"]
        subprocess.run([*pip, "-e", f"{ROOT}[dev]"], cwd=PLACE, check=True)
        (PLACE / "installed").touch()
    names = [line.partition("==")[0] for line in constraints()]
    subprocess.run([python, "-c", VERSIONS, *names], check=True)
    tests = [python, "-m", "pytest", "-q", "-m", "not slow", "-W", "default", "--deselect", CRASHES, "tests"]
    # scikit-learn 1.6 asks for the first before it takes arrays of other libraries; compiled code is kept apart from
    # that of other versions of Numba.
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "NUMBA_CACHE_DIR": str(PLACE / "numba")}
    return subprocess.run([*tests, *sys.argv[1:]], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
