"""The review page in a real browser, against the real command on real recordings, at two widths."""

from collections.abc import Iterator
from itertools import pairwise

import httpx
import pytest
from support.browser import chromium, needs_chromium
from support.recordings import make_dataset
from support.review import ReviewPage, ReviewServer

from goalreel.datasets.corrections.events import FIXATION_S

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
pytestmark = [pytest.mark.process, needs_chromium]

FRONT = "observation.images.front"
EPISODES, LENGTH, TAIL = 28, 30, 6
BOARD = {"tried": (1,), "tail": TAIL}
"""An episode has three steps of 8 frames, the second drawn twice; its last 6 frames are of none."""
WIDTHS = {"wide": (1440, 900), "phone": (390, 844)}
on_phone = pytest.mark.parametrize("page", [WIDTHS["phone"]], ids=["phone"], indirect=True)
"""Keys and buttons do the same at every width; on a phone, in the dark, what they bring up must fit."""
Keys = webdriver.Keys
AT_A_GLANCE = """
const [done] = arguments;
import("/static/looked.js").then(({ kept }) => {
  for (const seen of kept.values()) seen.seconds = 0;
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
  done();
});
"""
"""Press A before the page has been seen for a second, however slow the machine is."""


@pytest.fixture(scope="module")
def served(tmp_path_factory, annotated) -> Iterator[ReviewServer]:
    folder = tmp_path_factory.mktemp("review")
    source = make_dataset(folder / "in", (LENGTH,) * EPISODES)
    boards = dict.fromkeys(range(EPISODES), BOARD)
    server = ReviewServer(annotated(source, folder / "out", boards, camera=FRONT))
    yield server
    server.kill()


@pytest.fixture(scope="module")
def unused() -> Iterator[int]:
    """Each test changes an episode of its own; the last ones are for the list."""
    return iter(range(EPISODES - 4))


class Page(ReviewPage):
    """The page as a person uses it."""

    def __init__(self, driver, server: ReviewServer, size: tuple[int, int] = WIDTHS["wide"]) -> None:
        super().__init__(driver)
        self.server = server
        self.resize(*size)

    def open(self, index: int) -> None:
        self.load(f"{self.server.url}/#/episode/{index}")
        self.shows(index)

    def shows(self, index: int) -> None:
        """Wait until it shows an episode with all of its pictures."""
        self.index = index
        self.sees("h1", f"Episode {index}")
        self.settled()
        loaded = "return [...document.images].every((image) => !image.src || image.complete)"
        self.eventually(lambda: self.script(loaded))  # and nothing moves under the pointer

    def spans(self) -> list[tuple[int, int]]:
        """The steps as the server has them."""
        return [(step["start"], step["end"]) for step in self.server.episode(self.index)["steps"]]

    def step(self, at: int) -> dict:
        return self.server.episode(self.index)["steps"][at]

    def cuts(self, *starts: int) -> None:
        """Wait until the steps begin at these frames, each where the one before it ends."""
        self.eventually(self.spans, list(pairwise([*starts, LENGTH - TAIL])))
        self.settled()


@pytest.fixture(params=WIDTHS.values(), ids=WIDTHS.keys())
def page(driver, served, request, unused) -> Iterator[Page]:
    """An episode of the test's own, at either width; in the end nothing went wrong unsaid."""
    driver.get("about:blank")
    driver.get_log("browser")
    page = Page(driver, served, request.param)
    page.scheme("dark" if request.param == WIDTHS["phone"] else "light")
    page.open(next(unused))
    yield page
    assert page.overflow() <= 0
    assert driver.get_log("browser") == []


