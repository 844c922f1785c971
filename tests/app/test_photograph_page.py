"""The page for photographs, in a real browser."""

import io
import shlex
import urllib.request

import numpy as np
import pytest
from PIL import Image
from test_pictures import bomb

from sparsect import images

pytestmark = pytest.mark.slow
HEIGHT, WIDTH = 80, 100


@pytest.fixture
def photograph(tmp_path):
    """A small photograph in a file with a strange name."""
    path = tmp_path / "strange 'name' & <b>.png"
    images.write_image(path, images.sample("astronaut")[20 : 20 + HEIGHT, 170 : 170 + WIDTH])
    return path


@pytest.fixture
def page(browser, photograph):
    """The page with a small photograph."""
    browser.open()
    browser.find(".drop input").send_keys(str(photograph))
    browser.until(lambda: browser.status().startswith(f"{WIDTH}x{HEIGHT}"))
    return browser


def choose(browser, task):
    browser.press(task)
    browser.until(lambda: browser.text(".q-btn-toggle [aria-pressed=true]") == task)
    browser.until(lambda: "ready" in browser.status())


def results(browser):
    return [row.text.split() for row in browser.all(".results tbody tr")]


def download(browser, words):
    """Return the contents of the file with these words."""
    (link,) = [link for link in browser.all(".downloads a") if link.text == words]
    assert link.get_attribute("download")
    with urllib.request.urlopen(link.get_attribute("href"), timeout=60) as answer:
        return answer.read()


def contrast(browser, selector):
    """Return the contrast between the words of a notice and its background."""
    script = """
    const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((level) => level / 255)
        .map((level) => level <= 0.04045 ? level / 12.92 : ((level + 0.055) / 1.055) ** 2.4)
        .reduce((sum, level, place) => sum + level * [0.2126, 0.7152, 0.0722][place], 0.05);
    const one = document.querySelector(arguments[0]);
    const pair = [getComputedStyle(one).color, getComputedStyle(one.closest(".q-notification")).backgroundColor];
    const [low, high] = pair.map(light).sort((a, b) => a - b);
    return high / low;"""
    return browser.driver.execute_script(script, selector)


def decoded(data):
    return np.asarray(Image.open(io.BytesIO(data)))


def test_an_uploaded_photograph_is_denoised_and_shown_before_and_after(page):
    choose(page, "Denoise")
    assert page.run().startswith("Finished")
    rows = results(page)
    assert [row[0] for row in rows] == ["coarse", "fast", "best"]
    assert float(rows[2][1]) > float(rows[0][1])
    # Stages are points of one line, and have no markers of their own.
    assert page.all(".results svg") == []
    sources = [one.get_attribute("src") for one in page.all(".stage img")]
    before, after = (decoded(urllib.request.urlopen(one, timeout=60).read()) for one in sources)
    clean = decoded(download(page, "picture without noise"))
    assert before.shape == after.shape == (HEIGHT, WIDTH, 3)
    assert images.psnr_db(clean, after) > images.psnr_db(clean, before) + 3
    assert all(one.get_attribute("alt") for one in page.all(".stage img"))
    assert page.errors() == []


def test_the_command_line_shown_gives_the_same_picture_and_codes(page, called, tmp_path):
    page.enter("Atoms per patch, s", 5)
    page.enter("Budget: iterations", 20)
    assert page.run().startswith("Finished")
    assert {row[0] for row in results(page)} == {"annealed-difference-map", "omp"}
    (tmp_path / "input.png").write_bytes(download(page, "input picture"))
    command = shlex.split(page.text(".command"))
    assert command[:3] == ["sparsect", "reconstruct", "input.png"]
    assert called(*command[1:], "--out", "same", "--quiet").returncode == 0
    same = decoded((tmp_path / "same" / "omp.png").read_bytes())
    np.testing.assert_array_equal(decoded(download(page, "omp")), same)
    (tmp_path / "codes.npz").write_bytes(download(page, "codes of omp"))
    codes, others = images.load_codes(tmp_path / "codes.npz"), images.load_codes(tmp_path / "same" / "omp-codes.npz")
    assert (codes.matrix != others.matrix).nnz == 0
    assert codes.matrix.shape[0] == 3 * 20


