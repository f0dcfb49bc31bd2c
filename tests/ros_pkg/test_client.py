"""The Python client against the real node, its models scripted behind a real server, and odd nodes."""

import gc
import threading
import time
from contextlib import closing
from functools import partial

import pytest
import rclpy
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future
from std_msgs.msg import String
from support.ros_bench import BLUE, GREEN, RED, near, scene
from support.wait import until
from typer.testing import CliRunner

from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.action import ExecuteTask
from goalreel_interfaces.msg import Storyboard, StoryboardProgress, StoryboardStep
from goalreel_ros.client import GoalreelClient, GoalreelError
from goalreel_ros.client.__main__ import app
from goalreel_ros.client.task import TaskHandle, check
from goalreel_ros.pictures import decode
from goalreel_ros.qos import LATCHED
from goalreel_ros.spin import BackgroundNode

pytestmark = pytest.mark.process


def test_generate_from_the_camera_and_from_a_picture(client):
    board = client.generate(f"{RED} {GREEN}", timeout=60)
    assert board.state == Storyboard.STATE_READY
    assert [s.name for s in board.steps] == [RED, GREEN]
    board = client.generate(BLUE, scene(size=(96, 32)), timeout=60)
    assert decode(board.steps[0].goal_image).pixels.shape == (32, 96, 3)
    assert client.generate(RED, text_only=True).steps[0].image_status == StoryboardStep.IMAGE_UNJUDGED
    assert until(lambda: client.storyboard() and client.storyboard().state == Storyboard.STATE_READY)


def test_a_task_goes_from_goal_to_goal_as_the_scene_changes(client, robot):
    task = client.execute(f"{RED} {GREEN}", timeout=60)
    first = client.wait_for_subgoal(60)
    assert (first.index, first.num_steps, first.instruction) == (0, 2, RED)
    assert client.goal_image.shape == (48, 64, 3)
    assert near(client.goal_image, RED)
    until(lambda: task.feedback is not None and task.feedback.progress.num_steps == 2)
    with pytest.raises(TimeoutError, match=r"did not end within 0\.2 s"):
        task.result(0.2)
    with pytest.raises(TimeoutError, match=r"no new active sub-goal within 0\.1 s"):
        client.wait_for_subgoal(0.1, after=first)
    robot.colour = RED
    assert client.wait_for_subgoal(60, after=first).index == 1
    assert near(client.goal_image, GREEN)
    robot.colour = GREEN
    assert task.result(60).storyboard.state == Storyboard.STATE_SUCCEEDED
    until(lambda: not client.subgoal().active)
    assert client.goal_image is None
    until(lambda: client.storyboard().state == Storyboard.STATE_SUCCEEDED)


def test_pause_resume_override_and_cancel(client):
    task = client.execute(f"{RED} {GREEN} {BLUE}")
    client.wait_for_subgoal(60)
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
    client.cancel("mind the cat")
    with pytest.raises(GoalreelError, match="mind the cat") as canceled:
        task.result(60)
    assert canceled.value.code is ErrorCode.CANCELED
    assert canceled.value.result.storyboard.state == Storyboard.STATE_CANCELED
    commands = client.pause, client.resume, client.replan, client.cancel, partial(client.set_active_step, 0)
    for command in commands:
        with pytest.raises(GoalreelError, match="NO_TASK"):
            command()


def test_the_newest_task_wins_and_a_handle_cancels_its_own(client):
    """A task that is sent as soon as another was accepted never ends for that one's sake."""
    for _ in range(20):
        old, new = client.execute(RED), client.execute(GREEN)
        with pytest.raises(GoalreelError) as lost:
            old.result(60)
        assert lost.value.code is ErrorCode.PREEMPTED
        assert not new.done
        new.cancel(60)
        with pytest.raises(GoalreelError, match="CANCELED"):
            new.result()


def test_what_is_refused_says_why_in_one_line(client):
    with pytest.raises(ValueError, match="'task'"):  # which never reaches the wire
        client.generate(7)
    with pytest.raises(ValueError, match="'max_steps'"):
        client.execute(RED, max_steps=2**31)
    with pytest.raises(GoalreelError, match="INVALID_REQUEST"):
        client.generate(" ")
    with pytest.raises(GoalreelError, match="PLANNER_FAILED") as failed:
        client.generate("nonsense")
    assert "\n" not in str(failed.value)
    with pytest.raises(GoalreelError, match="TIMEOUT"):
        client.execute(RED, timeout=0.5).result(60)
    shown = CliRunner().invoke(app, ["nonsense", "--only-generate"])
    assert shown.exit_code == 1
    assert "PLANNER_FAILED: " in shown.output
    assert "Traceback" not in shown.output


def test_a_code_that_only_a_newer_node_knows_is_an_unknown_error():
    with pytest.raises(GoalreelError, match="UNKNOWN: too hot"):
        check(ExecuteTask.Result(error_code=99, error_msg="too hot"))


