"""The Python client against the real node, its models scripted behind a real server."""

import re

import numpy as np
import pytest
from support.ros_bench import BLUE, GREEN, RED, rgb, scene, seen
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.msg import Storyboard, StoryboardStep
from goalreel_ros.client import GoalreelError

pytestmark = pytest.mark.process


def near(picture: np.ndarray | None, colour: str) -> bool:
    return picture is not None and bool(np.abs(seen(picture).astype(int) - rgb(colour)).max() < 12)


def test_generate_from_the_camera_and_from_a_picture(client):
    phases = []
    board = client.generate(f"{RED} {GREEN}", on_feedback=lambda f: phases.append(f.phase), timeout=60)
    assert board.state == Storyboard.STATE_READY
    assert [s.name for s in board.steps] == [RED, GREEN]
    assert max(phases) > min(phases)
    board = client.generate(BLUE, scene(size=(96, 32)), timeout=60)
    from goalreel_ros.pictures import decode

    assert decode(board.steps[0].goal_image).pixels.shape == (32, 96, 3)
    assert client.generate(RED, text_only=True).steps[0].image_status == StoryboardStep.IMAGE_UNVERIFIED


def test_a_task_goes_from_goal_to_goal_as_the_scene_changes(client, robot):
    task = client.execute(f"{RED} {GREEN}", timeout=60)
    first = client.wait_for_subgoal(60)
    assert (first.index, first.num_steps, first.instruction) == (0, 2, RED)
    assert client.goal_image.shape == (48, 64, 3)
    assert near(client.goal_image, RED)
    until(lambda: task.feedback is not None and task.feedback.progress.num_steps == 2)
    robot.colour = RED
    second = client.wait_for_subgoal(60, after=first)
    assert second.index == 1
    assert near(client.goal_image, GREEN)
    robot.colour = GREEN
    board = task.result(60).storyboard
    assert board.state == Storyboard.STATE_SUCCEEDED
    until(lambda: not client.subgoal().active)
    assert client.goal_image is None
    until(lambda: client.storyboard().state == Storyboard.STATE_SUCCEEDED)


def test_pause_resume_override_and_cancel(client):
    task = client.execute(f"{RED} {GREEN} {BLUE}")
    first = client.wait_for_subgoal(60)
    client.pause("a hand is in the way")
    until(lambda: not client.subgoal().active)
    assert client.goal_image is None
    client.resume()
    first = client.wait_for_subgoal(60)
    assert first.index == 0
    client.set_active_step(2)
    assert client.wait_for_subgoal(60, after=first).index == 2
    with pytest.raises(GoalreelError, match="INVALID_REQUEST"):
        client.set_active_step(7)
    client.set_active_step(0)
    revision = until(lambda: (g := client.subgoal()).index == 0 and g).revision
    client.replan("try again")
    until(lambda: client.subgoal().active and client.subgoal().revision > revision)
    client.cancel()
    with pytest.raises(GoalreelError) as canceled:
        task.result(60)
    assert canceled.value.code is ErrorCode.CANCELED
    assert canceled.value.result.storyboard.state == Storyboard.STATE_CANCELED
    for command in (client.pause, client.resume, client.replan, client.cancel):
        with pytest.raises(GoalreelError, match="NO_TASK"):
            command()


def test_which_model_is_waited_for_is_known_to_the_client(client, scripted):
    with scripted.editor.gate.shut():
        task = client.execute(RED)
        says = r"rendering the goal image; waiting for the editor \(server:http://.*\) for \d+ s"
        until(lambda: client.progress() and re.fullmatch(says, client.progress().message))
        task.cancel(60)  # at once, for nobody waits for the editor any more


def test_the_order_of_acceptance_is_kept(client):
    """A task that is sent as soon as another was accepted never ends for that one's sake."""
    for _ in range(20):
        old, new = client.execute(RED), client.execute(GREEN)
        with pytest.raises(GoalreelError, match="PREEMPTED"):
            old.result(60)
        assert not new.done
        new.cancel(60)


def test_what_the_node_refuses_says_why_in_one_line(client):
    with pytest.raises(GoalreelError, match="INVALID_REQUEST"):
        client.generate(" ")
    with pytest.raises(GoalreelError, match="PLANNER_FAILED") as failed:
        client.generate("nonsense")
    assert "\n" not in str(failed.value)
    with pytest.raises(GoalreelError, match="TIMEOUT"):
        client.execute(RED, timeout=0.5).result(60)


def test_the_newest_task_wins_and_a_handle_cancels_its_own(client):
    old = client.execute(RED)
    new = client.execute(GREEN)
    with pytest.raises(GoalreelError) as lost:
        old.result(60)
    assert lost.value.code is ErrorCode.PREEMPTED
    new.cancel(60)
    assert new.done
    with pytest.raises(GoalreelError, match="CANCELED"):
        new.result()


def test_lifecycle(client):
    client.lifecycle.deactivate()
    with pytest.raises((GoalreelError, TimeoutError)) as refused:
        client.execute(RED).result(60)
    assert refused.value.code is ErrorCode.NOT_ACTIVE
    client.lifecycle.cleanup()
    assert client.lifecycle.state == "unconfigured"
    client.lifecycle.configure()
    client.lifecycle.activate()
    client.wait_until_active(20)
    assert client.generate(RED, timeout=60).state == Storyboard.STATE_READY
