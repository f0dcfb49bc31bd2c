"""Check what /diagnostics says of camera, models and task."""

from dataclasses import replace

import pytest

pytest.importorskip("rclpy")

from support.boards import record

from goalreel.streaming.board import Board, BoardProgress, StepPanel
from goalreel.streaming.camera import FrameCounts
from goalreel.types import Failure, Step
from goalreel_ros import cameras, diagnostics
from goalreel_ros.cameras import CameraStamps
from goalreel_ros.diagnostics import ERROR, OK, WARN

LOST = "the planner failed: server gone"


def test_a_plan_that_lost_a_model_is_a_warning_of_the_task_and_of_the_models():
    whole = Board(state="executing")
    lost = replace(whole, planner_failure=Failure(stage="plan", message="server gone"))
    for board, level, text in ((whole, OK, "busy"), (lost, WARN, LOST)):
        assert diagnostics.task(BoardProgress(board, message="busy"), "")[:2] == (level, text)
    assert diagnostics.models("loaded", "", lost.degraded)[:2] == (WARN, LOST)
    assert diagnostics.models("loaded", "", whole.degraded)[:2] == (OK, "loaded")


def test_goals_that_no_critic_accepted_are_among_the_values():
    step = Step(name="a", instruction="b", prompt="c")
    goals = (
        StepPanel(0, record(step), 1, image_status="verified"),
        StepPanel(1, record(step), 1, image_status="unverified"),
    )
    _, _, values = diagnostics.task(BoardProgress(Board(state="executing", steps=goals)), "")
    assert values["not verified"] == "no critic accepted the goal of 1 of 2 steps"


# -- the camera

S, MS = 10**9, 10**6


def stamps(age: float = 0.02, frames: int = 40, arrives=lambda i: True, now: int = 10**12) -> CameraStamps:
    """A camera of 30 Hz whose frames are `age` seconds old on arrival, of which not all arrive."""
    made = CameraStamps()
    for i in filter(arrives, range(frames)):
        made.put(now + i * S // 30 + i % 2 * MS, now + i * S // 30 + round(age * S))
    return made


def test_the_latency_is_the_median_from_stamp_to_arrival():
    assert float(stamps().latency(1.0)) == pytest.approx(0.02, abs=0.002)
    assert not stamps().problem(1.0)
    assert (CameraStamps().latency(1.0), CameraStamps().problem(1.0)) == ("", "")


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (stamps(60.0), "its stamps are 60.0 s old on arrival: the frames are late, or the two clocks differ"),
        (stamps(-3.0), "its stamps are 3.0 s ahead of this node's clock: the two clocks differ"),
        (stamps(1e8), "its stamps are 1,157 days old on arrival: the frames are late, or the two clocks"),
    ],
)
def test_stamps_that_tell_no_latency_are_named_instead(made, problem):
    assert made.problem(1.0).startswith(problem)
    assert not made.latency(1.0)


def test_without_a_clock_or_a_stamp_that_is_said():
    unstamped = CameraStamps()
    unstamped.put(0, 10**12)
    assert unstamped.problem(1.0) == "its frames carry no stamps"
    made = CameraStamps()
    made.put(5 * S, 1)
    assert made.problem(1.0) == "this node has no time (use_sim_time): nobody publishes /clock"


def test_frames_that_do_not_arrive_are_told_by_gaps_between_stamps():
    assert stamps(frames=300, arrives=lambda i: i % 10 < 2).lost_share() == pytest.approx(0.8, abs=0.02)
    assert stamps(frames=19).lost_share() is None, "too few to tell"


@pytest.mark.parametrize("profile", cameras.PROFILES)
def test_large_raw_frames_want_the_profile(monkeypatch, profile):
    for name in cameras.PROFILES:
        monkeypatch.delenv(name, raising=False)
    large = 1920 * 1080 * 3
    assert cameras.explain_losses(large, 0.9).startswith("raw frames of 6.2 MB, 90% are lost: set FASTDDS_")
    assert cameras.explain_losses(large, None).startswith("raw frames of 6.2 MB: set FASTDDS_")
    assert not cameras.explain_losses(640 * 480 * 3, 0.9)
    monkeypatch.setenv(profile, "/some.xml")
    assert not cameras.explain_losses(large, 0.1)
    assert "the driver needs the shared-memory profile too" in cameras.explain_losses(large, 0.9)


def test_what_is_wrong_with_the_camera_goes_into_the_message():
    fresh, old = FrameCounts(received=3, age=0.1), FrameCounts(received=3, age=5.0)
    assert diagnostics.camera(fresh, 1.0, "")[:2] == (OK, "frames arrive")
    assert diagnostics.camera(FrameCounts(), 1.0, "nobody publishes it")[:2] == (WARN, "nobody publishes it")
    assert diagnostics.camera(fresh, 1.0, "", ["two", "late"])[:2] == (WARN, "two; late")
    assert diagnostics.camera(old, 1.0, "", ["two"])[:2] == (WARN, "the newest frame is 5.0 s old; two")
    broken = replace(fresh, problem="16UC1 is depth")
    assert diagnostics.camera(broken, 1.0, "")[:2] == (ERROR, "16UC1 is depth")
    assert diagnostics.camera(fresh, 1.0, "", more={"latency [s]": "0.020"})[2]["latency [s]"] == "0.020"


def test_what_the_engine_waits_for_is_among_the_values():
    calls = ("waiting for the editor (server:URL) for 12 s",)
    values = diagnostics.models("ready", "", "", waits=calls, waiting=2)[2]
    assert (values["waiting for"], values["requests that wait"]) == (*calls, 2)
