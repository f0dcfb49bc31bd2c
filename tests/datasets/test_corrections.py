"""Corrections: an append-only log that nothing loses, and what the dataset makes of it."""

import itertools
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from goalreel.boards.log import ConflictError
from goalreel.claims import Detail, Details, FailureDetail
from goalreel.datasets.corrections import board as boards
from goalreel.datasets.corrections.events import (
    AcceptStep,
    BeginLog,
    BlankGoal,
    ChooseAttempt,
    DeleteStep,
    DescribeStep,
    FlagIssue,
    GiveVerdict,
    InsertStep,
    LogEntry,
    Looked,
    MergeSteps,
    MoveBoundary,
    PlaceStep,
    RedoChange,
    RenameStep,
    SetOutcome,
    SplitStep,
    TakeFrame,
    UndoChange,
)
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.corrections.state import Review, after
from goalreel.datasets.fingerprint import Fingerprint
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.goals import read_goals
from goalreel.datasets.writing.pipeline import build
from goalreel.datasets.writing.plan import TextOptions
from goalreel.errors import DatasetError, InputError
from goalreel.image import reference_of, stand_in
from goalreel.types import Alignment, Attempt, Failure, StoryboardStep

FRONT = "observation.images.front"
LENGTH = 12


@pytest.fixture
def records(tmp_path, board):
    """Two episodes of twelve frames and three steps; the second step of the first one has a drawn goal."""
    recordings = {0: "a" * 64, 1: "b" * 64}
    with Records.open(tmp_path / "out", {"planner": "p"}, Fingerprint("s", recordings)) as records:
        records.commit(0, board(LENGTH, drawn=(1,)))
        records.commit(1, board(LENGTH))
        yield records


class Person:
    """Somebody who changes episode 0, always with the newest revision."""

    def __init__(self, records: Records, name: str = "ann", episode: int = 0) -> None:
        self.reviews, self.name, self.episode = Reviews(records), name, episode

    def does(self, *changes) -> Review:
        for change in changes:
            revision = self.reviews.look(self.episode, LENGTH).revision
            self.reviews.change(self.episode, LENGTH, revision, self.name, change)
        return self.reviews.look(self.episode, LENGTH).review


@pytest.fixture
def person(records) -> Person:
    return Person(records)


def spans(review: Review) -> list[tuple[int, int] | None]:
    return [s.segment and (s.segment.start, s.segment.end) for s in review.steps]


def test_a_boundary_is_one_number_and_the_goal_follows_the_end(person):
    before = person.does(FlagIssue(step="1", issue="wrong_time", on=True))
    assert spans(before) == [(0, 4), (4, 8), (8, 12)]
    review = person.does(MoveBoundary(step="1", edge="start", frame=3))
    assert spans(review) == [(0, 3), (3, 8), (8, 12)]
    assert review.steps[0].goal == f"frame:{FRONT}#2"
    assert review.steps[1].goal == before.steps[1].goal  # it was drawn, and ends where it did
    assert review.steps[1].issues == ()  # set anew, it is no longer the wrong time
    assert [s.edited for s in review.steps] == [{"time"}, {"time"}, set()]
    last = person.does(MoveBoundary(step="2", edge="end", frame=10))
    assert spans(last)[2] == (8, 10)
    assert last.steps[2].goal == f"frame:{FRONT}#9"
    assert not any(step.taken for step in last.steps)
    step = person.reviews.corrected(last).steps[2]
    assert (step.status, step.claims.looks.checked, step.claims.when.by) == ("observed", "nobody", "person")
    again = person.does(*(MoveBoundary(step="0", edge="end", frame=frame) for frame in (2, 3, 2, 3)))
    step = person.reviews.corrected(again).steps[0]
    assert len(again.steps[0].attempts) == 6  # a log may name any of them
    assert ([a.image.frame for a in step.attempts][1:], step.chosen) == ([f"frame:{FRONT}#2"], 1)


