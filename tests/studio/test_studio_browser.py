"""The studio's page in a real browser, against a real server; models are scripted, but in the last test."""

import base64
import io
from collections.abc import Iterator
from dataclasses import replace

import httpx
import numpy as np
import PIL.Image
import pytest
from support.browser import chromium, needs_chromium
from support.serving_models import running
from support.studio import app, edit, finished, made, scripted, state, submit
from support.studio_page import WIDTHS, StudioPage, killable_studio

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
pytestmark = [pytest.mark.process, needs_chromium]

Keys = webdriver.Keys
MAX_PIXELS = 300_000


class Studio:
    """A studio in this process, whose models the tests hold up."""

    def __init__(self, url: str, models) -> None:
        self.url, self.models = url, models
        self.client = httpx.Client(base_url=url, timeout=60)

    def gates(self):
        return self.models.planner.gate, self.models.critic.gate


@pytest.fixture(scope="module")
def studio(tmp_path_factory) -> Iterator[Studio]:
    models = scripted()
    with running(app(tmp_path_factory.mktemp("studio"), models, max_pixels=MAX_PIXELS)) as (url, _):
        yield Studio(url, models)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Iterator[Studio]:
    """A studio whose Planner has the name of a nano model."""
    models = replace(scripted(), planner_name="nano-planner")
    with running(app(tmp_path_factory.mktemp("small"), models)) as (url, _):
        yield Studio(url, models)


@pytest.fixture
def page(driver, studio) -> Iterator[StudioPage]:
    """On a phone, in the dark; in the end nothing went wrong unsaid."""
    driver.get("about:blank")
    driver.get_log("browser")
    page = StudioPage(driver, studio.url, "narrow")
    page.scheme("dark")
    yield page
    for gate in studio.gates():
        gate.set()
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert page.overflow() <= 0
    assert driver.get_log("browser") == []


@pytest.fixture
def now(page, studio) -> dict:
    """A finished storyboard, which the page shows."""
    now = made(studio.client)
    page.open(now["id"])
    page.settled("accepted", "accepted")
    return now


def png(width: int, height: int, colour: tuple[int, int, int] = (200, 40, 40)) -> bytes:
    data = io.BytesIO()
    PIL.Image.fromarray(np.full((height, width, 3), colour, np.uint8)).save(data, "PNG")
    return data.getvalue()


def test_a_visitor_starts_from_an_example_and_finds_it_again(page):
    page.start()
    assert not page.find("#send").is_enabled()
    page.click(".card[data-example='1']")
    page.eventually(page.focused, "send")
    asked = page.script("return document.querySelector('[name=instruction]').value")
    assert asked
    page.script("document.querySelector('[name=instruction]').value = ''")
    page.find("[name=instruction]").send_keys("#stack them 🧱")
    page.press(Keys.TAB, Keys.TAB, Keys.ENTER)
    page.settled("accepted")
    page.sees("#work", "The picture of the one step is accepted, by a Critic that")
    page.sees("h1", "#stack them 🧱")
    page.click(".brand")
    page.sees("#items .row", "#stack them 🧱")
    page.sees("#items .row", "1 step, 1 accepted")
    page.click("#items .row a")
    page.sees("h1", "#stack them 🧱")