def test_it_plays_one_step_on_every_camera_and_stops_at_its_end(page):
    assert page.frame() == 0
    assert page.all(".curves polyline")
    page.press(Keys.SPACE)
    page.sees("[data-act=play]", "Pause")
    page.eventually(lambda: (page.frame(), page.text("[data-act=play]").startswith("Play step")), (7, True))
    played = "return [...document.querySelectorAll('video')].map((v) => v.played.length > 0 && v.paused)"
    assert page.script(played) == [True, True]
    stills = "return [...document.querySelectorAll('img.still')].map((i) => i.complete && i.src)"
    frames = f"{page.server.url}/frames/{page.index}/observation.images"
    exact = [f"{frames}.front/7.jpg", f"{frames}.wrist/7.jpg"]
    page.eventually(lambda: [str(s).partition("?")[0] for s in page.script(stills)], exact)
    page.press("l", Keys.SPACE)
    page.eventually(lambda: page.frame(), 15)
    page.press("j")
    page.eventually(lambda: page.frame(), 0)


def test_both_sides_of_a_boundary_and_the_goal_beside_the_real_end_are_shown(page):
    page.press("l")
    page.sees(".step-item.open .step-name", "grasp the block")
    sides = "return [...document.querySelectorAll('#ends img')].map((i) => i.alt)"
    told = ["frame before, 7", "first frame, 8", "last frame, 15", "frame after, 16"]
    page.eventually(lambda: page.script(sides), told)
    pair = "return [...document.querySelectorAll('.pair img')].map((i) => i.alt)"
    page.eventually(lambda: page.script(pair), ["Step 2: goal image, accepted", "Step 2: real end frame 15"])
    attempts, told = page.text(".attempt-list"), ("The block is blue.", "success 0.12", "another prompt")
    assert [words for words in told if words not in attempts] == []
    broken = "return [...document.images].filter((i) => i.src && i.complete && !i.naturalWidth).length"
    assert page.script(broken) == 0


EDGE = '.edge[data-step="0"][data-edge="end"]'


def test_a_boundary_is_dragged_to_a_frame_in_the_episode_on_show_alone(page, unused):
    first, second = page.index, next(unused)
    page.script("location.hash = arguments[0]", f"#/episode/{second}")
    page.shows(second)
    width = page.find(".track").size["width"]

    def dragged(offset: float, frame: int) -> None:
        chain = webdriver.ActionChains(page.driver, duration=50).click_and_hold(page.find(EDGE))
        chain.move_by_offset(round(offset * width), 0).perform()
        page.eventually(lambda: page.attribute(EDGE, "aria-valuenow"), f"{frame}")

    dragged(3.2 / LENGTH, 11)
    page.eventually(lambda: page.frame(), 10)
    assert page.spans()[0] == (0, 8)
    webdriver.ActionChains(page.driver).release().perform()
    page.cuts(0, 11, 16)
    page.open(page.index)
    assert page.attribute(EDGE, "aria-valuenow") == "11"
    dragged(0.6, 15)  # never past the neighbour's last frame
    webdriver.ActionChains(page.driver).release().perform()
    page.cuts(0, 15, 16)
    assert page.server.episode(first)["revision"] == 0


@on_phone
def test_boundaries_are_set_by_keys_alone(page):
    page.press("l")
    page.go(10)
    page.press("[")
    page.cuts(0, 10, 16)
    page.go(12)
    page.press("]")
    page.eventually(page.spans, [(0, 10), (10, 13), (13, 24)])
    page.settled()
    page.shifted(Keys.ARROW_RIGHT)
    page.cuts(0, 10, 14)
    page.eventually(lambda: page.frame(), 13)
    for _ in range(3):
        page.shifted(Keys.ARROW_LEFT)
    page.cuts(0, 10, 11)
    page.shifted(Keys.ARROW_LEFT)
    page.sees("#said", "keeps at least one frame")
    page.script("document.querySelector(arguments[0]).focus()", EDGE)
    page.press(Keys.ARROW_LEFT, Keys.PAGE_DOWN)
    page.cuts(0, 1, 11)
    page.press(Keys.END)
    page.cuts(0, 10, 11)


