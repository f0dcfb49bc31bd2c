"""Pages to be timed: headless Chromium, and `goalreel review` in a process of its own."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from support import browser

RUN = "from goalreel.cli.main import app; app()"


@contextmanager
def review_server(dataset: Path) -> Iterator[str]:
    """Run `goalreel review` on a free port, and yield its address once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen([sys.executable, "-c", RUN, "review", str(dataset), "--port", str(port)]) as server:
        try:
            while not answers(url):
                if server.poll() is not None:
                    sys.exit(f"goalreel review ended with status {server.returncode}")
                time.sleep(0.02)
            yield url
        finally:
            server.kill()


def answers(url: str) -> bool:
    """Tell whether the page is there."""
    try:
        with urllib.request.urlopen(f"{url}/api/dataset") as answer:
            return answer.status == 200
    except urllib.error.URLError:
        return False


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Run a browser, 1,440 pixels wide, until the block ends."""
    with contextmanager(browser.chromium)(profile) as driver:
        size = {"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield driver
