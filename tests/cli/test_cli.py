"""The command line, run as a user would: files in, files out, tables, exit codes."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.io

import sparsect
from sparsect import sets

pytestmark = pytest.mark.slow

# The map of the paper instead of the default.
MAP = ("--method", "difference-map")


@pytest.fixture
def problem(tmp_path):
    problem = sparsect.random_problem(30, 60, 4, batch=2, rng=0)
    np.save(tmp_path / "Phi.npy", problem.Phi)
    np.save(tmp_path / "y.npy", problem.y)
    np.save(tmp_path / "x.npy", problem.x)
    np.savetxt(tmp_path / "y.csv", problem.y, delimiter=",")
    scipy.io.savemat(tmp_path / "study.mat", {"A": problem.Phi, "b": problem.y.T})
    return problem


class TestRecover:
    def test_files_in_file_out(self, shell, problem, tmp_path):
        done = shell("recover", "--matrix", "Phi.npy", "--data", "y.npy", "--sparsity", 4, "--out", "new/x.npz")
        assert done.returncode == 0, done.stderr
        assert "written: new/x.npz" in done.stdout
        result = sparsect.load_result(tmp_path / "new" / "x.npz")
        expected = sparsect.recover(problem.Phi, problem.y, 4)
        np.testing.assert_array_equal(result.x, expected.x)
        assert result.converged.all()

    @pytest.mark.parametrize(
        ("matrix", "data"), [("Phi.npy", "y.csv"), ("study.mat:A", "study.mat:b"), ("study.mat", "study.mat")]
    )
    def test_formats(self, called, problem, tmp_path, matrix, data):
        done = called("recover", "--matrix", matrix, "--data", data, "-s", 4, "--truth", "x.npy", "--out", "o.npz")
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(sparsect.load_result(tmp_path / "o.npz").x, problem.x, atol=1e-4)
        assert "SNR of x" in done.stdout

    def test_a_matrix_of_one_column(self, called, rng, tmp_path):
        column = rng.standard_normal(30)
        np.savetxt(tmp_path / "column.csv", column)
        np.save(tmp_path / "y.npy", 2 * column)
        done = called("recover", "--matrix", "column.csv", "--data", "y.npy", "-s", 1, "--out", "x.npz")
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(sparsect.load_result(tmp_path / "x.npz").x, [2])

    def test_random_with_picture(self, called, tmp_path):
        done = called("recover", "--random", "40x80", "--sparsity", 5, "--snr", 20, "--plot", "recovery.png")
        assert done.returncode == 0, done.stderr
        assert "mean SNR of x" in done.stdout
        assert (tmp_path / "recovery.png").read_bytes().startswith(b"\x89PNG")

    def test_picture_without_truth(self, called, problem, tmp_path):
        done = called("recover", "--matrix", "Phi.npy", "--data", "y.npy", "-s", 4, "--plot", "a.svg", "--quiet")
        assert (done.returncode, done.stdout) == (0, "")
        assert "<svg" in (tmp_path / "a.svg").read_text()

    def test_settings_reach_the_solver(self, called, tmp_path):
        called("recover", "--random", "20x40", "-s", 3, *MAP, "--set", "beta=0.5", "--alpha", 0.2, "--out", "a.npz")
        assert sparsect.load_result(tmp_path / "a.npz").method == "DifferenceMap(beta=0.5, data_set=Relaxed(alpha=0.2))"

    def test_noise_norm(self, called, tmp_path):
        done = called("recover", "--random", "40x80", "-s", 4, *MAP, "--snr", 20, "--noise-norm", 0.5, "--out", "a.npz")
        assert done.returncode == 0, done.stderr
        result = sparsect.load_result(tmp_path / "a.npz")
        assert (result.residual_norm <= 0.5 * (1 + 1e-6)).all()

    @pytest.mark.parametrize(
        ("flags", "options"),
        [
            ((), {}),
            (("--polish",), {"polish": True}),
            (("--no-scale-columns",), {"scale_columns": False}),
            (("--refit", "--scale-columns"), {"refit": True, "scale_columns": True}),
        ],
    )
    def test_flags_reach_the_run(self, called, tmp_path, flags, options):
        problem = sparsect.random_problem(30, 60, 8, snr_db=10, rng=0)
        Phi = problem.Phi * np.geomspace(0.1, 10, 60)
        np.save(tmp_path / "Phi.npy", Phi)
        np.save(tmp_path / "y.npy", problem.y)
        given = ("--matrix", "Phi.npy", "--data", "y.npy", "-s", 8, *MAP, "--max-iter", 200)
        done = called("recover", *given, "--out", "x.npz", *flags)
        assert done.returncode == 0, done.stderr
        result = sparsect.load_result(tmp_path / "x.npz")
        expected = sparsect.recover(Phi, problem.y, 8, "difference-map", max_iter=200, **options)
        np.testing.assert_array_equal(result.x, expected.x)
        assert (result.swap_optimal is None) == ("polish" not in options)

    def test_unknown_size_in_the_plot(self, called, problem, tmp_path):
        done = called("recover", "--matrix", "Phi.npy", "--data", "y.npy", "-s", "auto", "--plot", "a.svg")
        assert done.returncode == 0, done.stderr
        assert "nonzeros" in done.stdout

    def test_help_has_examples(self, called):
        for arguments in ((), ("recover",)):
            assert called(*arguments, "--help").returncode == 0
        assert "sparsect recover --random 400x1000" in called("recover", "--help").stdout
        assert called("--version").stdout == f"sparsect, version {sparsect.__version__}\n"


class TestSets:
    """Options that ask more of x than few nonzeros, or know more about the noise."""

    @pytest.fixture
    def found(self, called, tmp_path, rng):
        """Write Phi and y, call the command, and return x and what the command has printed."""
        Phi = rng.standard_normal((30, 60))
        np.save(tmp_path / "Phi.npy", Phi)

        def run(x, *options):
            np.save(tmp_path / "x.npy", x)
            np.save(tmp_path / "y.npy", x @ Phi.T + 1e-3 * rng.standard_normal((*x.shape[:-1], 30)))
            files = ("--matrix", "Phi.npy", "--data", "y.npy", "--truth", "x.npy", "--out", "o.npz", "--plot", "o.svg")
            done = called("recover", *files, *options)
            assert done.returncode == 0, done.stderr
            return sparsect.load_result(tmp_path / "o.npz").x, done.stdout

        run.Phi = Phi
        return run

    @pytest.mark.parametrize("sparsity", [4, "auto"])
    def test_nonnegative(self, found, rng, tmp_path, sparsity):
        x = np.zeros((2, 60))
        x[:, [3, 20, 31, 50]] = rng.uniform(1, 2, (2, 4))
        nonnegative, printed = found(x, "-s", sparsity, "--nonnegative")
        expected = sparsect.recover(found.Phi, np.load(tmp_path / "y.npy"), sets.Sparse(sparsity, nonnegative=True))
        np.testing.assert_array_equal(nonnegative, expected.x)
        assert "SNR of x" in printed

    @pytest.mark.parametrize("name", ["labels.npy", "labels.txt", "labels.csv", "labels.mat"])
    @pytest.mark.parametrize("sparsity", [2, "auto"])
    def test_groups(self, found, rng, tmp_path, name, sparsity):
        labels = np.arange(60) // 4
        np.save(tmp_path / "labels.npy", labels)
        np.savetxt(tmp_path / "labels.txt", labels, fmt="%d")
        np.savetxt(tmp_path / "labels.csv", labels[None], fmt="%d", delimiter=",")
        scipy.io.savemat(tmp_path / "labels.mat", {"labels": labels.astype(float)})
        x = np.zeros(60)
        x[np.isin(labels, [3, 11])] = rng.standard_normal(8) + 3
        grouped, printed = found(x, "-s", sparsity, "--groups", name)
        np.testing.assert_array_equal(grouped != 0, x != 0)
        assert ("nonzeros" in printed) == (sparsity == "auto")

    @pytest.mark.parametrize("shape", [(3, 60), (2, 3, 60)])
    @pytest.mark.parametrize("sparsity", [2, "auto"])
    def test_joint(self, found, rng, shape, sparsity):
        x = np.zeros(shape)
        x[..., [7, 40]] = rng.standard_normal((*shape[:-1], 2)) + 3
        joint, printed = found(x, "-s", sparsity, "--joint")
        assert joint.shape == shape
        np.testing.assert_array_equal(joint != 0, x != 0)
        lines = [line for line in printed.splitlines() if line.startswith("│")]
        assert len(lines) == len(x.reshape(-1, 3, 60))
        if sparsity == "auto":
            assert all(line.split("│")[-3].strip() == "2" for line in lines)

    def test_joint_times_in_columns(self, called, rng, tmp_path):
        Phi, x = rng.standard_normal((30, 60)), np.zeros((3, 60))
        x[:, [7, 40]] = 2.0
        np.save(tmp_path / "Phi.npy", Phi)
        np.save(tmp_path / "y.npy", Phi @ x.T)
        done = called("recover", "--matrix", "Phi.npy", "--data", "y.npy", "-s", 2, "--joint", "--out", "o.npz")
        assert "y.npy: 3 times in columns, transposed to rows" in done.stderr
        np.testing.assert_allclose(sparsect.load_result(tmp_path / "o.npz").x, x, atol=1e-6)

    @pytest.mark.parametrize("kind", ["vector", "column", "covariance"])
    def test_noise_std(self, found, rng, tmp_path, kind):
        std = np.where(np.arange(30) < 25, 1e-3, 10.0)
        np.save(tmp_path / "std.npy", {"vector": std, "column": std[:, None], "covariance": np.diag(std**2)}[kind])
        x = np.zeros((2, 60))
        x[:, [3, 20, 31]] = rng.standard_normal((2, 3)) + 3
        weighted, printed = found(x, "-s", 3, "--noise-std", "std.npy")
        expected = sparsect.recover(found.Phi, np.load(tmp_path / "y.npy"), 3, noise_std=std)
        np.testing.assert_allclose(weighted, expected.x, atol=1e-9)
        assert "residual / noise" in printed


SET_FILES = {
    "short.npy": np.arange(59),
    "halves.npy": np.arange(60) / 2,
    "below.npy": np.arange(60) - 1,
    "gap.npy": 2 * np.arange(60),
    "far.npy": np.full(60, 10**15),
    "farther.npy": np.full(60, 1e300),
    "infinite.npy": np.full(60, np.inf),
    "square.npy": np.zeros((60, 60), dtype=int),
    "groups.npy": np.arange(60) // 2,
    "zero.npy": np.zeros(30),
    "ones.npy": np.ones(29),
    "nan.npy": np.full(30, np.nan),
    "singular.npy": np.ones((30, 30)),
}
BAD_SETS = {
    "two sets": (("--nonnegative", "--joint"), "`--nonnegative` and `--joint` must not be given together"),
    "three sets": (
        ("--nonnegative", "--groups", "groups.npy", "--joint"),
        "`--nonnegative` and `--groups` and `--joint` must not",
    ),
    "no file of groups": (("--groups", "no.npy"), "no.npy: no such file"),
    "groups of another length": (
        ("--groups", "short.npy"),
        "`--groups short.npy` must have one label for each of the 60 entries of x, got 59 labels",
    ),
    "halves": (("--groups", "halves.npy"), "`--groups halves.npy` must be a vector of whole numbers"),
    "negative labels": (("--groups", "below.npy"), "`--groups below.npy` must be a vector of whole numbers"),
    "labels that are no integers": (("--groups", "farther.npy"), "`--groups farther.npy` must be a vector of whole"),
    "infinite labels": (("--groups", "infinite.npy"), "`--groups infinite.npy` must be a vector of whole numbers"),
    "a matrix of labels": (("--groups", "square.npy"), "`--groups square.npy` must be a vector of whole numbers"),
    "empty groups": (("--groups", "gap.npy"), "`--groups gap.npy` must have all numbers from 0 on"),
    "huge labels": (("--groups", "far.npy"), "`--groups far.npy` must have all numbers from 0 on"),
    "more groups than there are": (
        ("--groups", "groups.npy", "--sparsity", "31"),
        "--sparsity` must be a whole number from 0 to 30, got 31",
    ),
    "a method without groups": (("--groups", "groups.npy", "-m", "irls"), "'irls', which does not take"),
    "a method without bounds": (("--nonnegative", "-m", "lars"), "'lars', which does not take"),
    "joint with a vector": (("--joint", "--data", "vector.npy"), "y` must have shape (times, 30) or"),
    "no file of noise": (("--noise-std", "no.npy"), "no.npy: no such file"),
    "noise of another length": (
        ("--noise-std", "ones.npy"),
        "`--noise-std ones.npy` must have shape (30,), or (30, 30)",
    ),
    "noise that is no file": (("--noise-std", "abc"), "`--noise-std` must be a positive number or a file, got 'abc'"),
    "more nonzeros than columns": (
        ("--sparsity", "61"),
        "`--sparsity` must be at most the number of columns of Phi.npy, 60, got 61",
    ),
    "two matrices": (
        ("--matrix", "two.npz"),
        "`two.npz` must hold one array, got 3 arrays (y, A, Phi). Name one of them: two.npz:Phi.",
    ),
    "no noise": (("--noise-std", "zero.npy"), "`--noise-std zero.npy` must be positive numbers"),
    "a negative noise": (("--noise-std", "-1"), "`--noise-std` must be a positive number or a file, got -1"),
    "unknown noise": (("--noise-std", "nan.npy"), "`--noise-std nan.npy` must have finite entries only"),
    "singular noise": (("--noise-std", "singular.npy"), "`--noise-std singular.npy` must have positive eigenvalues"),
    "out is an input": (("--groups", "groups.npz", "--out", "groups.npz"), "--out` must be a file that is not used"),
    **{
        f"random with {option[0]}": (("--random", "30x60", *option), f"`{option[0]}` must be used with `--matrix`")
        for option in (("--nonnegative",), ("--joint",), ("--groups", "groups.npy"), ("--noise-std", "zero.npy"))
    },
}


@pytest.mark.parametrize("case", BAD_SETS)
def test_bad_sets(called, problem, tmp_path, case):
    for name, array in SET_FILES.items():
        np.save(tmp_path / name, array)
    np.save(tmp_path / "vector.npy", problem.y[0])
    np.savez(tmp_path / "two.npz", y=problem.y, A=-problem.Phi, Phi=problem.Phi)
    arguments, message = BAD_SETS[case]
    files = () if "--random" in arguments else ("--matrix", "Phi.npy", "--data", "y.npy")
    done = called("recover", "-s", "3", *files, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


BAD = {
    "nothing": ((), "must be given together"),
    "both": (("--random", "4x8", "--data", "y.npy"), "must not be given together with files"),
    "size": (("--random", "400"), "--random` must be given as rows x columns"),
    "huge": (("--random", "999999999x999999999"), "--random` must fit into half of memory"),
    "missing": (("--matrix", "no.npy", "--data", "y.npy"), "no.npy: no such file"),
    "sparsity": (
        ("--random", "20x40", "--sparsity", "41"),
        "`--sparsity` must be a whole number from 0 to 40",
    ),
    "method": (("--random", "20x40", "--method", "difference"), "Did you mean 'difference-map'"),
    "method in capitals": (("--random", "20x40", "-m", "OMP"), "Did you mean 'omp'"),
    "module not there": (("--random", "20x40", "-m", "no.such:Thing"), "--method: 'no.such:Thing' cannot be used"),
    "no solver": (("--random", "20x40", "-m", "math:pi"), "got 3.14"),
    "setting": (("--random", "20x40", *MAP, "--set", "gamma=1"), "NAME among: beta"),
    "setting not a number": (("--random", "20x40", *MAP, "--set", "beta=x"), "got 'x'"),
    "beta": (("--random", "20x40", *MAP, "--set", "beta=0"), "beta` must be any number but 0"),
    "noise": (("--random", "20x40", "--noise-norm", "-1"), "got -1"),
    "plot": (("--random", "20x40", "--plot", "a.doc"), "`--plot` must be a name that ends in .png"),
    "iterations": (("--random", "20x40", "--max-iter", "0"), "`--max-iter` must be a whole number of at least 1"),
    "out": (("--random", "20x40", "--out", "/proc/x/a.npz"), "cannot be written"),
    "out not npz": (
        ("--random", "20x40", "--out", "x.txt"),
        "--out` must be a name that ends in .npz",
    ),
    "out twice": (
        ("--random", "20x40", "--out", "a.npz", "--checkpoint", "a.npz"),
        "--out` must be a file",
    ),
    "snr with files": (
        ("--matrix", "a.npy", "--data", "b.npy", "--snr", "3"),
        "must be used with `--random`",
    ),
    "alpha and noise": (("--random", "20x40", "--alpha", "1", "--noise-norm", "1"), "must not be given together"),
    "alpha with admm": (("--random", "20x40", "--method", "admm", "--alpha", "1"), "got 1 with 'admm'"),
    "noise with admm": (("--random", "20x40", "--method", "admm", "--noise-norm", "1"), "which does not use it"),
    "threshold": (("--random", "20x40", "--method", "stomp", "--set", "threshold=1"), "NAME among: stages"),
    "stages": (("--random", "20x40", "--method", "stomp", "--set", "stages=1.5"), "must be a whole number"),
    "unknown option": (("--randm", "20x40"), "No such option"),
    "not a whole number": (("--random", "20x40", "--batch", "x"), "Invalid value for '--batch'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(called, case):
    arguments, message = BAD[case]
    sparsity = () if "--sparsity" in arguments else ("-s", "3")
    done = called("recover", *sparsity, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


OWN = """
import dataclasses
from typing import TYPE_CHECKING, ClassVar, Optional