def test_it_works_inside_another_nodes_callback(client):
    """A single-threaded executor: a client that relied on it would wait for ever."""
    answers = []
    with rclpy.init():
        node = rclpy.create_node("caller", namespace="/")
        own = GoalreelClient(node, timeout=60)

        def ask(_):
            answers.append(own.generate(RED, timeout=60).steps)

        node.create_subscription(String, "ask", ask, 1)
        asking = node.create_publisher(String, "ask", 1)
        end = time.monotonic() + 60
        while not answers and time.monotonic() < end:
            asking.publish(String(data="now"))
            rclpy.spin_once(node, timeout_sec=0.1)
        own.close()
        own.close()
        node.destroy_node()
    assert len(answers[0]) == 1


def test_a_blocking_call_in_its_own_thread_is_refused(client):
    caught = []

    def on_storyboard(_):
        try:
            client.pause()
        except RuntimeError as e:
            caught.append(str(e))

    node = client._background.node
    heard = client._background.run(
        lambda: node.create_subscription(Storyboard, "goalreel/storyboard", on_storyboard, LATCHED)
    )
    client.generate(RED)
    assert "would wait for itself" in until(lambda: caught)[0]
    client._background.run(lambda: node.destroy_subscription(heard))


@pytest.mark.parametrize("when", ["before the node answers", "in a terminal"])
def test_ctrl_c_cancels_the_task(client, monkeypatch, when):
    name = "_wait_for_answer" if when.startswith("before") else "result"
    waits, real = iter([KeyboardInterrupt]), getattr(TaskHandle, name)

    def interrupted(self, *arguments):
        if name == "result":
            client.wait_for_subgoal(60)
        for wrong in waits:
            raise wrong
        return real(self, *arguments)

    monkeypatch.setattr(TaskHandle, name, interrupted)
    if name == "result":
        shown = CliRunner().invoke(app, [BLUE])
        assert (shown.exit_code, shown.output.splitlines()[-1]) == (130, "canceled")
    else:
        with pytest.raises(KeyboardInterrupt):
            client.execute(BLUE)
    until(lambda: (b := client.storyboard()).task == BLUE and b.state == Storyboard.STATE_CANCELED)


# -- nodes that are odd, dead or not there


class OddNode:
    """Accepts to cancel a task that it goes on with, and refuses one without words."""

    def __init__(self) -> None:
        self.beside = BackgroundNode("odd", args=[])
        node = self.beside.node
        self._end: Future = Future(executor=self.beside._executor)
        self._end.add_done_callback(lambda _: None)
        self._server = ActionServer(
            node,
            ExecuteTask,
            "odd/execute_task",
            self._execute,
            goal_callback=lambda goal: GoalResponse.ACCEPT if goal.task else GoalResponse.REJECT,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )
        self._progress = node.create_publisher(StoryboardProgress, "odd/progress", LATCHED)
        self.beside.start()

    def stop(self) -> None:
        self._end.set_result(True)

    async def _execute(self, handle) -> ExecuteTask.Result:
        self._progress.publish(StoryboardProgress(message="waiting for the editor for 12 s"))
        await self._end
        handle.canceled()
        return ExecuteTask.Result(error_code=ErrorCode.CANCELED, error_msg="canceled")


def handles(client: GoalreelClient) -> list[TaskHandle]:
    """The handles that somebody holds."""
    gc.collect()
    return [o for o in gc.get_objects() if type(o) is TaskHandle and o._client is client._execute]


def test_cancelling_that_takes_too_long_says_whether_the_node_heard_and_what_it_waits_for(ros_env):
    odd = OddNode()
    with closing(odd.beside), GoalreelClient(server="odd", timeout=60, args=[]) as client:
        for call in ("send_goal", "cancel_goal", "get_result"):  # else rmw_fastrtps drops the answer
            until(lambda n=f"odd/execute_task/_action/{call}": odd.beside.node.count_clients(n))
        with pytest.raises(GoalreelError, match="refused the task"):
            client.execute("")
        until(lambda: not handles(client))
        task = client.execute(RED)
        until(client.progress)
        waits = "the node says: waiting for the editor for 12 s"

        def heard() -> bool:
            with pytest.raises(TimeoutError) as late:
                task.cancel(1)
            # A busy node may take longer to acknowledge.
            return str(late.value) == f"acknowledged, but the task did not stop within 1 s; {waits}"

        until(heard)
        odd.stop()
        with pytest.raises(GoalreelError, match="CANCELED"):
            task.result(60)


def test_what_nobody_answers_is_a_timeout_that_says_so():
    with GoalreelClient(server="nobody", timeout=0.3) as client:
        with pytest.raises(TimeoutError, match=r"nobody is not active .*: no node offers nobody/get_state"):
            client.wait_until_active(0.3)
        with pytest.raises(TimeoutError, match=r"no node nobody takes tasks within 0\.3 s"):
            client.generate(RED)
        with pytest.raises(TimeoutError, match=r"no node offers .*nobody/pause within 0\.3 s"):
            client.pause()


def test_closing_wakes_a_spin_that_was_about_to_wait():
    beside, about, closing_now = BackgroundNode("beside", args=[]), threading.Event(), threading.Event()
    nodes = beside._executor.get_nodes

    def slowly():
        found = nodes()
        about.set()
        closing_now.wait(60)
        return found

    beside._executor.get_nodes = slowly  # rclpy's first step towards waiting
    beside.start()
    assert about.wait(60)
    end = threading.Thread(target=beside.close, daemon=True)
    end.start()
    time.sleep(0.5)
    closing_now.set()
    end.join(60)
    assert not end.is_alive()
