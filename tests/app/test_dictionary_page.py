"""The page for dictionaries, in a real browser."""

import io
import urllib.request

import numpy as np
import pytest

from sparsect import images, load_dictionary

pytestmark = pytest.mark.slow


def test_atoms_of_the_package_are_shown_and_enlarged(browser):
    browser.open("dictionary")
    browser.until(lambda: "256 atoms of 8x8" in browser.text("main") or "atoms of 8x8" in browser.text("main"))
    assert browser.find(".stage img").get_attribute("alt").endswith("atoms of 8x8 pixels")
    first = browser.text(".atom")
    browser.find(".stage").send_keys("\ue007")  # Enter picks the atom in the middle
    browser.until(lambda: browser.text(".atom") != first)
    assert "used by" in browser.text(".atom")
    assert browser.errors() == []


def test_a_dictionary_is_learned_from_uploads_and_changes_by_rounds(browser, tmp_path):
    for name in ("camera", "coffee"):
        images.write_image(tmp_path / f"{name}.png", images.sample(name)[:150, :150])
    browser.open("dictionary")
    browser.find(".drop input").send_keys("\n".join(str(tmp_path / f"{name}.png") for name in ("camera", "coffee")))
    browser.until(lambda: browser.text(".photographs").startswith("2 photographs"))
    browser.enter("Atoms", 16)
    browser.enter("Rounds", 4)
    browser.enter("Patches", 1000)
    assert browser.run().startswith("Finished")
    browser.until(lambda: browser.text(".round") == "Round 4 of 4")
    last = browser.find(".stage img").get_attribute("src")
    browser.find(".back [tabindex='0']").send_keys("\ue012")  # the left arrow
    browser.until(lambda: browser.text(".round") == "Round 3 of 4")
    assert browser.find(".stage img").get_attribute("src") != last
    (link,) = [one for one in browser.all("main a") if one.text == "dictionary"]
    with urllib.request.urlopen(link.get_attribute("href"), timeout=60) as answer:
        (tmp_path / "mine.npz").write_bytes(answer.read())
    dictionary = load_dictionary(tmp_path / "mine.npz")
    assert dictionary.Phi.shape == (64, 16)
    assert len(dictionary.rounds) == 4
    assert browser.text(".command").startswith("sparsect learn photos/ --atoms 16 --patch 8 --sparsity 5 --rounds 4")
    # A dictionary from before is not offered as the result of learning that was stopped.
    browser.enter("Atoms", 256)
    browser.enter("Rounds", 40)
    browser.enter("Patches", 50000)
    browser.click(".run")
    browser.until(lambda: "patches coded" in browser.status())
    browser.press("Stop")
    browser.until(lambda: browser.status().startswith("Stopped"))
    assert not [one for one in browser.all("main a") if one.text == "dictionary"]
    with np.load(io.BytesIO((tmp_path / "mine.npz").read_bytes()), allow_pickle=False) as arrays:
        assert "Phi" in arrays
