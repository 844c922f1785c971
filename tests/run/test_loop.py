"""The loop: stopping, callbacks, history, the clock, and runs that are saved and resumed."""

import dataclasses
import os
import signal
import time
import zipfile

import numpy as np
import pytest
import scipy.sparse

import sparsect
from sparsect import DifferenceMap, InputError
from sparsect.run.checkpoint import checksum
from sparsect.run.trace import Clock

pytestmark = pytest.mark.numerical


@pytest.fixture
def problem():
    return sparsect.random_problem(40, 80, 10, batch=6, rng=3)


def run(problem, **options):
    return sparsect.recover(problem.Phi, problem.y, problem.sparsity, **options)


class TestStopping:
    def test_max_iter(self, problem):
        assert run(problem, method="annealed-difference-map", max_iter=7, tol=0).n_iter.tolist() == [7] * 6

    def test_max_seconds(self, problem):
        result = run(problem, method="difference-map", max_seconds=0.05, max_iter=10**9, tol=0)
        assert result.seconds >= 0.05
        assert 0 < result.n_iter.max() < 10**9

    def test_tolerance_is_relative_to_the_start(self, problem):
        loose = run(problem, method="difference-map", tol=1e-2)
        scaled = sparsect.recover(problem.Phi, 1000 * problem.y, 10, "difference-map", tol=1e-2)
        np.testing.assert_array_equal(loose.n_iter, scaled.n_iter)
        start = np.linalg.norm(np.linalg.pinv(problem.Phi) @ problem.y.T, axis=0)
        assert (loose.gap <= 1e-2 * start).all()

    def test_converged_rows_leave_the_batch(self, problem):
        sizes = []

        class Watching(DifferenceMap):
            compiled = False

            def step(self, problem, state):
                sizes.append(state.x.shape[0])
                return super().step(problem, state)

        result = run(problem, method=Watching())
        assert result.converged.all()
        assert len(set(result.n_iter.tolist())) > 1
        assert sizes == [int((result.n_iter > step).sum()) for step in range(result.n_iter.max())]

    def test_callback_stops(self, problem):
        seen = []

        def callback(snapshot):
            seen.append((snapshot.iteration, snapshot.x.shape, snapshot.criterion.shape, snapshot.support.shape))
            return snapshot.iteration == 4

        assert run(problem, callback=callback).n_iter.max() == 4
        assert seen == [(step, (6, 80), (6,), (6, 80)) for step in (1, 2, 3, 4)]


class TestHistory:
    def test_chosen_measures_at_chosen_iterations(self, problem):
        measures = {"snr": lambda snapshot: sparsect.snr_db(problem.x, snapshot.x)}
        history = run(problem, record=measures, record_at=[5, 2, 30], max_iter=40, tol=0).history
        assert history["iteration"].tolist() == [2, 5, 30]
        assert history["snr"].shape == (3, 6)
        assert (np.diff(history["seconds"]) > 0).all()
        assert history["snr"][2].mean() > history["snr"][0].mean()

    def test_named_measures(self, problem):
        record = ("gap", "residual_norm", "x", "support", "converged")
        result = run(problem, method="difference-map", record=record, record_at=20, max_iter=20, tol=0)
        np.testing.assert_array_equal(result.history["x"][0], result.x)
        np.testing.assert_array_equal(result.history["gap"][0], result.gap)
        np.testing.assert_array_equal(result.history["residual_norm"][0], result.residual_norm)
        np.testing.assert_array_equal(result.history["support"][0], result.support)

    def test_finished_rows_keep_their_values(self, problem):
        result = run(problem, method="difference-map", record=("x", "gap"), record_at=1)
        last = result.n_iter.max() - 1
        np.testing.assert_array_equal(result.history["x"][last], result.x)
        early = int(np.argmin(result.n_iter))
        assert (result.history["gap"][result.n_iter[early] - 1 :, early] == result.gap[early]).all()

    def test_single_vector_has_no_batch_axis(self, problem):
        result = sparsect.recover(problem.Phi, problem.y[0], 10, "difference-map", record=("gap", "x"), record_at=10)
        assert result.history["gap"].ndim == 1
        assert result.history["x"].shape[1:] == (80,)
        assert isinstance(result.gap, float)
        assert result.converged is True

    def test_the_clock_stands_still_while_measuring(self, problem, monkeypatch):
        """A clock that only measures and callbacks move: none of it is counted."""
        now = [0.0]
        monkeypatch.setattr("sparsect.run.trace.time.perf_counter", lambda: now[0])

        def slow(snapshot):
            now[0] += 1.0
            return snapshot.criterion

        def slow_callback(snapshot):
            now[0] += 1.0
            return False

        result = run(problem, record={"slow": slow}, record_at=1, callback=slow_callback, max_iter=5, tol=0)
        assert now[0] == 10
        assert result.seconds == 0

    def test_the_clock_counts_only_inside(self, monkeypatch):
        now = iter([1.0, 4.0, 10.0, 10.5])
        monkeypatch.setattr("sparsect.run.trace.time.perf_counter", lambda: next(now))
        clock = Clock()
        for _ in range(2):
            with clock.running():
                pass
        assert clock.seconds == 3.5

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"record": ["x", "supprt"]}, r"record` must .*got 'supprt'.*Did you mean 'support'"),
            ({"record": {"mine": 3}}, r"record` must .*got 3 for 'mine'"),
            ({"record_at": 0}, r"record_at` must .*got 0"),
            ({"record": 3}, r"record` must .*got 3"),
            ({"record": "gap"}, r"record` must be .*disagreement.*got 'gap'"),
            ({"record": {"seconds": len}}, r"record` must .*got 'seconds'"),
            ({"record": {"odd": lambda snapshot: np.zeros(snapshot.iteration)}}, "always of one shape"),
            ({"callback": 3}, r"callback` must .*got 3"),
            ({"checkpoint": "/proc/nowhere/run.npz"}, "cannot be written"),
            ({"record_at": [3, -1]}, r"record_at` must .*got -1"),
        ],
    )
    def test_errors(self, problem, options, message):
        with pytest.raises(InputError, match=message):
            run(problem, **options)


