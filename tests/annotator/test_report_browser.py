"""The report in a real browser, at desktop and phone width, straight from the disk."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.browser import BrowserPage, chromium, needs_chromium

from goalreel.annotator.report.cards import EpisodeView
from goalreel.annotator.report.write import PAGE_EPISODES, write_report
from goalreel.image import Image
from goalreel.types import Attempt, Segment, Step, Storyboard, StoryboardStep, Task, Verdict

WIDTHS = {"desktop": 1280, "phone": 390}
on_desktop = pytest.mark.parametrize("page", [WIDTHS["desktop"]], ids=["desktop"], indirect=True)
"""Neither keys nor colours depend on the width."""
LONG = "put the " + "very" * 60 + " <b>red</b> block 🥣 into ضع القلم في الوعاء"

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
pytestmark = [pytest.mark.process, needs_chromium]


def picture(shade: int) -> Image:
    return Image(np.full((48, 64, 3), shade, np.uint8))


def attempt(shade: int, *, success: bool) -> Attempt:
    verdict = Verdict(success=success, reasoning=LONG, refined_prompt=LONG)
    return Attempt(prompt=LONG, seed=0, image=picture(shade), verdict=verdict)


def episode(index: int, steps: int = 3) -> EpisodeView:
    """Two attempts and the end frame a step; every third is rejected."""
    accepted = index % 3 != 0
    board = tuple(
        StoryboardStep(
            step=Step(name=f"step {n} {LONG}", instruction=LONG, prompt=LONG, auxiliary_text=LONG),
            segment=Segment(start=n * 10, end=n * 10 + 10),
            attempts=(attempt(40, success=False), attempt(90 + n, success=accepted)),
            status="accepted" if accepted else "rejected",
            chosen=1,
        )
        for n in range(steps)
    )
    text = f"task {index} {LONG if index % 2 else 'fold'}"
    task = Task(id=str(index), instruction=text, image=picture(index))
    storyboard = Storyboard(task=task, steps=board)
    ends = tuple(picture(150 + n) for n in range(steps))
    return EpisodeView(index, f"episode {index}", text, storyboard, 10, 10 * steps, ends)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """(one page, many pages), with texts that would break a careless layout."""
    one, many = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("many")
    summary = {"preset": "hindsight", LONG: LONG}
    views = [episode(0), episode(1), episode(2, steps=30)]
    write_report(views, one, title=LONG, summary=summary)
    write_report(map(episode, range(2 * PAGE_EPISODES + 9)), many, title="many", summary=summary)
    return one, many


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    yield from chromium(tmp_path_factory.mktemp("profile"), "performance")


class Page(BrowserPage):
    """A page of a report, straight from the disk."""

    def open(self, path: Path) -> None:
        self.load(path.as_uri())
        assert self.overflow() <= 0

    def shown(self, css: str) -> list:
        return [node for node in self.all(css) if node.is_displayed()]

    def hit(self, node) -> None:
        """Click once it stands still: rows that come into view move others."""
        self.driver.execute_async_script(STANDS_STILL, node)
        node.click()

    def caption(self) -> str:
        return self.text("#viewer p").rpartition(" · ")[2]

    def rows(self) -> list[str]:
        """The first line of every row on show, such as `episode 24`."""
        return self.script(
            "return [...document.querySelectorAll('.row')].filter(r => r.checkVisibility())"
            ".map(r => r.querySelector('.about .muted').textContent)"
        )

    def requested(self) -> list[str]:
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


STANDS_STILL = """
const [node, done] = arguments;
let last = "";
const look = () => {
    node.scrollIntoView({block: "center", behavior: "instant"});
    const {x, y, width, height} = node.getBoundingClientRect();
    const at = document.elementFromPoint(x + width / 2, y + height / 2);
    const now = [x, y, width, height].join();
    if (now === last && node.contains(at)) done();
    else { last = now; requestAnimationFrame(() => requestAnimationFrame(look)); }
};
look();
"""


@pytest.fixture(params=WIDTHS.values(), ids=WIDTHS.keys())
def page(driver, request):
    page = Page(driver)
    page.resize(request.param, 800)
    driver.get("about:blank")
    driver.get_log("performance")
    driver.get_log("browser")
    yield page
    assert driver.get_log("browser") == []
    assert [url for url in page.requested() if not url.startswith(("file:", "data:", "about:"))] == []


def test_pages_fit_the_width_and_a_long_instruction_is_folded(page, reports):
    one, many = reports
    for path in (one / "index.html", many / "index.html", many / "page-0002.html"):
        page.open(path)
        broken = "return [...document.images].filter(i => i.src && i.complete && !i.naturalWidth).length"
        assert page.script(broken) == 0
    page.open(one / "index.html")
    headline = page.find("#episode-1-title")
    folded = headline.size["height"]
    page.hit(page.find("#episode-1 .fold summary"))
    page.eventually(lambda: headline.size["height"] > folded)
    assert page.find("#episode-0-title").size["height"] < folded, "which is short"


def test_a_click_enlarges_and_keys_move(page, reports):
    keys = webdriver.Keys
    page.open(reports[0] / "index.html")
    buttons = page.shown("#episode-0 button.zoom")
    assert len(buttons) == 1 + 3 * 3
    small = buttons[1].size["width"]
    page.hit(buttons[1])
    image = page.find("#viewer img")
    page.eventually(image.is_displayed)
    assert image.size["width"] > small
    assert page.overflow() <= 0
    page.eventually(lambda: page.caption(), "attempt 1, rejected")
    for key, text in [
        (keys.ARROW_RIGHT, "attempt 2, rejected"),  # in its place
        (keys.ARROW_RIGHT, "real end frame"),
        (keys.ARROW_LEFT, "attempt 2, rejected"),
    ]:
        page.press(key)
        page.eventually(lambda: page.caption(), text)
    earlier, wipe = page.find("#viewer .before"), page.find("#viewer input")
    assert earlier.get_attribute("src") == page.find("#episode-0 .start img").get_attribute("src")
    wipe.send_keys(keys.END)  # by keyboard: all of the picture before
    right = "return parseFloat(getComputedStyle(arguments[0]).clipPath.split(' ')[1] || 0)"
    assert page.script(right, earlier) < image.size["width"] / 2
    wipe.send_keys(keys.ARROW_LEFT)
    assert wipe.get_attribute("value") == "99"
    assert page.caption() == "attempt 2, rejected", "the key was the slider's"
    page.find("#viewer [data-move='-1']").click()
    page.find("#viewer [data-move='-1']").click()
    page.eventually(lambda: page.caption(), "First frame")
    assert not earlier.is_displayed()
    page.press(keys.ARROW_LEFT)  # the row of pictures is a ring
    page.eventually(lambda: page.caption(), "real end frame")
    page.press(keys.ESCAPE)
    page.eventually(page.find("#viewer").is_displayed, False)
    # Focus follows the picture last seen, and opens it again.
    page.eventually(lambda: page.driver.switch_to.active_element, buttons[-1])
    page.press(keys.ENTER)
    page.eventually(page.find("#viewer img").is_displayed)
    page.hit(page.find("#viewer [data-close]"))
    page.eventually(page.find("#viewer").is_displayed, False)


@on_desktop
def test_the_time_line_speaks_on_focus_and_leads_to_the_step(page, reports):
    page.open(reports[0] / "index.html")
    assert not page.shown(".tip")
    segment = page.find("#episode-1 .track a:nth-of-type(2)")
    page.script("document.querySelector('#episode-1 .track a').focus()")
    page.press(webdriver.Keys.TAB)
    page.eventually(lambda: page.driver.switch_to.active_element, segment)
    page.eventually(lambda: [tip.text[-22:] for tip in page.shown(".tip")], ["· 1.0–2.0 s · accepted"])
    assert page.overflow() <= 0
    page.press(webdriver.Keys.ENTER)
    page.eventually(lambda: page.driver.current_url.partition("#")[2], "episode-1-step-2")
    widths = [a.size["width"] for a in page.all("#episode-1 .track a")]
    assert max(widths) - min(widths) <= 1


def test_the_list_is_searched_filtered_and_paged(page, reports):
    count = 2 * PAGE_EPISODES + 9
    page.open(reports[1] / "index.html")
    page.eventually(lambda: page.rows(), [f"episode {i}" for i in range(24)])
    assert page.find("#where").text == "Page 1 of 3"
    page.hit(page.find("[data-turn='1']"))
    page.eventually(lambda: page.rows(), [f"episode {i}" for i in range(24, 48)])
    page.find("#query").send_keys("fold TASK")
    page.eventually(lambda: page.find("#count").text, f"{(count + 1) // 2} of {count} episodes")
    page.eventually(lambda: page.find("#where").text, "Page 1 of 2")
    page.find("#status option[value=rejected]").click()
    both = [f"episode {i}" for i in range(0, count, 6)]
    page.eventually(lambda: page.rows(), both)
    page.hit(page.shown(".row a")[4])
    page.eventually(lambda: page.driver.current_url.rpartition("/")[2], "page-0002.html#episode-24")
    assert page.find("#episode-24").is_displayed()
    page.driver.back()
    page.eventually(lambda: page.rows(), both)
    page.find("#query").clear()
    page.hit(page.shown("table a")[1])
    page.eventually(lambda: page.find("#query").get_attribute("value"), "task 0 fold")
    page.find("#query").send_keys(" nothing like it")
    page.eventually(lambda: page.rows(), [])
    page.eventually(page.find("#nothing").is_displayed)