def test_a_person_describes_a_step_and_what_holds_no_longer_goes(records, board):
    told = Details(
        motion=Detail(text="the arm rests", by="rule"),
        reasoning=Detail(text="it is next", by="model m"),
        failure=FailureDetail(text="it slipped", by="model m", restorable=True),
    )
    steps = list(board(LENGTH).steps)
    words = steps[0].step.model_copy(update={"details": told, "outcome": "failed"})
    steps[0] = steps[0].model_copy(update={"step": words})
    records.commit(0, board(LENGTH).model_copy(update={"steps": tuple(steps)}))
    assert records.outline(0).steps[0].step.details == told
    person = Person(records)
    cause = DescribeStep(step="0", detail="failure", text="the cup fell over", restorable=False)
    person.does(cause, DescribeStep(step="0", detail="scene", text="a cup"))
    person.does(RenameStep(step="0", name="reach the cup"))
    details = records.outline(0).steps[0].step.details
    assert [name for name, _ in details.items()] == ["motion", "scene", "failure"]
    assert (details.failure.text, details.failure.restorable) == ("the cup fell over", False)
    assert (details.failure.by, details.scene.by, details.motion.by) == ("person", "person", "rule")
    person.does(MoveBoundary(step="0", edge="end", frame=3))
    details = records.outline(0).steps[0].step.details
    assert [name for name, _ in details.items()] == ["scene", "failure"]
    person.does(SetOutcome(step="0", outcome="done"), DescribeStep(step="0", detail="scene", text=None))
    assert records.outline(0).steps[0].step.details is None
    with pytest.raises(InputError, match="the step is done"):
        person.does(cause)


def test_other_words_void_what_a_model_said_of_a_picture_until_it_is_undone(records, person):
    assert records.outline(0).steps[1].accepted
    person.does(RenameStep(step="1", name="put the cup on the shelf"))
    step = records.outline(0).steps[1]
    assert (step.step.instruction, step.accepted) == ("the cup is on the shelf", False)
    person.does(UndoChange(), RenameStep(step="0", name="put the cup on the shelf"))
    assert [step.accepted for step in records.outline(0).steps] == [True] * 3, "a frame stays a frame"
    # Merged, the words are the first step's, and a picture that a person chose for it is gone.
    person.does(UndoChange(), TakeFrame(step="0", camera=FRONT, frame=2), MergeSteps(step="0"))
    step = records.outline(0).steps[0]
    assert (step.step.name, step.status) == ("reach the block", "unjudged")
    assert step.claims.looks.checked != "person"


def test_steps_are_split_merged_removed_and_added(person):
    split = person.does(SplitStep(step="0", frame=1))
    assert spans(split) == [(0, 1), (1, 4), (4, 8), (8, 12)]
    assert split.steps[0].goal == f"frame:{FRONT}#0"
    new = split.steps[1].id
    merged = person.does(MergeSteps(step="0"))
    assert spans(merged) == [(0, 4), (4, 8), (8, 12)]
    assert merged.steps[0].goal == split.steps[1].goal
    assert new not in [s.id for s in merged.steps]
    added = person.does(DeleteStep(step="1"), InsertStep(start=5, end=7, name=" push it "))
    assert spans(added) == [(0, 4), (5, 7), (8, 12)]
    assert added.steps[1].step.name == "push it"
    assert added.steps[1].goal == f"frame:{FRONT}#6"


def test_words_outcomes_and_goal_images_are_set(records, person):
    review = person.does(
        RenameStep(step="0", name="grasp the cup", prompt="Show the cup in the hand."),
        SetOutcome(step="1", outcome="failed"),
        TakeFrame(step="2", camera=FRONT, frame=3),
    )
    first, _, last = review.steps
    assert first.step.instruction != "grasp the cup"
    assert (first.step.name, first.step.prompt) == ("grasp the cup", "Show the cup in the hand.")
    assert last.goal == f"frame:{FRONT}#3"
    goals = read_goals(records, [0], {0: LENGTH}, use_rejected=False)[0]
    shown = [("grasp the cup", first.goal), (None, None), (last.step.name, last.goal)]
    assert [(s.name, s.picture) for s in goals.spans] == shown
    assert person.does(ChooseAttempt(step="2", attempt=0), BlankGoal(step="0")).steps[2].chosen == 0
    goals = read_goals(records, [0], {0: LENGTH}, use_rejected=False)[0]
    assert (goals.spans[0].name, goals.spans[0].picture) == ("grasp the cup", None)


