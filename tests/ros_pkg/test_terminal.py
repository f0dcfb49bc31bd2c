"""What the client prints of a step."""

import math

import pytest

pytest.importorskip("rclpy")
from rich.console import Console

from goalreel_interfaces.msg import CriticVerdict, StoryboardStep
from goalreel_ros.client.terminal import panel


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
    assert "no picture: planned in words" in printed(auxiliary_text="Wait.", image_status=verified)
    assert "picture verified" in printed(auxiliary_text="Wait.", prompt="p", image_status=verified)
    assert "picture none" in printed(auxiliary_text="Wait.", image_status=StoryboardStep.IMAGE_NONE)