def test_a_sentence_names_pictures_and_small_models_say_what_they_cannot(page, small, tmp_path):
    for number in (1, 2):
        (tmp_path / f"{number}.png").write_bytes(png(30 + number, 20))
    page.url = small.url
    page.start()
    page.find("#picker input[type=file]").send_keys(str(tmp_path / "1.png"))
    page.find("[name=instruction]").send_keys("no backend: put in ")
    page.find("#named input").send_keys(f"{tmp_path}/1.png\n{tmp_path}/2.png")
    page.eventually(lambda: len(page.all("#named .take")), 2)
    page.eventually(page.focused, "instruction")
    page.press("there")
    page.sees("#models", "The Planner sees the pictures in the sentence; the Editor does not")
    page.press(Keys.BACKSPACE * 7)
    page.sees("#missing", "The sentence has 1 <image> mark for 2 pictures.")
    page.press("> ", Keys.TAB, Keys.ENTER)
    page.eventually(lambda: len(page.all("#named .take")), 1)
    words = "return document.querySelector('[name=instruction]').value"
    page.eventually(lambda: page.script(words).strip(), "no backend: put in <image>")
    page.find("[name=instruction]").send_keys(Keys.CONTROL, Keys.ENTER)
    failed = finished(small.client, page.board, "failed")
    page.sees("#work", "There is no plan: the card fell off the bus")
    assert "accepted" not in page.text("main")
    page.sees("#stage", "These small models know one simulated table and nothing else")
    page.sees("#stage", "--preset klein")
    assert failed["instruction"] == "no backend: put in <image>"
    shown = httpx.get(f"{small.url}{failed['images'][0]}", timeout=60).content
    assert PIL.Image.open(io.BytesIO(shown)).size == (32, 20)


DROP = """
const [css, kind, name, data, type] = arguments;
const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
const transfer = new DataTransfer();
transfer.items.add(new File([bytes], name, { type }));
const options = { dataTransfer: transfer, clipboardData: transfer, bubbles: true, cancelable: true };
const event = kind === "drop" ? new DragEvent(kind, options) : new ClipboardEvent(kind, options);
document.querySelector(css).dispatchEvent(event);
"""
SHOWN = """
const image = document.querySelector(".drop.full img");
return image?.complete ? [image.naturalWidth, image.naturalHeight] : null;
"""


def bring(page: StudioPage, kind: str, name: str, data: bytes) -> None:
    """Drop or paste a file."""
    media = "image/png" if name.endswith(".png") else "text/plain"
    page.script(DROP, ".drop", kind, name, base64.b64encode(data).decode(), media)


def test_pictures_come_from_files_drops_and_pastes(page, tmp_path):
    page.start()
    (tmp_path / "huge.png").write_bytes(png(1200, 1000))
    page.find("input[type=file]").send_keys(str(tmp_path / "huge.png"))
    page.sees(".picker", "made smaller: 1200 × 1000")
    page.eventually(lambda: page.script(SHOWN) is not None)
    width, height = page.script(SHOWN)
    assert width * height <= MAX_PIXELS
    assert abs(width / height - 1.2) < 0.01
    for kind, width in (("drop", 40), ("paste", 50)):
        bring(page, kind, "a.png", png(width, 30))
        page.eventually(lambda: page.script(SHOWN), [width, 30])
    bring(page, "drop", "a.txt", b"words")
    page.sees(".picker [role=alert]", "That is no picture")
    bring(page, "drop", "a.png", b"words")
    page.sees(".picker [role=alert]", "a.png is no picture that this browser can read")
    bring(page, "drop", "b.png", png(20, 30))
    page.eventually(lambda: page.script(SHOWN), [20, 30])
    page.eventually(lambda: len(page.all(".picker [role=alert]")), 0)
    page.find("[name=instruction]").send_keys("nothing")
    page.click("#send")
    page.sees("#work", "There is no plan")  # of a model that knows none without a #


def test_it_grows_live_says_what_it_waits_for_and_stops_without_loss(page, studio):
    plans, verdicts = studio.gates()
    plans.clear()
    verdicts.clear()
    page.open(submit(studio.client))
    page.sees("#work", "The Planner writes the plan")
    page.sees("#stage h2", "Waiting for the plan")
    plans.set()
    page.sees("#work", "The Critic looks at step 1, attempt 1")
    page.sees(".reel", "judging")
    page.sees("#stage", "not judged yet")
    page.eventually(lambda: page.script("return document.querySelector('.goal img')?.naturalWidth > 0"))
    page.sees("#heard", "Step 1, attempt 1 is drawn.")
    assert "accepted" not in page.text("#reel") + page.text("#stage")
    page.press("s")
    page.sees("#work", "Stopped. What was there is kept.")
    page.open(page.board)
    page.sees("#work", "Stopped")
    page.sees("#stage", "not judged yet")
    verdicts.set()
    page.click("[data-act=resume]")
    page.settled("accepted", "accepted")
    page.eventually(lambda: len(page.all("#work .primary")), 0)


