"""The report in a real browser, at desktop and phone width, straight from the disk."""

import json
import math

import numpy as np
import pytest
from support.browser import chromium as browser_of
from support.browser import needs_chromium

from goalreel.annotator.report.cards import EpisodeView
from goalreel.annotator.report.write import PAGE_EPISODES, PAGE_STEPS, write_report
from goalreel.image import Image
from goalreel.types import Attempt, Segment, Step, Storyboard, StoryboardStep, Task, Verdict

WIDTHS = {"desktop": 1280, "phone": 390}
on_desktop = pytest.mark.parametrize("browser", [WIDTHS["desktop"]], ids=["desktop"], indirect=True)
"""Neither keys nor colours depend on the width."""
LONG = "put the " + "very" * 60 + " <b>red</b> block 🥣 into ضع القلم في الوعاء"

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
TimeoutException = pytest.importorskip("selenium.common").TimeoutException
WebDriverWait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait
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
def chromium(tmp_path_factory):
    yield from browser_of(tmp_path_factory.mktemp("profile"), "performance")


@pytest.fixture(params=WIDTHS.values(), ids=WIDTHS.keys())
def browser(chromium, request):
    size = {"width": request.param, "height": 800, "deviceScaleFactor": 1, "mobile": request.param < 500}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chromium.get("about:blank")
    chromium.get_log("performance")
    chromium.get_log("browser")
    yield chromium
    assert chromium.get_log("browser") == []
    assert [url for url in requested(chromium) if not url.startswith(("file:", "data:", "about:"))] == []


def requested(driver) -> list[str]:
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


def overflow(driver) -> int:
    return driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")


def find(driver, css: str):
    return driver.find_element("css selector", css)


def shown(driver, css: str) -> list:
    return [node for node in driver.find_elements("css selector", css) if node.is_displayed()]


def press(driver, key: str) -> None:
    webdriver.ActionChains(driver).send_keys(key).perform()


def open_page(driver, page) -> None:
    driver.get(page.as_uri())
    assert overflow(driver) <= 0


def test_pages_fit_the_width_and_a_long_instruction_is_folded(browser, reports):
    one, many = reports
    for page in (one / "index.html", many / "index.html", many / "page-0002.html"):
        open_page(browser, page)
        broken = "return [...document.images].filter(i => i.src && i.complete && !i.naturalWidth).length"
        assert browser.execute_script(broken) == 0
    open_page(browser, one / "index.html")
    headline = find(browser, "#episode-1-title")
    folded = headline.size["height"]
    click(browser, find(browser, "#episode-1 .fold summary"))
    eventually(browser, lambda: headline.size["height"] > folded)
    assert find(browser, "#episode-0-title").size["height"] < folded, "which is short"


def eventually(driver, condition, wanted=True) -> None:
    """Wait for `condition()` to equal `wanted`: a busy browser answers input late."""
    seen = []

    def equal(_) -> bool:
        seen.append(condition())
        return seen[-1] == wanted

    try:
        WebDriverWait(driver, 60, poll_frequency=0.05).until(equal)
    except TimeoutException:
        pytest.fail(f"wanted {wanted!r}, saw {seen[-1]!r}")


def click(driver, node) -> None:
    """Click once it stands still: rows take their true heights as they come into view, and move others."""
    driver.execute_async_script(
        """
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
        """,
        node,
    )
    node.click()


def caption(driver) -> str:
    return find(driver, "#viewer p").text.rpartition(" · ")[2]


def test_a_click_enlarges_and_keys_move(browser, reports):
    keys = webdriver.Keys
    open_page(browser, reports[0] / "index.html")
    buttons = shown(browser, "#episode-0 button.zoom")
    assert len(buttons) == 1 + 3 * 3
    small = buttons[1].size["width"]
    click(browser, buttons[1])
    image = find(browser, "#viewer img")
    eventually(browser, image.is_displayed)
    assert image.size["width"] > small
    assert overflow(browser) <= 0
    eventually(browser, lambda: caption(browser), "attempt 1, rejected")
    for key, text in [
        (keys.ARROW_RIGHT, "attempt 2, rejected"),  # in its place
        (keys.ARROW_RIGHT, "real end frame"),
        (keys.ARROW_LEFT, "attempt 2, rejected"),
    ]:
        press(browser, key)
        eventually(browser, lambda: caption(browser), text)
    earlier, wipe = find(browser, "#viewer .before"), find(browser, "#viewer input")
    assert earlier.get_attribute("src") == find(browser, "#episode-0 .start img").get_attribute("src")
    wipe.send_keys(keys.END)  # by keyboard: all of the picture before
    right = "return parseFloat(getComputedStyle(arguments[0]).clipPath.split(' ')[1] || 0)"
    assert browser.execute_script(right, earlier) < image.size["width"] / 2
    wipe.send_keys(keys.ARROW_LEFT)
    assert wipe.get_attribute("value") == "99"
    assert caption(browser) == "attempt 2, rejected", "the key was the slider's"
    find(browser, "#viewer [data-move='-1']").click()
    find(browser, "#viewer [data-move='-1']").click()
    eventually(browser, lambda: caption(browser), "First frame")
    assert not earlier.is_displayed()
    press(browser, keys.ARROW_LEFT)  # the row of pictures is a ring
    eventually(browser, lambda: caption(browser), "real end frame")
    press(browser, keys.ESCAPE)
    eventually(browser, find(browser, "#viewer").is_displayed, False)
    # Focus follows the picture last seen.
    eventually(browser, lambda: browser.switch_to.active_element, buttons[-1])


