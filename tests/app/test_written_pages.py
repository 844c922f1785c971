"""Pages that commands write, in a real browser: they need no server."""

import json

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import sparsect
from sparsect import images
from sparsect.reporting import gallery
from sparsect.reporting.look import COLOURS, PAGE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A page about two reconstructions of a small photograph."""
    image = images.to_gray(images.sample("chelsea"))[100:180, 100:220]
    dictionary = sparsect.load_dictionary("8x8")
    found = {
        method: gallery.Outcome.of(images.reconstruct(image, 4, method, dictionary=dictionary, record_at=(1, 2)))
        for method in ("ormp", "omp")
    }
    path = tmp_path_factory.mktemp("pages") / "index.html"
    gallery.page("cat", image, dictionary, {4: found}, [], 0.01).write(path)
    return path.as_uri()


@pytest.fixture
def opened(driver, address):
    driver.get_log("performance")
    driver.get(address)
    yield driver
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    driver.get("about:blank")


def boundary(driver):
    """Return where the boundary is drawn, in percent, after a check that the slider says the same."""
    box = driver.find_element(By.CSS_SELECTOR, ".slider")
    line, whole = box.find_element(By.TAG_NAME, "span").rect, box.rect
    drawn = 100 * (line["x"] + line["width"] / 2 - whole["x"]) / whole["width"]
    assert drawn == pytest.approx(float(box.find_element(By.TAG_NAME, "input").get_attribute("value")), abs=0.5)
    return drawn


def seen(driver):
    """Return the captions of the pictures left and right of the boundary."""
    return [
        driver.find_element(By.CSS_SELECTOR, f".slider img.{side}").get_attribute("alt").split(",")[0]
        for side in ("left", "right")
    ]


def test_the_boundary_follows_mouse_keys_and_finger(opened):
    box = opened.find_element(By.CSS_SELECTOR, ".slider")
    assert boundary(opened) == pytest.approx(50)
    quarter = int(box.size["width"] / 4)
    ActionChains(opened).drag_and_drop_by_offset(box, -quarter, 0).perform()
    assert boundary(opened) == pytest.approx(25, abs=1)
    before = boundary(opened)
    ActionChains(opened).send_keys(Keys.ARROW_RIGHT * 5).perform()
    assert boundary(opened) == pytest.approx(before + 5, abs=0.5)
    finger = PointerInput("touch", "finger")
    touch = ActionBuilder(opened, mouse=finger)
    finger.create_pointer_move(origin=box, x=0, y=0)
    finger.create_pointer_down(button=0)
    finger.create_pointer_move(origin=box, x=quarter, y=0, duration=100)
    finger.create_pointer_up(button=0)
    touch.perform()
    assert boundary(opened) == pytest.approx(75, abs=1)


def test_both_pictures_can_be_chosen_with_the_keyboard(opened):
    assert seen(opened) == ["original", "ormp"]
    left, right = opened.find_elements(By.CSS_SELECTOR, ".sides select")
    left.send_keys("omp")
    assert seen(opened) == ["omp", "ormp"]
    right.send_keys("omp")
    assert seen(opened) == ["omp", "omp"]
    label = opened.find_element(By.CSS_SELECTOR, ".slider input").get_attribute("aria-label")
    assert label.count("omp") == 2


def test_the_limit_on_time_is_told(opened):
    assert "The time limit of a method was 10 ms per patch." in opened.find_element(By.TAG_NAME, "body").text


def test_it_fits_on_a_phone(opened):
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    assert opened.execute_script("return document.documentElement.scrollWidth") == 390
    assert opened.find_element(By.CSS_SELECTOR, ".slider").size["width"] > 300
    # A table that is wider has a shadow at its edge.
    table = "return getComputedStyle(document.querySelector('.wide')).backgroundAttachment"
    assert opened.execute_script(table) == "local, local, scroll, scroll"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_and_lines_follow_the_colour_scheme(opened, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    paper, line = PAGE["paper"][scheme == "dark"], COLOURS["amber"][scheme == "dark"]
    script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    assert opened.execute_script(script, "body", "backgroundColor") == f"rgb{_levels(paper)}"
    strokes = opened.execute_script(
        "return [...document.querySelectorAll('.chart path')].map(path => getComputedStyle(path).stroke)"
    )
    assert f"rgb{_levels(line)}" in strokes


def test_nothing_is_fetched_and_every_picture_has_a_text(driver, opened, address):
    entries = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [entry["params"]["request"]["url"] for entry in entries if entry["method"] == "Network.requestWillBeSent"]
    assert {one for one in asked if not one.startswith("data:")} == {address}
    assert all(picture.get_attribute("alt") for picture in opened.find_elements(By.TAG_NAME, "img"))
    assert all(chart.get_attribute("aria-label") for chart in opened.find_elements(By.CSS_SELECTOR, "[role=img]"))


def _levels(colour):
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))