METHODS = [DifferenceMap(), DifferenceMap(beta=1.0, data_set=sparsect.Relaxed(0.1)), sparsect.AlternatingMap()]


def craft(path, change):
    """Change the arrays of a checkpoint, and its checksum with them."""
    arrays = dict(np.load(path))
    del arrays["checksum"]
    change(arrays)
    np.savez(path, **arrays, checksum=np.array(checksum(arrays)))


def put(name, value, *place):
    """Put a value at a place of an array, or everywhere."""
    return lambda arrays: arrays[name].__setitem__(place or ..., value)


def turn(name, function):
    """Replace an array by a function of it."""
    return lambda arrays: arrays.__setitem__(name, function(arrays[name]))


# Who would use it, what is made up, how it is told.
CRAFTED = {
    "columns that do not exist": ("omp", put("state/order", 10**7), r"order` must .*got an entry out of range"),
    "a column before the first": ("ormp", put("state/order", -1), r"order` must .*got an entry out of range"),
    "too many columns": ("omp", put("state/taken", 11), r"taken` must .*got an entry out of range"),
    "fewer than no columns": ("omp", put("state/taken", -1), r"state/taken` must .*got an entry out of range"),
    "a short factor": ("omp", turn("state/R", lambda R: R[:, :3]), r"state/R has dtype float64 and shape \(\d, 3\)"),
    "columns of other numbers": ("omp", turn("state/order", np.float64), "state/order has dtype float64"),
    "a path of columns that do not exist": (
        "lars",
        put("state/order", 10**7),
        r"order` must .*got an entry out of range",
    ),
    "a path that is too long": ("lars", put("state/size", 17), r"size` must .*got an entry out of range"),
    "a path of one column twice": ("lars", put("state/order", 5), "order and status do not name the same columns"),
    "a status that is none": ("lars", put("state/status", 3, 0, 0), r"status` must .*got an entry out of range"),
    "a column skipped that does not exist": ("lars", put("state/skip", 80), r"skip` must .*got an entry out of range"),
    "a short factor of a path": ("lars", turn("state/L", lambda L: L[:, :9]), "L has 9 entries a row for 16 columns"),
    "a factor that is not finite": ("lars", put("state/L", np.nan), "L is no Cholesky factor"),
    "steps of the path": ("lars", put("state/taken", 2**62), r"state/taken` must .*got an entry out of range"),
    "not a number": ("difference-map", put("state/x", np.nan, 0, 0), "state/x has entries that are NaN"),
    "a criterion that is not a number": (
        "difference-map",
        put("state/criterion", np.nan),
        r"state/criterion` must .*got an entry out of range",
    ),
    "an answer that is not sparse": (
        "niht",
        put("state/x", 1.0),
        r"nonzeros of the solution so far` must .*got an entry out of",
    ),
    "another dtype": ("difference-map", turn("state/x", np.float32), "state/x has dtype float32"),
    "words": ("difference-map", turn("state/x", lambda x: x.astype(str)), "state/x has dtype <U"),
    "fewer rows": ("difference-map", turn("state/x", lambda x: x[1:]), r"state/x has .* shape \(5, 80\)"),
    "a row twice": ("difference-map", put("rows", 1, 0), "do not make up the batch"),
    "a row that does not exist": ("difference-map", put("rows", 6, 5), "do not make up the batch"),
    "steps before the first": ("difference-map", put("iteration", -1), r"iteration` must .*got an entry out of range"),
    "no number of steps": ("difference-map", turn("iteration", np.float64), "iteration has dtype float64"),
    "time before the start": ("difference-map", put("seconds", -1.0), r"seconds` must .*got an entry out of range"),
    "no time": ("difference-map", put("seconds", np.nan), r"seconds` must .*got an entry out of range"),
    "a short history": ("difference-map", turn("history/gap", lambda gap: gap[1:]), "history/gap does not fit"),
    "moments of several seconds": ("difference-map", turn("history/seconds", lambda t: t[:, None]), "not one number"),
    "answers done that are out of range": ("omp", put("done/0/x", 1e300, 0, 0), "done/0/x has .* too large for Phi"),
    "a history of words": ("difference-map", turn("history/gap", lambda gap: gap.astype(str)), "history/gap does not"),
    "answers done that are not numbers": ("omp", put("done/0/x", np.nan), "done/0/x has entries that are NaN"),
    "answers done that are not sparse": (
        "omp",
        put("done/0/x", 1.0),
        r"nonzeros of done/0/x` must .*got an entry out of",
    ),
    "answers done that are short": ("omp", turn("done/0/x", lambda x: x[:, 1:]), r"done/0/x has .* shape \(\d, 79\)"),
    "rows done twice": ("omp", put("done/0/rows", 0), "do not make up the batch"),
    "rows done in more steps than there were": (
        "omp",
        put("done/0/n_iter", 99),
        r"n_iter` must .*got an entry out of range",
    ),
}


