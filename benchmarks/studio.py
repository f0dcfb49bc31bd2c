"""Time until a visitor of `goalreel studio` sees something: nano, on this CPU, in headless Chromium.

    python benchmarks/studio.py [--storyboards N] [--json]

A real `goalreel studio` process is started on an empty folder. On its page, 1,440 pixels wide, a storyboard
of an example is made, again and again. Models are loaded during the first one, which is not counted. Times
are medians.

Keys of --json, from the click on: `first_plan_ms` until the plan, `first_picture_ms` until the first picture,
`storyboard_ms` until the storyboard is done. `storyboards`: how many were counted.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from common import argument_parser, parse, report
from parts.pages import chromium, page_server

MAKE = """
const done = arguments[0];
const times = {};
const seen = {
  first_plan_ms: () => document.querySelectorAll(".reel .frame").length > 1,
  first_picture_ms: () => document.querySelector(".goal .zoom img")?.naturalWidth,
  storyboard_ms: () => document.querySelector("#work .badge"),
};
let began;
(function look() {
  const cards = [...document.querySelectorAll(".card img")];
  if (!began && cards.length && cards.every((image) => image.complete)) {
    cards[0].closest(".card").click();
    began = performance.now();
    document.querySelector("#send").click();
  }
  for (const [name, there] of Object.entries(seen))
    if (began && there()) times[name] ??= performance.now() - began;
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


def measure(storyboards: int) -> dict[str, float]:
    """Start a studio, and make storyboards of an example on its page, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        folder, runs = Path(name), []
        with (
            page_server("studio", folder / "boards", "/v1/studio") as url,
            chromium(folder / "page") as driver,
        ):
            driver.set_script_timeout(600)
            for _ in range(1 + storyboards):
                driver.get("about:blank")
                driver.get(url)
                runs.append(driver.execute_async_script(MAKE))
    return {"storyboards": storyboards} | {key: round(median(r[key] for r in runs[1:])) for key in runs[0]}


if __name__ == "__main__":
    main()