@on_phone
def test_steps_are_split_merged_inserted_and_deleted_and_all_of_it_is_undone(page):
    page.go(4)
    page.press("s")
    page.cuts(0, 4, 8, 16)
    page.press("m")
    page.cuts(0, 8, 16)
    page.go(26)
    page.press("i")
    page.eventually(page.spans, [(0, 8), (8, 16), (16, 24), (26, 30)])
    page.eventually(page.focused, "name")
    page.press("go home", Keys.ENTER)
    page.eventually(lambda: page.step(3)["name"], "go home")
    words = ('"go home" is done', "Go home. Keep everything else unchanged.")
    assert (page.step(3)["instruction"], page.step(3)["prompt"]) == words
    page.settled()
    page.press(Keys.DELETE)
    page.cuts(0, 8, 16)
    for left in (4, 4, 3, 4, 3):
        page.press("z")
        page.eventually(lambda left=left: len(page.spans()), left)
        page.settled()
    assert not (page.attribute("[data-act=undo]", "title") or "").startswith(f"episode {page.index}:")
    for left in (4, 3):
        page.shifted("z")
        page.eventually(lambda left=left: len(page.spans()), left)
        page.settled()


@on_phone
def test_words_are_edited_with_suggestions(page):
    names = page.script("return [...document.querySelectorAll('#names option')].map((o) => o.value)")
    assert "reach the block" in names
    assert page.attribute("[name=name]", "list") is None
    page.press(Keys.ENTER)
    page.eventually(page.focused, "name")
    assert page.attribute("[name=name]", "list") == "names"
    page.press("not this", Keys.ESCAPE)
    page.eventually(lambda: page.all("[data-form=rename]"), [])
    page.press(Keys.ENTER)
    page.eventually(page.focused, "name")
    tab = Keys.TAB
    page.press("look <b>closely</b>", tab, "The arm is still.", tab, tab, Keys.ENTER)
    page.press(tab, "The hand rises.", tab, tab, tab, "To see more.", tab, Keys.ENTER)
    page.sees(".step-item.open .step-name", "look <b>closely</b>")
    page.sees(".step-item.open", "reasoning: To see more. (by person")
    page.settled()
    told = {name: detail["text"] for name, detail in page.step(0)["details"].items() if detail}
    assert told == {"motion": "The hand rises.", "reasoning": "To see more."}
    assert page.step(0)["name"] == "look <b>closely</b>"
    assert "The arm is still." in page.step(0)["instruction"]
    page.sees(".step-item.open", "words by hand")


@on_phone
def test_words_half_typed_outlive_a_reload_back_and_another_step(page):
    name = "return document.querySelector('[data-form=rename] [name=name]')?.value ?? null"

    def typed(words: str) -> None:
        page.press("l", Keys.ENTER)
        page.eventually(page.focused, "name")
        page.press(words)
        page.eventually(lambda: page.script(name), words)

    typed("half a na")
    page.driver.refresh()
    page.eventually(lambda: page.script(name), "half a na")
    page.sees("#said", "not saved yet")
    page.sees(".step-item.open .number", "2")
    page.press(Keys.END, "me")
    page.eventually(lambda: page.script(name), "half a name")
    page.click(".title a")
    page.eventually(lambda: len(page.all(".row")) > 0)
    page.driver.back()
    page.eventually(lambda: page.script(name), "half a name")
    page.click(".step-head[data-step='0']")
    page.eventually(lambda: page.script(name), None)
    page.press("l", Keys.ENTER)
    page.eventually(lambda: page.script(name), "half a name")
    # What is dropped, and what is saved, does not come back.
    page.press(Keys.ESCAPE)
    page.open(page.index)
    assert page.script(name) is None
    typed("whole")
    page.press(Keys.ENTER)
    page.eventually(lambda: page.step(1)["name"], "whole")
    page.settled()
    page.open(page.index)
    assert page.script(name) is None


