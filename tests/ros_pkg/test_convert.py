"""Boards, goals and pictures as messages, with rclpy's field checks on, and how the terminal shows them."""

import pytest

pytest.importorskip("rclpy")

import math
from array import array
from dataclasses import replace
from pathlib import Path
from typing import get_args
from uuid import uuid4

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from rich.console import Console
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Header
from support.boards import record
from support.examined import examination

from goalreel.critics.examination import read_examination
from goalreel.image import Image
from goalreel.streaming.board import (
    Board,
    BoardProgress,
    Frame,
    Goal,
    GoalReason,
    ModelNames,
    Phase,
    StepPanel,
)
from goalreel.types import Attempt, Failure, Step, Verdict
from goalreel_interfaces.msg import (
    Claim,
    CriticVerdict,
    Storyboard,
    StoryboardProgress,
    StoryboardStep,
    SubGoal,
)
from goalreel_ros import convert, diagnostics
from goalreel_ros.client.__main__ import panel, picture
from goalreel_ros.convert import from_duration, from_time
from goalreel_ros.overview import state
from goalreel_ros.pictures import Jpegs, black, decode, raw

NOW = 1_700_000_000_123_456_789
PICTURE = Image(np.full((48, 64, 3), (200, 30, 40), np.uint8))
STEP = Step(name="grasp", instruction="the gripper holds the block", prompt="close it", auxiliary_text="Now!")
YES = Attempt(prompt="close it gently", seed=1, image=PICTURE, verdict=Verdict(success=True, reasoning="so"))
SHOWN = StepPanel(
    0, record(STEP, YES), 3, status="active", image_status="accepted", attempts=2,
    source_stamp=5, created=6, started=7, ended=8,
)  # fmt: skip


@pytest.fixture
def jpegs():
    return Jpegs(90)


@pytest.fixture
def board():
    later = StepPanel(1, record(STEP), 3)
    source = Frame(PICTURE, 5, "optical")
    return Board(uuid4(), "tidy up", "executing", 2, NOW, source, (SHOWN, later))


def wired(message):
    """The message after its way over the wire, which refuses wrong types."""
    return deserialize_message(serialize_message(message), type(message))


def test_a_storyboard_keeps_everything(board, jpegs):
    message = wired(convert.storyboard(board, jpegs, 1))
    assert from_time(message.header.stamp) == NOW
    assert message.header.frame_id == "optical"
    assert convert.from_uuid(message.id) == board.id
    assert (message.revision, message.task, message.state) == (2, "tidy up", Storyboard.STATE_EXECUTING)
    assert decode(message.source_image).size == (64, 48)
    first, second = message.steps
    assert (first.index, first.name, first.instruction) == (0, "grasp", "the gripper holds the block")
    assert (first.auxiliary_text, first.prompt) == ("Now!", "close it gently")
    assert (first.status, first.image_status) == (StoryboardStep.STATUS_ACTIVE, StoryboardStep.IMAGE_ACCEPTED)
    assert (first.attempts, first.max_attempts) == (2, 3)
    stamps = first.goal_image.header.stamp, first.created_stamp, first.start_stamp, first.end_stamp
    assert [from_time(s) for s in stamps] == [5, 6, 7, 8]
    assert np.abs(decode(first.goal_image).pixels.astype(int) - (200, 30, 40)).max() < 12
    assert first.critic.verdict == CriticVerdict.ACCEPTED
    assert (second.prompt, second.status) == ("close it", StoryboardStep.STATUS_PENDING)
    assert second.critic.verdict == CriticVerdict.NOT_EVALUATED
    assert not second.goal_image.data


def claims_of(message):
    return {claim.claim: (claim.by, claim.checked, *claim.doubts) for claim in message.claims}


