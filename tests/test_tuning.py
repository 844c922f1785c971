"""The two-stage grid search: its grids, its winner, its files."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

import sparsect
from sparsect import InputError, tuning
from sparsect.backend.journal import HEAD
from sparsect.backend.locks import reserved
from sparsect.tuning import GRIDS, LinearGrid, LogarithmicGrid, Training, tune, tuned

pytestmark = pytest.mark.slow

TINY = Training(m=20, n=40, sparsities=(3, 5), snr_db=20.0, problems=2, seed=7)


class TestGrids:
    def test_beta_as_in_the_paper(self):
        grid = LinearGrid(("beta",))
        coarse = [point["beta"] for point in grid.coarse()]
        assert coarse == [round(0.1 * k, 1) for k in range(-12, 13) if k]
        fine = [point["beta"] for point in grid.fine({"beta": 0.3})]
        assert (fine[0], fine[-1], len(fine)) == (-0.2, 0.8, 100)
        assert 0 not in fine

    def test_powers_of_ten_as_in_the_paper(self):
        grid = LogarithmicGrid(("mu", "lam"))
        coarse = grid.coarse()
        assert len(coarse) == 121
        assert {point["mu"] for point in coarse} == {float(f"1e{k}") for k in range(-5, 6)}
        fine = grid.fine({"mu": 100.0, "lam": 0.1})
        assert len(fine) == 121
        assert fine[0]["mu"] == pytest.approx(10**1.5, rel=1e-3)
        assert fine[-1]["lam"] == pytest.approx(10**-0.5, rel=1e-3)


def test_training_problems_do_not_tell_the_noise():
    problems = TINY.draw()
    assert [problem.sparsity for problem in problems] == [3, 5]
    assert all(problem.noise_norm is None and problem.batch == 2 for problem in problems)


def test_the_winner_has_the_least_error_of_all_points(tmp_path):
    rows = tmp_path / "rows.jsonl"
    result = tune("difference-map", TINY, max_iter=20, rows=rows)
    points = [row for stage in result.stages for row in stage]
    assert len(points) == 24 + len(GRIDS["difference-map"].fine(result.values))
    assert result.error == min(row["error"] for row in points)
    errors = []
    for problem in TINY.draw():
        x = sparsect.solve(problem, sparsect.DifferenceMap(**result.values), max_iter=20).x
        errors.append(sparsect.mse(problem.x, x))
    assert np.mean(errors) == pytest.approx(result.error, rel=1e-6)
    result.save(tmp_path / "tuned.json")
    assert json.loads((tmp_path / "tuned.json").read_text())["training"]["sparsities"] == [3, 5]

    # Go on from the file with its last line cut short: nothing but that line is computed again.
    before = rows.read_text()
    rows.write_text(before[:-10])
    again = tune("difference-map", TINY, max_iter=20, rows=rows)
    assert again.values == result.values
    assert len(rows.read_text().splitlines()) <= len(before.splitlines()) + 1

    with pytest.raises(InputError, match=r"must hold results of the same settings, got other values of max_iter\."):
        tune("difference-map", TINY, max_iter=21, rows=rows)


@pytest.mark.parametrize(
    "line",
    [
        "3",
        "{}",
        '["beta = 0.1", NaN]',
        '["beta = 0.1", "1"]',
        '["beta = 0.1", -1.0]',
    ],
    ids=range(5),
)
def test_rows_that_are_no_results_are_refused(tmp_path, line):
    rows = tmp_path / "rows.jsonl"
    settings = {"method": "difference-map", "training": dataclasses.asdict(TINY), "max_iter": 20}
    rows.write_text(f"{json.dumps({HEAD: settings})}\n{line}\n")
    with pytest.raises(InputError, match=r"rows\.jsonl` must hold the result of a task in line 2, got "):
        tune("difference-map", TINY, max_iter=20, rows=rows)


def test_rows_that_another_process_writes_are_refused(tmp_path):
    rows = tmp_path / "rows.jsonl"
    with reserved(rows), pytest.raises(InputError, match=r"rows\.jsonl: another process is writing to it"):
        tune("difference-map", TINY, max_iter=20, rows=rows)


@pytest.mark.parametrize("method", GRIDS)
def test_shipped_values_are_the_defaults_and_say_what_they_were_tuned_on(method):
    shipped = tuned(method)
    assert shipped.training["m"] in (200, 400)
    assert shipped.training["n"] == 2.5 * shipped.training["m"]
    assert shipped.training["seed"] >= 10_000_000
    solver = sparsect.METHODS[method]()
    if method != "difference-map":  # whose default is the paper's value with the sign that works
        assert {name: getattr(solver, name) for name in shipped.values} == shipped.values


def test_errors():
    with pytest.raises(InputError, match=r"method` must .*one of 'difference-map', 'admm', 'irls'.*got 'omp'"):
        tune("omp")
    with pytest.raises(InputError, match=r"max_iter` must .*got 0"):
        tune("admm", TINY, max_iter=0)
    with pytest.raises(InputError, match=r"method` must .*got 'lars'"):
        tuning.tuned("lars")
    for setting in ("foo", 3, None):
        with pytest.raises(InputError, match=r"setting` must .*one of 'random-measurements', 'image-patches'.*got .*"):
            tuning.tuned("admm", setting)


def test_command_line(tmp_path):
    command = [
        sys.executable,
        "-m",
        "sparsect",
        "tune",
        "difference-map",
        "--size",
        "20x40",
        "-s",
        "3",
        "--problems",
        "1",
    ]
    command += ["--max-iter", "5", "--out", "beta.json", "--plot", "beta.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("difference-map: beta = ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beta.json", "beta.png"]
    for arguments, message in (
        (["omp"], r"got 'omp'"),
        (["admm", "--size", "9"], r"got '9'"),
    ):
        done = subprocess.run([*command[:4], *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert message in done.stderr


SEARCH = ("tune", "difference-map", "--size", "20x40", "-s", "3", "--max-iter", "5000", "--workers", "2")


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_workers_end_when_the_search_is_killed(started, tmp_path):
    process, rows = started(*SEARCH), tmp_path / "tuned.rows.jsonl"
    wait_for(lambda: rows.exists() and rows.read_text().count("\n") > 1)
    workers = psutil.Process(process.pid).children()
    assert len(workers) >= 2
    process.kill()
    wait_for(lambda: not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers))
    process.communicate()


def test_interrupted_while_workers_start(started, tmp_path):
    process = started(*SEARCH)
    wait_for((tmp_path / "tuned.rows.jsonl").exists)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.strip().startswith("sparsect: stopped")
    assert errors.strip().count("\n") == 0


def test_image_settings_say_what_they_were_tuned_on():
    for method in GRIDS:
        shipped = tuned(method, "image-patches")
        assert shipped.training["patches"] > 0
        sparsect.METHODS[method](**shipped.values)