class TestRepr:
    def test_batch(self, problem):
        result = run(problem, method="omp")
        assert repr(result).splitlines() == [
            "Result of OrthogonalMatchingPursuit()",
            "  signals:       6 (x: shape (6, 80), float64)",
            "  nonzeros:      10 (sparsity 10)",
            f"  ||Phi x - y||: {result.residual_norm.min():.3g} to {result.residual_norm.max():.3g}",
            f"  converged:     {result.converged.sum()} of 6",
            "  iterations:    10",
            f"  seconds:       {result.seconds:.3g} (set-up {result.setup_seconds:.3g})",
        ]

    def test_single_signal_saved_and_loaded(self, problem, tmp_path):
        result = sparsect.recover(problem.Phi, problem.y[0], 10, method="omp")
        assert "1 (x: shape (80,), float64)" in repr(result)
        assert f"||Phi x - y||: {result.residual_norm:.3g}\n" in repr(result)
        result.save(tmp_path / "result.npz")
        assert repr(sparsect.load_result(tmp_path / "result.npz")) == repr(result)

    def test_other_array_library(self, problem):
        torch = pytest.importorskip("torch")
        Phi, y = torch.asarray(problem.Phi), torch.asarray(problem.y)
        result = sparsect.recover(Phi, y, 10, "difference-map", max_iter=5, check_fit=False)
        assert "6 (x: shape (6, 80), float64)" in repr(result)
        assert "iterations:    5\n" in repr(result)

    def test_no_signals(self, problem):
        result = run(problem, method="omp")
        none = {name: getattr(result, name)[:0] for name in result.PER_ROW if getattr(result, name) is not None}
        assert "||Phi x - y||: none\n" in repr(dataclasses.replace(result, **none))

    def test_length_does_not_grow_with_the_data(self, problem):
        result = dataclasses.replace(run(problem, max_iter=5), method="a" * 10_000)
        assert len(repr(result)) < 500
        assert len(result._repr_html_()) < 1000

    def test_html_is_escaped(self, problem):
        result = dataclasses.replace(run(problem, method="omp"), method="<b>own</b>", sparsity="<i>")
        table = result._repr_html_()
        assert table.startswith("<table>")
        assert table.endswith("</table>")
        assert "&lt;b&gt;own&lt;/b&gt;" in table
        assert "(sparsity &lt;i&gt;)" in table
        assert "<b>" not in table
        assert "<i>" not in table