def test_words_steps_and_their_order_are_changed_and_all_of_it_is_undone(page, studio, now):
    page.press("l", Keys.ENTER)
    page.eventually(page.focused, "name")
    page.press("another name", Keys.TAB, "another truth", Keys.TAB)
    page.press("half a")  # a reload loses no words that are typed
    page.open(now["id"])
    page.sees("#said", "The words that you had typed are here again")
    page.click("form[data-form=words] [value=save]")
    page.settled("accepted", "stale")
    page.sees("#work", "1 step of 2 is to be drawn again")
    page.sees("#stage", "The words were changed after this picture was made.")
    page.sees(".step-title", "words by hand")
    page.eventually(page.focused, "")
    page.press("c")
    page.settled("accepted", "accepted")
    assert [step["name"] for step in state(studio.client, now["id"])["steps"]] == ["s0", "another name"]
    page.press("i")
    page.press("a third", Keys.ENTER)
    page.settled("accepted", "accepted", "not drawn yet")
    page.sees(".step-title", "a third")
    page.click("[data-act=earlier]")
    page.eventually(lambda: page.texts(".reel .caption"), ["Start", "1 s0", "2 a third", "3 another name"])
    page.settled("accepted", "not drawn yet", "accepted")
    page.press(Keys.DELETE)
    page.settled("accepted", "accepted")
    page.sees("#said", "Undo brings it back")
    page.press("z", "z", "z")
    page.settled("accepted", "accepted")
    page.shifted("z")
    page.settled("accepted", "accepted", "not drawn yet")
    page.sees("#history summary", "History: 4 changes")
    page.click("#history summary")
    page.eventually(lambda: len(page.all("#history .undone")), 2)


def test_the_task_is_edited_in_place_and_badges_leave_the_picture_free(page, studio, now):
    page.press("t")
    page.eventually(page.focused, "instruction")
    page.press("#two and #one")
    edit(studio.client, state(studio.client, now["id"]), "instruct", instruction="#by Ada")
    page.sees("h1", "#by Ada")
    page.click("form[data-form=task] .primary")
    page.sees("#banner", "a change by Ada came first")
    page.sees("#banner", "Yours is kept here: the task “#two and #one”")
    page.click("[data-act=again]")
    page.sees("h1", "#two and #one")
    page.press("z")
    page.sees("h1", "#by Ada")
    covers = """
    const box = (css) => document.querySelector(css).getBoundingClientRect();
    return box(".reel [data-act=select] .badge").top >= box(".reel [data-act=select] img").bottom - 1"""
    assert page.script(covers)
    page.driver.get_log("browser")  # the conflict


def test_pictures_are_drawn_again_chosen_accepted_and_refused(page, studio, now):
    assert page.texts(".attempt-row .mark") == ["1", "2"]
    at_once = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true }))"
    page.script(f"document.querySelector(arguments[0]).click(); {at_once}", ".attempt-row [data-attempt='0']")
    page.sees("#said", "look at it, then accept it")
    page.sees(".verdict-card", "rejected")
    page.sees(".goal", "Attempt 1")
    page.press("1")
    page.settled("rejected", "stale")
    page.click(".attempt-row [data-attempt='0']")
    page.eventually(lambda: page.press("a") or page.statuses(), ["verified", "stale"])
    page.sees(".verdict-card", "accepted by a person")
    page.press("r")
    page.settled("rejected", "stale")
    page.sees("#stage", "A person refused it.")
    page.press("g")
    page.eventually(page.focused, "prompt")
    page.press("in red")
    page.click("form[data-form=draw] .primary")
    page.settled("accepted", "accepted")
    step = state(studio.client, now["id"])["steps"][0]
    assert [a["prompt"] for a in step["attempts"]][2] == "in red"
    page.press("g")
    page.click("[name=rest]")
    page.click("form[data-form=draw] .primary")
    page.settled("accepted", "stale")
    # The form had the prompt of the picture on show, which the Critic refuses once more.
    assert len(page.all(".attempt-row .mark")) == len(step["attempts"]) + 2
    page.press("1")
    page.eventually(lambda: state(studio.client, now["id"])["steps"][0]["chosen"], 0)
    page.sees(".goal", "Goal image")


