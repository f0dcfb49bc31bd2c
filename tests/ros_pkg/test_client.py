"""The Python client against another process with the node's interfaces."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import rclpy
from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import ChangeState, GetState
from std_msgs.msg import String
from support.places import SUPPORT
from support.ros import ENV, other
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.msg import Storyboard
from goalreel_ros.client import GoalreelClient, GoalreelError
from goalreel_ros.client.lifecycle import Lifecycle
from goalreel_ros.client.task import TaskHandle
from goalreel_ros.spin import BackgroundNode

NODE = str(SUPPORT / "scripted_node.py")


@pytest.fixture(scope="module")
def shared():
    with other(NODE), GoalreelClient(timeout=60) as client:
        client.lifecycle.configure()
        yield client


@pytest.fixture
def client(shared, monkeypatch):
    monkeypatch.setattr(
        "goalreel_ros.client.task.LATE_SECONDS", 60.0
    )  # a busy machine is later than it allows for
    if shared.lifecycle.state == "inactive":
        shared.lifecycle.activate()
    return shared


@pytest.fixture
def both(monkeypatch):
    """Takes a task's two feedback messages however late they are, and waits for no third."""
    seen = []

    def take(feedback):
        seen.append((feedback.step[0].name, threading.current_thread()))
        if len(seen) == 2:
            monkeypatch.setattr("goalreel_ros.client.task.LATE_SECONDS", 0.0)

    take.seen = seen
    return take


@pytest.mark.process
def test_lifecycle_moves_the_node_and_says_where_it_is(client):
    client.wait_until_active(60)
    client.lifecycle.deactivate()
    assert client.lifecycle.state == "inactive"
    with pytest.raises(TimeoutError, match=r"goalreel is inactive, not active, after 0\.3 s"):
        client.wait_until_active(0.3)
    with pytest.raises(GoalreelError, match="refused the task") as refused:
        client.execute("sort the blocks")
    assert refused.value.code is ErrorCode.NOT_ACTIVE
    with pytest.raises(GoalreelError, match="did not deactivate: it is inactive"):
        client.lifecycle.deactivate()


@pytest.mark.process
def test_a_node_that_was_killed_is_asked_again_when_it_is_back():
    """Until DDS forgets the dead one, what is asked goes to it."""
    names = ("--ros-args", "-r", "__ns:=/again")
    with GoalreelClient(server="/again/goalreel", timeout=120) as client, ThreadPoolExecutor(1) as pool:
        with other(NODE, *names) as first:
            client.lifecycle.configure()
            first.process.kill()
            first.process.wait()
        service = client._call._clients["change_state"]
        asking = pool.submit(client.lifecycle.configure)
        until(lambda: service._pending_requests or not service.service_is_ready())
        with other(NODE, *names):
            asking.result(120)
            client.lifecycle.wait_for("inactive", 60)


class Deaf:
    """A node whose answers to transitions are lost, but for the last that `answers` gives."""

    server = "goalreel"

    def __init__(self, states: list[str], *answers: bool | None) -> None:
        self.states, self.answers, self.asked = states, iter(answers), 0

    def __call__(self, name: str, request: object, timeout: float | None = None) -> object:
        if name == "get_state":
            state = self.states.pop(0) if self.states[1:] else self.states[0]
            return GetState.Response(current_state=State(label=state))
        self.asked += 1
        success = next(self.answers)
        if success is None:
            raise TimeoutError("goalreel/change_state did not answer within 5 s")
        return ChangeState.Response(success=success)


@pytest.mark.parametrize(
    ("states", "answers", "problem"),
    [
        (["inactive"], [None], ""),
        (["unconfigured", "inactive"], [None, False], ""),
        (["unconfigured"], [None, False], "did not configure: it is unconfigured"),
        (["configuring", "configuring", "inactive"], [None], ""),
        (["configuring", "configuring", "unconfigured"], [None], "did not configure"),
    ],
    ids=["made, unheard", "first was heard", "refused", "takes long", "fails after long"],
)
def test_a_transition_whose_answer_is_lost_is_requested_again_only_where_it_was_not_begun(
    states, answers, problem
):
    node = Deaf(states, *answers)
    with pytest.raises(GoalreelError, match=problem) if problem else nullcontext():
        Lifecycle(node).configure()
    assert node.asked == len(answers)


