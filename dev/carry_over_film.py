"""Make docs/images/carry_over.gif: label three episodes, carry their steps over, look at what is in doubt.

The review page on recordings of the simulated tabletop, labelled as in lab/benchmarks/label.py.

    PYTHONPATH=benchmarks .venv/bin/python dev/carry_over_film.py docs/images/carry_over.gif
"""

import io
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

import label
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from page_picture import browser, until
from parts.pages import page_server
from selenium import webdriver

from goalreel.annotator.annotate import annotate
from goalreel.annotator.options import Options
from goalreel.files import write_bytes
from goalreel.tabletop.grammar import TabletopEpisode, sample_episode

EPISODES: Final = 16
SIZE: Final = (960, 673)
SECONDS: Final = 3.0
label.TASKS = {"inside": "tidy the block away"}
label.NAMES = {"inside": ("grasp the block", "put it into the bowl")}
label.BACK = "move back"
READY: Final = """
return document.querySelector(arguments[0])
  && (document.querySelector("#saving")?.textContent ?? "Saved") === "Saved"
  && [...document.images].filter((image) => image.getBoundingClientRect().top < innerHeight)
    .every((image) => image.complete && (image.naturalWidth || !image.src));
"""


def episodes() -> list[TabletopEpisode]:
    """Choose episodes of a task, one of which moves another block too."""
    chosen = label.choose(2 * EPISODES)
    odd = next(e for e in map(sample_episode, count()) if len(e.goals) == 2 and e.goals[0].kind == "inside")
    return [*chosen[:-1], replace(odd, instruction=chosen[-1].instruction)]


def scenes(url: str, person: label.Person, driver: webdriver.Chrome) -> Iterator[tuple[str, PIL.Image.Image]]:
    """Yield each caption with its picture of the page, while a person works on it."""

    def look(place: str, seen: str) -> PIL.Image.Image:
        driver.get("about:blank")
        driver.get(f"{url}/{place}")
        until(lambda: driver.execute_script(READY, seen))
        return PIL.Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")

    [task] = person.call("/api/tasks")
    yield (
        "1. No rule can read this task. The page names the three episodes to label first.",
        look("", ".task a"),
    )
    for episode in task["next"]:
        person.label(episode)
    yield "2. Cut and name their steps in your own words.", look(f"#/episode/{task['next'][0]}", "#saving")
    yield (
        "3. goalreel predicts each of the three from the others, and says how well.",
        look("", "[data-act=carry]"),
    )
    person.act("carry", task["instruction"])
    page = "/api/episodes?status=unreviewed&order=doubt&limit=200"
    [first, *_] = person.call(page)["rows"]
    yield (
        "4. One click carries them over. What is in doubt comes first.",
        look("", "[data-act=accept]"),
    )
    yield "5. Each doubt says why. Correct or accept it.", look(f"#/episode/{first['episode']}", "#saving")


def captioned(caption: str, picture: PIL.Image.Image) -> PIL.Image.Image:
    """Scale a picture of the page, and write its caption below."""
    frame = PIL.Image.new("RGB", (SIZE[0], SIZE[1] + 44), "#263238")
    frame.paste(picture.resize(SIZE, PIL.Image.Resampling.LANCZOS))
    font = PIL.ImageFont.truetype("DejaVuSans.ttf", 20)
    PIL.ImageDraw.Draw(frame).text((16, SIZE[1] + 10), caption, "white", font)
    return frame.quantize(128, PIL.Image.Quantize.MEDIANCUT, dither=PIL.Image.Dither.NONE)


def main(out: str) -> None:
    """Record, annotate, serve, look."""
    with tempfile.TemporaryDirectory(prefix="goalreel-film-") as folder:
        recorded, dataset = Path(folder) / "recorded", Path(folder) / "tidy"
        cuts, names = label.record(recorded, episodes(), size=192)
        annotate(recorded, dataset, options=Options(replace_rows=True))
        with (
            page_server("review", dataset, "/api/dataset") as url,
            browser(Path(folder) / "profile") as driver,
        ):
            person = label.Person(url, cuts, names)
            frames = [captioned(*scene) for scene in scenes(url, person, driver)]
    film = io.BytesIO()
    frames[0].save(
        film,
        "GIF",
        save_all=True,
        append_images=frames[1:],
        duration=int(1000 * SECONDS),
        loop=0,
        optimize=True,
    )
    write_bytes(Path(out), film.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