def in_words(board, *places):
    """The board with steps in words alone at these places."""
    steps = list(board.steps)
    for at in places:
        step = steps[at].step.model_copy(update={"prompt": None, "auxiliary_text": "Mind the gap."})
        steps[at] = StoryboardStep(step=step, segment=steps[at].segment, status="text")
    return board.model_copy(update={"steps": tuple(steps)})


def test_a_step_in_words_alone_can_be_given_a_picture(records, person, board):
    records.commit(0, in_words(board(LENGTH), 0, 1))
    review = person.does(TakeFrame(step="0", camera=FRONT, frame=2))
    first, second, third = records.outline(0).steps
    assert (first.status, first.step.prompt, second.status) == ("accepted", first.step.instruction, "text")
    assert boards.plan(review).steps == (first.step, second.step, third.step)
    person.does(BlankGoal(step="0"))
    first = records.outline(0).steps[0]
    assert (first.status, first.step.prompt, first.attempts) == ("text", None, ())
    person.does(MergeSteps(step="1"), MoveBoundary(step="1", edge="end", frame=11))
    merged = records.outline(0).steps[1]
    assert (merged.status, merged.goal_image.frame) == ("observed", f"frame:{FRONT}#10")


def test_what_is_flagged_or_rejected_is_no_training_data_whatever_is_used(records, person):
    person.does(FlagIssue(step="1", issue="wrong_object", on=True))
    goals = read_goals(records, [0], {0: LENGTH}, use_rejected=True)[0]
    assert [(s.start, s.end) for s in goals.spans] == [(0, 4), (8, 12)]
    assert "wrong object" in records.outline(0).steps[1].alignment.reason
    person.does(UndoChange(), GiveVerdict(verdict="reject"))
    goals = read_goals(records, [0], {0: LENGTH}, use_rejected=True)[0]
    assert (goals.spans, goals.plan) == ((), ())
    person.does(GiveVerdict(verdict="unsure"))
    assert len(read_goals(records, [0], {0: LENGTH}, use_rejected=False)[0].spans) == 3


def test_an_accepted_episode_is_in_no_doubt_and_a_change_takes_that_back(records, person, board):
    records.commit(0, board(LENGTH, ("rejected",) * 3, doubts=["two hands move"]))
    person.does(RenameStep(step="1", name="grasp the red block"))
    assert [bool(s.step.doubts) for s in records.outline(0).steps] == [True, False, True]
    accepted = person.does(GiveVerdict(verdict="accept"))
    assert (accepted.verdict, accepted.by) == ("accept", "ann")
    outline = records.outline(0)
    assert {(s.status, s.step.doubts) for s in outline.steps} == {("accepted", ())}
    assert {boards.opinion(accepted, s) for s in accepted.steps} == {"accepted"}
    changed = person.does(RenameStep(step="0", name="other"))
    assert changed.verdict is None
    assert {boards.opinion(changed, s) for s in changed.steps} == {None}
    assert person.does(UndoChange()).verdict == "accept"


def test_undo_and_redo_give_each_state_again_until_something_new_is_done(records, person):
    moved, added = MoveBoundary(step="0", edge="end", frame=2), InsertStep(start=3, end=4, name="x")
    changes = [moved, DeleteStep(step="1"), added]
    states = [person.reviews.look(0, LENGTH).review, *map(person.does, changes)]
    for state in reversed(states[:-1]):
        assert person.does(UndoChange()) == state
    anew = Person(records)
    for state in states[1:]:
        assert anew.does(RedoChange()) == state
    person.does(UndoChange(), BlankGoal(step="0"))
    with pytest.raises(InputError, match="nothing to redo"):
        person.does(RedoChange())


def test_each_person_takes_back_their_own_last_change_and_none_of_another(records, person):
    other = Person(records, "ben")
    person.does(RenameStep(step="0", name="of ann"))
    other.does(MoveBoundary(step="1", edge="end", frame=6), RenameStep(step="2", name="of ben"))
    named = person.does(UndoChange())
    assert [s.step.name for s in named.steps][::2] == ["reach the block", "of ben"]
    assert spans(other.does(UndoChange(), UndoChange())) == [(0, 4), (4, 8), (8, 12)]
    assert spans(other.does(RedoChange())) == [(0, 4), (4, 6), (6, 12)]
    assert person.does(RedoChange()).steps[0].step.name == "of ann"
    person.does(SplitStep(step="2", frame=10))
    added = person.reviews.look(0, LENGTH).review.steps[3].id
    other.does(RenameStep(step=added, name="first half"))
    held = person.reviews.look(0, LENGTH).revision
    with pytest.raises(InputError, match="later changes rest on that one: there is no step"):
        person.does(UndoChange())
    assert person.reviews.look(0, LENGTH).revision == held
    with pytest.raises(InputError, match="change 2 is not your last one any more"):
        person.does(UndoChange(of=2))


