"""Journals: what is stored survives every stop, and what is foreign or damaged is refused and left as it is."""

import multiprocessing
import os
import signal

import pytest

from sparsect import InputError
from sparsect.backend.journal import HEAD, Journal

SETTINGS = {"runs": 2, "sizes": (3, 4)}


def number(value):
    """Results are numbers; negative ones are to be computed again."""
    if not isinstance(value, float):
        raise TypeError
    return value if value >= 0 else None


def opened(path, **settings):
    return Journal(path, SETTINGS | settings, number)


def filled(path, *, settings=SETTINGS, **results):
    journal = Journal(path, settings, number)
    with journal.writing():
        for key, result in results.items():
            journal.add(key, result)
    return journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "results.jsonl"


def test_results_are_kept(path):
    filled(path, one=1.0, two=float("inf"))
    assert opened(path).results == {"one": 1.0, "two": float("inf")}
    filled(path, three=3.0)
    assert list(opened(path).results) == ["one", "two", "three"]
    assert [entry.name for entry in path.parent.iterdir()] == ["results.jsonl"]


def test_without_a_file():
    assert filled(None, one=1.0).results == {"one": 1.0}


def test_tasks_to_be_repeated_are_left_out(path):
    assert filled(path, one=-1.0, two=2.0).results == {"one": -1.0, "two": 2.0}
    assert opened(path).results == {"two": 2.0}
    filled(path, one=1.0)
    assert opened(path).results == {"two": 2.0, "one": 1.0}


def test_the_last_result_counts(path):
    with filled(path, one=1.0).writing():
        pass
    filled(path, one=2.0)
    assert opened(path).results == {"one": 2.0}
    filled(path, one=-1.0)
    assert opened(path).results == {}


def test_half_a_line_is_no_result(path):
    filled(path, one=1.0)
    with path.open("a") as stream:
        stream.write('["two", 2')
    assert opened(path).results == {"one": 1.0}
    filled(path, three=3.0)
    assert opened(path).results == {"one": 1.0, "three": 3.0}


def test_what_a_killed_process_has_stored_is_kept(path):
    writer = multiprocessing.get_context("spawn").Process(target=_killed_while_writing, args=(path,))
    writer.start()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    assert filled(path, two=2.0).results == {"one": 1.0, "two": 2.0}


def _killed_while_writing(path):
    journal = opened(path)
    with journal.writing():
        journal.add("one", 1.0)
        os.kill(os.getpid(), signal.SIGKILL)


def test_other_settings_are_refused(path):
    filled(path, one=1.0)
    before = path.read_bytes()
    with pytest.raises(
        InputError, match=r"results\.jsonl` must hold .* got other values of runs, more\. Remove the file"
    ):
        opened(path, runs=3, more=None)
    assert path.read_bytes() == before


def test_without_results_settings_do_not_matter(path):
    filled(path, settings={"runs": 3}, one=-1.0)
    filled(path, one=1.0)
    assert opened(path).results == {"one": 1.0}


@pytest.mark.parametrize("content", ["{", "{}\n", "[]\n", "3\n", "\n", "a,b\n", "[" * 100_000, f'{{"{HEAD}": 3}}\n'])
def test_other_files_are_refused_and_left_as_they_are(tmp_path, content):
    path = tmp_path / "results.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=r"results\.jsonl` must be a journal of finished tasks, got "):
        filled(path, one=1.0)
    assert path.read_text() == content
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"results\.jsonl: damaged"):
        opened(path)


@pytest.mark.parametrize(
    "line",
    ["3", "[1]", '["a"]', '["a", 1]', '["a", 1.0, 2.0]', "[1, 1.0]", "{}", "[" * 100_000, "\0", "a"],
    ids=range(10),
)
def test_lines_without_a_result_are_refused_and_left_as_they_are(path, line):
    filled(path, one=1.0)
    path.write_text(before := path.read_text() + line + "\n")
    with pytest.raises(
        InputError, match=r"results\.jsonl` must hold the result of a task in line 3, got .*Remove that"
    ):
        filled(path, two=2.0)
    assert path.read_text() == before


def test_a_journal_that_another_process_writes_is_refused(path):
    first, second = opened(path), opened(path)
    with first.writing():
        first.add("one", 1.0)
        with pytest.raises(InputError, match=r"results\.jsonl: another process is writing to it"), second.writing():
            pass
    with second.writing():
        assert second.results == {"one": 1.0}


def test_a_full_disk_is_named(path):
    journal = opened(path)
    with journal.writing():
        path.unlink()
        path.symlink_to("/dev/full")
        with pytest.raises(InputError, match=r"results\.jsonl: cannot be written \(No space left"):
            journal.add("one", 1.0)
