"""Make docs/images/studio.png: the studio after the nano models made a storyboard of its longest example.

It shows the last step that took more than one attempt.

    .venv/bin/python dev/studio_picture.py docs/images/studio.png
"""

import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import PIL.Image
from selenium import webdriver

from goalreel.files import write_bytes

SIZE: Final = (1440, 1010)
SECONDS: Final = 300.0
CHOOSE: Final = """
const cards = [...document.querySelectorAll(".card")];
const words = cards.map((card) => card.innerText.length);
cards[words.indexOf(Math.max(...words))]?.click();
return cards.length;
"""
READY: Final = """
return document.querySelector("#work .badge")
  && [...document.images].every((image) => image.complete && (image.naturalWidth || !image.src));
"""
SELECT: Final = """
const most = [...document.querySelectorAll(".attempt-row li")].length;
return most > 1;
"""


def until(ready: Callable[[], object]) -> None:
    """Wait until `ready()` is true."""
    end = time.monotonic() + SECONDS
    while not ready():
        time.sleep(0.2)
        if time.monotonic() > end:
            raise TimeoutError(f"no picture after {SECONDS:g} s")


def look(url: str, profile: Path) -> bytes:
    """Make a storyboard on the page, and take the picture that a person sees, as PNG."""
    options = webdriver.ChromeOptions()
    for switch in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(switch)
    options.add_argument(f"--user-data-dir={profile}")
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        metrics = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get(url)
        until(lambda: driver.execute_script(CHOOSE))
        driver.find_element("css selector", "#send").click()
        until(lambda: driver.execute_script(READY))
        for _ in range(len(driver.find_elements("css selector", ".reel .frame"))):
            if driver.execute_script(SELECT):
                break
            webdriver.ActionChains(driver).send_keys("j").perform()
        until(lambda: driver.execute_script(READY))
        return driver.get_screenshot_as_png()
    finally:
        driver.quit()


def main(out: str) -> None:
    """Serve, make, look."""
    with tempfile.TemporaryDirectory(prefix="goalreel-picture-") as folder:
        command = [sys.executable, "-m", "goalreel", "studio", Path(folder) / "boards", "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            try:
                found = next(m for line in server.stderr if (m := re.search(r"Look at (http://\S+)/ ", line)))
                picture = look(found[1], Path(folder) / "profile")
            finally:
                server.terminate()
                server.communicate()
    small = io.BytesIO()
    PIL.Image.open(io.BytesIO(picture)).convert("RGB").quantize(
        256, PIL.Image.Quantize.MEDIANCUT, kmeans=5
    ).save(small, "PNG", optimize=True)
    write_bytes(Path(out), small.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