import sparsect

if TYPE_CHECKING:
    from nowhere import Nothing

@dataclasses.dataclass(frozen=True)
class Mine(sparsect.DifferenceMap):
    name: ClassVar[str] = "mine"
    stride: float = 1.0
    count: Optional[int] = None
    share: "Optional[float] | None" = None
    words: str | None = None
    unknown: "Nothing" = None
    weights: list[float] = ()

ready = Mine(stride=2.0)

class Unfit(Mine):
    name: ClassVar[str] = "unfit"

    def init(self, problem):
        raise sparsect.InputError("`method` must be another one, got 'unfit'.")
"""


class TestOwnSolvers:
    @pytest.fixture(autouse=True)
    def there(self, tmp_path):
        (tmp_path / "own.py").write_text(OWN)

    def test_recover_with_settings(self, called, tmp_path):
        """Annotations are types here and text in the base class."""
        settings = ("stride=0.5", "count=3", "share=0.25", "words=a b", "beta=0.7")
        given = [word for setting in settings for word in ("--set", setting)]
        done = called("recover", "--random", "20x40", "-s", 3, "-m", "own:Mine", *given, "--out", "a.npz")
        assert done.returncode == 0, done.stderr
        assert sparsect.load_result(tmp_path / "a.npz").method == (
            "Mine(beta=0.7, data_set=None, stride=0.5, count=3, share=0.25, words='a b', unknown=None, weights=())"
        )

    def test_recover_with_a_configured_one(self, called, tmp_path):
        done = called("recover", "--random", "20x40", "-s", 3, "-m", "own:ready", "--set", "count=4", "--out", "a.npz")
        assert done.returncode == 0, done.stderr
        assert "stride=2.0, count=4" in sparsect.load_result(tmp_path / "a.npz").method

    def test_what_cannot_be_set(self, called):
        done = called("recover", "--random", "20x40", "-s", 3, "-m", "own:Mine", "--set", "weights=1")
        assert done.returncode == 2
        assert "NAME among: beta, stride, count, share, words (own:Mine)" in done.stderr
        done = called("recover", "--random", "20x40", "-s", 3, "-m", "own:Mine", "--set", "count=1.5")
        assert "--set count` must be a whole number" in done.stderr

    def test_images(self, called, tmp_path):
        options = ("--max-iter", 3, "-m", "own:Mine")
        done = called("reconstruct", "camera", "--width", 60, "-s", 5, *options, "-m", "omp", "--out", "out")
        assert done.returncode == 0, done.stderr
        assert {"mine.png", "mine-codes.npz", "omp.png"} <= {path.name for path in (tmp_path / "out").iterdir()}
        done = called("code", "out/original.png", "-s", 5, *options, "--out", "codes")
        assert done.returncode == 0, done.stderr
        assert "Mine(" in (tmp_path / "codes" / "codes.jsonl").read_text()
        done = called("reconstruct", "camera", "--width", 60, "-s", 5, "-m", "own:Unfit", "-m", "omp", "--out", "rest")
        assert done.returncode == 0, done.stderr
        assert "unfit could not be used with 5 atoms: `method` must be another one" in done.stdout
        assert (tmp_path / "rest" / "omp.png").exists()
        done = called("reconstruct", "camera", "-m", "own:Mine", "-m", "own:ready")
        assert done.returncode == 2
        assert "got two solvers with the name 'mine'" in done.stderr


def test_links_in_a_circle(called, problem, tmp_path):
    (tmp_path / "round.npy").symlink_to("round.npy")
    (tmp_path / "round.npz").symlink_to("round.npz")
    for arguments in (
        ("--matrix", "round.npy", "--data", "y.npy"),
        ("--matrix", "Phi.npy", "--data", "y.npy", "--checkpoint", "round.npz"),
        ("--matrix", "Phi.npy", "--data", "y.npy", "--out", "round.npz"),
    ):
        done = called("recover", "-s", 1, *arguments)
        assert "Traceback" not in done.stderr
    done = called("denoise", "round.npy")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = called("learn", "round.npy")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_corrupt_file(called, tmp_path):
    (tmp_path / "Phi.npy").write_bytes(b"not an array")
    np.save(tmp_path / "y.npy", np.ones(3))
    done = called("recover", "--matrix", "Phi.npy", "--data", "y.npy", "-s", 1)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("sparsect: Phi.npy: damaged")


ENDLESS = ("recover", "--random", "40x80", "-s", "10", "--snr", "10", "--max-iter", "100000000", "--tol", "0")


class TestInterrupts:
    """Exit code 130, one line that says so, and no traceback, whenever it comes."""

    def stopped(self, process):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 130
        assert "Traceback" not in errors
        assert "Exception ignored" not in errors
        assert errors.count("sparsect: stopped") == 1

    @pytest.mark.parametrize(
        "module",
        [
            "sparsect.backend.interrupts",
            "numpy.linalg",
            "numpy",
            "sparsect.backend.arrays",
            "sparsect.solvers",
            "sparsect.dictionary",
            "click",
            "rich.console",
            "sparsect.cli.common",
            "sparsect.cli",
            "llvmlite.binding",
            "numba.core.types",
            "numba",
        ],
    )
    def test_while_modules_are_loaded(self, started, monkeypatch, module):
        monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
        process = started(*ENDLESS)
        for line in process.stderr:
            if line.split()[-1] == module:
                break
        os.kill(process.pid, signal.SIGINT)
        self.stopped(process)

    def test_while_a_checkpoint_is_written(self, started, tmp_path):
        """At three moments, nearly all of them within the writing of a file: there is little else to do."""
        arguments = (*ENDLESS, "--batch", "200", "--method", "difference-map", "--checkpoint", "run.npz")
        for moment in range(3):
            process = started(*arguments)
            seen = (tmp_path / "run.npz").stat().st_mtime_ns if moment else 0
            while not (tmp_path / "run.npz").exists() or (tmp_path / "run.npz").stat().st_mtime_ns == seen:
                assert process.poll() is None
                time.sleep(0.003 * moment)
            os.kill(process.pid, signal.SIGINT)
            self.stopped(process)
            assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]

    @pytest.mark.parametrize(
        "command",
        [
            # What closes a file may raise something else.
            "try:\n  signal.raise_signal(signal.SIGINT)\n finally:\n  raise ValueError('an open writing handle')",
            # Python drops what is raised in a destructor.
            "Dying(); time.sleep(600)",
            # Python ends with the signal itself if code in a string is interrupted.
            "exec('signal.raise_signal(signal.SIGINT)')",
        ],
    )
    def test_that_do_not_come_through(self, tmp_path, command):
        script = f"""
import signal, time
from sparsect import cli

class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def main(**options):
 {command}

signal.signal(signal.SIGINT, signal.default_int_handler)
cli.cli.main = main
cli.main()
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 130
        assert done.stderr.startswith("sparsect: stopped")
        assert done.stderr.count("\n") == 1
