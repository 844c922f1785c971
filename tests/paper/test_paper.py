"""Experiments: rows that survive a stop, tasks that do not disturb each other, claims judged from made-up rows."""

import dataclasses
import os
import signal
import sys
import time

import numpy as np
import pytest

import sparsect
from sparsect import InputError
from sparsect.paper import contenders, experiments, run
from sparsect.paper.claims import HOLDS, NOT, PARTLY, judge
from sparsect.paper.machine import Usage
from sparsect.paper.measurements import ErrorAgainstTime, RangeOfBeta, Setting, moments, settings_of
from sparsect.paper.photographs import Reconstructions, photograph
from sparsect.paper.report import write
from sparsect.paper.rows import Rows
from sparsect.paper.summary import at_end, curve, time_to_reach
from sparsect.paper.tables import snr_table

pytestmark = pytest.mark.slow

SMALL = Setting(30, 60, 4, 20.0)


def small_experiment(**changes):
    return ErrorAgainstTime("vary-sparsity", "small", (SMALL,), **{"runs": 2, "seconds": 0.2, "max_iter": 50} | changes)


def few(*names):
    return [contender for contender in contenders() if contender.name in names]


class TestRows:
    def filled(self, folder, settings, **tasks):
        rows = Rows(folder, settings)
        with rows.writing():
            for key, task in tasks.items():
                rows.add(key, task)
        return rows

    def test_kept_as_they_come(self, tmp_path):
        one, two = [{"x": 1.5, "name": "a, b"}, {"x": 2.0, "name": 'c "d"'}], [{"x": 3.0}]
        self.filled(tmp_path / "a", {"runs": 2}, one=one, two=two)
        again = Rows(tmp_path / "a", {"runs": 2})
        assert again.results == {"one": one, "two": two}
        assert [row["x"] for row in again.ordered(["two", "one"])] == [3.0, 1.5, 2.0]

    def test_failed_tasks_are_tried_again(self, tmp_path):
        rows = self.filled(tmp_path / "a", {}, one=[{"x": 1.0}], two=[{"failed": "why"}])
        assert rows.ordered([]) == [{"x": 1.0}, {"failed": "why"}]
        assert list(Rows(tmp_path / "a", {}).results) == ["one"]

    @pytest.mark.parametrize("value", [1, {"x": 1}, [1, 2], [{"x": [1, 2]}]], ids=range(4))
    def test_what_is_no_task_is_refused(self, tmp_path, value):
        self.filled(tmp_path / "a", {}, one=value)
        with pytest.raises(InputError, match=r"rows\.jsonl` must hold the result of a task in line 2"):
            Rows(tmp_path / "a", {})

    def test_tables(self, tmp_path):
        rows = Rows(tmp_path / "a", {})
        rows.export([{"solver": "omp", "snr_db": 2.0}, {"solver": "lars", "failed": "why"}])
        assert (tmp_path / "a" / "table.csv").read_text().splitlines() == [
            "solver,snr_db,failed",
            "omp,2.0,",
            "lars,,why",
        ]
        with np.load(tmp_path / "a" / "table.npz") as table:
            np.testing.assert_array_equal(table["snr_db"], [2.0, np.nan])
            assert list(table["solver"]) == ["omp", "lars"]


