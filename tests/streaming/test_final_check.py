"""The end of a task: what the critic does not confirm is no success."""

import threading

import pytest
from support.streaming_world import GENERATE, World, picture, play, result
from support.wait import until

from goalreel.critics.difference import DifferenceCritic
from goalreel.loop import states_in, whole_state
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.streaming.board import ErrorCode
from goalreel.streaming.model_caller import PICTURES_ALONE
from goalreel.streaming.request import TaskRequest
from goalreel.types import Failure


def done(world: World, engine, heard, task: str = "move it"):
    """A task that a policy carries out, step by step."""
    steps = len(world.plans[0].steps)
    ticket = engine.submit(TaskRequest(task))
    play(world, heard, steps)
    return ticket


def wholes(world: World) -> list:
    return [c for kind, c in world.calls if kind == "judge" and asks_of_all([c])]


def asks_of_all(candidates) -> bool:
    return any(states_in(c.instruction) != c.instruction for c in candidates)


def test_the_critic_is_asked_about_the_task_as_a_whole_on_a_live_frame(start):
    world = World(2)
    engine, heard = start(world, rerender=1.0)
    outcome = result(done(world, engine, heard))
    (asked,) = wholes(world)
    assert asked.instruction == whole_state("move it", ["at 1", "at 2"]) == "at 1; at 2. In all: move it"
    assert (asked.prompt, asked.source, asked.image) == ("move it", picture(0), picture(2))
    assert (outcome.error, outcome.board.state) == (ErrorCode.NONE, "succeeded")
    assert outcome.verdict is not None
    assert (outcome.verdict.success, outcome.verdict.probability) == (True, 0.75)


def test_what_it_does_not_confirm_ends_as_unconfirmed_and_says_why(start):
    world = World(2)
    world.whole = False
    engine, heard = start(world, rerender=1.0)
    outcome = result(done(world, engine, heard))
    assert (outcome.error, outcome.board.state) == (ErrorCode.UNCONFIRMED, "unconfirmed")
    assert outcome.message.endswith("the critic does not confirm the task: looked at all")
    assert outcome.verdict is not None
    assert not outcome.verdict.success
    assert [p.status for p in outcome.board.steps] == ["completed"] * 2
    assert len(wholes(world)) == 3, "an arm in the way may be gone at the next look"
    assert [g.active for g in heard.goals][-1] is False


@pytest.mark.parametrize("reason", ["server gone", "its server cannot be reached"])
@pytest.mark.parametrize(
    ("on_failure", "error"), [("text_only", ErrorCode.UNCONFIRMED), ("fail", ErrorCode.CRITIC_FAILED)]
)
def test_a_critic_that_cannot_be_asked_confirms_nothing(begin, on_failure, error, reason):
    world = World(1)
    limit = None if reason == "server gone" else 0
    engine, heard, ticket = begin(world, on_model_failure=on_failure, critic_steps=lambda: limit)
    world.fails["judge"] = "server gone"
    engine.set_step(0, "completed")
    outcome = result(ticket)
    assert outcome.error is error
    assert reason in outcome.message
    assert heard.goals[-1].board.degraded == outcome.board.degraded == f"the critic failed: {reason}"


def test_a_critic_of_pictures_alone_takes_neither_a_step_nor_the_task_for_done(begin):
    """Something changed in the picture, but nobody compared it with the words."""
    world = World(1)
    engine, _, ticket = begin(world, live_critic=DifferenceCritic())
    world.scene = picture(1)
    until(lambda: PICTURES_ALONE in engine.progress().board.degraded)
    assert engine.progress().board.steps[0].status == "active"
    engine.set_step(0, "completed")
    outcome = result(ticket)
    assert (outcome.error, outcome.verdict) == (ErrorCode.UNCONFIRMED, None)
    assert PICTURES_ALONE in outcome.message


def test_who_does_not_want_it_is_not_asked_and_the_result_says_so(start):
    world = World(1)
    world.whole = False
    engine, heard = start(world, confirm=False)
    outcome = result(done(world, engine, heard))
    assert (outcome.error, outcome.verdict, wholes(world)) == (ErrorCode.NONE, None, [])
    assert "nobody checked the end against the whole task" in outcome.message
    assert engine.progress().message == outcome.message


