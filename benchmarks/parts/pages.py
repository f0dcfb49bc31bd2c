"""Pages to be timed: headless Chromium, and `goalreel review` or `studio` in a process of its own."""

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from support import browser


@contextmanager
def page_server(command: str, folder: Path, route: str) -> Iterator[str]:
    """Run a page of goalreel on a free port, and yield its address once a route of it answers."""
    words = [sys.executable, "-m", "goalreel", command, str(folder), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines: list[str] = []
            for line in process.stderr:
                lines.append(line)
                if address := re.search(r"Look at (http://\S+)/ ", line):
                    break
            else:
                sys.exit(f"goalreel {command} has not started: {''.join(lines).strip()}")
            urllib.request.urlopen(address[1] + route).close()
            yield address[1]
        finally:
            process.terminate()
            process.communicate()


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Run a browser, 1,440 pixels wide, until the block ends."""
    with contextmanager(browser.chromium)(profile) as driver:
        size = {"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield driver
