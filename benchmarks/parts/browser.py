"""Headless Chromium, in which pages are timed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Run a browser, 1,440 pixels wide, until the block ends."""
    options = webdriver.ChromeOptions()
    for switch in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    # Without a path selenium would look for a driver in the network.
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    size = {"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield driver
    finally:
        driver.quit()