@pytest.mark.parametrize("limit", [{"confirm_steps": 1}, {"critic_steps": lambda: 1}], ids=["set", "told"])
def test_a_task_of_more_steps_than_the_critic_can_judge_is_never_called_done(start, limit):
    """Its yes would be worth as little as its no."""
    world = World(2)
    engine, heard = start(world, rerender=1.0, **limit)
    outcome = result(done(world, engine, heard))
    assert (outcome.error, outcome.verdict, wholes(world)) == (ErrorCode.UNCONFIRMED, None, [])
    assert outcome.message.endswith("it cannot judge one of 2 steps (confirm_steps)")
    world.plans, world.scene, heard.goals[:] = [world.plan_of([0])], picture(0), []
    outcome = result(done(world, engine, heard))
    assert (outcome.error, outcome.verdict.success) == (ErrorCode.NONE, True)


def test_a_storyboard_made_before_is_judged_from_the_scene_that_it_began_in(start):
    world = World(1)
    engine, heard = start(world)
    made = result(engine.submit(GENERATE))
    world.scene = picture(4)
    ticket = engine.submit(TaskRequest("", storyboard_id=made.board.id))
    until(lambda: heard.told == [0])
    world.scene = picture(1)
    assert result(ticket).error is ErrorCode.NONE
    assert wholes(world)[-1].source == picture(4)


def test_a_no_is_asked_again_while_the_policy_still_has_its_goal(start):
    world, active = World(1), []
    engine, heard = start(world)
    told = world.judge

    def judge(candidates):
        answers = told(candidates)
        if asks_of_all(candidates):
            active.append(heard.goals[-1].active)
            world.whole = True
        return answers

    world.whole, world.judge = False, judge
    outcome = result(done(world, engine, heard))
    assert (outcome.error, outcome.verdict.success) == (ErrorCode.NONE, True)
    assert active == [True, True]


def test_without_a_frame_nothing_is_confirmed(begin):
    world = World(1)
    engine, _, ticket = begin(world)
    world.scene = None
    engine.set_step(0, "completed")
    outcome = result(ticket)
    assert outcome.error is ErrorCode.UNCONFIRMED
    assert "no camera frame" in outcome.message


def test_an_answer_that_cannot_be_read_is_no_confirmation(start):
    world = World(1)
    garbage = Failure(stage="judge", message="no verdict in the reply", reply="Sure!")
    told = world.judge
    world.judge = lambda cs: [garbage] if asks_of_all(cs) else told(cs)
    engine, heard = start(world)
    outcome = result(done(world, engine, heard))
    assert (outcome.error, outcome.verdict) == (ErrorCode.UNCONFIRMED, None)
    assert "no verdict in the reply" in outcome.message


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_asks_its_critic_about_tasks_of_any_length(name):
    preset = presets.read(name)
    assert (preset.confirm, preset.confirm_steps) == (True, None), "see docs/reference/ros-failures.md"
    assert name != "nano" or load(preset, roles=()).critic_steps() is None


def test_while_the_whole_task_is_judged_an_operator_may_go_back_or_have_it_planned_anew(start):
    world = World(2)
    hold, judge = threading.Event(), world.judge
    world.judge = lambda cs: judge(cs) if not asks_of_all(cs) or hold.wait(60) else []
    engine, heard = start(world, rerender=1.0, remote=["judge"])
    ticket = done(world, engine, heard)
    until(lambda: "as a whole" in engine.progress().message)
    assert engine.set_step(1, "completed") == (ErrorCode.INVALID_REQUEST, "no step is active")
    assert engine.set_step(1, "active") == (ErrorCode.NONE, "")
    until(lambda: heard.told == [0, 1, 1])
    until(lambda: "as a whole" in engine.progress().message)
    world.plans = [world.plan_of([2])]
    assert engine.command("replan") == (ErrorCode.NONE, "")
    until(lambda: heard.told == [0, 1, 1, 2])
    world.scene = picture(3)
    hold.set()
    assert [p.status for p in result(ticket).board.steps] == ["completed"] * 3


def test_a_goal_whose_step_was_ended_in_a_pause_is_not_given_again(begin):
    engine, heard, ticket = begin(World(2), rerender=1.0)
    engine.set_step(0, "completed")
    until(lambda: heard.told == [0, 1])
    engine.command("pause")
    until(lambda: engine.board.state == "paused")
    engine.set_step(1, "skipped")
    engine.command("resume")
    assert result(ticket).verdict.success
    assert heard.told == [0, 1]
