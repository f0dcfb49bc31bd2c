"""The engine on a world that a test sets: sub-goals follow the scene, and every end says why."""

import math
import re
import threading
from uuid import uuid4

import pytest
from support.streaming_world import GENERATE, MOVE, World, picture, play, result
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel.streaming.request import TaskRequest
from goalreel.types import Failure


def test_a_task_from_instruction_to_success(submit):
    world = World()
    engine, heard, ticket = submit(world)
    play(world, heard)
    outcome = result(ticket)
    assert (outcome.error, outcome.message) == (ErrorCode.NONE, "")
    assert heard.told == [0, 1, 2]
    assert [p.status for p in outcome.board.steps] == ["completed"] * 3
    assert [p.image_status for p in outcome.board.steps] == ["accepted"] * 3
    assert outcome.board.state == "succeeded"
    assert not heard.goals[-1].active
    assert all(b.stamp > a.stamp for a, b in zip(heard.boards, heard.boards[1:], strict=False))
    assert all(g.stamp for g in heard.goals)
    assert engine.progress().task_completion == 1.0
    assert sum(kind == "edit" for kind, _ in world.calls) == 3, "pictures imagined ahead were right: kept"


def test_rejected_pictures_are_shown_or_end_the_task_by_setting(finish):
    for choice, state in (("publish", "ready"), ("fail", "failed")):
        world = World(1)
        world.refuse = {"move to 1", "move to 1 exactly"}
        outcome = finish(world, GENERATE, on_rejected=choice, keep="last", max_attempts=2)
        assert outcome.board.state == state
        assert (outcome.error is ErrorCode.ATTEMPTS_EXHAUSTED) == (choice == "fail")
        assert outcome.board.steps[0].attempts == 2
        if choice == "publish":
            assert outcome.board.steps[0].attempt.prompt == "move to 1 exactly", "the last of them"
            assert outcome.message == "no critic accepted the goal of 1 of 1 steps"
    assert "rejected all 2 pictures of 'step 0'. not quite" in outcome.message


def test_a_scene_unlike_the_prediction_is_imagined_again(submit):
    world = World(2)
    engine, heard, ticket = submit(world, rerender=0.02, gate=0.0)
    until(lambda: len([k for k, _ in world.calls if k == "edit"]) == 2)
    until(lambda: heard.told == [0])
    world.scene = picture(1, extra=4)  # reached, but something else lies on the table
    until(lambda: heard.told == [0, 1])
    edits = [e for kind, e in world.calls if kind == "edit"]
    assert len(edits) == 3
    assert edits[-1].image == world.scene
    engine.command("cancel")
    result(ticket)


def test_no_progress_is_re_planned_and_then_ends_for_that_alone_where_time_has_no_limit(finish):
    world = World(2)
    world.plans += [World.plan_of([5]), World.plan_of([6])]
    request = TaskRequest("move it", max_replans=2, timeout=-1.0)
    outcome = finish(world, request, stall_timeout=0.15, max_replans=5, task_timeout=0.01)
    assert outcome.error is ErrorCode.REPLANS_EXHAUSTED
    assert outcome.message == "no progress for 0.15 s, and the limit of 2 re-plans is reached"
    assert (outcome.replans, outcome.board.revision) == (2, 2)
    assert [p.step.name for p in outcome.board.steps] == ["step 6"]
    assert outcome.board.steps[0].status == "failed"


def test_a_new_plan_keeps_what_was_done(begin):
    world = World(3)
    world.plans.append(World.plan_of([5]))
    engine, heard, ticket = begin(world)
    world.scene = picture(1)
    until(lambda: heard.told == [0, 1])
    assert engine.command("replan", "it fell") == (ErrorCode.NONE, "")
    until(lambda: heard.told == [0, 1, 1])
    board = engine.board
    assert [(p.step.name, p.status) for p in board.steps] == [("step 0", "completed"), ("step 5", "active")]
    assert [t for kind, t in world.calls if kind == "plan"][-1].image == picture(1)
    world.scene = picture(6)
    assert result(ticket).board.state == "succeeded"


