"""The page with the figures of the paper."""

import math

import pytest
from browsing import Browser, Server

from sparsect.app.paper import read_table
from sparsect.paper.contenders import contenders
from sparsect.paper.measurements import ErrorAgainstTime, Setting, settings_of
from sparsect.paper.rows import Rows
from sparsect.paper.run import run

SMALL = Setting(30, 60, 4, 20.0)


def test_a_solver_that_is_done_before_its_first_step_has_a_row():
    experiment = ErrorAgainstTime("vary-sparsity", "", (Setting(100, 200, 2, 60.0),), runs=1, seconds=1.0)
    (auto,) = [one for one in contenders() if one.name == "auto"]
    rows = experiment.compute(experiment.settings[0], 0, auto)
    assert rows[-1]["end"] == 1
    assert rows[-1]["solver"] == "auto"
    assert rows[-1]["snr_db"] > 40


@pytest.fixture
def folder(tmp_path):
    """Rows of a small experiment, as ``sparsect experiment`` writes them."""
    experiment = ErrorAgainstTime("vary-sparsity", "", (SMALL,), runs=2, seconds=0.2, max_iter=50)
    chosen = [one for one in contenders() if one.name in ("omp", "difference-map")]
    run(experiment, Rows(tmp_path / "vary-sparsity", settings_of(experiment)), chosen)
    return tmp_path


def test_rows_of_a_table_are_read_as_they_were_written(folder):
    experiment = ErrorAgainstTime("vary-sparsity", "", (SMALL,), runs=2, seconds=0.2, max_iter=50)
    written = Rows(folder / "vary-sparsity", settings_of(experiment)).ordered(())
    read = read_table(folder / "vary-sparsity" / "table.csv")
    assert len(read) == len(written)
    for row in read:
        assert row["run"] in (0, 1)
        assert isinstance(row["solver"], str)
        assert math.isfinite(row["snr_db"])
    key = ("solver", "run", "snr_db")
    assert sorted(tuple(row[name] for name in key) for row in read) == sorted(
        tuple(row[name] for name in key) for row in written
    )


@pytest.mark.slow
def test_rows_of_a_folder_are_drawn_and_can_be_read(folder, driver, tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("paper"), "--rows", str(folder))
    try:
        browser = Browser(driver, server)
        browser.driver.get(f"{server.address}paper")
        browser.until(lambda: "Rows are from" in browser.text(".origin"))
        assert str(folder) in browser.text(".origin")
        browser.until(lambda: len(browser.all(".figures polyline")) == 2)
        browser.find(".chart > svg").send_keys("\ue014")  # the right arrow
        browser.until(lambda: "iteration 1," in browser.text(".chart .tip"))
        assert "problem 0" in browser.text(".chart .tip")
        table = browser.text(".results")
        assert "difference-map" in table
        assert "Bayes-optimal" in table
        driver.get("about:blank")
    finally:
        server.end()
        server.log.close()


@pytest.mark.slow
def test_an_experiment_is_computed_row_by_row(browser):
    browser.open("paper")
    assert "computed on this machine" in browser.text(".origin")
    browser.enter("Seconds for each run", 0.2)
    browser.click(".run")
    browser.until(lambda: len(browser.all(".figures polyline")) >= 2)
    browser.until(lambda: "difference-map" in browser.text(".results"))
    assert "Bayes-optimal" in browser.text(".legend")
    browser.press("Stop")
    browser.until(lambda: browser.status().startswith("Stopped"))
    # A solver that was stopped has not failed, and one problem has no deviation.
    assert "failed" not in browser.text(".results")
    assert "±" not in browser.text(".results")
    assert browser.errors() == []