def test_a_step_is_accepted_alone_until_it_is_changed(records, person, board):
    records.commit(0, board(LENGTH, ("rejected",) * 3, doubts=["two hands move"]))
    seen = Looked(seconds=2.0, pictures={"1": 0.5})
    review = person.does(AcceptStep(step="1", looked=seen), AcceptStep(step="2", looked=seen))
    assert [s.accepted for s in review.steps] == [False, True, False], "the third was not on the screen"
    outline = records.outline(0)
    assert [s.status for s in outline.steps] == ["rejected", "accepted", "rejected"]
    assert [bool(s.step.doubts) for s in outline.steps] == [True, False, True]
    assert [s.claims.what.checked for s in outline.steps].count("person") == 1
    assert not review.labelled
    assert not person.does(GiveVerdict(verdict="accept", looked=seen)).labelled
    assert person.does(RenameStep(step="2", name="put it down")).steps[1].accepted
    assert not person.does(MoveBoundary(step="0", edge="end", frame=3)).steps[1].accepted
    assert person.does(UndoChange()).steps[1].accepted
    seen = Looked(seconds=2.0, pictures={"0": 0.5, "1": 0.5, "2": 0.5})
    assert person.does(*(AcceptStep(step=s, looked=seen) for s in "02")).labelled
    person.does(GiveVerdict(verdict="reject"))
    assert {s.segment for s in records.outline(0).steps} == {None}


def test_a_log_is_read_on_from_its_last_line_and_comes_to_the_same(records, person, monkeypatch):
    """By who knows the lines before, and by who does not, after each change, with few states at hand."""
    monkeypatch.setattr("goalreel.boards.log.STATES", 3)
    changes = [MoveBoundary(step="0", edge="end", frame=2 + n % 3) for n in range(8)]
    changes += [*[UndoChange()] * 7, *[RedoChange()] * 3, FlagIssue(step="1", issue="extra", on=True)]
    changes += [*[UndoChange()] * 5, GiveVerdict(verdict="accept"), UndoChange()]
    held = Reviews(records)
    for change in changes:
        person.does(change)
        now, anew = held.look(0, LENGTH), Reviews(records).look(0, LENGTH)
        assert (now.review, now.replay.lines) == (anew.review, anew.replay.lines)
        assert (now.replay.done, now.replay.undone) == (anew.replay.done, anew.replay.undone)
    # A person put another log in its place, or took lines away.
    path = records.corrections(0).path
    lines = path.read_bytes().splitlines(keepends=True)
    for restored in (lines[:4], lines, lines[:1], []):
        path.write_bytes(b"".join(restored))
        assert len(held.look(0, LENGTH).replay.lines) == len(restored)
    path.unlink()
    assert held.look(0, LENGTH).replay.lines == []


def test_a_change_whose_answer_was_lost_is_made_once_and_the_second_of_two_people_is_told(records, person):
    seen = person.reviews.look(0, LENGTH).revision
    change = SplitStep(step="0", frame=2)
    saved = person.reviews.change(0, LENGTH, seen, "ann", change)
    again = Reviews(records).change(0, LENGTH, seen, "ann", change)  # a server that was started again
    assert (again.review, again.revision) == (saved.review, saved.revision)
    after = person.does(DeleteStep(step="1"))
    assert person.reviews.change(0, LENGTH, seen, "ann", change).review == after
    for by, other in (("ben", change), ("ann", SplitStep(step="0", frame=1))):
        with pytest.raises(ConflictError, match="by ann came first") as refused:
            Reviews(records).change(0, LENGTH, seen, by, other)
        assert refused.value.by == "ann"
    assert person.reviews.look(0, LENGTH).review == after


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (MoveBoundary(step="1", edge="start", frame=0), "holds at least one"),
        (MoveBoundary(step="1", edge="start", frame=9), "holds at least one"),
        (MoveBoundary(step="2", edge="end", frame=13), "of 12: a step holds"),
        (SplitStep(step="0", frame=0), "holds at least one"),
        (InsertStep(start=2, end=5, name="x"), "overlap step 0"),
        (MergeSteps(step="2"), "no step after"),
        (ChooseAttempt(step="0", attempt=7), "no attempt 7"),
        (TakeFrame(step="0", camera=FRONT, frame=12), "none of the episode's 12"),
        (DeleteStep(step="9"), "no step 9"),
    ],
)
def test_a_change_that_does_not_fit_writes_nothing(records, person, change, says):
    with pytest.raises(InputError, match=says):
        person.does(change)
    assert not records.corrections(0).path.exists()