def test_a_clicked_patch_shows_the_atoms_that_it_uses(page):
    page.enter("Atoms per patch, s", 4)
    assert page.run().startswith("Finished")
    page.until(lambda: "row 20 and column 40" in page.text("[aria-label='atoms of a patch']"))
    # Per colour: the patch, the sum, and four atoms.
    assert len(page.all(".atoms figure")) == 3 * 6
    stage = page.find(".stage")
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", stage)
    box = stage.size
    offset = (int(-0.45 * box["width"]), int(0.45 * box["height"]))
    from selenium.webdriver import ActionChains

    ActionChains(page.driver).move_to_element_with_offset(stage, *offset).click().perform()
    page.until(lambda: "row 60 and column 0" in page.text("[aria-label='atoms of a patch']"))
    assert page.find(".stage .box").get_attribute("x") == "0"


def test_stop_kills_the_work_and_keeps_what_was_found(page):
    page.enter("Atoms per patch, s", 100)
    page.enter("Stride in pixels", 2)
    page.enter("Budget: iterations", 1000)
    page.click(".run")
    page.until(lambda: "iteration" in page.status())
    assert page.server.load()["running"] == 1
    page.until(lambda: results(page))
    page.press("Stop")
    page.until(lambda: page.status().startswith("Stopped"))
    page.until(lambda: page.server.load()["running"] == 0)
    assert len(page.all(".stage img")) == 2
    assert download(page, "input picture")
    # The first method did not get to its end: there is no command that gives this.
    assert page.text(".stopped") == "Stopped: no command gives what is shown as annealed-difference-map."
    assert page.text(".command") == ""
    page.until(lambda: page.find(".run").is_enabled())


def test_the_command_line_of_a_stopped_denoising_gives_the_stage_that_is_shown(browser):
    browser.open()
    choose(browser, "Denoise")
    browser.click(".run")
    browser.until(lambda: "fast" in browser.text(".results"))
    browser.press("Stop")
    browser.until(lambda: browser.status().startswith("Stopped"))
    assert browser.text(".command").startswith("sparsect denoise input.png --quality fast")
    assert browser.text(".stopped") == ""