class TestRuns:
    def test_adding_a_solver_changes_no_other_row(self, tmp_path):
        def errors(table):
            return [
                (r["solver"], r["run"], r["iteration"], r["snr_db"])
                for r in table
                if "iteration" in r and "end" not in r
            ]

        experiment = small_experiment(seconds=60.0)
        alone = run(experiment, Rows(tmp_path / "a", {}), few("omp"))
        both = run(experiment, Rows(tmp_path / "b", {}), few("omp", "aiht", "difference-map"))
        assert errors(alone) == [row for row in errors(both) if row[0] == "omp"]

    def test_goes_on_where_it_stopped(self, tmp_path):
        experiment, solvers = small_experiment(), few("omp", "stomp")
        seen = []

        def stop(name, doing, done, total):
            seen.append(doing)
            if len(seen) == 6:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(experiment, Rows(tmp_path / "a", {}), solvers, stop)
        first = list(Rows(tmp_path / "a", {}).results)
        assert 0 < len(first) < 6
        seen.clear()
        run(experiment, Rows(tmp_path / "a", {}), solvers, lambda name, doing, done, total: seen.append(doing))
        assert not {key.replace("|", ", ") for key in first} & set(seen)

    def test_a_solver_that_fails_is_shown_and_the_rest_go_on(self, tmp_path):
        class Broken(sparsect.AlternatingMap):
            name = "broken"

            def init(self, problem):
                raise RuntimeError("out of order")

        class Nonsense(sparsect.AlternatingMap):
            name = "nonsense"

            def estimate(self, problem, state):
                return np.full_like(super().estimate(problem, state), np.nan)

        template = few("omp")[0]
        brought = [dataclasses.replace(template, name=kind.name, measurements=kind()) for kind in (Broken, Nonsense)]
        table = run(small_experiment(runs=1), Rows(tmp_path / "a", {}), [*brought, template])
        assert [(row["solver"], row["failed"]) for row in table if "failed" in row] == [
            ("broken", "RuntimeError: out of order"),
            ("nonsense", "ArithmeticError: an estimate that is not a number"),
        ]
        assert at_end(table, SMALL.label, "omp").size == 1

    def test_limits_bound_the_solvers(self, tmp_path):
        table = run(small_experiment(runs=4), Rows(tmp_path / "a", {}), few("omp", "difference-map"))
        known = at_end(table, SMALL.label, "support known").mean()
        assert known >= at_end(table, SMALL.label, "omp").mean() - 1e-9
        assert at_end(table, SMALL.label, "Bayes-optimal").size == 4

    def test_beta_side_by_side(self, tmp_path):
        experiment = RangeOfBeta("beta", "small", (SMALL,), (-0.5, 0.5), runs=2, max_iter=20)
        table = run(experiment, Rows(tmp_path / "a", {}), [])
        assert [(row["run"], row["beta"]) for row in table] == [(0, -0.5), (0, 0.5), (1, -0.5), (1, 0.5)]

    def test_photographs(self, tmp_path):
        experiment = Reconstructions(
            "photograph", "small", ("camera",), (5,), (0.01, 0.02), tmp_path / "photograph", max_iter=3
        )
        table = run(experiment, Rows(tmp_path / "photograph", {}), few("omp", "aiht"))
        assert {(row["solver"], row["limit"]) for row in table} == {
            (s, t) for s in ("omp", "aiht") for t in (0.01, 0.02)
        }
        assert all(row["refitted_snr_db"] >= row["snr_db"] - 1e-3 for row in table)
        assert (tmp_path / "photograph" / "camera-5-omp-difference.png").exists()
        assert photograph("camera").shape == (240, 320)

    def test_moments(self):
        assert moments(10) == [1, 2, 3, 4, 5, 6, 7, 9]


TWO_RUNS = [
    {"setting": "a", "solver": "x", "run": number, "seconds": seconds, "snr_db": snr} | ({"end": 1} if last else {})
    for number, points in enumerate(([(1.0, 5.0), (2.0, 9.0)], [(1.5, 7.0), (4.0, 20.0)]))
    for last, (seconds, snr) in enumerate(points)
]


class TestSummary:
    def test_curves_are_what_had_been_reached(self):
        found = curve(TWO_RUNS, "a", "x", np.array([0.5, 1.0, 1.7, 5.0]))
        np.testing.assert_array_equal(found, [[np.nan, 5, 5, 9], [np.nan, np.nan, 7, 20]])

    def test_ends_and_times(self):
        np.testing.assert_array_equal(at_end(TWO_RUNS, "a", "x"), [9, 20])
        assert time_to_reach(TWO_RUNS, "a", "x", 6.0) == pytest.approx(1.75)
        assert time_to_reach(TWO_RUNS, "a", "x", 30.0) == np.inf