@on_desktop
def test_the_keyboard_enlarges(browser, reports):
    open_page(browser, reports[0] / "index.html")
    for key in (webdriver.Keys.ENTER, webdriver.Keys.SPACE):
        browser.execute_script("document.querySelector('#episode-1 button.zoom').focus()")
        press(browser, key)
        eventually(browser, find(browser, "#viewer img").is_displayed)
        click(browser, find(browser, "#viewer [data-close]"))
        eventually(browser, find(browser, "#viewer").is_displayed, False)


@on_desktop
def test_the_time_line_speaks_on_focus_and_leads_to_the_step(browser, reports):
    open_page(browser, reports[0] / "index.html")
    assert not shown(browser, ".tip")
    segment = find(browser, "#episode-1 .track a:nth-of-type(2)")
    browser.execute_script("document.querySelector('#episode-1 .track a').focus()")
    press(browser, webdriver.Keys.TAB)
    eventually(browser, lambda: browser.switch_to.active_element, segment)
    eventually(
        browser, lambda: [tip.text[-22:] for tip in shown(browser, ".tip")], ["· 1.0–2.0 s · accepted"]
    )
    assert overflow(browser) <= 0
    press(browser, webdriver.Keys.ENTER)
    eventually(browser, lambda: browser.current_url.partition("#")[2], "episode-1-step-2")
    widths = [a.size["width"] for a in browser.find_elements("css selector", "#episode-1 .track a")]
    assert max(widths) - min(widths) <= 1


def rows(driver) -> list[str]:
    """The first line of every row on show, such as `episode 24`."""
    return driver.execute_script(
        "return [...document.querySelectorAll('.row')].filter(r => r.checkVisibility())"
        ".map(r => r.querySelector('.about .muted').textContent)"
    )


def test_the_list_is_searched_filtered_and_paged(browser, reports):
    count = 2 * PAGE_EPISODES + 9
    open_page(browser, reports[1] / "index.html")
    eventually(browser, lambda: rows(browser), [f"episode {i}" for i in range(24)])
    assert find(browser, "#where").text == "Page 1 of 3"
    click(browser, find(browser, "[data-turn='1']"))
    eventually(browser, lambda: rows(browser), [f"episode {i}" for i in range(24, 48)])
    find(browser, "#query").send_keys("fold TASK")
    eventually(browser, lambda: find(browser, "#count").text, f"{(count + 1) // 2} of {count} episodes")
    eventually(browser, lambda: find(browser, "#where").text, "Page 1 of 2")
    find(browser, "#status option[value=rejected]").click()
    both = [f"episode {i}" for i in range(0, count, 6)]
    eventually(browser, lambda: rows(browser), both)
    click(browser, shown(browser, ".row a")[4])
    eventually(browser, lambda: browser.current_url.rpartition("/")[2], "page-0002.html#episode-24")
    assert find(browser, "#episode-24").is_displayed()
    browser.back()
    eventually(browser, lambda: rows(browser), both)
    find(browser, "#query").clear()
    click(browser, shown(browser, "table a")[1])
    eventually(browser, lambda: find(browser, "#query").get_attribute("value"), "task 0 fold")
    find(browser, "#query").send_keys(" nothing like it")
    eventually(browser, lambda: rows(browser), [])
    eventually(browser, find(browser, "#nothing").is_displayed)


def test_without_script_every_page_is_linked(chromium, reports):
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chromium.get((reports[1] / "index.html").as_uri())
        pages = math.ceil((2 * PAGE_EPISODES + 9) / (PAGE_STEPS // 3))
        assert len(shown(chromium, "noscript a")) == pages
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