def test_a_mask_is_painted_with_the_mouse_and_filled(page):
    from selenium.webdriver import ActionChains

    choose(page, "Inpaint")
    page.run()
    assert page.status() == "No pixels are missing: paint on the picture, or let some be missing at random."
    stage = page.find(".stage")
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", stage)
    width = stage.size["width"]
    pen = ActionChains(page.driver).move_to_element_with_offset(stage, int(-0.3 * width), 0).click_and_hold()
    pen.move_by_offset(int(0.3 * width), 0).move_by_offset(int(0.3 * width), 0).release().perform()
    page.until(lambda: "% of the pixels are missing" in page.status())
    assert page.run().startswith("Finished")
    mask = decoded(download(page, "mask")) > 127
    # A stroke of 12 pixels from 20 to 80 pixels, with round ends.
    assert mask.shape == (HEIGHT, WIDTH)
    assert mask[HEIGHT // 2, 25:75].all()
    assert 10 <= mask[:, WIDTH // 2].sum() <= 14
    assert not mask[: HEIGHT // 2 - 8].any()
    torn, whole = decoded(download(page, "input picture")), decoded(download(page, "50 passes"))
    np.testing.assert_array_equal(whole[~mask], torn[~mask])
    assert (torn[mask] == 128).all()
    assert not (whole[mask] == 128).all()
    page.press("Denoise")


def test_the_difference_is_enlarged_and_says_so(page):
    page.enter("Atoms per patch, s", 5)
    assert page.run().startswith("Finished")
    page.press("Difference")
    page.until(lambda: "times enlarged" in page.text("[aria-label=pictures]"))
    page.until(lambda: "difference" in page.all(".stage img")[1].get_attribute("src"))
    shown = decoded(urllib.request.urlopen(page.all(".stage img")[1].get_attribute("src"), timeout=60).read())
    # At most a few per cent of the differences are beyond the scale, and the others fill it.
    assert ((shown == 0) | (shown == 255)).mean() < 0.06
    assert np.std(shown) > 25


def test_zoom_moves_both_pictures_and_keys_move_the_boundary(page):
    page.enter("Atoms per patch, s", 5)
    assert page.run().startswith("Finished")
    page.click("[aria-label='zoom in']")
    page.until(lambda: len({one.get_attribute("style") for one in page.all(".stage img")}) == 1)
    assert "scale(1.5)" in page.find(".stage img").get_attribute("style")
    slider = page.find(".boundary-slider")
    for _ in range(10):
        slider.send_keys("\ue012")  # the left arrow
    page.until(lambda: page.find(".stage .clip").get_attribute("style") == "clip-path: inset(0px 0px 0px 40%);")
    page.find(".stage").send_keys("0")
    page.until(lambda: "scale(1)" in page.find(".stage img").get_attribute("style"))


def test_files_that_are_not_photographs_or_too_large_are_refused_with_words(page, photograph, tmp_path):
    (tmp_path / "bomb.png").write_bytes(bomb(10000, 10000))
    (tmp_path / "words.png").write_text("not a picture")
    for name, words in (("bomb.png", "at most 40 megapixels"), ("words.png", "not an image")):
        page.find(".drop input").send_keys(str(tmp_path / name))
        # The notice takes the place of the one before.
        page.until(lambda words=words: len(page.notices()) == 1 and words in page.notices()[0])
    assert page.status().startswith(f"{WIDTH}x{HEIGHT}")
    for _ in ("light", "dark"):
        assert all(contrast(page, part) > 4.5 for part in (".q-notification__message", ".notice .q-btn"))
        page.press("Light / dark")
    page.find(".drop input").send_keys(str(photograph))
    page.until(lambda: not page.notices())
    # The answers 422 are in the browser's own log.
    assert all("422" in message for message in page.errors())


def test_fields_show_the_numbers_that_are_used(page):
    for typed, used in (("-5", "1"), ("1e9", "200"), ("", "20"), ("7.6", "8")):
        page.enter("Atoms per patch, s", typed)
        page.find("input[aria-label='Budget: iterations']").click()
        page.until(lambda used=used: page.entered("Atoms per patch, s") == used)
    page.enter("Atoms per patch, s", 30)
    page.enter("Budget: iterations", 10)
    page.enter("Stride in pixels", 12)
    page.click("[aria-label=Dictionary]")
    page.until(lambda: page.all(".q-menu .q-item"))
    page.click(".q-menu .q-item")
    assert page.run().startswith("Finished")
    assert (page.entered("Budget: iterations"), page.entered("Stride in pixels")) == ("30", "8")
    assert "--dictionary 8x8 --stride 8 --max-iter 30" in page.text(".command")


def test_words_of_the_tasks_fit_their_buttons(page):
    gaps = page.driver.execute_script("""
        return [...document.querySelectorAll("[aria-label=task] .q-btn-toggle .q-btn")].map((one) => {
            const [button, words] = [one, one.querySelector(".block")].map((part) => part.getBoundingClientRect());
            return Math.min(words.left - button.left, button.right - words.right);
        });""")
    assert len(gaps) == 3
    assert min(gaps) >= 6


def test_settings_that_cannot_be_used_are_explained(page):
    for left in (1, 0):
        page.click(".q-chip__icon--remove")
        page.until(lambda left=left: len(page.all(".q-chip")) == left)
    page.run()
    assert page.status() == "Choose one method or more."
