"""Build wheel and sdist in dist/, and try the wheel in an empty environment: ``python tests/distribution.py``."""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# What somebody who has only the sdist needs, beside the package itself.
IN_SDIST = (
    "Makefile", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "pyproject.toml",
    "docs/conf.py", "docs/start.md", "docs/api/index.rst", "examples/first_recovery.py", "tests/conftest.py",
    "benchmarks/results/against-peers.png", "benchmarks/benchopt/objective.py",
)  # fmt: skip
TRIAL = """
import sparsect
from importlib.resources import files
problem = sparsect.random_problem(40, 80, 4, rng=0)
result = sparsect.recover(problem.Phi, problem.y, 4)
assert sparsect.snr_db(problem.x, result.x)[0] > 60
assert sparsect.load_dictionary().Phi.shape[1] == 1000
assert files("sparsect").joinpath("py.typed").is_file()
assert "site-packages" in sparsect.__file__
print("sparsect", sparsect.__version__, "works in an empty environment")
"""


def main():
    """Build, look into the sdist, install the wheel elsewhere and use it there."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", DIST, ROOT], check=True, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in IN_SDIST if name not in names]
    if missing:
        sys.exit(f"{sdist.name} lacks {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        binaries = Path(folder) / "bin"
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([binaries / "python", "-m", "pip", "install", *quiet, wheel], check=True)
        subprocess.run([binaries / "python", "-I", "-c", TRIAL], cwd=folder, check=True)
        recover = [binaries / "sparsect", "recover", "--random", "40x80", "--sparsity", "4", "--out", "x.npz"]
        subprocess.run(recover, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([binaries / "sparsect", "--version"], cwd=folder, check=True)
    print(f"{wheel.name} ({wheel.stat().st_size // 1024} kB), {sdist.name} ({sdist.stat().st_size // 1024} kB)")


if __name__ == "__main__":
    main()