@on_phone
def test_goal_images_issues_and_outcomes_are_set(page):
    page.press("l", "1")
    page.eventually(lambda: page.step(1)["chosen"], 0)
    page.settled()
    page.press("9")
    page.sees("#said", "no picture of an attempt 9")
    page.go(12)
    page.press("f")
    page.eventually(lambda: page.step(1)["chosen"], 2)
    page.sees(".step-item.open .step-head", "verified")
    page.settled()
    page.click("[data-act=blank]")
    page.eventually(lambda: page.step(1)["chosen"], None)
    page.sees(".pair", "No goal image")
    page.click(".step-item.open [data-issue=wrong_object]")
    page.eventually(lambda: page.step(1)["issues"], ["wrong_object"])
    page.eventually(lambda: page.attribute(".open [data-issue=wrong_object]", "aria-pressed"), "true")
    page.click("[data-act=outcome]")
    page.sees(".step-item.open", "failed attempt")
    page.click("#whole [data-issue=missing]")
    page.eventually(lambda: page.server.episode(page.index)["issues"], ["missing"])
    page.settled()


@on_phone
def test_changes_are_labelled_while_it_plays(page):
    """One key a change: no pause, and the words come later. The video is slow until both are made."""
    speed = "document.querySelectorAll('video').forEach((video) => (video.playbackRate = arguments[0]))"
    page.press("l", "l")
    page.script(speed, 0.1)
    page.press("c")
    page.eventually(lambda: page.frame() >= 19)
    page.press("s")
    page.eventually(lambda: len(page.spans()), 4)
    page.script(speed, 1)
    page.eventually(lambda: page.frame(), LENGTH - 1)
    cut = page.spans()[3][0]
    assert 19 <= cut < 24
    assert page.spans() == [(0, 8), (8, 16), (16, cut), (cut, 24)]
    page.settled()
    # The video waits while words are typed.
    page.press("j", "c", Keys.ENTER)
    page.eventually(page.focused, "name")
    assert page.script("return [...document.querySelectorAll('video')].every((v) => v.paused)")
    page.press(Keys.ESCAPE)
    assert len(page.spans()) == 4


