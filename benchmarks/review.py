"""How long a person waits for the review page of a large dataset.

    python benchmarks/review.py [--episodes N] [--json]

A dataset of 64 x 64 pixels and 16 frames an episode (`scale_data.py`), annotated without any model, is served
by `goalreel review` in a process of its own and looked at in headless Chromium, 1,440 pixels wide.

Keys of --json: `episodes`; `read_s`, from the command's start until it answers; `first_paint_ms`, from
opening the address until the first lines of the list are painted, the median of REPEATS; `key_ms`, from a key
press until what it does is painted, the median of each key's presses, of the slowest key; `keys`, of each:
`.` and `l` go to another frame and step, `]` sets a boundary, `a letter` goes into the search field, which
the server answers; `saved_ms`, from `]` until the page says that the server has it on its disk.
"""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from statistics import median

from scale import fill
from scale_data import BLOCK, make
from selenium import webdriver

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.datasets.shards import Shard
from goalreel.models.load import load

REPEATS, PRESSES = 5, 20
RUN = "from goalreel.cli.main import app; app()"
OBSERVED = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".row")) return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
PAINTED = """
const done = arguments[0];
(function look() { window.painted ? done(window.painted) : requestAnimationFrame(look); })();
"""
SETTLED = """
const done = arguments[0];
(function look() {
  document.querySelector("#saving")?.textContent === "Saved" ? done() : requestAnimationFrame(look);
})();
"""
PRESSED = """
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


def annotated(work: Path, episodes: int) -> Path:
    """Records of all the episodes; those behind the first BLOCK are copies."""
    root, out = make(work / "in", episodes), work / "out"
    source, options = open_dataset(root), Options()
    models = load("hindsight", recordings=options.recorded(source))
    annotate(source, out, models, options, episodes=range(BLOCK), shard=Shard(1, 1))
    fill(root, out)
    return out


def answers(url: str) -> bool:
    """Whether the page is there."""
    try:
        with urllib.request.urlopen(f"{url}/api/dataset") as answer:
            return answer.status == 200
    except urllib.error.URLError:
        return False


def browser(profile: Path) -> webdriver.Chrome:
    """Headless, at the width of a screen."""
    options = webdriver.ChromeOptions()
    for switch in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    size = {"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": OBSERVED})
    return driver


def first_paint(driver: webdriver.Chrome, url: str) -> float:
    """Milliseconds until the first lines are painted."""
    driver.get("about:blank")
    driver.get(url)
    return driver.execute_async_script(PAINTED)


def pressed(driver: webdriver.Chrome, key: str, selector: str) -> float:
    """Milliseconds from a key until what is at `selector` looks otherwise."""
    return driver.execute_async_script(PRESSED, key, selector)


def measure(driver: webdriver.Chrome, url: str) -> dict[str, object]:
    """The times that a person waits."""
    paints = [first_paint(driver, url) for _ in range(REPEATS)]
    driver.execute_script("document.querySelector('[name=q]').focus()")
    keys = {"a letter": [pressed(driver, letter, "#items") for letter in "in the bowl 19"]}
    driver.get(f"{url}/#/episode/{BLOCK}")
    driver.execute_async_script(SETTLED)
    keys["l"] = [pressed(driver, key, ".step-list") for key in ("l", "j") * (PRESSES // 2)]
    keys["."] = [pressed(driver, key, ".playhead") for key in (".", ",") * (PRESSES // 2)]
    keys["]"] = [_set(driver, key, ".track") for key in (".", ",") * (PRESSES // 2)]
    saved = [_set(driver, key, "#history") for key in (".", ",") * (PRESSES // 2)]
    medians = {key: round(median(times), 1) for key, times in keys.items()}
    return {
        "first_paint_ms": round(median(paints)),
        "key_ms": max(medians.values()),
        "keys": medians,
        "saved_ms": round(median(saved), 1),
    }


def _set(driver: webdriver.Chrome, to: str, selector: str) -> float:
    """As `pressed`, for a boundary that is set a frame further, or back."""
    driver.execute_async_script(SETTLED)
    pressed(driver, to, ".playhead")
    return pressed(driver, "]", selector)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="goalreel-review-") as work, socket.socket() as probe:
        out = annotated(Path(work), given.episodes)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        url, began = f"http://127.0.0.1:{port}", time.perf_counter()
        with subprocess.Popen([sys.executable, "-c", RUN, "review", str(out), "--port", str(port)]) as server:
            try:
                while not answers(url):
                    time.sleep(0.02)
                read = time.perf_counter() - began
                driver = browser(Path(work) / "profile")
                found = {"episodes": given.episodes, "read_s": round(read, 1), **measure(driver, url)}
                driver.quit()
            finally:
                server.kill()
    if given.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name}: {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