class TestTables:
    def test_means_over_runs(self):
        head, lines = snr_table("vary-noise", [*TWO_RUNS, {"setting": "a", "solver": "Bayes-optimal", "snr_db": 30.0}])
        assert head == ["SNR (dB)", "a"]
        assert lines[:2] == [["x", "14.5 ± 5.5"], ["Bayes-optimal", "30.0"]]

    def test_a_cell_is_empty_if_no_run_is_finished_and_tells_if_all_have_failed(self):
        end = {"snr_db": 20.0, "run": 0, "end": 1}
        rows = [{"setting": setting, "solver": "omp"} | end for setting in ("a", "b", "c")]
        rows += [
            {"setting": "a", "solver": "auto"} | end,
            {"setting": "b", "solver": "auto", "failed": "why"},
            {"setting": "c", "solver": "auto", "run": 0, "snr_db": 3.0},
        ]
        assert snr_table("vary-noise", rows)[1][1] == ["auto", "20.0", "failed", ""]

    def test_beta(self):
        rows = [
            {"setting": "a", "run": run, "beta": beta, "snr_db": beta + run} for beta in (0.5, -0.5) for run in (0, 1)
        ]
        assert snr_table("beta", rows)[1] == [["beta = -0.5", "0.0 ± 0.5"], ["beta = +0.5", "1.0 ± 0.5"]]

    def test_photographs(self):
        row = {"image": "cat", "sparsity": 5, "limit": 0.1, "solver": "omp", "snr_db": 1.0, "refitted_snr_db": 2.0}
        rows = [row, row | {"sparsity": 9, "solver": "lars"}]
        assert snr_table("photograph", rows) == (
            ["SNR (dB), plain / refitted", "cat, s = 5, 0.1 s", "cat, s = 9, 0.1 s"],
            [["omp", "1.0 / 2.0", "failed"], ["lars", "failed", "1.0 / 2.0"]],
        )

    @pytest.mark.parametrize("name", ["vary-size", "beta", "photograph"])
    def test_nothing_is_finished(self, name):
        failed = {"setting": "a", "image": "a", "solver": "omp", "failed": "why"}
        assert snr_table(name, [failed])[1] == []


class TestMachine:
    def test_what_others_did(self):
        start = Usage(clock=100.0, all_programs=50.0, own=7.0)
        assert Usage(110.0, 75.0, 17.0).cores_used_by_others(start) == pytest.approx(1.5)
        assert Usage(110.0, 59.0, 17.0).cores_used_by_others(start) == 0
        assert Usage(110.0, None, 17.0).cores_used_by_others(start) is None
        assert start.cores_used_by_others(start) is None

    def test_the_own_work_counts(self):
        start = Usage.now()
        total = sum(number * number for number in range(1_000_000))
        assert total > 0
        assert Usage.now().own > start.own


class TestClaims:
    def rows(self, **snr):
        common = {"setting": "a", "run": 0, "seconds": 1.0, "setup_seconds": 0.1, "end": 1}
        return [common | {"solver": solver.replace("_", "-"), "snr_db": value} for solver, value in snr.items()]

    @pytest.mark.parametrize(("ours", "verdict"), [(15.0, HOLDS), (12.1, PARTLY), (9.0, NOT)])
    def test_a_lead_is_a_lead(self, ours, verdict):
        rows = self.rows(difference_map=ours, admm=12.0, irls=11.0)
        (claim,) = judge({"vary-size": rows})
        assert claim.verdict == verdict
        assert "best rival admm 12.0" in claim.measured

    def test_no_verdict_without_rows(self):
        failed = {"setting": "a", "image": "a", "solver": "difference-map", "failed": "why"}
        for tables in (
            {"vary-noise": self.rows(difference_map=10.0, admm=9.0)},
            {"vary-size": self.rows(admm=9.0)},
            {"vary-size": self.rows(difference_map=9.0)},
            {"vary-sparsity": self.rows(difference_map=9.0, admm=9.0)},
            {"photograph": [{"image": "a", "sparsity": 1, "limit": 1.0, "solver": "admm", "snr_db": 1.0}]},
            {"photograph": [failed], "beta": [failed], "vary-size": [failed]},
        ):
            assert list(judge(tables)) == []

    def test_beta(self):
        rows = [{"setting": "a", "beta": beta, "snr_db": 10.0 + (beta > 0)} for beta in (-0.5, -0.1, 0.1, 0.5, 0.9)]
        interval, sign = judge({"beta": rows})
        assert (interval.verdict, sign.verdict) == (HOLDS, NOT)


