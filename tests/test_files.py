"""Arrays in and out of files: every format, and every way a file can be wrong."""

import multiprocessing
import os
import signal
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import sparsect
from sparsect import InputError, files

MATRIX = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", MATRIX)
    np.savez("one.npz", anything=MATRIX)
    np.savez("two.npz", Phi=MATRIX, y=MATRIX[0])
    scipy.io.savemat("a.mat", {"A": MATRIX, "b": MATRIX[0]})
    np.savetxt("a.csv", MATRIX, delimiter=",")
    scipy.sparse.save_npz("sparse.npz", scipy.sparse.csr_array(MATRIX))
    return tmp_path


@pytest.mark.parametrize("name", ["a.npy", "one.npz", "two.npz", "two.npz:Phi", "a.mat:A", "a.csv"])
def test_read(there, name):
    np.testing.assert_array_equal(files.read_array(name, prefer=("Phi",)), MATRIX)


def test_read_sparse(there):
    found = files.read_array("sparse.npz")
    assert scipy.sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), MATRIX)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.npy", "no such file"),
        ("a.txt", r"got a file of type '\.txt', accepted is \.npy"),
        ("two.npz", r"got 2 arrays \(Phi, y\), say which one"),
        ("two.npz:Phy", "did you mean 'Phi'"),
        (".", "got a file of type 'unknown'"),
    ],
)
def test_what_cannot_be_read(there, name, message):
    with pytest.raises(InputError, match=message):
        files.read_array(name)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".csv"])
@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY garbage", b"PK\x03\x04", b"a,b\n1,2\n", b"1,2\n3\n", bytes(range(256)) * 9]
)
def test_damaged(tmp_path, suffix, content):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match="bad"):
        files.read_array(path)


def test_truncated(there):
    for name in ("a.npy", "two.npz", "a.mat"):
        content = (there / name).read_bytes()
        (there / name).write_bytes(content[: len(content) * 2 // 3])
        with pytest.raises(InputError, match="damaged"):
            files.read_array(name)


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}], dtype=object))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(InputError, match="damaged or not what its name says"):
            files.read_array(tmp_path / name)


def test_huge_declared_size(tmp_path):
    """A short file whose header declares a terabyte is refused before anything is allocated."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    header = header.ljust(118 - 1) + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(InputError, match=r"a\.npy"):
        files.read_array(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", b"")
        archive.infolist()[0].file_size = 2**42
    with pytest.raises(InputError, match=r"a\.npz: its arrays take 4096\.0 GiB"):
        files.read_array(tmp_path / "a.npz")


def test_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.npz"
    files.write_npz(path, {"x": np.ones(3)})
    before = path.read_bytes()

    def fail_half_way():
        with files.replacing(path) as temporary:
            temporary.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.npz"]


def test_what_a_killed_process_leaves_is_written_over(tmp_path):
    writer = multiprocessing.get_context("spawn").Process(target=_killed_while_writing, args=(tmp_path / "x.npz",))
    writer.start()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    files.write_npz(tmp_path / "x.npz", {"x": np.ones(3)})
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.npz"]
    np.testing.assert_array_equal(files.read_array(tmp_path / "x.npz"), np.ones(3))


def _killed_while_writing(path):
    with files.replacing(path) as temporary:
        temporary.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def test_two_who_write_at_once_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "x.txt"
    with files.replacing(path) as first, files.replacing(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(files.fcntl, "flock", refuse)
    with files.reserved(tmp_path / "x.txt"), files.reserved(tmp_path / "x.txt"):
        with files.replacing(tmp_path / "x.txt") as temporary:
            temporary.write_text("whole")
        assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


def test_what_is_reserved_is_refused_until_it_is_free(tmp_path):
    path = tmp_path / "new" / "x.npz"
    with (
        files.reserved(path),
        pytest.raises(InputError, match=r"x\.npz: another process is writing"),
        files.reserved(path),
    ):
        pass
    with files.reserved(path):
        assert [entry.name for entry in path.parent.iterdir()] == [".x.npz.lock"]
    assert not list(path.parent.iterdir())


def test_an_interrupt_waits_until_a_file_is_whole(tmp_path):
    def write():
        with files.replacing(tmp_path / "x.txt") as temporary:
            signal.raise_signal(signal.SIGINT)
            temporary.write_text("whole")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            write()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "x.txt").read_text() == "whole"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


@pytest.mark.parametrize("read", [files.read_array, files.read_npz, files.read_text, sparsect.load_dictionary])
def test_only_regular_files_are_read(tmp_path, read):
    """A device has no end, and nobody may ever write to a pipe."""
    path = tmp_path / "x.npz"
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"x\.npz: got a device, pipe or socket, accepted is a regular file"):
        read(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="got a device, pipe or socket"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="got a folder"):
        read(path)
    path.rmdir()
    path.symlink_to(path)
    with pytest.raises(InputError, match="Too many levels of symbolic links"):
        read(path)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        read(path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{", b"[" * 100_000])
def test_damaged_json(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.json: damaged"):
        files.read_json(tmp_path / "x.json")


@pytest.mark.parametrize("path", ["/proc/nowhere/x.npz", "/dev/null/x.npz"])
def test_unwritable(path):
    with pytest.raises(InputError, match="cannot be written"):
        files.check_writable(path)
    with pytest.raises(InputError, match="cannot be written"):
        files.write_npz(path, {"x": np.ones(3)})


def test_result_comes_back(tmp_path):
    problem = sparsect.random_problem(20, 40, 3, batch=2, rng=0)
    for y in (problem.y, problem.y[0]):
        result = sparsect.recover(problem.Phi, y, 3, "difference-map", record=("gap", "x"))
        result.save(tmp_path / "x.npz")
        loaded = sparsect.load_result(tmp_path / "x.npz")
        assert loaded.method == "DifferenceMap(beta=0.14, data_set=None)"
        for name in ("x", "support", "gap", "residual_norm", "n_iter", "converged", "seconds", "sparsity"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(result, name))
        np.testing.assert_array_equal(loaded.history["x"], result.history["x"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.full((2, 40), np.nan)}, "x has entries that are NaN"),
        ({"x": np.full((2, 40), np.inf)}, "x is not finite"),
        ({"x": np.zeros((2, 40), int)}, "x has dtype int64"),
        ({"x": np.zeros((3, 40))}, r"has dtype .* and shape \(2"),
        ({"x": np.float64(1.0)}, "x has dtype float64"),
        ({"support": np.ones((2, 40), bool)}, "support is not where"),
        ({"gap": np.array(["a", "b"])}, "gap has dtype <U1"),
        ({"n_iter": np.zeros(3, int)}, "n_iter has dtype int64"),
        ({"seconds": np.array([1.0])}, "seconds has dtype"),
        ({"method": np.float64(1.0)}, "method has dtype float64"),
        ({"history/gap": np.zeros((99, 2))}, "history do not fit"),
        ({"history/gap": np.float64(1.0)}, "history do not fit"),
    ],
)
def test_a_damaged_result_is_refused(tmp_path, changes, message):
    problem = sparsect.random_problem(20, 40, 3, batch=2, rng=0)
    sparsect.recover(problem.Phi, problem.y, 3).save(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", **dict(np.load(tmp_path / "x.npz")) | changes)
    with pytest.raises(InputError, match=rf"x\.npz: damaged \(.*{message}"):
        sparsect.load_result(tmp_path / "x.npz")


def test_not_a_result(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    with pytest.raises(InputError, match="not a result of sparsect"):
        sparsect.load_result(tmp_path / "x.npz")