def test_half_a_line_is_no_line_a_damaged_one_is_named_and_a_full_disk_changes_nothing(
    records, person, monkeypatch
):
    path = records.corrections(0).path
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"revision":1,"at"')  # what a killed write left
    assert not records.is_corrected(0)
    assert records.outline(0) == records.original(0)
    review = person.does(DeleteStep(step="0"))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    assert person.reviews.look(0, LENGTH).review == review
    assert person.does(UndoChange()).steps == Review.of(records.begin_log(0, LENGTH)).steps
    assert path.read_bytes().startswith(whole)

    def full(handle, data, offset):
        os.ftruncate(handle, offset + 3)
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    with monkeypatch.context() as patched, pytest.raises(DatasetError, match="disk is full"):
        patched.setattr(os, "pwrite", full)
        person.does(DeleteStep(step="1"))
    assert path.read_bytes() == before
    lines = before.splitlines(keepends=True)
    for damaged in (lines[0] + b"{}\n" + lines[2], lines[0] + lines[2]):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"episode_000000\.jsonl: line 2 is damaged"):
            records.outline(0)


# Another record of the same episode


def test_a_persons_steps_stay_when_the_episode_is_annotated_again(records, person, board):
    person.does(MoveBoundary(step="0", edge="end", frame=2), TakeFrame(step="2", camera=FRONT, frame=9))
    mine = person.reviews.look(0, LENGTH).review
    records.commit(0, board(LENGTH, ("accepted",) * 2))  # other steps altogether
    records.drop_unused_images()  # none that a log names
    assert records.outline(0).steps[1].goal_image.frame == mine.steps[1].goal
    review = person.reviews.look(0, LENGTH).review
    assert review.steps == mine.steps
    plan = boards.plan(review)
    assert [(s.start, s.end) for s in plan.segments] == spans(review)
    again = person.does(DeleteStep(step="1"))  # goes on from the newer record
    assert [s.id for s in again.steps] == ["0", "2"]
    assert person.does(UndoChange()).steps == mine.steps


def test_an_opinion_stays_with_the_pictures_and_the_recording_that_it_was_said_of(records, person, board):
    person.does(TakeFrame(step="2", camera=FRONT, frame=9), GiveVerdict(verdict="accept"))
    same = board(LENGTH, drawn=(1,))
    records.commit(0, same.model_copy(update={"task": same.task.model_copy(update={"seed": 5})}))
    assert person.reviews.look(0, LENGTH).review.verdict == "accept"
    records.commit(0, board(LENGTH, drawn=(0, 2)))
    review = person.reviews.look(0, LENGTH).review
    assert review.steps[0].goal.startswith("images/"), "what nobody set is the newer record's"
    assert review.steps[2].goal == f"frame:{FRONT}#9"
    assert review.verdict is None
    newer = Records(records.folder, "s", {0: "c" * 64, 1: "b" * 64})
    newer.commit(0, board(LENGTH))
    assert newer.outline(0) == newer.original(0)


# The dataset