def test_a_step_and_its_sub_goal_say_who_made_and_who_checked_what_they_claim(board, jpegs):
    named = replace(board, models=ModelNames("hf:planner", "klein", "openai:judge"))
    first, second = wired(convert.storyboard(named, jpegs, 1)).steps
    words = ("model hf:planner", "nobody")
    assert claims_of(first) == {"what": words, "looks": ("model klein", "model openai:judge")}
    assert claims_of(second) == {"what": words}, "it has no picture yet, and is not done"
    goal = convert.subgoal(Goal(named, SHOWN, "active", NOW), jpegs, NOW)
    assert claims_of(wired(goal)) == claims_of(first)
    phase = convert.phase(Phase("validating", panel=SHOWN, models=named.models), "optical", jpegs)
    assert claims_of(wired(phase).step[0]) == claims_of(first)


@pytest.mark.parametrize(
    ("by", "who"), [("critic", "model openai:judge"), ("operator", "operator")], ids=["critic", "operator"]
)
def test_a_step_that_is_done_says_who_took_it_for_done(board, jpegs, by, who):
    steps = board.leave_step(0, "completed", 1, NOW, by)
    done = replace(board, steps=steps, models=ModelNames(critic="openai:judge"))
    message = wired(convert.storyboard(done, jpegs, 1))
    assert claims_of(message.steps[0])["came_off"] == (who, who)
    again = replace(done, steps=done.leave_step(1, "active", 0, NOW))
    assert "came_off" not in claims_of(wired(convert.storyboard(again, jpegs, 1)).steps[0])


def test_verified_is_what_an_examined_critic_accepted_and_a_blind_one_is_believed_nowhere(
    board, jpegs, tmp_path
):
    board = replace(board, models=ModelNames("p", "e", "judge"))
    name = "model judge"
    passed = read_examination(Path(examination(tmp_path / "good", "no", name)))
    blind = read_examination(Path(examination(tmp_path / "blind", "yes", name)))
    other = passed.model_copy(update={"critic": "model another"})
    for examined in (None, blind, other, passed):
        word = "verified" if examined is passed else "accepted"
        now = replace(board, examination=examined)
        kind = getattr(StoryboardStep, f"IMAGE_{word.upper()}")
        message = wired(convert.storyboard(now, jpegs, 1))
        goal = wired(convert.subgoal(Goal(now, SHOWN, "active", NOW), jpegs, NOW))
        assert (message.steps[0].image_status, goal.image_status) == (kind, kind)
        assert message.examination == goal.examination == (examined.line if examined else "")
        assert word in state(SHOWN, now)
        _, _, values = diagnostics.task(BoardProgress(now), "")
        assert ("verified" in values) == (word == "verified")
        assert now.doubt(SHOWN) == "" or word == "accepted"
    lacking = replace(now, task="open the red box")
    assert [lacking.doubt(step) for step in lacking.steps] == ["", "no step mentions the red box"]
    assert diagnostics.task(BoardProgress(lacking), "")[2]["not mentioned"] == "red box"
    # Words in doubt are not verified, whoever accepted the picture.
    doubted = replace(SHOWN, what=SHOWN.claims(now.models).what.model_copy(update={"doubts": ("rushed",)}))
    assert now.is_verified(SHOWN)
    assert (now.is_verified(doubted), now.doubt(doubted)) == (False, "its words are in doubt: rushed")


NO = Verdict(success=False, semantics=4, quality=9, probability=0.25)
DOWN = Failure(stage="judge", message="it is down")


@pytest.mark.parametrize(
    ("said", "verdict", "score", "criteria", "reasoning"),
    [
        ({"verdict": NO}, CriticVerdict.REJECTED, 6.0, ["semantics", "quality"], ""),
        ({"verdict": YES.verdict}, CriticVerdict.ACCEPTED, math.nan, [], "so"),
        ({"failure": DOWN}, CriticVerdict.ERROR, math.nan, [], "it is down"),
    ],
    ids=["rejected", "accepted without a number", "error"],
)
def test_what_the_critic_said(said, verdict, score, criteria, reasoning, jpegs):
    attempt = Attempt(prompt="p", seed=0, image=PICTURE, **said)
    panel = StepPanel(0, record(STEP, attempt), 3, image_status="failed", attempts=1)
    message = wired(convert.step(panel, "", jpegs, ModelNames())).critic
    assert message.verdict == verdict
    assert message.score == pytest.approx(score, nan_ok=True)
    assert [s.criterion for s in message.scores] == criteria
    assert message.reasoning == reasoning
    assert message.probability == pytest.approx(0.25 if criteria else math.nan, nan_ok=True)


