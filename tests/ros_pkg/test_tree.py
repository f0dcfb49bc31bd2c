"""The py_trees leaf before a node that answers when a test says so."""

import threading
from typing import Any

import pytest
from py_trees.blackboard import Blackboard, Client
from py_trees.common import Access, Status
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel_interfaces.action import ExecuteTask as Action
from goalreel_interfaces.msg import StoryboardProgress, SubGoal
from goalreel_ros.client import GoalreelError, NodeGoneError
from goalreel_ros.client.tree import ExecuteTask

PICK = SubGoal(active=True, name="pick")


class Node:
    """A client of a node that holds every call until it is let go, and what it was asked for."""

    def __init__(self) -> None:
        self.answers, self.ends, self.asked = threading.Event(), threading.Event(), []
        self.error: Exception | None = None
        self.goal: SubGoal | None = PICK
        self.gone = False

    def execute(self, task: str, **options: Any) -> "Node":
        self.asked.append(("execute", task, options))
        assert self.answers.wait(60)
        if self.error is not None:
            raise self.error
        return self

    def result(self) -> Action.Result:
        assert self.ends.wait(60)
        if self.error is not None:
            raise self.error
        return Action.Result(error_msg="nobody checked the end")

    def cancel(self, timeout: float = 5.0) -> None:
        self.asked.append(("cancel", timeout))
        self.error = GoalreelError(ErrorCode.CANCELED, "canceled")
        self.ends.set()

    def pause(self, reason: str = "") -> None:
        self.asked.append(("pause",))
        assert self.ends.wait(60), "a node that does not answer"
        raise TimeoutError("/goalreel/pause did not answer")

    def resume(self, reason: str = "") -> None:
        self.asked.append(("resume",))

    def subgoal(self) -> SubGoal | None:
        if self.gone:
            raise NodeGoneError("goalreel")
        return self.goal

    def progress(self) -> StoryboardProgress:
        return StoryboardProgress(message="waiting for the editor for 12 s")


@pytest.fixture
def node():
    it = Node()
    yield it
    it.answers.set()
    it.ends.set()


@pytest.fixture
def leaf(node) -> ExecuteTask:
    Blackboard.clear()
    return ExecuteTask("task", node, "tidy up", max_replans=0)


def ticked(leaf: ExecuteTask) -> Status:
    leaf.tick_once()
    return leaf.status


def test_no_tick_waits_for_a_node_that_does_not_answer(node, leaf):
    assert ticked(leaf) == ticked(leaf) == Status.RUNNING
    until(lambda: node.asked == [("execute", "tidy up", {"max_replans": 0})])
    leaf.board.pause = True
    assert ticked(leaf) == Status.RUNNING
    leaf.stop(Status.INVALID)
    assert ("cancel", 0) not in node.asked, "nothing is accepted yet"
    node.answers.set()
    until(lambda: ("cancel", 0) in node.asked), "as soon as there is something to cancel"


def test_a_pause_before_the_task_is_accepted_is_for_that_task_and_before_what_follows(node, leaf):
    for leaf.board.pause in (True, False, True):
        paused = leaf.board.pause
        ticked(leaf)
        assert leaf.board.pause is paused, "who holds one task holds the next"
    until(lambda: node.asked)
    assert [name for name, *_ in node.asked] == ["execute"]
    node.answers.set()
    until(lambda: ("pause",) in node.asked)
    assert ("resume",) not in node.asked, "the node has not answered"


def test_the_blackboard_has_goal_progress_and_pause_until_the_task_ends(node, leaf):
    policy = Client(name="policy", namespace="goalreel")
    for key, access in {"pause": Access.WRITE, "subgoal": Access.READ, "progress": Access.READ}.items():
        policy.register_key(key, access)
    node.answers.set()
    ticked(leaf)
    assert policy.subgoal == PICK
    assert leaf.feedback_message == policy.progress.message == "waiting for the editor for 12 s"
    node.goal = SubGoal(active=False, name="pick")
    policy.pause = True
    ticked(leaf)
    assert policy.subgoal is None
    until(lambda: ("pause",) in node.asked)
    policy.pause = False
    ticked(leaf)
    node.ends.set()
    until(lambda: ("resume",) in node.asked)
    until(lambda: ticked(leaf) is not Status.RUNNING)
    assert (leaf.status, leaf.feedback_message) == (Status.SUCCESS, "nobody checked the end")


def test_a_node_that_is_gone_fails_it_and_takes_the_goal_away(node, leaf):
    node.answers.set()
    ticked(leaf)
    node.gone, node.error = True, NodeGoneError("goalreel")
    ticked(leaf)
    assert leaf.board.subgoal is None
    node.ends.set()
    until(lambda: ticked(leaf) is Status.FAILURE)
    assert "is gone or hangs" in leaf.feedback_message
    assert leaf.board.problem == leaf.feedback_message