def test_the_dataset_is_built_from_records_and_corrections_and_only_what_changed(
    video_dataset, annotated, tmp_path
):
    out = annotated(video_dataset, tmp_path / "out", {0: {}, 1: {}})
    source = Source.open(video_dataset)
    camera, text = source.camera(None), TextOptions(replace_rows=True)

    def files() -> dict[Path, bytes]:
        found = [*(out / "data").rglob("*"), *(out / "videos").rglob("*"), *(out / "meta").rglob("*")]
        return {p: p.read_bytes() for p in found if p.is_file() and "corrections" not in p.parts}

    def rebuild() -> None:
        with Records.open(out, {"test": 1}, source.fingerprint()) as records:
            build(source, out, records, camera=camera, text=text, form="plain")

    length = len(source.episode(0))
    before = files()
    reviews = Reviews(Records(out / "meta/goalreel", ""))
    revision = reviews.change(0, length, 0, "ann", MoveBoundary(step="0", edge="end", frame=2)).revision
    rebuild()
    moved = files()
    record = Records(out / "meta/goalreel", "").path(0)
    assert moved[record] == before[record]
    assert {p.suffix for p in moved if moved[p] != before[p]} >= {".parquet", ".mp4"}
    stamps = {p: p.stat().st_mtime_ns for p in moved}
    revision = reviews.change(0, length, revision, "ann", GiveVerdict(verdict="unsure")).revision
    rebuild()
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps  # an opinion that changes no byte writes none
    for _ in range(2):
        revision = reviews.change(0, length, revision, "ann", UndoChange()).revision
    rebuild()
    assert files() == before


STEPS = st.sampled_from(["0", "1", "2", "3", "4", "r1", "r2", "r3"])
FRAMES = st.integers(0, LENGTH)
CHANGES = st.one_of(
    st.builds(MoveBoundary, step=STEPS, edge=st.sampled_from(["start", "end"]), frame=FRAMES),
    st.builds(PlaceStep, step=STEPS, start=FRAMES, end=FRAMES),
    st.builds(SplitStep, step=STEPS, frame=FRAMES),
    st.builds(MergeSteps, step=STEPS),
    st.builds(InsertStep, start=FRAMES, end=FRAMES, name=st.just("added")),
    st.builds(DeleteStep, step=STEPS),
    st.builds(RenameStep, step=STEPS, name=st.just("renamed"), prompt=st.sampled_from([None, "draw it"])),
    st.builds(SetOutcome, step=STEPS, outcome=st.sampled_from(["done", "failed"])),
    st.builds(ChooseAttempt, step=STEPS, attempt=st.integers(0, 2)),
    st.builds(TakeFrame, step=STEPS, camera=st.just(FRONT), frame=FRAMES),
    st.builds(BlankGoal, step=STEPS),
)


def every_kind(board):
    """Steps with a picture, in words alone, that failed, with a picture, and that was found nowhere."""
    told = in_words(board(LENGTH, ("accepted",) * 5, names="abcde"), 1)
    first, words, failed, last, lost = told.steps
    attempt = Attempt(prompt="p", seed=0, failure=Failure(stage="edit", message="no picture"))
    failed = StoryboardStep(step=failed.step, segment=failed.segment, attempts=(attempt,), status="failed")
    lost = lost.model_copy(update={"segment": None, "alignment": Alignment(reason="unlike")})
    return told.model_copy(update={"steps": (first, words, failed, last, lost)})


@settings(max_examples=2 * settings.default.max_examples)
@given(changes=st.lists(CHANGES, max_size=12), verdict=st.sampled_from([None, "accept", "reject"]))
def test_whatever_people_do_the_steps_stay_apart_and_the_storyboard_is_one(board, changes, verdict):
    drawn = every_kind(board)
    named = drawn.model_dump_json(context={"put_image": lambda image: f"frame:{image.frame}"})
    begun = type(drawn).model_validate_json(named, context={"get_image": stand_in})
    review = Review.of(BeginLog(record="r", recording=None, length=LENGTH, board=begun))
    now = datetime.now(UTC)
    for number, change in enumerate(changes, start=1):
        try:
            review = after(review, LogEntry(revision=number, at=now, by="ann", change=change))
        except InputError:
            continue
        placed = [s.segment for s in review.steps if s.segment is not None]
        assert all(a.end <= b.start for a, b in itertools.pairwise(placed))
        assert all(s.end <= LENGTH for s in placed)
        assert len({s.id for s in review.steps}) == len(review.steps)
    storyboard = boards.corrected(review.model_copy(update={"verdict": verdict}))
    assert len(storyboard.steps) == len(review.steps)
    told = storyboard.model_dump_json(context={"put_image": reference_of})
    assert type(drawn).model_validate_json(told, context={"get_image": stand_in}) == storyboard
    plan = boards.plan(review)
    assert (plan is None) == (not review.corrected or not review.steps)
