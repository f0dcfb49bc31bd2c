"""Helpers of the scripts that picture a page: a browser, a wait, and a small file."""

import io
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import PIL.Image
from selenium import webdriver

from goalreel.files import write_bytes

SIZE: Final = (1440, 1010)
SECONDS: Final = 300.0


def until(ready: Callable[[], object]) -> None:
    """Wait until `ready()` is true.

    Raises:
        TimeoutError: it is not after SECONDS.
    """
    end = time.monotonic() + SECONDS
    while not ready():
        time.sleep(0.2)
        if time.monotonic() > end:
            raise TimeoutError(f"no picture after {SECONDS:g} s")


@contextmanager
def browser(profile: Path) -> Iterator[webdriver.Chrome]:
    """Run headless Chromium with a window of SIZE, until the block ends."""
    options = webdriver.ChromeOptions()
    for switch in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(switch)
    options.add_argument(f"--user-data-dir={profile}")
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        metrics = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield driver
    finally:
        driver.quit()


def write_small(picture: bytes, out: Path) -> None:
    """Write a PNG in 256 colours."""
    small = io.BytesIO()
    PIL.Image.open(io.BytesIO(picture)).convert("RGB").quantize(
        256, PIL.Image.Quantize.MEDIANCUT, kmeans=5
    ).save(small, "PNG", optimize=True)
    write_bytes(out, small.getvalue())