def test_it_goes_on_from_a_later_picture_and_is_saved_and_deleted(page, studio, now, tmp_path):
    (tmp_path / "later.png").write_bytes(png(40, 30, (20, 200, 20)))
    page.press("n")
    assert not page.find(".primary.go").is_enabled()
    page.find("#later input[type=file]").send_keys(str(tmp_path / "later.png"))
    page.eventually(lambda: page.find(".primary.go").is_enabled())
    page.click("[name=done] option[value='1']")
    page.click(".primary.go")
    page.eventually(lambda: [d["instruction"] for d in state(studio.client, now["id"])["done"]], ["i0"])
    page.eventually(lambda: len(page.all("#work .pulse")), 0)
    page.click(".reel [data-step=start]")
    page.sees("#stage", "Done already:")
    page.press("z")
    page.settled("accepted", "accepted")
    answer = httpx.get(page.script("return document.querySelector('a[download]').href"), timeout=60)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    page.click("[data-act=remove]")
    page.driver.switch_to.alert.dismiss()
    page.click("[data-act=remove]")
    page.driver.switch_to.alert.accept()
    page.eventually(lambda: len(page.all(".start-page")), 1)
    assert studio.client.get(f"/v1/storyboards/{now['id']}").status_code == 404
    page.driver.get_log("browser")


def test_two_browsers_see_each_other_and_lose_nothing(page, studio, now, tmp_path):
    first = now["steps"][0]["id"]
    for second in chromium(tmp_path / "profile"):
        other = StudioPage(second, studio.url)
        other.open(now["id"])
        other.settled("accepted", "accepted")
        other.script("localStorage.setItem('goalreel person', 'Bob')")
        page.press("1")
        other.settled("rejected", "stale")  # without asking
        other.sees("#history", "History: 1 change")
        other.sees("#heard", "chose picture 1")
        now = state(studio.client, now["id"])
        edit(studio.client, now, "change", step=first, name="Bob's name", by="Bob")
        page.sees(".reel", "Bob's name")
        # A page that nobody looks at keeps no connection, and has all when somebody looks again.
        hidden = "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });"
        hidden += "document.dispatchEvent(new Event('visibilitychange'));"
        page.script(hidden, True)
        edit(studio.client, state(studio.client, now["id"]), "undo", by="Bob")
        other.sees(".reel", "s0")
        assert "Bob's name" in page.text(".reel")
        page.script(hidden, False)
        page.sees(".reel", "s0")
        studio.client.delete(f"/v1/storyboards/{now['id']}")
        for each in (page, other):
            each.sees("#banner", "This storyboard was deleted.")
    page.driver.get("about:blank")  # a page still asks once more for what is deleted
    page.driver.get_log("browser")


