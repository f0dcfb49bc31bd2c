"""Time a person waits for the review page of a large dataset.

    python benchmarks/review.py [--episodes N] [--json]

A dataset of 64 x 64 pixels and 16 frames an episode (`parts/scale_data.py`), annotated without any model, has
a person's verdict on `--corrections` episodes. `goalreel review` serves it in a process of its own, and
headless Chromium opens it, 1,440 pixels wide.

Keys of --json: `episodes`; `first_paint_ms`, from opening the address until the first lines of the list are
painted, the median of several; `key_ms`, from a key press until what it does is painted, the median of the
slowest key; `keys`, the median of each: `.` and `l` go to another frame and step, `]` sets a boundary,
`a letter` goes into the search field, which the server answers; `saved_ms`, from `]` until the page says that
the server has it on its disk; `empty_ms`, the same as `key_ms` on an empty page, as fast as this machine is.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from common import argument_parser, parse, report
from parts.pages import chromium, page_server
from parts.scale_data import BLOCK, fill, make
from selenium import webdriver

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.datasets.corrections.events import GiveVerdict
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.records import FOLDER, Records, Shard
from goalreel.models.load import load

ON_NEW_DOCUMENT = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".row")) return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
WAIT_FOR_PAINT = """
const done = arguments[0];
(function look() { window.painted ? done(window.painted) : requestAnimationFrame(look); })();
"""
WAIT_FOR_SAVED = """
const done = arguments[0];
(function look() {
  document.querySelector("#saving")?.textContent === "Saved" ? done() : requestAnimationFrame(look);
})();
"""
PRESS_KEY = """
const [key, selector, done] = arguments;
const seen = () => document.querySelector(selector)?.outerHTML;
const before = seen();
const began = performance.now();
const field = document.activeElement.name === "q" ? document.activeElement : null;
if (field) {
  field.value += key;
  field.dispatchEvent(new Event("input", { bubbles: true }));
} else document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
(function look() {
  if (seen() === before) requestAnimationFrame(look);
  else requestAnimationFrame(() => done(performance.now() - began));
})();
"""
EMPTY = """
const done = arguments[0];
const began = performance.now();
document.body.append("x");
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
"""


def annotate_all(folder: Path, episodes: int, block: int, corrections: int) -> Path:
    """Write records of all the episodes; those behind the first `block` are copies."""
    root, out = make(folder / "in", episodes, block=block), folder / "out"
    source, options = open_dataset(root), Options()
    models = load("hindsight", recordings=options.recorded(source))
    annotate(source, out, models, options, episodes=range(block), shard=Shard(1, 1))
    fill(root, out, block)
    reviews = Reviews(Records(out / FOLDER, ""))
    for episode in range(min(corrections, episodes)):
        length = len(source.episode(min(episode, block - 1)))
        reviews.change(episode, length, 0, "ann", GiveVerdict(verdict="accept"))
    return out


def measure(
    driver: webdriver.Chrome, url: str, episode: int, repeats: int, presses: int
) -> dict[str, object]:
    """Time the first paint and every key, in milliseconds."""

    def first_paint() -> float:
        driver.get("about:blank")
        driver.get(url)
        return driver.execute_async_script(WAIT_FOR_PAINT)

    def press(key: str, selector: str) -> float:
        """Time a key until the elements at `selector` change."""
        return driver.execute_async_script(PRESS_KEY, key, selector)

    def set_boundary(step: str, selector: str) -> float:
        """Time `]` until the elements at `selector` change, a frame further (`.`) or back (`,`)."""
        driver.execute_async_script(WAIT_FOR_SAVED)
        press(step, ".playhead")
        return press("]", selector)

    empty = [driver.execute_async_script(EMPTY) for _ in range(presses)]
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": ON_NEW_DOCUMENT})
    paints = [first_paint() for _ in range(repeats)]
    driver.execute_script("document.querySelector('[name=q]').focus()")
    keys = {"a letter": [press(letter, "#items") for letter in "in the bowl 19"[:presses]]}
    driver.get(f"{url}/#/episode/{episode}")
    driver.execute_async_script(WAIT_FOR_SAVED)
    turns = presses // 2
    keys["l"] = [press(key, ".step-list") for key in ("l", "j") * turns]
    keys["."] = [press(key, ".playhead") for key in (".", ",") * turns]
    keys["]"] = [set_boundary(key, ".track") for key in (".", ",") * turns]
    saves = [set_boundary(key, "#history") for key in (".", ",") * turns]
    medians = {key: round(median(times), 1) for key, times in keys.items()}
    return {
        "first_paint_ms": round(median(paints)),
        "key_ms": max(medians.values()),
        "keys": medians,
        "saved_ms": round(median(saves), 1),
        "empty_ms": round(median(empty), 1),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--corrections", type=int, default=5000, help="episodes with a person's verdict")
    parser.add_argument("--block", type=int, default=BLOCK, help="episodes that are recorded, not copied")
    parser.add_argument("--repeats", type=int, default=5, help="times the page is opened")
    parser.add_argument("--presses", type=int, default=20, help="of each key")
    options = parse(parser, argv, episodes=3, block=2, repeats=1, presses=2)
    with tempfile.TemporaryDirectory(prefix="goalreel-review-") as name:
        out = annotate_all(Path(name), options.episodes, options.block, options.corrections)
        with page_server("review", out, "/api/dataset") as url, chromium(Path(name) / "page") as driver:
            times = measure(driver, url, options.block, options.repeats, options.presses)
    report({"episodes": options.episodes} | times, options.json)


if __name__ == "__main__":
    main()
