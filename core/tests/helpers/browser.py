"""A headless Chromium for tests of the page, if the machine has one; it asks nobody but the page's own server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SECONDS = 30.0
SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # root has none
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--window-size=1280,800",
)
FASTER = "const slow = setTimeout; window.setTimeout = (work, delay) => slow(work, delay / 20);"
"""What is done every two seconds is then done ten times a second."""


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[Chrome]:
    """A browser with its profile in ``folder``; nothing of it is left behind. Skips where there is none."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromedriver aren't installed (Debian: chromium, chromium-driver)")
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for switch in (*SWITCHES, f"--user-data-dir={folder}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = Service(DRIVER, env=_environment(), popen_kw={"start_new_session": True})
    browser = Chrome(options, service)
    try:
        browser.set_page_load_timeout(SECONDS)
        browser.set_script_timeout(SECONDS)
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FASTER})
        yield browser
    finally:
        with contextlib.suppress(ProcessLookupError):
            _quit(browser, service.process.pid)


def _environment() -> dict[str, str]:
    return {**os.environ, "SE_OFFLINE": "true", "SE_AVOID_STATS": "true"}


def _quit(browser: Chrome, group: int) -> None:
    try:
        browser.quit()
    finally:
        os.killpg(group, signal.SIGKILL)


class Page:
    """The page in a browser, as whoever looks at it would speak of it."""

    def __init__(self, browser: Chrome, url: str) -> None:
        self.browser = browser
        self.url = url

    def open(self) -> None:
        """As in a tab that was never here."""
        self.browser.get(f"{self.url}/page/icon.svg")
        self.browser.execute_script("sessionStorage.clear()")
        self.resize(1280, 800)
        self.browser.get_log("browser")
        self.browser.get(self.url)

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def find(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """All text of all such elements, shown or not."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent).join('\\n')"
        return str(self.js(script, selector)).replace("\u00a0", " ")

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def type(self, selector: str, text: str) -> None:
        self.find(selector).send_keys(text)

    def js(self, script: str, *arguments: object) -> Any:
        return self.browser.execute_script(script, *arguments)

    def ask(self, text: str) -> None:
        """As soon as there is a model to ask."""
        self.wait(lambda: self.find("#model").get_property("value"))
        self.type("#question", text + "\n")

    def wait(self, condition: Callable[[], object]) -> None:
        """Until it is true. Fails with what the page shows."""
        end = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(StaleElementReferenceException):
                if condition():
                    return
            assert time.monotonic() < end, f"it didn't come; the page shows:\n{self.find('body').text}"
            time.sleep(0.02)

    def wait_for(self, selector: str, text: str) -> None:
        """Until such elements hold the text."""
        self.wait(lambda: text in self.text(selector))

    def finished(self) -> None:
        """Until no answer is being made."""
        self.wait(lambda: self.find("#log").get_attribute("aria-busy") == "false")

    def complaints(self) -> list[str]:
        """What the browser found wrong, such as what the content security policy forbids."""
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def strangers(self) -> list[str]:
        """What was loaded from elsewhere."""
        names = self.js("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        assert names
        return [name for name in names if not name.startswith(self.url + "/")]
