"""Files that are written completely or not at all, and by one process at a time."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from sparsect import InputError
from sparsect.backend import files, locks
from sparsect.backend.locks import reserved
from sparsect.backend.writing import check_writable, replacing


def test_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.npz"
    files.write_npz(path, {"x": np.ones(3)})
    before = path.read_bytes()

    def fail_half_way():
        with replacing(path) as temporary:
            temporary.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_is_written_through(exists, tmp_path):
    (tmp_path / "there").mkdir()
    target, path = tmp_path / "there" / "target.npz", tmp_path / "link.npz"
    path.symlink_to(target)
    if exists:
        target.write_bytes(b"before")
    check_writable(path)
    files.write_npz(path, {"x": np.ones(3)})
    assert path.is_symlink()
    assert not target.is_symlink()
    np.testing.assert_array_equal(files.read_npz(target)["x"], np.ones(3))
    assert [entry.name for entry in target.parent.iterdir()] == ["target.npz"]


def test_a_symbolic_link_into_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "link.npz").symlink_to("/proc/target.npz")
    with pytest.raises(InputError, match=r"link\.npz: cannot be written"):
        check_writable(tmp_path / "link.npz")


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
    with replacing(path) as temporary:
        temporary.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def test_two_who_write_at_once_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "x.txt"
    with replacing(path) as first, replacing(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with reserved(tmp_path / "x.txt"), reserved(tmp_path / "x.txt"):
        with replacing(tmp_path / "x.txt") as temporary:
            temporary.write_text("whole")
        assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


def test_what_is_reserved_is_refused_until_it_is_free(tmp_path):
    path = tmp_path / "new" / "x.npz"
    with (
        reserved(path),
        pytest.raises(InputError, match=r"x\.npz: another process is writing"),
        reserved(path),
    ):
        pass
    with reserved(path):
        assert [entry.name for entry in path.parent.iterdir()] == [".x.npz.lock"]
    assert not list(path.parent.iterdir())


def test_an_interrupt_waits_until_a_file_is_whole(tmp_path):
    def write():
        with replacing(tmp_path / "x.txt") as temporary:
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


@pytest.mark.parametrize("path", ["/proc/nowhere/x.npz", "/dev/null/x.npz"])
def test_unwritable(path):
    with pytest.raises(InputError, match="cannot be written"):
        check_writable(path)
    with pytest.raises(InputError, match="cannot be written"):
        files.write_npz(path, {"x": np.ones(3)})
