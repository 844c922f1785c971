"""One server and one browser for all tests of the page."""

import pytest
from browsing import Browser, Server, start_browser


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    pytest.importorskip("nicegui", reason="the page needs pip install 'sparsect[app]'")
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.end()
    words = running.words()
    running.log.close()
    assert "Traceback" not in words, words
    assert list(running.folder.iterdir()) == []
    assert list(running.temporary.glob("sparsect-*")) == []


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    running = start_browser(tmp_path_factory.mktemp("browser"))
    yield running
    running.quit()


@pytest.fixture
def browser(driver, server):
    page = Browser(driver, server)
    page.requests()
    yield page
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    for window in driver.window_handles[1:]:
        driver.switch_to.window(window)
        driver.close()
    driver.switch_to.window(driver.window_handles[0])
    driver.get("about:blank")
    page.until(lambda: server.load()["running"] == 0)