def test_a_transition_that_nobody_answers_says_how_long_it_was_asked_for(monkeypatch):
    monkeypatch.setattr("goalreel_ros.client.lifecycle.TRANSITION_TIMEOUT", -1.0)
    with pytest.raises(TimeoutError, match=r"did not configure within 0 s: .* did not answer within 5 s"):
        Lifecycle(Deaf(["unconfigured"], None), 0.0).configure()


@pytest.mark.process
def test_no_node_is_a_timeout_that_says_so():
    with GoalreelClient(server="nobody", timeout=0.3) as client:
        with pytest.raises(
            TimeoutError, match=r"nobody is not there, .* after 0\.3 s: no node offers nobody/get_state"
        ):
            client.wait_until_active(0.3)
        with pytest.raises(TimeoutError, match=r"no node nobody takes tasks within 0\.3 s"):
            client.generate("sort the blocks")
        with pytest.raises(TimeoutError, match=r"no node offers .*nobody/pause within 0\.3 s"):
            client.pause()


@pytest.mark.process
def test_generate_reports_each_panel_in_the_callers_thread(client, both):
    picture = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    board = client.generate("sort the blocks", picture, on_feedback=both)
    assert board.state == Storyboard.STATE_READY
    assert [name for name, _ in both.seen] == ["block 0", "block 1"]
    assert {thread for _, thread in both.seen} == {threading.current_thread()}
    from goalreel.image import Image

    assert np.array_equal(Image.decode(bytes(board.source_image.data)).pixels, picture)
    assert until(lambda: client.storyboard() and client.storyboard().state == Storyboard.STATE_READY)


@pytest.mark.process
def test_feedback_that_the_result_overtakes_is_not_lost(client, both):
    client.generate("late", on_feedback=both)
    assert [name for name, _ in both.seen] == ["block 0", "block 1"]


@pytest.mark.process
def test_fields_of_the_wrong_type_never_reach_the_wire(client):
    with pytest.raises(ValueError, match="'task'"):
        client.generate(7)
    with pytest.raises(ValueError, match="'max_steps'"):
        client.execute("sort the blocks", max_steps=2**31)
    assert len(client.generate("sort the blocks").steps) == 2


@pytest.mark.process
def test_waiting_can_time_out_and_cancelling_ends_the_task(client):
    task = client.execute("slow")
    with pytest.raises(TimeoutError, match=r"did not end within 0\.2 s"):
        task.result(0.2)
    with pytest.raises(TimeoutError, match=r"no active sub-goal within 0\.1 s"):
        client.wait_for_subgoal(0.1)
    task.cancel()
    with pytest.raises(GoalreelError, match="CANCELED") as canceled:
        task.result(60)
    assert canceled.value.code is ErrorCode.CANCELED


@pytest.mark.process
def test_cancelling_that_takes_too_long_says_whether_the_node_heard_and_what_it_waits_for(client):
    task = client.execute("stuck")
    until(client.progress)
    says = (
        "acknowledged, but the task did not stop within 1 s; the node says: waiting for the editor for 12 s"
    )

    def heard() -> bool:
        with pytest.raises(TimeoutError) as late:
            task.cancel(1)
        return str(late.value) == says  # a busy node may take longer to acknowledge

    until(heard)
    client.set_active_step(1)
    with pytest.raises(GoalreelError, match="CANCELED"):
        task.result(60)


@pytest.mark.process
def test_it_works_inside_another_nodes_callback(client):
    """A single-threaded executor: a client that relied on it would wait for ever."""
    answers = []
    with rclpy.init():
        node = rclpy.create_node("caller", namespace="/")
        own = GoalreelClient(node, timeout=60)

        def ask(_):
            answers.append(own.generate("sort the blocks", timeout=60).steps)

        node.create_subscription(String, "ask", ask, 1)
        asking = node.create_publisher(String, "ask", 1)
        end = time.monotonic() + 60
        while not answers and time.monotonic() < end:
            asking.publish(String(data="now"))
            rclpy.spin_once(node, timeout_sec=0.1)
        own.close()
        own.close()
        node.destroy_node()
    assert len(answers[0]) == 2