WORDS = Step(name="wait", instruction="the glue is dry", prompt=None, auxiliary_text="Wait for the glue.")


def test_a_step_in_words_has_no_prompt_and_no_picture(board, jpegs):
    panel = StepPanel(0, record(WORDS), 3, status="active", image_status="text", created=6)
    message = wired(convert.step(panel, "", jpegs, ModelNames()))
    assert (message.prompt, message.auxiliary_text) == ("", "Wait for the glue.")
    assert (message.image_status, message.attempts) == (StoryboardStep.IMAGE_TEXT, 0)
    assert not message.goal_image.data
    assert message.critic.verdict == CriticVerdict.NOT_EVALUATED
    assert math.isnan(message.critic.probability)
    told = wired(convert.subgoal(Goal(board, panel, "active", 9), jpegs, NOW))
    assert (told.active, told.instruction) == (True, "the glue is dry")
    assert (told.auxiliary_text, bytes(told.goal_image.data)) == ("Wait for the glue.", b"")
    lost = replace(SHOWN, image_status="rejected", record=record(STEP))
    told = wired(convert.subgoal(Goal(board, lost, "active", 9), jpegs, NOW))
    assert told.image_status == StoryboardStep.IMAGE_REJECTED
    assert not told.goal_image.data


def test_a_sub_goal_carries_text_and_picture_together_or_neither(board, jpegs):
    message = wired(convert.subgoal(Goal(board, SHOWN, "active", 9), jpegs, NOW))
    assert from_time(message.header.stamp) == 9
    assert (message.active, message.index, message.num_steps, message.revision) == (True, 0, 2, 2)
    assert message.instruction == "the gripper holds the block"
    assert decode(message.goal_image).size == (64, 48)
    message = wired(convert.subgoal(Goal(board, None, "stale", 0), jpegs, NOW))
    assert from_time(message.header.stamp) == NOW
    assert (message.active, message.reason) == (False, SubGoal.REASON_STALE)
    assert (message.instruction, message.task) == ("", "tidy up")
    assert not message.goal_image.data


def test_the_reasons_of_a_goal_are_the_message_s():
    told = {r: getattr(SubGoal, f"REASON_{r.upper()}") for r in get_args(GoalReason.__value__)}
    assert sorted(told.values()) == list(range(10))
    assert (told["active"], told["no_task"]) == (SubGoal.REASON_ACTIVE, SubGoal().reason)


def test_progress(board):
    message = wired(convert.progress(BoardProgress(board, 0.5, 1.25, 3, "waiting"), NOW))
    assert list(message.step_status) == [StoryboardStep.STATUS_ACTIVE, StoryboardStep.STATUS_PENDING]
    assert (message.step_completion, message.task_completion) == (0.5, 0.25)
    assert from_duration(message.step_elapsed) == 1.25
    assert (message.active_step, message.replans, message.message) == (0, 3, "waiting")
    far = (BoardProgress(board, share).step_completion for share in (-3.2, 1.5, math.nan))
    assert list(far) == [0, 1, pytest.approx(math.nan, nan_ok=True)]


def test_a_phase(jpegs):
    message = wired(convert.phase(Phase("validating", 1, 4, 2, 0.25, SHOWN), "optical", jpegs))
    assert (message.phase, message.step_index, message.num_steps, message.attempt) == (4, 1, 4, 2)
    assert message.step[0].goal_image.header.frame_id == "optical"
    assert not wired(convert.phase(Phase("planning"), "", jpegs)).step


