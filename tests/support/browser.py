"""Headless Chromium for tests of pages."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.wait import until

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
SWITCHES = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-features=BackForwardCache"
)
"""Without that cache, a page that follows another takes over its process: half of what a load costs."""
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium: apt-get install chromium chromium-driver"
)


def chromium(profile: Path, *logs: str) -> Iterator:
    """A browser of its own, and its end; it logs what pages say, and `logs`."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for switch in [*SWITCHES.split(), f"--user-data-dir={profile}"]:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", dict.fromkeys(("browser", *logs), "ALL"))
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


class KillableServer:
    """A page's server in a process of its own, which may be killed and started again at its address.

    `code` is run with `words`, of which PORT is the port; the server is there when `look` is answered.
    """

    def __init__(self, code: str, *words: str, look: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        self.url, self.look = f"http://127.0.0.1:{port}", look
        self.command = [sys.executable, "-c", code, *(port if word == "PORT" else word for word in words)]

    def start(self, *more: str) -> None:
        self.process = subprocess.Popen([*self.command, *more], stderr=subprocess.DEVNULL)
        until(self.answers, 600)

    def answers(self) -> bool:
        assert self.process.poll() is None
        try:
            return httpx.get(f"{self.url}{self.look}", timeout=60).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


class BrowserPage:
    """A page in a browser: what is on it, and what a person does with keys and pointer."""

    def __init__(self, driver) -> None:
        self.driver = driver

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def load(self, url: str) -> None:
        # Away first: of two addresses that differ behind the # alone, the second loads nothing.
        if self.driver.current_url != "about:blank":
            self.driver.get("about:blank")
        self.driver.get(url)

    def find(self, css: str):
        return self.driver.find_element("css selector", css)

    def all(self, css: str) -> list:
        return self.driver.find_elements("css selector", css)

    def script(self, code: str, *arguments: object):
        return self.driver.execute_script(code, *arguments)

    def text(self, css: str) -> str:
        """Read at once: the page may draw an element anew between finding and reading it."""
        return self.script("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def attribute(self, css: str, name: str) -> str | None:
        return self.script(
            "return document.querySelector(arguments[0])?.getAttribute(arguments[1])", css, name
        )

    def eventually(self, condition, wanted: object = True) -> None:
        seen: list[object] = []

        def equal() -> bool:
            seen[:] = [condition()]
            return seen[0] == wanted

        try:
            until(equal)
        except AssertionError:
            pytest.fail(f"wanted {wanted!r}, saw {seen[0]!r}")

    def sees(self, css: str, words: str) -> None:
        self.eventually(lambda: words if words in (text := self.text(css)) else text, words)

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def shifted(self, key: str) -> None:
        from selenium.webdriver import ActionChains, Keys

        ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(key).key_up(Keys.SHIFT).perform()

    def click(self, css: str) -> None:
        """Click what nothing covers; on a busy machine the page may move or draw it anew meanwhile."""
        from selenium.common.exceptions import (
            ElementClickInterceptedException,
            StaleElementReferenceException,
        )

        def clicked() -> object:
            self.script("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", css)
            try:
                self.find(css).click()
            except (ElementClickInterceptedException, StaleElementReferenceException) as e:
                return e.msg
            return True

        self.eventually(lambda: len(self.all(css)) > 0)
        self.eventually(clicked)

    def overflow(self) -> int:
        """How many pixels the page is wider than its window."""
        return self.script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def scheme(self, name: str) -> None:
        """As somebody sees it whose screen is `light` or `dark`."""
        media = {"features": [{"name": "prefers-color-scheme", "value": name}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
