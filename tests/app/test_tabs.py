"""Several tabs, phones, keys, and the network, in a real browser."""

import pytest

pytestmark = pytest.mark.slow
PAGES = ("", "signal", "dictionary", "paper")


def start_long_work(browser):
    """Start a reconstruction that takes minutes."""
    browser.open()
    browser.enter("Atoms per patch, s", 200)
    browser.enter("Stride in pixels", 2)
    browser.enter("Budget: iterations", 1000)
    browser.click(".run")
    browser.until(lambda: "iteration" in browser.status() or "Waiting" in browser.status())


def new_tab(browser):
    browser.driver.switch_to.new_window("tab")
    return browser.driver.current_window_handle


def idle(browser):
    load = browser.server.load()
    return load["running"] == load["waiting"] == 0


def test_a_second_tab_works_while_the_first_one_is_busy_and_has_its_own_results(browser):
    start_long_work(browser)
    first = browser.driver.current_window_handle
    new_tab(browser)
    browser.open()
    browser.press("Denoise")
    browser.until(lambda: "ready" in browser.status())
    assert browser.run().startswith("Finished")
    assert "best" in browser.text(".results")
    browser.driver.switch_to.window(first)
    assert "best" not in browser.text(".results")
    browser.press("Stop")
    browser.until(lambda: browser.status().startswith("Stopped"))


def test_a_closed_tab_frees_its_worker(browser):
    browser.open()
    first = browser.driver.current_window_handle
    new_tab(browser)
    start_long_work(browser)
    browser.until(lambda: browser.server.load()["running"] == 1)
    tabs = browser.server.load()["tabs"]
    browser.driver.close()
    browser.driver.switch_to.window(first)
    browser.until(lambda: idle(browser))
    browser.until(lambda: browser.server.load()["tabs"] < tabs)


def test_ten_tabs_share_the_workers_and_pages_still_react(browser):
    workers = browser.server.load()["workers"]
    start_long_work(browser)
    for _ in range(9):
        new_tab(browser)
        start_long_work(browser)
    browser.until(lambda: browser.server.load()["running"] == workers)
    assert browser.server.load()["waiting"] == 10 - workers
    assert "Waiting for a free worker" in browser.status()
    new_tab(browser)
    browser.open("signal")
    browser.press("Step")
    browser.until(lambda: browser.text(".wandered").startswith("Step 1:"))
    for window in browser.driver.window_handles[1:]:
        browser.driver.switch_to.window(window)
        browser.driver.close()
    browser.driver.switch_to.window(browser.driver.window_handles[0])
    browser.driver.get("about:blank")
    browser.until(lambda: idle(browser))


def test_one_thing_at_a_time_in_a_tab(browser):
    start_long_work(browser)
    assert not browser.find(".run").is_enabled()
    browser.press("Stop")
    browser.until(lambda: browser.find(".run").is_enabled())


def test_other_settings_stop_the_work(browser):
    start_long_work(browser)
    browser.press("Denoise")
    browser.until(lambda: idle(browser))


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_the_width_of_a_phone(browser, path):
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.open(path)
    assert browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    for one in browser.all("nav a, .run"):
        assert one.rect["x"] >= 0
        assert one.rect["x"] + one.rect["width"] <= 390


@pytest.mark.parametrize("path", PAGES)
def test_pages_ask_no_other_host_for_anything(browser, path):
    browser.open(path)
    browser.click(".run")
    browser.until(lambda: browser.status() != "Ready.")
    requests = browser.requests()
    ours = (browser.server.address, browser.server.address.replace("http", "ws"), "data:", "blob:", "about:")
    assert any(one.startswith("ws") for one in requests)
    assert [one for one in requests if not one.startswith(ours)] == []
    assert browser.errors() == []


@pytest.mark.parametrize("path", PAGES)
def test_everything_has_a_name_for_readers_of_screens(browser, path):
    browser.open(path)
    unnamed = browser.driver.execute_script("""
        const named = (one) => one.getAttribute("aria-label") || one.getAttribute("alt") || one.innerText ||
            one.closest("label")?.innerText || one.title;
        return [...document.querySelectorAll("img, svg[role=img], button, a, input, [role=slider]")]
            .filter((one) => one.offsetParent !== null && one.type !== "hidden" && !named(one))
            .map((one) => one.outerHTML.slice(0, 200));""")
    assert unnamed == []
    assert browser.driver.execute_script("return document.documentElement.lang") == "en-US"
    assert len(browser.all("h1")) == 1


def test_run_can_be_reached_and_pressed_with_keys(browser):
    browser.open("signal")
    browser.find("body").click()
    for _ in range(60):
        if "run" in (browser.driver.switch_to.active_element.get_attribute("class") or "").split():
            break
        browser.driver.switch_to.active_element.send_keys("\ue004")  # the tabulator key
    browser.driver.switch_to.active_element.send_keys("\ue007")  # Enter
    browser.until(lambda: browser.status().startswith("Finished"))


def test_the_choice_between_light_and_dark_is_kept(browser):
    browser.open()
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = browser.driver.execute_script(colour)
    browser.press("Light / dark")
    browser.until(lambda: browser.driver.execute_script(colour) != before)
    chosen = browser.driver.execute_script(colour)
    browser.open("signal")
    browser.until(lambda: browser.driver.execute_script(colour) == chosen)
    browser.press("Light / dark")
    browser.until(lambda: browser.driver.execute_script(colour) == before)
