"""What /diagnostics says of models and task."""

from dataclasses import replace

import pytest

pytest.importorskip("rclpy")

from goalreel.streaming.board import Board, BoardProgress
from goalreel.types import Failure
from goalreel_ros import diagnostics
from goalreel_ros.diagnostics import OK, WARN

LOST = "the planner failed: server gone"


def test_a_plan_that_lost_a_model_is_a_warning_of_the_task_and_of_the_models():
    whole = Board(state="executing")
    lost = replace(whole, planner_failure=Failure(stage="plan", message="server gone"))
    for board, level, text in ((whole, OK, "busy"), (lost, WARN, LOST)):
        assert diagnostics.task(BoardProgress(board, message="busy"), "")[:2] == (level, text)
    assert diagnostics.models("loaded", "", lost.degraded)[:2] == (WARN, LOST)
    assert diagnostics.models("loaded", "", whole.degraded)[:2] == (OK, "loaded")


@pytest.mark.parametrize("state", ["failed", "unverified"])
def test_a_task_that_did_not_succeed_is_a_warning(state):
    board = replace(Board(state="executing"), state=state)
    assert diagnostics.task(BoardProgress(board, message="nobody confirms it"), "")[:2] == (
        WARN,
        "nobody confirms it",
    )
