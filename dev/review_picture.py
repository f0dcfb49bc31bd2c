"""Make docs/images/review.png: the review page on a recording that the nano models annotated.

Of the tabletop's first validation scenes it takes the one with most to show: attempts, then steps.

    .venv/bin/python dev/review_picture.py docs/images/review.png
"""

import io
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import PIL.Image
from selenium import webdriver

from goalreel.files import write_bytes

GOALREEL: Final = Path(sys.executable).with_name("goalreel")
EPISODES: Final = 4
SIZE: Final = (1440, 1010)
READY: Final = """
return document.querySelector("#saving")?.textContent === "Saved"
  && [...document.images].every((image) => image.complete && (image.naturalWidth || !image.src));
"""


def until(ready: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until `ready()` is true."""
    end = time.monotonic() + seconds
    while not ready():
        time.sleep(0.2)
        if time.monotonic() > end:
            raise TimeoutError(f"no picture after {seconds:g} s")


def listens(port: int) -> bool:
    """Tell whether the page is there."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def ask(url: str) -> dict[str, Any]:
    """Ask the server what the page asks."""
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


def richest(url: str) -> tuple[int, int]:
    """Find the episode and step with most attempts; of equal ones the last of the longest storyboard."""
    counts: list[tuple[int, int, int, int]] = []
    for row in ask(f"{url}/api/episodes")["rows"]:
        steps = ask(f"{url}/api/episodes/{row['episode']}")["steps"]
        counts += [(len(s["attempts"]), len(steps), at, row["episode"]) for at, s in enumerate(steps)]
    _, _, step, episode = max(counts)
    return episode, step


def look(url: str, profile: Path) -> bytes:
    """Take the picture that a person sees, as PNG: a step some way on."""
    episode, number = richest(url)
    options = webdriver.ChromeOptions()
    for switch in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(switch)
    options.add_argument(f"--user-data-dir={profile}")
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        metrics = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get(f"{url}/#/episode/{episode}")
        until(lambda: driver.execute_script(READY))
        for key in "l" * number + "." * 20:
            webdriver.ActionChains(driver).send_keys(key).perform()
        until(lambda: driver.execute_script(READY))
        return driver.get_screenshot_as_png()
    finally:
        driver.quit()


def main(out: str) -> None:
    """Record, annotate, serve, look."""
    with tempfile.TemporaryDirectory(prefix="goalreel-picture-") as folder:
        recorded, dataset = Path(folder) / "recorded", Path(folder) / "pick-and-place"
        record = ("tabletop", "record", "--episodes", str(EPISODES), "--split", "validation", "--size", "192")
        subprocess.run([GOALREEL, *record, "--out", recorded], check=True)
        annotate = ("annotate", recorded, "--replace-rows", "--preset", "nano", "--out", dataset)
        subprocess.run([GOALREEL, *annotate], check=False)  # 1 where a goal was rejected
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with subprocess.Popen([GOALREEL, "review", dataset, "--port", str(port), "--by", "ann"]) as server:
            try:
                until(lambda: listens(port))
                picture = look(f"http://127.0.0.1:{port}", Path(folder) / "profile")
            finally:
                server.terminate()
    small = io.BytesIO()
    PIL.Image.open(io.BytesIO(picture)).convert("RGB").quantize(
        256, PIL.Image.Quantize.MEDIANCUT, kmeans=5
    ).save(small, "PNG", optimize=True)
    write_bytes(Path(out), small.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