def test_a_pause_in_planning_holds_the_plan_until_it_is_resumed_with_or_without_a_camera(submit):
    world = World(1)
    world.hold["plan"] = threading.Event()
    engine, heard, ticket = submit(world, image_timeout=0.0)
    until(lambda: world.busy)
    engine.command("pause")
    until(lambda: heard.goals[-1].reason == "paused")
    assert engine.progress().message.startswith("paused; planning")
    world.age = 99.0
    world.hold["plan"].set()
    until(lambda: engine.board.state == "executing")
    world.age = 0.0
    until(lambda: engine.board.state == "paused")
    reasons = [goal.reason for goal in heard.goals]
    assert {*reasons[reasons.index("paused") :]} == {"paused"}
    engine.command("resume")
    until(lambda: heard.told == [0])
    world.scene = picture(1)
    assert result(ticket).error is ErrorCode.NONE


def test_the_operator_marks_and_jumps(begin):
    engine, heard, ticket = begin(World(3), rerender=1.0)
    assert engine.set_step(1, "completed")[0] is ErrorCode.INVALID_REQUEST
    assert engine.set_step(3, "active") == (ErrorCode.INVALID_REQUEST, "there is no step 3: there are 0 to 2")
    assert engine.set_step(0, "completed")[0] is ErrorCode.NONE
    until(lambda: heard.told == [0, 1])
    assert engine.set_step(0, "active")[0] is ErrorCode.NONE
    until(lambda: heard.told == [0, 1, 0])
    assert [p.status for p in engine.board.steps] == ["active", "pending", "pending"]
    assert engine.set_step(2, "active")[0] is ErrorCode.NONE
    until(lambda: heard.told == [0, 1, 0, 2])
    assert [p.status for p in engine.board.steps] == ["skipped", "skipped", "active"]
    assert engine.set_step(2, "failed")[0] is ErrorCode.NONE
    assert result(ticket).error is ErrorCode.STEP_FAILED
    assert engine.set_step(2, "failed")[0] is ErrorCode.NO_TASK


def test_a_planner_that_comes_back_ends_what_is_degraded(start):
    """A re-plan that was ordered asks it again, however short ago it failed."""
    world = World(2)
    world.fails["plan"] = "server gone"
    engine, heard = start(world)
    ticket = engine.submit(TaskRequest("at 2"))  # in words that this critic knows
    lost = "the planner failed: server gone"
    for number in (1, 2):
        until(lambda n=number: heard.told == [0] * n)
        assert heard.goals[-1].board.degraded == lost
        assert heard.goals[-1].panel.claims(heard.goals[-1].board.models).what.by == "person"
        assert heard.goals[-1].panel.image_status == "unjudged"
        if number == 2:
            del world.fails["plan"]
        assert engine.command("replan") == (ErrorCode.NONE, "")
    until(lambda: heard.told == [0, 0, 0])
    assert sum(kind == "plan" for kind, _ in world.calls) == 3
    goal = heard.goals[-1]
    assert (goal.board.degraded, goal.panel.step.name) == ("", "step 0")
    assert goal.panel.written_by == "planner"
    world.scene = picture(1)
    until(lambda: heard.told[-1] == 1)
    world.scene = picture(2)
    outcome = result(ticket)
    assert (outcome.error, outcome.board.degraded) == (ErrorCode.NONE, "")


def test_a_dead_editor_leaves_words(finish, begin):
    world = World(2)
    world.fails["edit"] = "server gone"
    _, heard, ticket = begin(world)
    panel = heard.goals[-1].panel
    assert (panel.image_status, panel.goal_image) == ("unjudged", None)
    world.scene = picture(1)
    until(lambda: heard.told == [0, 1])
    world.scene = picture(2)
    outcome = result(ticket)
    assert (outcome.error, outcome.board.degraded) == (ErrorCode.NONE, "the editor failed: server gone")
    assert outcome.message == outcome.board.degraded, "the log and the result say so too"
    assert sum(kind == "edit" for kind, _ in world.calls) == 1, "a dead model is not asked again at once"
    world = World(2)
    world.fails["edit"] = "server gone"
    assert finish(world, GENERATE).error is ErrorCode.UNCONFIRMED, "its pictures are what was asked for"


