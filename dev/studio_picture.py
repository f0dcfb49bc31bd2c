"""Make docs/images/studio.png: the studio after the nano models made a storyboard of its longest example.

It shows the last step that took more than one attempt.

    .venv/bin/python dev/studio_picture.py docs/images/studio.png
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from page_picture import browser, until, write_small
from selenium import webdriver

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
return document.querySelectorAll(".attempt-row li").length > 1;
"""


def look(url: str, profile: Path) -> bytes:
    """Make a storyboard on the page, and take the picture that a person sees, as PNG."""
    with browser(profile) as driver:
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


def main(out: str) -> None:
    """Serve, make, look."""
    with tempfile.TemporaryDirectory(prefix="goalreel-picture-") as folder:
        command = [sys.executable, "-m", "goalreel", "studio", Path(folder) / "boards", "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            try:
                address = next(
                    m for line in server.stderr if (m := re.search(r"Look at (http://\S+)/ ", line))
                )
                picture = look(address[1], Path(folder) / "profile")
            finally:
                server.terminate()
                server.communicate()
    write_small(picture, Path(out))


if __name__ == "__main__":
    main(sys.argv[1])
