"""The studio's page in a browser: what a person does there, and what it says."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from support.places import TESTS
from support.wait import until

WIDTHS = {"wide": (1440, 900), "middle": (1024, 768), "narrow": (390, 844)}
SERVER = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import socket
from pathlib import Path
from goalreel.serving.server import serve_app
from support.studio import app, scripted
models = scripted()
if sys.argv[3:] == ["held"]:
    models.critic.gate.clear()
listening = socket.create_server(("127.0.0.1", int(sys.argv[2])))
serve_app(app(Path(sys.argv[1]), models, drain_seconds=0), listening)
"""


class KillableStudio:
    """A studio in a process of its own, which may be killed and started again at its address.

    The Critic of one that is started as `held` answers nothing.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port, self.url = folder, port, f"http://127.0.0.1:{port}"

    def start(self, *held: str) -> None:
        words = [sys.executable, "-c", SERVER, str(self.folder), str(self.port), *held]
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        until(self.answers, 180)

    def answers(self) -> bool:
        assert self.process.poll() is None
        try:
            return httpx.get(f"{self.url}/v1/studio", timeout=60).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


class StudioPage:
    """What a person does on the page, and what it says."""

    def __init__(self, driver, url: str, size: str = "wide") -> None:
        self.driver, self.url = driver, url
        self.resize(size)

    def resize(self, size: str) -> None:
        width, height = WIDTHS[size]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def start(self) -> None:
        self._load("")
        self.eventually(lambda: len(self.all(".card")) > 0)

    def open(self, board: str) -> None:
        self._load(f"#/storyboard/{board}")
        self.eventually(lambda: len(self.all(".board-page")), 1)

    def _load(self, address: str) -> None:
        # Away first: of two addresses that differ behind the # alone, the second loads nothing.
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/{address}")

    @property
    def board(self) -> str:
        """The id of the storyboard on show."""
        self.eventually(lambda: "#/storyboard/" in self.driver.current_url)
        return self.driver.current_url.rpartition("/")[2]

    def find(self, css: str):
        return self.driver.find_element("css selector", css)

    def all(self, css: str) -> list:
        return self.driver.find_elements("css selector", css)

    def script(self, code: str, *arguments: object):
        return self.driver.execute_script(code, *arguments)

    def text(self, css: str) -> str:
        """Read at once: the page may draw an element anew between finding and reading it."""
        return self.script("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def texts(self, css: str) -> list[str]:
        return self.script(
            "return [...document.querySelectorAll(arguments[0])].map((n) => n.innerText.trim())", css
        )

    def attribute(self, css: str, name: str) -> str | None:
        return self.script(
            "return document.querySelector(arguments[0])?.getAttribute(arguments[1])", css, name
        )

    def focused(self) -> str:
        """The name, command or id of what has the focus."""
        return self.script(
            "const n = document.activeElement; return n.name || n.dataset.act || n.dataset.step || n.id"
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
        seen: list[str] = []

        def there() -> bool:
            seen[:] = [self.text(css)]
            return words in seen[0]

        try:
            until(there)
        except AssertionError:
            pytest.fail(f"{css}: wanted {words!r}, saw {seen[0]!r}")

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def shifted(self, key: str) -> None:
        from selenium.webdriver import ActionChains, Keys

        ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(key).key_up(Keys.SHIFT).perform()

    def click(self, css: str) -> None:
        self.eventually(lambda: len(self.all(css)) > 0)
        self.script("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", css)
        self.find(css).click()

    def statuses(self) -> list[str]:
        """What the steps are worth, as the row of steps says it."""
        return [text.split(maxsplit=1)[-1] for text in self.texts(".reel .frame .badge")]

    def settled(self, *statuses: str) -> None:
        """Nobody works, and the steps are worth this."""
        self.eventually(lambda: (len(self.all("#work .pulse")), self.statuses()), (0, list(statuses)))

    def overflow(self) -> int:
        return self.script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