class TestContenders:
    def test_every_solver_takes_part(self):
        assert sorted(contender.name for contender in contenders()) == sorted(sparsect.METHODS)

    def test_brought_along(self, tmp_path, monkeypatch):
        (tmp_path / "mine.py").write_text("import sparsect\nclass Mine(sparsect.AlternatingMap):\n    name = 'mine'\n")
        monkeypatch.syspath_prepend(tmp_path)
        assert contenders(["mine:Mine"])[-1].name == "mine"
        sys.modules.pop("mine")

    @pytest.mark.parametrize(
        "where",
        ["nothing", ":", ":X", "no.such:Thing", "sparsect:NoSuch", "sparsect:Problem", "math:pi", "sparsect:ADMM"],
    )
    def test_what_is_no_solver_is_refused(self, where):
        with pytest.raises(InputError, match="--with"):
            contenders([where])


class TestReport:
    def test_of_an_experiment_that_has_just_begun(self, tmp_path):
        experiment = small_experiment(runs=1)
        rows = Rows(tmp_path / "vary-sparsity", settings_of(experiment))
        key, arguments = next(iter(experiment.tasks([])))
        with rows.writing():
            rows.add(key, experiment.compute(*arguments))
        path = write({"vary-sparsity": rows.ordered([])}, {"vary-sparsity": experiment}, tmp_path, [])
        assert "No run is finished yet" in path.read_text()

    def test_from_rows_alone(self, tmp_path):
        experiments = {
            "vary-sparsity": small_experiment(),
            "beta": RangeOfBeta("beta", "small", (SMALL,), (-0.5, 0.2, 0.5), runs=2, max_iter=20),
        }
        solvers = contenders()
        tables = {
            name: run(experiment, Rows(tmp_path / name, settings_of(experiment)), solvers)
            for name, experiment in experiments.items()
        }
        path = write(tables, experiments, tmp_path, ["a note"])
        text = path.read_text()
        assert text.count('class="chart whole"') == 2
        assert "verdict" in text
        # Nothing is fetched; a picture may spell http by chance.
        assert "http:" not in text
        assert "https:" not in text
        for name in experiments:
            assert (tmp_path / f"{name}.png").exists()
            assert (tmp_path / f"{name}.svg").exists()

    def test_the_list_of_experiments_is_complete(self, tmp_path):
        for quick in (True, False):
            assert set(experiments(tmp_path, quick)) == {
                "vary-sparsity",
                "vary-noise",
                "vary-size",
                "beta",
                "photograph",
                "gallery",
            }

    def test_the_command(self, called, tmp_path):
        done = called("experiment", "list")
        assert "vary-sparsity" in done.stdout
        done = called("experiment", "vary-sparcity")
        assert done.returncode == 2
        assert "Did you mean 'vary-sparsity'" in done.stderr
        done = called("experiment", "all", "--report-only")
        assert done.returncode == 2
        assert "got no rows" in done.stderr

    def test_the_command_shows_numbers_and_claims_nothing_that_was_not_seen(self, called, tmp_path):
        row = {"setting": SMALL.label, "run": 0, "beta": 0.5, "snr_db": 12.25}
        experiment = experiments(tmp_path / "out")["beta"]
        rows = Rows(tmp_path / "out" / "beta", settings_of(experiment))
        with rows.writing():
            rows.add("one", [row, row | {"beta": -0.5}])
        done = called("experiment", "beta", "--report-only", "--out", "out")
        assert done.returncode == 0, done.stderr
        assert "The range of beta" in done.stdout
        assert "beta = +0.5" in done.stdout
        assert "12.2" in done.stdout
        assert "±" not in done.stdout
        report = (tmp_path / "out" / "index.html").read_text()
        assert "alone on the machine" not in report
        assert "load from other programs during the measurements is not known" in report

    def test_interrupted_while_processes_work(self, started, tmp_path):
        process = started("experiment", "beta", "--out", "out")
        rows = tmp_path / "out" / "beta" / "rows.jsonl"
        while not rows.exists() or rows.read_text().count("\n") < 2:
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert errors.strip().startswith("sparsect: stopped")
        # Nobody of the group is left, once the last of them has seen that the first is gone.
        for _ in range(100):
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)
        pytest.fail("processes are left")
