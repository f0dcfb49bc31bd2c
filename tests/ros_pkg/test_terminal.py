"""Check what the client prints of a step."""

import math

import pytest

pytest.importorskip("rclpy")
from rich.console import Console

from goalreel_interfaces.msg import Claim, CriticVerdict, Storyboard, StoryboardProgress, StoryboardStep
from goalreel_ros.client.__main__ import panel, picture


def printed(**fields: object) -> str:
    step = StoryboardStep(name="grasp", instruction="the gripper holds the block", **fields)
    console = Console(width=100)
    with console.capture() as capture:
        console.print(panel(step))
    return capture.get()


@pytest.mark.parametrize(
    ("score", "probability", "says"),
    [
        (8.0, 0.25, "critic (8.0/10, success 0.25): so"),
        (math.nan, 0.25, "critic (success 0.25): so"),
        (8.0, math.nan, "critic (8.0/10): so"),
        (math.nan, math.nan, "critic: so"),
    ],
)
def test_the_critics_numbers_are_shown_as_far_as_there_are_any(score, probability, says):
    critic = CriticVerdict(
        verdict=CriticVerdict.ACCEPTED, score=score, probability=probability, reasoning="so"
    )
    assert says in printed(critic=critic, prompt="close it", image_status=StoryboardStep.IMAGE_VERIFIED)


def test_a_step_in_words_has_no_picture_to_wait_for():
    verified = StoryboardStep.IMAGE_VERIFIED
    words = StoryboardStep.IMAGE_TEXT
    assert "no picture: planned in words" in printed(auxiliary_text="Wait.", image_status=words)
    assert "picture verified" in printed(auxiliary_text="Wait.", prompt="p", image_status=verified)
    assert "picture none" in printed(auxiliary_text="Wait.", image_status=StoryboardStep.IMAGE_NONE)


def test_who_made_and_who_checked_a_step_and_what_is_in_doubt_is_shown():
    claims = [
        Claim(claim="what", by="model openai:some-planner", checked="nobody"),
        Claim(claim="looks", by="model e", checked="model c", doubts=["The block is not there."]),
    ]
    critic = CriticVerdict(
        verdict=CriticVerdict.REJECTED, score=math.nan, probability=math.nan, reasoning="No."
    )
    unverified = StoryboardStep.IMAGE_UNVERIFIED
    shown = printed(prompt="p", image_status=unverified, critic=critic, claims=claims)
    assert "picture unverified" in shown
    assert "Words: by some-planner, not checked" in shown
    assert "Goal image: by e, checked by c, in doubt" in shown
    assert "in doubt: The block is not there." in shown
    claims[1].doubts = ["No."]
    assert "in doubt: " not in printed(critic=critic, claims=claims), "the critic's words are there already"


def test_a_plan_that_lost_a_model_says_so():
    console = Console(width=120)
    with console.capture() as capture:
        board = Storyboard(task="sort", degraded=["the planner failed: server gone"])
        console.print(picture(board, "sort", None))
    assert "the planner failed: server gone" in capture.get()


def head(state: int, waits: str, task: str = "sort") -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(picture(Storyboard(task=task, state=state), "sort", StoryboardProgress(message=waits)))
    return capture.get().strip()


def test_what_the_node_waits_for_is_shown_while_it_is_at_work():
    waits = "rendering; waiting for the editor (server:http://there) for 12 s, retry 2"
    assert head(Storyboard.STATE_RENDERING, waits) == f"sort: rendering ({waits})"
    assert head(Storyboard.STATE_SUCCEEDED, "") == "sort: succeeded"
    assert head(Storyboard.STATE_EMPTY, waits, task="another") == f"sort: {waits}"
    assert head(Storyboard.STATE_EMPTY, "", task="another") == "sort: waiting for the node"
