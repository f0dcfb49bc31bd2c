"""Make docs/images/review.png: the review page on a recording that the nano models annotated.

Of the tabletop's first validation scenes it takes the one with most to show: attempts, then steps.

    .venv/bin/python dev/review_picture.py docs/images/review.png
"""

import json
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Final

from page_picture import browser, until, write_small
from selenium import webdriver

GOALREEL: Final = Path(sys.executable).with_name("goalreel")
EPISODES: Final = 4
READY: Final = """
return document.querySelector("#saving")?.textContent === "Saved"
  && [...document.images].every((image) => image.complete && (image.naturalWidth || !image.src));
"""


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
    with browser(profile) as driver:
        driver.get(f"{url}/#/episode/{episode}")
        until(lambda: driver.execute_script(READY))
        for key in "l" * number + "." * 20:
            webdriver.ActionChains(driver).send_keys(key).perform()
        until(lambda: driver.execute_script(READY))
        return driver.get_screenshot_as_png()


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
    write_small(picture, Path(out))


if __name__ == "__main__":
    main(sys.argv[1])
