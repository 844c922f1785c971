"""A server in a process of its own, a real browser, and what tests do with them."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request

import pytest

# Seconds within which something that should happen has happened, on the slowest machine.
PATIENCE = 180
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No other machine can be reached, even if there is a network.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


class Server:
    """A running ``sparsect app``."""

    def __init__(self, folder, *arguments):
        command = [sys.executable, "-m", "sparsect", "app", "--port", "0", "--no-browser", *arguments]
        # A temporary folder of its own shows what is left behind.
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.folder = folder / "working"
        self.folder.mkdir()
        self.log = (folder / "log").open("w+")
        environment = os.environ | {"TMPDIR": str(self.temporary)}
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        assert found, f"{line}{self.words()}"
        self.address = found[0]
        self.port = int(found[1])

    def words(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def load(self):
        with urllib.request.urlopen(f"{self.address}load", timeout=PATIENCE) as answer:
            return json.load(answer)

    def end(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class Browser:
    """A browser with a page of the server, and what the tests do with it."""

    def __init__(self, driver, server):
        self.driver, self.server = driver, server

    def open(self, path=""):
        self.driver.get(self.server.address + path)
        self.until(lambda: "eady" in self.status())

    def until(self, condition, message=""):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            words = message or f"{self.driver.current_url}: {self.status()!r}"
            assert time.monotonic() < deadline, f"{words}\n{self.server.words()[-2000:]}"
            time.sleep(0.2)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        # Read in one call, because elements are replaced while pages change.
        script = "const found = document.querySelector(arguments[0]); return found ? found.innerText : ''"
        return self.driver.execute_script(script, selector)

    def status(self):
        return self.text(".status")

    def click(self, selector):
        self._click(lambda: self.find(selector))

    def press(self, words, within="body"):
        """Click the button with these words."""

        def button():
            found = [one for one in self.all(f"{within} button") if one.text.strip() == words]
            assert found, f"no button {words!r}"
            return found[0]

        self._click(button)

    def _click(self, find):
        """Click what is found; elements may be replaced, or move, between two calls while the page changes."""
        from selenium.common.exceptions import ElementClickInterceptedException, StaleElementReferenceException

        for attempt in range(8):
            with contextlib.suppress(StaleElementReferenceException, ElementClickInterceptedException):
                element = find()
                self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
                element.click()
                return
            time.sleep(0.2 * attempt)
        raise AssertionError("what is to be clicked is replaced or covered all the time")

    def enter(self, label, value):
        """Type a number into the field with this label."""
        script = """
        const field = document.querySelector(`input[aria-label="${arguments[0]}"]`);
        field.focus(); field.value = arguments[1];
        field.dispatchEvent(new Event("input", {bubbles: true}));
        field.dispatchEvent(new Event("change", {bubbles: true}));"""
        self.driver.execute_script(script, label, str(value))

    def entered(self, label):
        """Return what the field with this label shows."""
        return self.find(f'input[aria-label="{label}"]').get_attribute("value")

    def run(self):
        """Press Run, and wait until the work has ended."""
        self.click(".run")
        self.until(lambda: self.status().startswith(("Finished", "Stopped")) or self.status() in self.notices())
        return self.status()

    def notices(self):
        """Return the words of notices on errors."""
        script = "return [...document.querySelectorAll('.q-notification__message')].map(one => one.innerText)"
        return self.driver.execute_script(script)

    def requests(self):
        """Return the addresses that the browser has asked for since the last call."""
        entries = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        kinds = {"Network.requestWillBeSent": ("request", "url"), "Network.webSocketCreated": ("url",)}
        found = []
        for entry in entries:
            if entry["method"] in kinds:
                value = entry["params"]
                for name in kinds[entry["method"]]:
                    value = value[name]
                found.append(value)
        return found

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


def start_browser(folder, width=1280, height=1000):
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        words = "no chromium with chromedriver; apt-get install -y chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    webdriver = pytest.importorskip("selenium.webdriver", reason="the tests in a browser need selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in (*OPTIONS, f"--window-size={width},{height}", f"--user-data-dir={folder}"):
        options.add_argument(option)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