def test_a_killed_server_loses_nothing(driver, tmp_path):
    server = killable_studio(tmp_path)
    server.start("1")
    try:
        page = StudioPage(driver, server.url)
        with httpx.Client(base_url=server.url, timeout=60) as client:
            board = submit(client)
        page.open(board)
        page.sees("#work", "The Critic looks at step 1, attempt 1")
        server.kill()
        page.sees("#banner", "The server does not answer.")
        page.sees("#work", "Not known")
        server.start()
        page.open(board)
        page.sees("#work", "The server ended while this was being made. What was there is kept.")
        page.sees("#stage", "not judged yet")
        page.click("[data-act=resume]")
        page.settled("accepted", "accepted")
        page.click(".reel [data-act=select]")
        server.kill()
        page.sees("#banner", "The server does not answer.")
        page.press("1")
        page.sees("#banner", "Yours is kept here: attempt 1 as the goal image")
        server.start()
        page.click("[data-act=again]")
        page.settled("rejected", "stale")
        page.eventually(lambda: page.text("#banner"), "")
    finally:
        server.kill()
        driver.get("about:blank")
        driver.get_log("browser")


def test_a_dead_model_is_told_and_asked_again(page, studio):
    now = made(studio.client)
    edit(studio.client, now, "add", name="refuse", prompt="refuse", before=None)
    page.open(now["id"])
    page.settled("accepted", "accepted", "not drawn yet")
    page.press("c")
    page.settled("accepted", "accepted", "failed")
    page.sees("#work", "Degraded: the editor failed: not that")
    page.click("[data-act=resume]")
    page.eventually(lambda: len(state(studio.client, now["id"])["steps"][2]["attempts"]), 2)


LONG = "put the 非常に長い名前の積み木 👩‍🔧 " + "Donaudampfschifffahrtsgesellschaftskapitän" * 5


def test_long_plans_long_words_and_many_pictures_fit_every_screen(page, studio):
    now = made(studio.client, instruction="#" * 12 + LONG, max_attempts=2)
    step = now["steps"][2]["id"]
    edit(studio.client, now, "change", step=step, name=LONG[:190], instruction=LONG * 5)
    for _ in range(5):
        edit(studio.client, state(studio.client, now["id"]), "draw", step=step, rest=False)
        finished(studio.client, now["id"])
    page.open(now["id"])
    page.eventually(lambda: len(page.all(".reel .frame")), 13)
    page.click(f".reel [data-step='{step}']")
    page.eventually(lambda: len(page.all(".attempt-row .mark")), 12)
    for at in ("board", "start"):
        if at == "start":
            page.start()
            page.eventually(lambda: len(page.all("#items .row")) > 0)
        for width, height in WIDTHS.values():
            page.resize(width, height)
            assert page.overflow() <= 0, (at, width)


def test_keys_screen_readers_and_still_pictures(page, studio, now):
    page.press("?")
    page.sees("#sheet", "undo, redo")
    page.press("s", Keys.ESCAPE)
    page.eventually(lambda: page.find("#sheet").is_displayed(), False)
    page.click(".goal .zoom")
    page.eventually(lambda: page.find("#viewer img").is_displayed())
    page.click("#viewer [data-close]")
    page.click(".reel [data-act=add]")
    page.press(Keys.ESCAPE)
    page.eventually(page.focused, "add")
    page.click(f".reel [data-step='{now['steps'][1]['id']}']")
    page.eventually(lambda: page.attribute(".reel [aria-current]", "data-step"), now["steps"][1]["id"])
    # The focus stays where it is while the page is drawn again.
    edit(studio.client, state(studio.client, now["id"]), "change", step=now["steps"][0]["id"], name="other")
    page.sees(".reel", "other")
    held = "return document.activeElement.dataset.step"
    page.eventually(lambda: page.script(held), now["steps"][1]["id"])
    studio.models.critic.gate.clear()
    page.click("[data-act=resume]")
    page.sees("#work", "The Critic looks")
    moving = "return document.getAnimations().length"
    page.eventually(lambda: page.script(moving) > 0)
    still = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", still)
    page.eventually(lambda: page.script(moving), 0)
    page.resize(*WIDTHS["narrow"])
    keys = "return [...document.querySelectorAll('kbd')].filter((key) => key.checkVisibility()).length"
    page.eventually(lambda: page.script(keys), 0)  # a phone has no keys
    studio.models.critic.gate.set()
    page.eventually(lambda: len(page.all("#work .pulse")), 0)
