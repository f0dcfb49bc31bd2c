"""Labelling from nothing on the review page: a few episodes by hand, the others by acts on all at once."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from support import robots
from support.browser import chromium, needs_chromium
from support.cli import goalreel
from support.recordings import make_dataset, storyboard
from support.review import ReviewPage, ReviewServer, change, review_page

from goalreel.annotator.examples import read_examples
from goalreel.annotator.review.queue import ENOUGH, EpisodeFacts, Priority, facts, priorities, spent, unmoved
from goalreel.annotator.show import read_storyboards
from goalreel.claims import CARRIED, NOBODY, PERSON
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import build
from goalreel.datasets.writing.plan import TextOptions
from goalreel.image import Image
from goalreel.models import presets
from goalreel.types import Alignment, Failure, Storyboard, StoryboardStep, Task, Verdict

TASK = "räum die Tasse weg"
NAMES = ("nimm die Tasse", "stell die Tasse ab", "fahr zurück")
SPEEDS = (8, 10, 12, 9, 11, 10, 9, 12, 10, 11)
"""Frames a second at which an episode of the task is acted."""
FRONT = "observation.images.front"


def cuts(episode: int) -> list[int]:
    """Frames at which its steps begin, and its length."""
    return [0, *robots.cuts(SPEEDS[episode])]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return make_out(tmp_path_factory.mktemp("acts"), [TASK] * 11)


def make_out(folder: Path, texts: list[str]) -> Path:
    """An annotated dataset in which no episode has a plan: ten of a task, and one that is unlike them."""
    rng = np.random.default_rng(5)
    states = [robots.pick_and_place(rng, fps)[:, :4] for fps in SPEEDS]
    states.append(np.cumsum(rng.normal(size=(70, 4)), axis=0))
    source = Source.open(make_dataset(folder / "in", states=states, cameras=("front",), task=TASK))
    settings = presets.load("hindsight").model_dump(mode="json") | {"camera": FRONT}
    failure = Failure(stage="plan", message="no rule knows these words")
    with Records.open(folder / "out", settings, source.fingerprint()) as records:
        records.remember(source.root)
        for index in source.indices:
            image = Image(source.episode(index).frames(FRONT, [0])[0].pixels, frame=f"{FRONT}#0")
            task = Task(id=str(index), instruction=texts[index], image=image)
            records.commit(index, Storyboard(task=task, failure=failure))
        build(source, folder / "out", records, text=TextOptions(replace_rows=True))
    return folder / "out"


@pytest.fixture
def out(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path / "out")


def label(page: TestClient, episode: int) -> None:
    """Cut and name it, as the page does."""
    edges = cuts(episode)
    made = change(page, episode, kind="insert", start=0, end=edges[-1], name="new step")
    step = made["steps"][0]["id"]
    for edge in edges[1:-1]:
        made = change(page, episode, kind="split", step=step, frame=edge)
        step = made["steps"][-1]["id"]
    for step, name in zip(made["steps"], NAMES, strict=True):
        change(page, episode, kind="rename", step=step["id"], name=name)


@pytest.fixture(scope="module")
def carried(made, tmp_path_factory) -> Path:
    """Three episodes are labelled, and their steps carried over to the others."""
    out = shutil.copytree(made, tmp_path_factory.mktemp("carried") / "out")
    page = review_page(out)
    for episode in (1, 3, 5):
        label(page, episode)
    act(page, "carry")
    return out


@pytest.fixture
def out_carried(carried, tmp_path) -> Path:
    return shutil.copytree(carried, tmp_path / "out")


def act(page: TestClient, name: str, status: int = 200, **more: object) -> dict:
    answer = page.post("/api/acts", json={"act": name, "instruction": TASK, "by": "ann", **more})
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(page: TestClient, name: str, **more: object) -> str:
    return act(page, name, 422, **more)["detail"]


def seen(page: TestClient, episode: int) -> dict:
    return page.get(f"/api/episodes/{episode}").json()


def revisions(page: TestClient, *episodes: int) -> dict[int, int]:
    return {e: seen(page, e)["revision"] for e in episodes}


def task(page: TestClient) -> dict:
    (only,) = page.get("/api/tasks").json()
    return only


def rows(page: TestClient) -> dict[int, dict]:
    """In the order of the list."""
    return {row["episode"]: row for row in page.get("/api/episodes").json()["rows"]}


def spans(page: TestClient, episode: int) -> list[tuple[int, int]]:
    return [(s["start"], s["end"]) for s in seen(page, episode)["steps"]]


def test_a_few_labels_are_carried_over_and_what_is_sure_is_accepted_and_taken_back(out):
    page = review_page(out)
    nothing = task(page)
    assert (nothing["labelled"], nothing["open"], nothing["told"], len(nothing["next"])) == (0, 11, None, 3)
    assert "label an episode of this task first" in refused(page, "carry")
    label(page, 1)
    change(page, 3, kind="insert", start=0, end=cuts(3)[-1], name="new step")
    one = task(page)
    assert (one["labelled"], one["open"]) == (1, 9), "what has no name yet is no label, and stays"
    assert "nothing is measured yet" in one["told"]
    for e in (3, 5):
        for _ in range(e == 3):
            change(page, e, kind="undo")
        label(page, e)
    change(page, 6, kind="verdict", verdict="reject")
    three = task(page)
    assert three["told"].startswith("among your 3 labelled episodes 6 of 6 boundaries were found again")
    assert (three["enough"], three["open"], three["sure"], three["next"]) == (True, 7, 0, [])
    before = revisions(page, 1, 3, 5, 6)

    told = act(page, "carry")["told"]
    assert told.startswith("Steps carried over to 6 episodes. Left as they were: 1 (episode 10: it is unlike")
    assert revisions(page, *before) == before
    first, *_ = listed = rows(page)
    assert first in (6, 10)
    assert "not carried over: it is unlike the labelled episodes" in listed[10]["reasons"]
    for e in (0, 2, 4, 7, 8, 9):
        assert np.abs(np.subtract([start for start, _ in spans(page, e)], cuts(e)[:-1])).max() <= 5
        assert listed[e]["words"] == f"words by {CARRIED}, not checked"
        steps = seen(page, e)["steps"]
        assert [s["name"] for s in steps] == list(NAMES)
        for step in steps[:-1]:  # not before the hand has done it
            frame = int(step["attempts"][step["chosen"]]["picture"].rpartition("/")[2].partition(".")[0])
            assert frame > step["end"]
    assert "carried over" in seen(page, 0)["history"][-1]["words"]
    assert list(rows(review_page(out))) == list(listed), "the same after a restart"

    change(page, 2, kind="verdict", verdict="accept")
    first = seen(page, 4)["steps"][0]["id"]
    change(page, 4, kind="move", step=first, edge="end", frame=9)
    now = task(page)
    assert (now["labelled"], now["sure"]) == (5, 4)
    assert "of 4 that were carried over and that you looked at, 3 stayed within 0.5 s" in now["told"]
    assert act(page, "accept")["told"].startswith("Accepted without looking: 4 episodes")
    listed = rows(page)
    unseen = {e: row["unseen"] for e, row in listed.items() if row["verdict"] == "accept"}
    assert unseen == {2: False, 0: True, 7: True, 8: True, 9: True}
    assert [listed[e]["words"].split()[-1] for e in (0, 2)] == ["checked", PERSON]
    listing = page.get("/api/episodes").json()
    assert (listing["reviewed"], listing["unseen"]) == (2, 4)
    unseen = page.get("/api/episodes", params={"status": "unseen"}).json()["rows"]
    assert {row["episode"] for row in unseen} == {0, 7, 8, 9}
    assert (task(page)["labelled"], task(page)["last_count"]) == (5, 4)
    assert task(page)["last"].startswith("accept")
    change(page, 9, kind="undo")
    assert act(page, "accept")["told"].startswith("Accepted without looking: 1 episode.")
    for taken_back in ("in 1 episode.", "in 3 episodes"):  # one act after the other, after a restart too
        page = review_page(out)
        assert taken_back in act(page, "undo")["told"]
    assert rows(page)[2]["verdict"] == "accept", "of a person"


def test_an_act_goes_on_and_is_taken_back_as_one(out_carried):
    page = review_page(out_carried)
    change(page, 7, kind="undo")  # as if it had been broken off before this one
    before = revisions(page, 0, 2, 7)
    act(page, "carry")
    assert revisions(page, 0, 2, 7) == {**before, 7: before[7] + 1}
    change(page, 2, kind="delete", step=seen(page, 2)["steps"][0]["id"])
    assert "in 6 episodes" in act(page, "undo")["told"]
    assert [len(spans(page, e)) for e in (0, 1, 2, 7)] == [0, 3, 2, 0]
    page = review_page(out_carried)
    assert task(page)["undone_count"] == 6, "without the one that was left as it was"
    assert "of yours" in refused(page, "redo", by="bob")
    assert act(page, "redo")["told"] == "Redone: carried over, 6 episodes."
    assert [len(spans(page, e)) for e in (0, 1, 2, 7)] == [3, 3, 2, 3]
    assert refused(page, "redo") == "there is no act of yours to redo"
    act(page, "undo")
    assert refused(page, "undo") == "there is no act of yours to take back"
    assert refused(page, "accept").startswith("no episode is sure")


def test_another_act_leaves_what_a_person_said_of_carried_steps(out_carried):
    page = review_page(out_carried)
    flagged, pictured = (seen(page, e)["steps"] for e in (0, 2))
    change(page, 0, kind="issue", step=flagged[1]["id"], issue="wrong_time", on=True)
    change(page, 2, kind="frame", step=pictured[0]["id"], camera=FRONT, frame=3)
    change(page, 4, kind="verdict", verdict="accept")  # other labels, so another act
    before = revisions(page, 0, 2)
    assert act(page, "carry")["told"].startswith("Steps carried over to 4 episodes")
    assert revisions(page, 0, 2) == before
    assert act(page, "accept")["told"].startswith("Accepted without looking: 5 episodes")


def test_an_act_reads_what_another_process_has_changed(out_carried):
    page, other = review_page(out_carried), review_page(out_carried)
    act(page, "accept")
    act(other, "accept")
    assert "of yours" in refused(other, "undo", by="bob")
    act(other, "undo")
    before = revisions(page, 1)
    act(page, "undo")
    assert revisions(page, 1) == before
    assert task(page) == task(other)


def test_too_few_boundaries_ask_for_more_labels(out):
    page = review_page(out)
    label(page, 1)
    label(page, 3)
    first, second, _ = seen(page, 3)["steps"]
    for step, frame in ((first, 2), (second, 7)):
        change(page, 3, kind="move", step=step["id"], edge="end", frame=frame)
    few = task(page)
    assert (few["enough"], len(few["next"])) == (False, 1)
    assert "label more episodes of it" in refused(page, "carry")
    assert not act(page, "carry", anyway=True)["tasks"][0]["sure"], "all of it is in doubt"


def test_instructions_that_differ_in_a_thing_are_one_task(tmp_path):
    out = make_out(tmp_path, [TASK, *(f"räum den {letter} weg" for letter in "ABCDEFGHIJ")])
    page = review_page(out)
    assert (task(page)["instruction"], len(task(page)["next"])) == (f"{TASK} (and 10 like it)", 3)
    for episode in (1, 3, 5):
        label(page, episode)
    done = act(page, "carry", instruction=task(page)["instruction"])
    assert ("to 7 ep" in done["told"], task(page)["labelled"], task(page)["sure"]) == (True, 3, 7)
    goalreel("build", out)
    assert "and 2 like it: among your 3 labelled episodes 6 of 6" in (out / "README.md").read_text()
    change(page, 0, kind="undo", of=None)
    assert "in 6 episodes" in act(page, "undo")["told"]


def test_steps_are_copied_and_are_no_label_until_somebody_moves_them(out, tmp_path):
    page = review_page(out)
    label(page, 1)
    assert seen(page, 0)["copy_from"] == 1
    copied = change(page, 0, kind="copy", episode=1)
    share = cuts(0)[-1] / cuts(1)[-1]
    assert spans(page, 0) == [tuple(round(share * f) for f in pair) for pair in pairwise(cuts(1))]
    assert [s["name"] for s in copied["steps"]] == list(NAMES)
    claims = [s["claims"] for s in copied["steps"]]
    assert {(c["when"]["by"], c["what"]["by"]) for c in claims} == {(CARRIED, PERSON)}, "nobody set a time"
    goalreel("export", out, "--out", tmp_path / "steps.csv")
    assert [e.id for e in read_examples(tmp_path / "steps.csv", Source.open(out))] == ["episode 1"]
    assert (task(page)["labelled"], task(page)["open"]) == (1, 9)
    change(page, 0, kind="move", step=copied["steps"][0]["id"], edge="end", frame=cuts(0)[1])
    assert task(page)["labelled"] == 2
    for episode in (0, 2, 99):
        body = {
            "revision": seen(page, 0)["revision"],
            "by": "ann",
            "event": {"kind": "copy", "episode": episode},
        }
        assert page.post("/api/episodes/0/events", json=body).status_code == 422


@pytest.fixture
def page(out, tmp_path) -> Iterator[ReviewPage]:
    server = ReviewServer(out)
    for driver in chromium(tmp_path / "profile"):
        page = ReviewPage(driver)
        page.resize(1440, 900)
        page.url = server.url
        yield page
        assert driver.get_log("browser") == []
    server.kill()


@pytest.mark.process
@needs_chromium
def test_a_dataset_is_labelled_from_nothing_and_built(page, out):
    keys = pytest.importorskip("selenium.webdriver").Keys
    page.load(f"{page.url}/")
    page.sees("#tasks", "Nothing is labelled. Label first: episode")

    page.load(f"{page.url}/#/episode/1")
    page.sees("#steps", "no rule knows these words. No steps: play (Space), and cut (S)")
    page.press("x")
    page.sees("[data-act=faster]", "2×")
    for frame in cuts(1)[1:-1]:
        page.go(frame)
        page.press("s")
        page.settled()
    page.press(keys.ENTER)
    for at, name in enumerate(NAMES, start=1):
        page.eventually(
            lambda at=at: (page.text(".step-item.open .number"), page.focused()), (f"{at}", "name")
        )
        page.press(name, keys.ENTER)
    page.settled()
    page.sees("#steps", '"fahr zurück" is done')
    page.click("[name=onwards]")
    page.press("a")
    page.eventually(lambda: page.text("h1") != "Episode 1")
    for episode in (3, 5):
        page.load(f"{page.url}/#/episode/{episode}")
        page.sees("h1", f"Episode {episode}")
        page.press("v")
        page.sees("#steps", NAMES[2])
        page.settled()
        for frame in cuts(episode)[1:-1]:
            page.press("l")
            page.go(frame)
            page.press("[")
            page.settled()
        page.looks()
        page.press("a")
        page.eventually(lambda episode=episode: page.text("h1") != f"Episode {episode}")

    page.load(f"{page.url}/")
    page.sees("#tasks", "among your 3 labelled episodes 6 of 6 boundaries were found again")
    page.sees("#progress", "3 of 11 reviewed")
    page.sees("#tasks", "Carry over to the other 8 of this task")
    page.click("[data-act=carry]")
    page.sees("#tasks", "Steps carried over to 7 episodes. Left as they were: 1 (episode 10")
    page.sees("#items", "carried over")
    page.click("[data-act=accept]")
    page.sees("#items", "accepted without looking")
    page.sees("#tasks", "Accepted without looking: 7 episodes")
    page.driver.execute_script("document.activeElement.blur()")
    page.press("z")
    page.sees("#tasks", "Accept all 7 that are sure")
    page.sees("#said", "Taken back, episode")
    page.shifted("z")
    page.sees("#tasks", "Undo: 7 accepted without looking")
    page.resize(390, 844)
    assert page.overflow() <= 0

    goalreel("build", out)
    boards = dict(read_storyboards(out))
    assert [len(boards[e].steps) for e in range(11)] == [3] * 10 + [0]
    assert {s.claims.what.checked for e in (1, 3, 5) for s in boards[e].steps} == {PERSON}
    assert {(s.claims.what.by, s.claims.what.checked) for s in boards[0].steps} == {(CARRIED, NOBODY)}
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/test", root=out, video_backend="pyav")
    first = dataset.hf_dataset[dataset.meta.episodes[0]["dataset_from_index"]]
    told = [row["content"] for row in first["language_persistent"] if row["style"] == "subtask"]
    assert told == list(NAMES)
    assert "observation.images.subgoal" in dataset[0]


SURE = storyboard(12)
"""Boundaries at 4 and 8."""


def with_step(number: int, **fields: object) -> Storyboard:
    steps = list(SURE.steps)
    steps[number] = steps[number].model_copy(update=fields)
    return SURE.model_copy(update={"steps": tuple(steps)})


def judged(number: int, probability: float) -> Storyboard:
    verdict = Verdict(success=True, probability=probability)
    return with_step(
        number, attempts=(SURE.steps[number].attempts[0].model_copy(update={"verdict": verdict}),)
    )


def doubt(board: Storyboard, *more: object) -> Priority:
    return priorities({0: facts(board, *more)})[0]


def test_what_counts_most_comes_first():
    rejected = storyboard(12, ("accepted", "rejected", "accepted"))
    failed = Storyboard(task=Task(id="t", instruction="i"), failure=Failure(stage="plan", message="m"))
    unlikely = judged(1, 0.25)
    lost = with_step(2, segment=None, alignment=Alignment(reason="not there"))
    dark = Verdict(success=False, reasoning="too dark", pictures_only=True)
    attempt = rejected.steps[1].attempts[0].model_copy(update={"verdict": dark})
    checked = StoryboardStep(step=rejected.steps[1].step, attempts=(attempt,), chosen=0, status="rejected")
    assert doubt(SURE) == Priority(0, ())
    assert doubt(failed) == Priority(1, ("no plan",))
    assert doubt(unlikely).reasons == ("probability 0.25 of step 2",)
    assert doubt(rejected).reasons == ("step 2 rejected by the Critic",)
    refused = doubt(Storyboard(task=rejected.task, steps=(checked,)))
    assert refused.reasons == ("step 1 rejected by picture checks",)
    assert doubt(lost).reasons == ("step 3 not found in the recording",)
    assert 1 > doubt(unlikely).value > doubt(rejected).value == doubt(lost).value > 0
    assert doubt(rejected).value < doubt(storyboard(12, ("rejected", "rejected", "accepted"))).value < 1
    assert doubt(judged(0, 0.97)).reasons == (), "a Critic that is sure"
    assert [unmoved(SURE, found, 1) for found in ([4, 8], [5, 12], [1], [])] == [0, 1, 2, 0]
    said = [f"{many} where the motion shows none" for many in ("a boundary", "2 boundaries")]
    assert [text for n in (1, 2) for text in doubt(SURE, n).reasons] == said
    assert 0 < doubt(SURE, 1).value < doubt(SURE, 2).value < 1


@pytest.mark.parametrize(("frames", "word"), [(300, "long"), (2, "short"), (24, None)])
def test_an_unusual_length_stands_out(frames, word):
    usual = {i: EpisodeFacts((), (("reach", 20 + i % 3),)) for i in range(ENOUGH)}
    other = {99: EpisodeFacts((), (("reach", frames),))}
    found = priorities(usual | other)
    assert found[99].reasons == ((f"“reach” is unusually {word}",) if word else ())
    assert all(found[i].value == 0 for i in usual)
    assert priorities({i: usual[i] for i in range(ENOUGH - 2)} | other)[99].reasons == ()
    # What a missing cut costs a policy is seven times that of one too many, or elsewhere.
    weight = {"long": 7, "short": 1, None: 0}[word]
    assert found[99].value == pytest.approx(weight * doubt(SURE, 1).value)


def test_the_time_of_a_person_is_without_breaks():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert spent(start + timedelta(minutes=m) for m in (3, 0, 5, 45, 47)) == timedelta(minutes=7)
    assert spent([]) == timedelta()
