"""Goals that are rendered early: while the critic looks at their source, and before the first is given."""

import threading

from support.streaming_world import GENERATE, MOVE, World, picture, result
from support.wait import until

from goalreel.streaming.board import ErrorCode
from goalreel.types import Candidate, Edit

REMOTE = ("edit", "judge")


def prompts(world: World) -> list[str]:
    """Give what was asked for, the critic's questions in brackets."""
    return [
        request.prompt if isinstance(request, Edit) else f"({request.prompt})"
        for _, request in world.calls
        if isinstance(request, Edit | Candidate)
    ]


def test_it_is_drawn_from_the_candidate_and_shown_once_that_is_accepted(submit):
    world = World()
    world.hold["judge"] = threading.Event()
    engine, _, ticket = submit(world, GENERATE, remote=REMOTE)
    until(lambda: "move to 2" in prompts(world))
    (early,) = (edit for kind, edit in world.calls if kind == "edit" and edit.step == 1)
    assert early.image == picture(1), "the picture that the critic is looking at"
    assert [p.image_status for p in engine.board.steps] == ["validating", "none", "none"]
    world.hold["judge"].set()
    outcome = result(ticket)
    assert [p.image_status for p in outcome.board.steps] == ["accepted"] * 3
    assert sorted(prompts(world)) == sorted(
        f"{a}move to {i}{b}" for i in (1, 2, 3) for a, b in (("", ""), ("(", ")"))
    )


def test_it_is_thrown_away_where_the_critic_rejects_its_source(submit):
    world = World(steps=2)
    world.refuse = {"move to 1"}
    world.hold["judge"] = threading.Event()
    _, _, ticket = submit(world, GENERATE, remote=REMOTE)
    until(lambda: "move to 2" in prompts(world))
    world.hold["judge"].set()
    outcome = result(ticket)
    assert [(p.image_status, p.attempts) for p in outcome.board.steps] == [("accepted", 2), ("accepted", 1)]
    asked = [p for p in prompts(world) if "(" not in p]
    assert asked == ["move to 1", "move to 2", "move to 1 exactly", "move to 2"], "one a step at most"


def test_a_task_that_is_cancelled_meanwhile_asks_for_nothing_more(submit):
    world = World()
    world.hold["judge"] = threading.Event()
    _, _, ticket = submit(world, GENERATE, remote=REMOTE)
    until(lambda: {"(move to 1)", "move to 2"} <= set(prompts(world)))
    before = len(world.calls)
    ticket.cancel()
    result(ticket)
    world.hold["judge"].set()
    until(lambda: world.busy == 0)
    assert len(world.calls) == before


def test_the_first_goal_waits_for_as_many_more_as_are_asked_for(start):
    world = World()
    world.refuse = {"move to 3"}
    world.hold["judge"] = threading.Event()
    engine, heard = start(world, goals_ahead=1, remote=REMOTE)
    engine.submit(MOVE)
    until(lambda: "(move to 1)" in prompts(world))
    assert not heard.told
    world.hold["judge"].set()
    until(lambda: heard.told == [0])
    first = next(goal for goal in heard.goals if goal.active)
    assert [p.image_status for p in first.board.steps[:2]] == ["accepted"] * 2
    world.scene = picture(1)
    until(lambda: heard.told == [0, 1])


def test_a_picture_that_ends_the_task_does_not_hold_the_first_goal_for_ever(begin):
    world = World(steps=2)
    world.refuse = {"move to 2", "move to 2 exactly"}
    _engine, _, ticket = begin(world, goals_ahead=5, on_rejected="fail", max_attempts=2)
    world.scene = picture(1)
    assert result(ticket).error is ErrorCode.ATTEMPTS_EXHAUSTED


def test_models_of_one_machine_work_one_after_the_other(start):
    world = World()
    engine, _ = start(world)
    result(engine.submit(GENERATE))
    assert prompts(world) == [f"{a}move to {i}{b}" for i in (1, 2, 3) for a, b in (("", ""), ("(", ")"))]
