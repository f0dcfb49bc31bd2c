"""Time until a visitor of `goalreel studio` sees something: nano, on this CPU, in headless Chromium.

    python benchmarks/studio.py [--storyboards N] [--json]

A real `goalreel studio` process is started on an empty folder. On its page, 1,440 pixels wide, a storyboard
of an example is made, again and again. Models are loaded during the first one, which is not counted. Times
are medians.

Keys of --json: `start_ms`, from the command until the server answers; `first_paint_ms`, from opening the
address until the examples are painted; `cold_picture_ms`, from the first click until its first picture. Of
the others, from the click on: `first_plan_ms` until the plan, `first_picture_ms` until the first picture,
`storyboard_ms` until the storyboard is done. `storyboards`: how many were counted.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from common import argument_parser, parse, report
from parts.pages import chromium, page_server
from selenium import webdriver

WAIT_FOR_PAINT = """
const done = arguments[0];
(function look() {
  const cards = [...document.querySelectorAll(".card img")];
  const painted = cards.length && cards.every((image) => image.complete);
  requestAnimationFrame(() => (painted ? done(performance.now()) : look()));
})();
"""
MAKE = """
const done = arguments[0];
document.querySelector(".card").click();
const times = {};
const seen = {
  first_plan_ms: () => document.querySelectorAll(".reel .frame").length > 1,
  first_picture_ms: () => document.querySelector(".goal .zoom img")?.naturalWidth,
  storyboard_ms: () => document.querySelector("#work .badge"),
};
const began = performance.now();
document.querySelector("#send").click();
(function look() {
  for (const [name, there] of Object.entries(seen)) if (there()) times[name] ??= performance.now() - began;
  if (times.storyboard_ms) done(times);
  else requestAnimationFrame(look);
})();
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its results."""
    parser = argument_parser(__doc__)
    parser.add_argument("--storyboards", type=int, default=5)
    options = parse(parser, argv, storyboards=1)
    report(measure(options.storyboards), options.json)


def measure(storyboards: int) -> dict[str, object]:
    """Start a studio, and make storyboards on its page, one after the other."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with page_server("studio", folder / "boards", "/v1/studio") as url:
            start_ms = round(1000 * (time.perf_counter() - began), 1)
            with chromium(folder / "profile") as driver:
                driver.set_script_timeout(600)
                _, cold = make(driver, url)
                runs = [make(driver, url) for _ in range(storyboards)]
    times = {key: round(median(run[key] for _, run in runs)) for key in runs[0][1]}
    return {
        "start_ms": start_ms,
        "first_paint_ms": round(median(paint for paint, _ in runs)),
        "cold_picture_ms": round(cold["first_picture_ms"]),
        "storyboards": storyboards,
        **times,
    }


def make(driver: webdriver.Chrome, url: str) -> tuple[float, dict[str, float]]:
    """Open the page and make a storyboard of its first example: until the paint, and until what comes."""
    driver.get("about:blank")
    driver.get(url)
    return driver.execute_async_script(WAIT_FOR_PAINT), driver.execute_async_script(MAKE)


if __name__ == "__main__":
    main()