def test_orders_about_a_plan_that_is_being_made_are_refused(start):
    """NO_TASK would tell an operator that the task has ended."""
    world = World(3)
    engine, heard = start(world)

    def refused_until_planned(*orders: tuple[int, str]) -> set[str]:
        answers = [engine.set_step(*order) for order in orders]
        assert {code for code, _ in answers} == {ErrorCode.INVALID_REQUEST}
        world.hold["plan"].set()
        return {text for _, text in answers}

    world.hold["plan"] = threading.Event()
    ticket = engine.submit(MOVE)
    until(lambda: engine.board.state == "planning")
    assert refused_until_planned((0, "completed")) == {"no step is being executed at present"}
    until(lambda: heard.told == [0])
    world.hold["plan"], world.plans = threading.Event(), [world.plan_of([0, 1])]
    engine.command("replan")
    until(lambda: engine.board.state == "planning")
    said = refused_until_planned((2, "active"), (0, "completed"), (0, "skipped"))
    assert said == {"step 0 and what follows are being planned anew"}
    until(lambda: heard.told == [0, 0])
    assert [p.status for p in engine.board.steps] == ["active", "pending"]
    ticket.cancel()


def test_a_verdict_on_a_frame_from_before_a_pause_counts_for_nothing(submit):
    world = World(2)
    engine, heard, ticket = submit(world)
    until(lambda: heard.told == [0] and engine.board.steps[1].picture_is_final)
    world.hold["judge"] = threading.Event()
    world.scene = picture(1)
    until(lambda: world.busy == 1)
    engine.command("pause")
    until(lambda: engine.board.state == "paused")
    world.scene = picture(0)
    world.hold.pop("judge").set()
    until(lambda: world.busy == 0)
    engine.command("resume")
    until(lambda: heard.told == [0, 0])
    world.scene = picture(1)
    until(lambda: heard.told == [0, 0, 1])
    assert [c.image for kind, c in world.calls if kind == "judge"][-1] == picture(1)
    assert len([1 for kind, _ in world.calls if kind == "judge"]) == 4, "two pictures, before, and after"
    ticket.cancel()


def test_a_model_that_hangs_counts_as_failed(begin):
    world = World(1)
    world.hold["edit"], world.retry = threading.Event(), 1
    _engine, heard, ticket = begin(world, model_timeout=0.5)
    reason = heard.goals[-1].panel.attempt.failure.message
    assert reason == "HTTP 500 from it; tried again, no answer within 0.5 s"
    ticket.cancel()
    world.hold["edit"].set()


def test_a_view_at_rest_is_asked_about_again_where_the_critic_answered_garbage(begin):
    world = World(1)
    _engine, _, ticket = begin(world, gate=0.9, stall_timeout=3600.0)
    answers, judge = [Failure(stage="judge", message="no verdict in the reply", reply="Sure!")], world.judge
    world.judge = lambda candidates: [answers.pop()] if answers else judge(candidates)
    world.scene = picture(1, extra=2)
    assert result(ticket).board.state == "succeeded"
    assert not answers


def test_a_bug_in_a_model_is_an_outcome_too(begin, caplog):
    world = World(1)
    engine, heard, ticket = begin(world)
    world.judge = lambda candidates: 1 / 0
    world.scene = picture(1)
    outcome = result(ticket)
    assert (outcome.error, outcome.message) == (ErrorCode.UNKNOWN, "division by zero")
    assert engine.board.state == "failed"
    assert not heard.goals[-1].active, "the policy must not go on"


def test_an_inactive_goal_says_why(start):
    world = World(2)
    world.scene, world.hold["plan"], world.hold["edit"] = None, threading.Event(), threading.Event()
    engine, heard = start(world, image_timeout=60.0)

    def until_told(*reasons):
        until(lambda: tuple(g.reason for g in heard.goals[-len(reasons) :]) == reasons)

    until_told("no_task")
    engine.submit(MOVE)
    until_told("no_task", "planning", "blind")
    world.scene, world.age = picture(0), 9.0
    until_told("blind", "stale")
    world.age = 0.0
    until_told("stale", "planning")
    world.hold.pop("plan").set()
    until(lambda: heard.goals[-1].panel is not None)
    assert heard.goals[-1].reason == "planning", "its picture is being made"
    engine.command("pause")
    until_told("planning", "paused")
    engine.command("resume")
    until_told("paused", "planning")
    world.hold.pop("edit").set()
    until_told("planning", "active")
    world.age = 9.0
    until_told("active", "stale")
    world.age = 0.0
    until_told("stale", "active")
    world.error = ValueError("16UC1 is depth")
    until_told("active", "blind")
    world.error = None
    until_told("blind", "active")
    engine.command("pause")
    until_told("active", "paused")
    engine.command("resume")
    until_told("paused", "active")
    world.hold["plan"] = threading.Event()
    engine.command("replan")
    until_told("active", "replanning")
    world.hold["plan"].set()
    until(lambda: heard.goals[-1].active)
    engine.command("cancel")
    until_told("active", "over")
    engine.stop()
    until_told("over", "not_active")