@pytest.mark.process
def test_a_blocking_call_in_its_own_thread_is_refused(client):
    caught = []

    def on_storyboard(_):
        try:
            client.pause()
        except RuntimeError as e:
            caught.append(str(e))

    from goalreel_ros.qos import LATCHED

    client._background.node.create_subscription(Storyboard, "goalreel/storyboard", on_storyboard, LATCHED)
    client.generate("sort the blocks")
    assert "would wait for itself" in until(lambda: caught)[0]


def test_closing_wakes_a_spin_that_was_about_to_wait():
    beside, about, closing = BackgroundNode("beside", args=[]), threading.Event(), threading.Event()
    nodes = beside._executor.get_nodes

    def slowly():
        found = nodes()
        about.set()
        closing.wait(60)
        return found

    beside._executor.get_nodes = slowly  # rclpy's first step towards waiting
    beside.start()
    assert about.wait(60)
    end = threading.Thread(target=beside.close, daemon=True)
    end.start()
    time.sleep(0.5)
    closing.set()
    end.join(60)
    assert not end.is_alive()


def command_line(*args):
    return subprocess.Popen(
        [sys.executable, "-m", "goalreel_ros.client", *args],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **ENV, "COLUMNS": "99"},
    )  # fmt: skip


@pytest.mark.process
def test_the_command_line_fails_in_one_line(client):
    shown, _ = (process := command_line("fail", "--only-generate")).communicate(timeout=60)
    assert process.returncode == 1
    assert "PLANNER_FAILED: no plan" in shown
    assert "Traceback" not in shown


@pytest.mark.process
def test_ctrl_c_before_the_node_answers_cancels_the_task_too(client, monkeypatch):
    waits = iter([KeyboardInterrupt])
    answered = TaskHandle._wait_for_answer

    def interrupted(self, timeout):
        for wrong in waits:
            raise wrong
        return answered(self, timeout)

    monkeypatch.setattr(TaskHandle, "_wait_for_answer", interrupted)
    before = until(client.subgoal)
    with pytest.raises(KeyboardInterrupt):
        client.execute("slow")
    until(lambda: client.subgoal() is not before)  # sent when the node has stopped
    assert client.storyboard().task == "slow"


@pytest.mark.process
def test_ctrl_c_cancels_the_task(client):
    before = client.storyboard()
    process = command_line("slow")
    until(lambda: client.storyboard() is not before and client.storyboard().task == "slow", 60)
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130, shown
    assert "canceled" in shown
    assert "Traceback" not in shown
    until(lambda: client.subgoal() is not None and not client.subgoal().active)


@pytest.mark.process
def test_a_callback_that_raises_cancels_the_task(client):
    def stop(feedback):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        client.generate("sort the blocks", on_feedback=stop)
    assert len(client.generate("sort the blocks").steps) == 2


def test_an_executor_that_is_busy_or_has_ended_is_told_from_another(monkeypatch):
    beside, free = BackgroundNode("beside", args=[]), threading.Event()
    beside.start()
    try:
        assert beside.run(lambda: 7) == 7
        monkeypatch.setattr("goalreel_ros.spin.CALL_TIMEOUT", 0.05)
        beside._executor.create_task(free.wait)
        with pytest.raises(TimeoutError, match=r"the executor of beside_.* is busy"):
            beside.run(lambda: 7)
        monkeypatch.undo()
    finally:
        free.set()
        beside.close()
    with pytest.raises(TimeoutError, match="has ended"):
        beside.run(lambda: 7)


@pytest.mark.process
def test_a_node_that_dies_ends_the_wait():
    with (
        other(NODE, "--ros-args", "-r", "__ns:=/doomed") as doomed,
        GoalreelClient(server="/doomed/goalreel", timeout=60) as client,
    ):
        client.lifecycle.configure()
        client.lifecycle.activate()
        client.wait_until_active(60)
        task = client.execute("slow")
        doomed.stop(signal.SIGTERM)
        with pytest.raises(GoalreelError, match=r"the node /doomed/goalreel is gone"):
            task.result(30)