def test_an_unchanged_picture_is_encoded_once_and_forgotten_with_its_board(board, jpegs):
    pixels = np.full((48, 64, 3), 200, np.uint8)
    image = Image(pixels[:])
    board = replace(board, source=Frame(image))
    first = jpegs.message(image, Header()).data
    pixels[:] = 10  # behind the image's back, so that encoding again would show
    assert jpegs.message(image, Header()).data == first
    jpegs.drop_others(board)
    assert jpegs.message(image, Header()).data == first
    jpegs.drop_others(Board())
    assert jpegs.message(image, Header()).data != first


def test_raw_pictures_go_there_and_back():
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3), np.uint8)
    message = wired(raw(Image(pixels), Header()))
    assert (message.height, message.width, message.step, message.encoding) == (7, 5, 15, "rgb8")
    assert np.array_equal(decode(message).pixels, pixels)
    assert black((5, 7)).pixels.shape == (7, 5, 3)


def test_compressed_pictures_that_are_some_and_that_are_none():
    png = array("B", PICTURE.png())
    for kind in ("png", "jpeg", "rgb8; jpeg compressed bgr8", "bgr8; png compressed", ""):
        assert decode(CompressedImage(format=kind, data=png)) == PICTURE
    for kind in ("16UC1; compressedDepth png", "bayer_rggb8; jpeg compressed", "32FC1; png compressed"):
        with pytest.raises(ValueError, match="colour topic") as refused:
            decode(CompressedImage(format=kind, data=png))
        assert "\n" not in str(refused.value)


def terminal(shown: object) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(shown)
    return capture.get().strip()


def printed(**fields: object) -> str:
    return terminal(panel(StoryboardStep(name="grasp", instruction="the gripper holds the block", **fields)))


def test_who_made_and_who_checked_a_step_and_what_is_in_doubt_is_shown():
    claims = [
        Claim(claim="what", by="model openai:some-planner", checked="nobody"),
        Claim(claim="looks", by="model e", checked="model c", doubts=["The block is not there."]),
    ]
    critic = CriticVerdict(verdict=CriticVerdict.REJECTED, reasoning="No.")
    rejected = StoryboardStep.IMAGE_REJECTED
    shown = printed(prompt="p", image_status=rejected, critic=critic, claims=claims)
    assert "picture rejected" in shown
    assert "critic: No." in shown
    assert "Words: by some-planner, not checked" in shown
    assert "Goal image: by e, checked by c, in doubt" in shown
    assert "in doubt: The block is not there." in shown
    claims[1].doubts = ["No."]
    assert "in doubt: " not in printed(critic=critic, claims=claims), "the critic's words are there already"


def head(state: int, waits: str, task: str = "sort") -> str:
    board = Storyboard(task=task, state=state, degraded=["no planner"])
    return terminal(picture(board, "sort", StoryboardProgress(message=waits)))


def test_what_the_node_waits_for_is_shown_while_it_is_at_work():
    waits = "rendering; waiting for the editor for 12 s, retry 2"
    assert head(Storyboard.STATE_RENDERING, waits) == f"sort: rendering ({waits})\nno planner"
    assert head(Storyboard.STATE_SUCCEEDED, "") == "sort: succeeded\nno planner"
    assert head(Storyboard.STATE_EMPTY, waits, task="another") == f"sort: {waits}"
    assert head(Storyboard.STATE_EMPTY, "", task="another") == "sort: waiting for the node"


def test_a_refused_picture_says_why(jpegs):
    no = Attempt(prompt="p", seed=1, image=PICTURE, verdict=Verdict(success=False, reasoning="too far"))
    panel = replace(SHOWN, image_status="rejected", record=record(STEP, no))
    message = wired(convert.step(panel, "", jpegs, ModelNames("p", "e", "c")))
    assert claims_of(message)["looks"] == ("model e", "model c", "too far")
    assert convert.from_claims(message.claims) == panel.claims(ModelNames("p", "e", "c"))


def test_a_board_that_never_changed_still_has_a_stamp(jpegs):
    message = wired(convert.storyboard(Board(), jpegs, NOW))
    assert from_time(message.header.stamp) == NOW
    assert (message.state, list(message.steps)) == (Storyboard.STATE_EMPTY, [])
