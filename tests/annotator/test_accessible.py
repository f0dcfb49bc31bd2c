"""axe-core finds no fault on any page: in light on a desk, and in dark on a phone."""

from collections.abc import Iterator

import httpx
import pytest
from support.browser import BrowserPage, needs_chromium
from support.recordings import make_dataset
from support.review import ReviewServer
from support.serving_models import running
from support.studio import app, edit, finished, made, saved, submit

from goalreel.annotator.show import show

pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
axe = pytest.importorskip("axe_core_python.selenium", reason="needs axe: pip install axe-core-python")
pytestmark = [pytest.mark.process, needs_chromium]

LOOKS = {"light": (1280, 900), "dark": (390, 844)}
FRONT = "observation.images.front"
KINDS = [
    {},
    {"doubts": ("the block is not seen",)},
    {"vain": (1,), "drawn": (0, 1)},
    {"statuses": ("rejected", "rejected", "accepted")},
]
PAGES = {
    "report": ("FILES/report/index.html", ""),
    "episodes of a report": ("FILES/report/page-0001.html", ""),
    "enlarged": ("FILES/report/page-0001.html", ".step:nth-child(3) .zoom"),
    "plan": ("FILES/storyboard/index.html", ""),
    "review": ("REVIEW/", ""),
    "episode": ("REVIEW/#/episode/2", ""),
    "words of a step": ("REVIEW/#/episode/1", "[data-act=edit]"),
    "keys": ("REVIEW/#/episode/1", "[data-act=sheet]"),
    "judged": ("REVIEW/#/episode/3", "[data-act=reject]"),
    "studio": ("STUDIO/", ".card"),
    "board": ("STUDIO/#/storyboard/MADE", ""),
    "drawn again": ("STUDIO/#/storyboard/MADE", "[data-act=draw]"),
    "new step": ("STUDIO/#/storyboard/MADE", ".reel [data-act=add]"),
    "later picture": ("STUDIO/#/storyboard/MADE", "[data-act=continue]"),
    "stale": ("STUDIO/#/storyboard/STALE", ""),
    "no plan": ("STUDIO/#/storyboard/FAILED", ""),
}
"""The address of each page, and what is pressed there."""
AXE = "axe.run({ resultTypes: ['violations'] }).then(arguments[0])"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory, annotated) -> Iterator[dict[str, str]]:
    """What the names in an address stand for, while the servers run."""
    folder = tmp_path_factory.mktemp("accessible")
    count = 2 * len(KINDS)
    source = make_dataset(folder / "in", (30,) * count, dtype="image", cameras=("front",))
    out = annotated(source, folder / "out", {i: KINDS[i % len(KINDS)] for i in range(count)}, camera=FRONT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goalreel.annotator.report.write.PAGE_EPISODES", len(KINDS))
        show(out, folder / "report", source=source)
    review = ReviewServer(out)
    with running(app(folder / "boards")) as (studio, _):
        client = httpx.Client(base_url=studio, timeout=60)
        board, stale = made(client), made(client)
        edit(client, stale, "choose", step=stale["steps"][0]["id"], attempt=0)
        failed = finished(client, submit(client, "no backend"), "failed")
        saved(client, board["id"], folder)
        yield {
            "MADE": board["id"],
            "STALE": stale["id"],
            "FAILED": failed["id"],
            "REVIEW": review.url,
            "STUDIO": studio,
            "FILES": folder.as_uri(),
        }
    review.kill()


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_fault(driver, addresses, name):
    address, pressed = PAGES[name]
    for word, meant in addresses.items():
        address = address.replace(word, meant)
    page = BrowserPage(driver)
    page.resize(*LOOKS["light"])
    page.load(address)
    page.eventually(lambda: len(page.all("h1, main img")) > 0)
    if pressed:
        page.click(pressed)
    page.script(axe.Axe().axe_script)
    found: list[str] = []
    for scheme, size in LOOKS.items():
        page.resize(*size)
        page.scheme(scheme)
        assert page.overflow() <= 0
        for fault in driver.execute_async_script(AXE)["violations"]:
            at = [f"{node['target']} {node['failureSummary']}" for node in fault["nodes"]]
            found.append(f"{size[0]} px, {scheme}, {fault['impact']}, {fault['id']}: {at}")
    assert found == []