@on_phone
def test_screen_readers_are_told_what_is_what(page):
    assert page.attribute(".track", "role") == "group"
    sliders = """
        const edges = [...document.querySelectorAll(".edge")];
        return edges.map((edge) => [...arguments].map((name) => edge.getAttribute(name)));
    """
    found = page.script(sliders, "role", "aria-valuemin", "aria-valuenow", "aria-valuemax", "aria-label")
    assert found == [
        ["slider", "0", "0", "7", "start of reach the block"],
        ["slider", "1", "8", "15", "end of reach the block, start of grasp the block"],
        ["slider", "9", "16", "23", "end of grasp the block, start of put it in the bowl"],
        ["slider", "17", "24", "30", "end of put it in the bowl"],
    ]
    # Every control can be reached with Tab, and shows it.
    reached = set()
    for _ in range(60):
        page.press(Keys.TAB)
        node = "const n = document.activeElement; return n.dataset.act ?? n.className"
        reached.add(page.script(node))
        assert page.script("return getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"accept", "play", "select", "edge", "playhead", "frame", "issue"} <= reached


def rows(page: Page) -> list[str]:
    return page.script("return [...document.querySelectorAll('.row')].map((r) => r.innerText)")


def test_the_list_leads_through_what_nobody_reviewed(driver, served):
    page = Page(driver, served)
    driver.get("about:blank")
    driver.get(f"{served.url}/")
    page.eventually(lambda: len(rows(page)), 24)
    page.sees("#where", "Page 1 of 2")
    before = httpx.get(f"{served.url}/api/episodes", timeout=60).json()["reviewed"]
    page.click("[data-turn='1']")
    page.eventually(lambda: len(rows(page)), EPISODES - 24)
    page.press("/")
    page.press("put it in")
    page.eventually(lambda: len(rows(page)), 24)
    page.click("[name=order] option[value=index]")
    page.eventually(lambda: rows(page)[0].splitlines()[0], "Episode 0 · 3 steps · 3.0 s")
    page.click("[data-turn='1']")
    last = [EPISODES - 4, EPISODES - 3, EPISODES - 2, EPISODES - 1]
    page.eventually(lambda: f"Episode {last[0]} " in "".join(rows(page)))
    page.click(f"a[href*='episode/{last[0]}?']")
    page.sees("h1", f"Episode {last[0]}")
    for key, verdict in (("a", "accept"), ("r", "reject"), ("u", "unsure")):
        now = last.pop(0)
        page.sees("[data-act=accept]", f"Accept episode {now}")
        page.looks()
        page.press(key)
        page.sees("#said", f"Episode {now} {verdict.removesuffix('e')}")
        if verdict == "accept":  # it stays there until it is told to go on
            assert page.text("h1") == f"Episode {now}"
            page.press("n")
        elif verdict == "reject":
            page.press("n")
            page.sees("h1", f"Episode {last[0]}")
            page.click("[name=onwards]")
        page.sees("h1", f"Episode {last[0]}")
        told = served.episode(now)
        assert (told["verdict"], told["unseen"]) == (verdict, False)
    assert served.episode(EPISODES - 4)["not_shown"] == ["1", "2"], "only the first step was open"
    # Undo takes back the last act where it was, and goes there.
    page.press("z")
    page.sees("#said", f"Taken back, episode {last[0] - 1}: the verdict “unsure”.")
    page.sees("h1", f"Episode {last[0] - 1}")
    page.press("u")
    page.sees("h1", f"Episode {last[0]}")
    page.click("[name=onwards]")
    driver.back()
    page.sees("h1", f"Episode {last[0] - 1}")
    page.sees(".title", "unsure by ann")
    page.click(".title a")
    page.sees("#progress", f"{before + 3} of {EPISODES} reviewed")
    page.click("[name=status] option[value=reject]")
    page.eventually(lambda: [f"Episode {EPISODES - 3} " in row for row in rows(page)], [True])
    # A page that is not there any more, for all on it were reviewed, is the last one that is.
    driver.get("about:blank")
    driver.get(f"{served.url}/#/?order=index&offset=9984")
    page.sees("#where", "Page 2 of 2")
    page.eventually(lambda: len(rows(page)), EPISODES - 24)
    assert not page.find("#nothing").is_displayed()
    assert page.overflow() <= 0


def test_presses_without_looking_verify_nothing(driver, served, unused):
    first = [next(unused) for _ in range(3)]
    page = Page(driver, served)
    page.load(f"{served.url}/#/episode/{first[0]}?order=index&status=unreviewed")
    page.sees("h1", f"Episode {first[0]}")
    page.click("[name=onwards]")
    shown = []
    for _ in range(3):
        shown.append(int(page.text("h1").removeprefix("Episode ")))
        page.driver.execute_async_script(AT_A_GLANCE)
        page.eventually(lambda: page.text("h1") != f"Episode {shown[-1]}")
    page.sees("#said", "accepted without looking: it was hardly on the screen")
    page.click("[name=onwards]")
    for index in shown:
        episode = served.episode(index)
        assert (episode["verdict"], episode["unseen"]) == ("accept", True)
        assert "person" not in {s["claims"]["looks"]["checked"] for s in episode["steps"]}


def test_pictures_below_the_recording_of_a_small_screen_are_seen_too(driver, served, unused):
    page = Page(driver, served, (390, 844))
    page.open(next(unused))
    for step in range(3):
        page.click(f".step-head[data-step='{step}']")
        page.script("document.querySelector('.step-item.open .pair').scrollIntoView({block: 'center'})")
        assert page.script("return document.querySelector('#cameras').getBoundingClientRect().bottom < 0")
        page.eventually(lambda step=step: sum(s >= FIXATION_S for s in page.looked()[1]) > step)
    # A step alone, by its button; a rename takes that back; then the whole episode.
    page.click("[data-act=vouch]")
    page.sees("#said", f"Step 3 of episode {page.index} accepted.")
    assert [step["accepted"] for step in served.episode(page.index)["steps"]] == [False, False, True]
    page.click("#said [data-act=undo]")
    page.sees("#said", f"Taken back, episode {page.index}: “put it in the bowl” accepted")
    page.click(".step-head[data-step='2']")
    page.shifted("a")
    page.eventually(lambda: page.step(2)["accepted"])
    page.sees(".step-item.open .step-head", "verified")
    page.press("a")
    page.eventually(lambda: served.episode(page.index)["verdict"], "accept")
    page.sees("#said", f"Episode {page.index} accepted, 3 steps.")
    assert page.overflow() <= 0
    told = served.episode(page.index)
    assert (told["unseen"], told["not_shown"]) == (False, [])


def test_two_people_at_once_lose_nothing(driver, served, unused, tmp_path):
    index = next(unused)
    one = Page(driver, served)
    one.open(index)
    for second in chromium(tmp_path / "profile"):
        two = Page(second, served)
        two.open(index)
        two.script("localStorage.setItem('goalreel person', 'bob')")
        one.press("m")
        one.eventually(lambda: len(one.spans()), 2)
        two.press("l", "l", Keys.DELETE)
        two.sees("#banner", "Somebody was first")
        two.sees("#banner", "by ann")
        assert "another window" not in two.text("#banner")
        assert len(two.spans()) == 2
        two.click("[data-act=again]")
        two.settled()
        assert two.spans() == [(0, 16)]
        assert two.server.episode(index)["history"][-1]["by"] == "bob"
        one.press("s")
        one.sees("#said", "A step begins at this frame")
        one.go(4)
        one.press("s")
        one.sees("#banner", "Somebody was first")
        one.click("[data-act=discard]")
        one.settled()
        one.eventually(lambda: len(one.all(".step-item")), 1)
        assert one.spans() == [(0, 16)]
        # Back in the window, one sees what the other did.
        two.press("z")
        one.eventually(lambda: len(one.spans()), 2)
        one.script("document.dispatchEvent(new Event('visibilitychange'))")
        one.eventually(lambda: len(one.all(".step-item")), 2)
        # An undo takes back one's own change, and nothing of the other's.
        two.click(".step-item.open [data-issue=wrong_object]")
        two.settled()
        one.press("z")
        one.eventually(lambda: len(one.spans()), 3)
        assert ["wrong_object"] in [step["issues"] for step in one.server.episode(index)["steps"]]
        # Words of a form that was open while the other changed them: the second is asked.
        step = one.step(0)
        one.press(Keys.ENTER)
        one.press("by ann")
        rename = {"kind": "rename", "step": step["id"], "name": "by bob"}
        seen = one.server.episode(index)["revision"]
        url = f"{served.url}/api/episodes/{index}/events"
        httpx.post(url, json={"revision": seen, "by": "bob", "event": rename}, timeout=60)
        one.script("document.dispatchEvent(new Event('visibilitychange'))")
        one.sees(".step-name", "by bob")
        one.press(Keys.ENTER)
        one.sees("#banner", "a change by bob came first")
        one.click("[data-act=again]")
        one.settled()
        assert one.step(0)["name"] == "by ann"


def test_a_killed_server_loses_nothing_and_recordings_kept_as_pictures_play(driver, annotated, tmp_path):
    source = make_dataset(tmp_path / "in", (LENGTH,), dtype="image", cameras=("front",))
    server = ReviewServer(annotated(source, tmp_path / "out", {0: BOARD}, camera=FRONT))
    try:
        page = Page(driver, server)
        page.open(0)
        page.press(Keys.SPACE)
        page.eventually(lambda: page.frame(), 7)
        page.press("m")
        page.eventually(lambda: len(page.spans()), 2)
        page.settled()
        server.kill()
        page.press("r")
        page.sees("#saving", "Not saved")
        page.sees("#banner", "the server does not answer")
        page.sees("#banner", "verdict “reject”")
        page.sees(".title", "rejected by ann")
        page.click("[data-act=again]")
        page.sees("#saving", "Not saved")
        server.start()
        page.click("[data-act=again]")
        page.settled()
        assert (server.episode(0)["verdict"], page.spans()) == ("reject", [(0, 16), (16, 24)])
        page.press("z", "z")
        page.eventually(lambda: len(page.spans()), 3)
    finally:
        server.kill()