def test_requests_that_make_no_sense(start):
    engine, _ = start(World())
    for request in (
        TaskRequest("  "),
        TaskRequest("move it", timeout=math.nan),
        TaskRequest("move it", max_steps=0),
        TaskRequest("move it", max_attempts=0),
        TaskRequest("move it", max_replans=-2),
        TaskRequest("", storyboard_id=uuid4()),
    ):
        assert result(engine.submit(request)).error is ErrorCode.INVALID_REQUEST
    made = result(engine.submit(GENERATE))
    other = engine.submit(TaskRequest("something else", storyboard_id=made.board.id))
    assert "for another task: 'move it'" in result(other).message
    for command in ("pause", "resume", "replan", "cancel"):
        assert engine.command(command)[0] is ErrorCode.NO_TASK


def test_stop_ends_everything_at_once_and_start_begins_anew(submit):
    others = set(threading.enumerate())  # of engines of other tests, whose models may hang
    world = World(1)
    world.hold["plan"] = threading.Event()
    engine, _, ticket = submit(world)
    until(lambda: world.busy)
    engine.stop()
    assert world.busy, "it does not wait for the model"
    assert result(ticket).error is ErrorCode.PREEMPTED
    until(lambda: not [t for t in {*threading.enumerate()} - others if t.name == "goalreel-engine"])
    assert engine.board.state == "canceled"
    world.hold["plan"].set()
    until(lambda: not world.busy)
    world.plans = [World.plan_of([0])]
    engine.start()
    assert result(engine.submit(GENERATE)).error is ErrorCode.NONE


def test_what_is_waited_for_is_said_with_its_retries_until_the_answer_is_here(submit):
    world = World(1)
    world.retry = 2
    world.hold["edit"] = threading.Event()
    engine, _, ticket = submit(world, GENERATE)
    try:
        said = until(lambda: (m := engine.progress().message) and "waiting for the" in m and m)
        assert re.search(r"; waiting for the editor \(.*\) for \d+ s, retry 2$", said)
        for command in ("pause", "resume"):  # of a storyboard that is only generated
            assert engine.command(command)[0] is ErrorCode.INVALID_REQUEST
        assert [c.partition(" for the ")[2].partition(" (")[0] for c in engine.waits] == ["editor"]
    finally:
        world.hold["edit"].set()
    assert result(ticket).message == ""
    assert engine.progress().message == ""
    assert not engine.waits


def test_a_storyboard_that_was_looked_at_is_executed_as_it_is(start):
    world = World()
    engine, heard = start(world)
    made = result(engine.submit(GENERATE)).board
    calls = len(world.calls)
    ticket = engine.submit(TaskRequest("", storyboard_id=made.id))
    play(world, heard)
    board = result(ticket).board
    assert (board.state, board.id) == ("succeeded", made.id)
    assert {kind for kind, _ in world.calls[calls:]} == {"judge"}, "nothing is drawn anew"


def test_a_paused_task_can_jump_without_a_camera(begin):
    world = World()
    engine, _, ticket = begin(world, image_timeout=0.0)
    engine.command("pause")
    until(lambda: engine.board.state == "paused")
    world.age = 99.0
    assert engine.set_step(1, "active")[0] is ErrorCode.NONE
    until(lambda: [p.status for p in engine.board.steps] == ["skipped", "active", "pending"])
    assert engine.board.state == "paused"
    assert not ticket.outcome.done()
    ticket.cancel()


@pytest.mark.parametrize(
    ("stage", "reason", "code"),
    [
        ("plan", "server gone", ErrorCode.PLANNER_FAILED),
        ("edit", "server gone", ErrorCode.EDITOR_FAILED),
        ("edit", "CUDA out of memory: tried to allocate 2 GiB", ErrorCode.OUT_OF_MEMORY),
        ("judge", "server gone", ErrorCode.CRITIC_FAILED),
    ],
)
def test_a_dead_model_ends_the_task_where_that_is_asked_for(finish, stage, reason, code):
    world = World(1)
    world.fails[stage] = f"{reason}\nwith a trace"
    outcome = finish(world, MOVE, on_model_failure="fail")
    assert (outcome.error, outcome.message) == (code, reason)