class TestCheckpoint:
    @pytest.mark.parametrize("method", METHODS, ids=["beta 0.14", "beta 1", "alternating"])
    def test_resumed_equals_unbroken_bit_for_bit(self, tmp_path, problem, method):
        options = {"method": method, "record": ("gap", "x"), "record_at": 3}
        unbroken = run(problem, max_iter=120, **options)
        path = tmp_path / "run.npz"
        for stop in (10, 11, 50, 120):
            resumed = run(problem, max_iter=stop, checkpoint=path, **options)
        for name in ("x", "gap", "n_iter", "converged", "residual_norm"):
            np.testing.assert_array_equal(getattr(resumed, name), getattr(unbroken, name))
        for name in ("iteration", "gap", "x"):
            np.testing.assert_array_equal(resumed.history[name], unbroken.history[name])

    def test_seconds_add_up(self, tmp_path, problem):
        path = tmp_path / "run.npz"
        first = run(problem, max_iter=20, tol=0, checkpoint=path)
        second = run(problem, max_iter=40, tol=0, checkpoint=path)
        assert second.seconds > first.seconds

    def test_an_interrupt_leaves_a_checkpoint(self, tmp_path, problem):
        path = tmp_path / "run.npz"

        def interrupt(snapshot):
            if snapshot.iteration == 13:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(problem, checkpoint=path, callback=interrupt, max_iter=30, tol=0)
        resumed = run(problem, checkpoint=path, max_iter=30, tol=0)
        np.testing.assert_array_equal(resumed.x, run(problem, max_iter=30, tol=0).x)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"y": 2.0}, "its y and noise_norm"),
            ({"Phi": 1.5}, "another Phi"),
            ({"Phi": -1.0}, "another Phi"),
            ({"sparsity": 9}, "its sparsity: 10, now 9"),
            ({"method": DifferenceMap(0.2)}, r"Automatic.*beta=0\.2"),
            ({"tol": 1e-3}, "its tol"),
        ],
    )
    def test_a_checkpoint_of_another_run_is_refused(self, tmp_path, problem, change, message):
        path = tmp_path / "run.npz"
        run(problem, max_iter=5, checkpoint=path)
        before = path.read_bytes()
        arguments = {"Phi": problem.Phi, "y": problem.y, "sparsity": 10} | {
            name: getattr(problem, name) * value if name in ("Phi", "y") else value for name, value in change.items()
        }
        with pytest.raises(InputError, match=message):
            sparsect.recover(**arguments, max_iter=5, checkpoint=path)
        assert path.read_bytes() == before

    def test_a_checkpoint_in_other_coordinates_is_refused(self, tmp_path, problem):
        path = tmp_path / "run.npz"
        run(problem, max_iter=5, checkpoint=path)
        with pytest.raises(InputError, match="its Phi: DenseOperator, now SparseOperator"):
            sparsect.recover(
                sparsect.SparseOperator(scipy.sparse.csr_array(problem.Phi)), problem.y, 10, checkpoint=path
            )
        with pytest.raises(InputError, match="factored otherwise"):
            sparsect.recover(
                sparsect.DenseOperator(problem.Phi, rank_tol=0.5), problem.y, 10, max_iter=9, checkpoint=path
            )

    def test_an_operator_that_was_factored_in_between(self, tmp_path, problem):
        operator, path = sparsect.as_operator(problem.Phi), tmp_path / "run.npz"
        for max_iter in (3, 5):
            sparsect.recover(operator, problem.y, 10, "omp", max_iter=max_iter, checkpoint=path)
            sparsect.recover(operator, problem.y, 10, "difference-map", max_iter=2)
        other = sparsect.as_operator(problem.Phi)
        assert sparsect.recover(other, problem.y, 10, "omp", max_iter=6, checkpoint=path).n_iter.max() == 6

    def test_a_part_that_is_no_array(self, tmp_path, problem):
        path = tmp_path / "run.npz"
        run(problem, max_iter=5, checkpoint=path)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("words", b"no array")
        with pytest.raises(InputError, match=r"run\.npz: damaged.*'words' is not an array"):
            run(problem, max_iter=9, checkpoint=path)

    def test_a_system_without_a_solution(self, tmp_path, problem):
        """Weights of zero, which only a made-up file has."""
        options = {"method": sparsect.IRLS(alpha=0.0), "checkpoint": tmp_path / "run.npz"}
        run(problem, max_iter=2, **options)

        def change(arrays):
            arrays["state/x"][0], arrays["state/epsilon"][0] = 0, 0

        craft(tmp_path / "run.npz", change)
        with pytest.warns(sparsect.ConvergenceWarning, match="1 of 6 rows diverged"):
            result = run(problem, max_iter=4, **options)
        assert np.isfinite(result.x).all()

    def test_an_answer_where_there_is_nothing_to_explain(self, tmp_path, problem):
        path, y = tmp_path / "run.npz", np.zeros_like(problem.y)
        sparsect.recover(problem.Phi, y, 10, "omp", max_iter=5, checkpoint=path)
        craft(path, put("done/0/x", 1.0, 0, 0))
        with pytest.warns(sparsect.PoorFitWarning, match="far from explaining y"):
            sparsect.recover(problem.Phi, y, 10, "omp", max_iter=5, checkpoint=path)

    @pytest.mark.parametrize(
        "missing", ["rows", "iteration", "seconds", "history/disagreement", "state/x", "state/criterion"]
    )
    def test_a_checkpoint_with_a_part_missing_is_refused(self, tmp_path, problem, missing):
        path = tmp_path / "run.npz"
        run(problem, max_iter=5, checkpoint=path)
        craft(path, lambda arrays: arrays.pop(missing))
        with pytest.raises(InputError, match=f"damaged, {missing} is missing"):
            run(problem, max_iter=9, checkpoint=path)

    def test_a_changed_checkpoint_is_told_by_its_checksum(self, tmp_path, problem):
        path = tmp_path / "run.npz"
        run(problem, max_iter=5, checkpoint=path)
        arrays = dict(np.load(path))
        arrays["state/x"][0, 0] += 1
        np.savez(path, **arrays)
        with pytest.raises(InputError, match=r"run\.npz: damaged \(its checksum"):
            run(problem, max_iter=9, checkpoint=path)

    @pytest.mark.parametrize("case", CRAFTED)
    def test_a_checkpoint_made_up_with_the_right_checksum_is_refused(self, tmp_path, problem, case):
        path = tmp_path / "run.npz"
        method, change, message = CRAFTED[case]
        options = {"method": method, "checkpoint": path, "tol": 0, "record_at": 2}
        run(problem, max_iter=12 if "done" in case else 4, **options)
        craft(path, change)
        with pytest.raises(InputError, match=rf"run\.npz: damaged \(.*{message}"):
            run(problem, max_iter=20, **options)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("method", sparsect.METHODS)
    def test_every_solver_goes_on_from_its_own_checkpoint(self, tmp_path, problem, method, dtype):
        """A row of zeros is done at once, or starts with values that are not finite."""
        path, y = tmp_path / "run.npz", problem.y.astype(dtype)
        y[2] = 0

        def interrupt(snapshot):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sparsect.recover(problem.Phi, y, 10, method, max_iter=30, checkpoint=path, callback=interrupt)
        for _ in range(2):
            resumed = sparsect.recover(problem.Phi, y, 10, method, max_iter=30, checkpoint=path)
        unbroken = sparsect.recover(problem.Phi, y, 10, method, max_iter=30)
        np.testing.assert_array_equal(resumed.x != 0, unbroken.x != 0)

    @pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04broken"])
    def test_a_damaged_checkpoint_is_refused(self, tmp_path, problem, content):
        path = tmp_path / "run.npz"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"run\.npz: damaged"):
            run(problem, checkpoint=path)
        assert path.read_bytes() == content

    def test_another_npz_is_refused(self, tmp_path, problem):
        path = tmp_path / "other.npz"
        np.savez(path, x=np.zeros(3))
        with pytest.raises(InputError, match="not a checkpoint"):
            run(problem, checkpoint=path)

    def test_killed_by_ctrl_c_and_resumed_on_the_command_line(self, started, called, tmp_path):
        arguments = ["recover", "--random", "100x250", "-s", "60", "--snr", "10", "--max-iter", "1000000"]
        arguments += ["--tol", "0", "--checkpoint", "run.npz", "--out", "x.npz"]
        process = started(*arguments)
        deadline = time.monotonic() + 60
        while not (tmp_path / "run.npz").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Traceback" not in errors
        assert sorted(path.name for path in tmp_path.iterdir()) == ["run.npz"]
        stopped_at = int(np.load(tmp_path / "run.npz")["iteration"])
        assert stopped_at >= 100
        arguments[arguments.index("1000000")] = str(stopped_at + 5)
        assert called(*arguments).returncode == 0
        assert sparsect.load_result(tmp_path / "x.npz").n_iter.tolist() == [stopped_at + 5] * 10
