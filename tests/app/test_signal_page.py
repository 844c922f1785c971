"""The page on which solvers race."""

import contextlib

import numpy as np
import pytest

from sparsect.app.work import Progress, signal

# How labels of the axes are aligned: those of x, and those of y.
ENDS = ("middle", "end")


def races(**settings):
    messages = []
    usual = {"m": 60, "n": 120, "sparsity": 8, "noise_db": None, "kind": "gaussian", "max_iter": 500, "seed": 0}
    usual |= {"methods": ["difference-map", "omp"], "max_seconds": 20.0}
    signal.race(messages.append, **usual | settings)
    return messages


def test_each_solver_runs_to_its_end_with_points_on_the_way():
    messages = races()
    (truth,) = [one.x for one in messages if isinstance(one, signal.Drawn)]
    ends = {one.method: one for one in messages if isinstance(one, signal.Arrived)}
    assert set(ends) == {"difference-map", "omp"}
    for method, end in ends.items():
        turns = [one for one in messages if isinstance(one, signal.Turn) and one.method == method]
        steps, seconds, ratios, _ = zip(*[point for turn in turns for point in turn.points], strict=True)
        assert list(steps) == sorted(steps)
        assert list(seconds) == sorted(seconds)
        assert end.recall == 1
        assert end.snr_db == ratios[-1]
        assert end.snr_db > 60
        np.testing.assert_allclose(turns[-1].x, truth, atol=1e-3)


def test_kernels_are_compiled_once_before_the_clocks_start_and_one_core_is_used(monkeypatch):
    limits = []
    monkeypatch.setattr(signal, "COMPILED", set())
    monkeypatch.setattr(signal, "_run", lambda *arguments: limits.append("run"))
    monkeypatch.setattr(signal, "threadpool_limits", lambda *limit: limits.append(limit) or contextlib.nullcontext())
    first, second = races(methods=["omp", "auto"]), races(methods=["omp", "admm"])
    assert limits == [(1, "blas"), "run", "run"] * 2
    words = [[one.words for one in messages if isinstance(one, Progress)] for messages in (first, second)]
    assert words[0][:3] == ["compiling omp", "compiling auto", "2 solvers race"]
    assert words[1][:2] == ["compiling admm", "2 solvers race"]
    assert isinstance(first[0], Progress)


def test_the_race_gives_what_recover_gives():
    import sparsect

    (turn,) = [one for one in races(methods=["omp"]) if isinstance(one, signal.Turn)]
    rng = np.random.default_rng(0)
    Phi = signal.matrix("gaussian", 60, 120, rng)
    x = np.zeros(120)
    x[rng.permutation(120)[:8]] = rng.standard_normal(8)
    np.testing.assert_allclose(turn.x, sparsect.recover(Phi, Phi @ x, 8, "omp").x, atol=1e-12)


@pytest.mark.parametrize("kind", signal.KINDS)
@pytest.mark.parametrize("shape", [(30, 80), (80, 30)])
def test_matrices_of_every_kind_have_unit_columns(kind, shape):
    Phi = signal.matrix(kind, *shape, np.random.default_rng(0))
    assert Phi.shape == shape
    np.testing.assert_allclose(np.linalg.norm(Phi, axis=0), 1)


def test_neighbouring_columns_of_a_coherent_matrix_resemble_each_other():
    coherence = {}
    for kind in ("gaussian", "coherent"):
        Phi = signal.matrix(kind, 200, 100, np.random.default_rng(0))
        coherence[kind] = np.abs((Phi[:, :-1] * Phi[:, 1:]).sum(axis=0)).mean()
    assert coherence["coherent"] > 0.5 > 5 * coherence["gaussian"]


def test_noise_has_the_ratio_asked_for_and_a_solver_that_cannot_be_used_says_so():
    messages = races(noise_db=20.0, methods=["omp", "vamp"], kind="cosines")
    ends = {one.method: one for one in messages if isinstance(one, signal.Arrived)}
    assert 0.02 < ends["omp"].residual < 0.2
    assert set(ends) == {"omp", "vamp"}


@pytest.mark.slow
def test_solvers_race_in_the_browser(browser):
    browser.open("signal")
    assert "Nothing computed yet." in browser.find(".chart > svg").get_attribute("textContent")
    assert "Point at" not in browser.text("main")
    assert browser.all(".chart .grid") == []
    browser.enter("Nonzeros, s", 20)
    assert browser.run().startswith("Finished")
    assert "Nothing computed yet." not in browser.find(".chart > svg").get_attribute("textContent")
    rows = {row.text.split()[0]: row.text for row in browser.all(".results tbody tr")}
    assert set(rows) == {"auto", "difference-map", "admm", "omp"}
    assert "100%" in rows["auto"]
    charts = browser.all(".chart")
    assert len(charts) == 3
    # Stems of the truth, and of the estimate that is shown.
    assert len(charts[0].find_elements("css selector", ".stem")) == 40
    assert [len(chart.find_elements("css selector", "polyline")) for chart in charts[1:]] == [4, 4]
    for chart in charts:
        assert all(len(chart.find_elements("css selector", f".grid text[text-anchor={end}]")) > 1 for end in ENDS)
    assert browser.errors() == []


@pytest.mark.slow
def test_a_pointer_reads_values_and_so_do_keys(browser):
    browser.open("signal")
    assert browser.run().startswith("Finished")
    chart = browser.all(".chart > svg")[0]
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    chart.send_keys("\ue014")  # the right arrow
    browser.until(lambda: browser.text(".chart .tip").startswith("truth: x["))


@pytest.mark.slow
def test_too_many_nonzeros_are_refused(browser):
    browser.open("signal")
    browser.enter("Nonzeros, s", 200)
    assert browser.run() == "With 100 measurements of 250 unknowns, s is at most 100, not 200."


@pytest.mark.slow
def test_the_map_wanders_step_by_step_until_it_arrives(browser):
    browser.open("signal")
    for step in range(1, 4):
        browser.press("Step")
        browser.until(lambda step=step: browser.text(".wandered").startswith(f"Step {step}:"))
    assert len(browser.find(".plane polyline").get_attribute("points").split()) == 4
    browser.press("Restart")
    browser.until(lambda: browser.text(".wandered").startswith("Step 0:"))
    browser.driver.execute_script("document.querySelector('[role=switch]').click()")
    browser.until(lambda: "lies in both sets" in browser.text(".wandered"))
