"""Models that fail or hang: what is degraded says so, and a new task waits for nothing of the one before."""

import json
import threading
from concurrent.futures import wait

import pytest
from support.chat_server import ChatServer, Reply, said
from support.examined import examination
from support.streaming_world import GENERATE, MOVE, World, picture, result
from support.wait import until

from goalreel.chat.openai import OpenAIChat
from goalreel.critics.chat import ChatCritic
from goalreel.http.calls import report_retry
from goalreel.planners.chat import ChatPlanner
from goalreel.streaming.board import ErrorCode
from goalreel.streaming.model_caller import MAX_ABANDONED
from goalreel.streaming.request import TaskRequest
from goalreel.types import Failure

PAGE = b"<html><body>Welcome</body></html>"


REPLIES = {
    "an error": Reply(500, b'{"error": {"message": "boom"}}'),
    "a page": Reply(200, PAGE),
    "half of a reply": Reply(200, said("x" * 99).body[:60]),
    "an error in a 200": Reply(200, b'{"error": {"message": "overloaded", "code": 503}}'),
    "a greeting": said("Sure!"),
    "an empty plan": said(json.dumps({"execution_plan": []})),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("role", ["planner", "critic"])
def test_what_a_server_says_that_is_no_answer_never_looks_like_a_good_plan(submit, role, reply):
    with ChatServer(lambda _: reply) as server:
        world = World(1)
        chat = OpenAIChat("m", server.url, retries=0)
        if role == "planner":
            world.plan = ChatPlanner(chat).plan
        else:
            world.judge = ChatCritic(chat).judge
        _, heard, ticket = submit(world, TaskRequest("at 1", "generate"))
        outcome = result(ticket)
        board = outcome.board
        if board.steps:
            assert (outcome.error, board.degraded) == (ErrorCode.UNCONFIRMED, outcome.message)
            assert board.degraded.startswith(f"the {role} failed: ")
        else:
            assert outcome.error is ErrorCode.PLANNER_FAILED
        assert [p.image_status for p in board.steps] in ([], ["unjudged"])
        assert not any(p.image_status in ("accepted", "text") for b in heard.boards for p in b.steps)


@pytest.mark.parametrize("stage", ["plan", "edit", "judge"])
def test_a_new_task_asks_a_model_anew_however_short_ago_it_failed(start, stage):
    world = World(1)
    world.fails[stage] = "server gone"
    engine, _ = start(world)
    assert result(engine.submit(GENERATE)).board.degraded
    world.plans = [world.plan_of([0])]
    del world.fails[stage]
    outcome = result(engine.submit(GENERATE))
    assert (outcome.error, outcome.board.degraded) == (ErrorCode.NONE, "")
    assert sum(kind == stage for kind, _ in world.calls) == 2


STOPS = {
    "cancelled": lambda engine, ticket: ticket.cancel(),
    "overtaken": lambda engine, ticket: None,
    "out of time": lambda engine, ticket: wait([ticket.outcome]),
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("stage", ["plan", "edit", "judge"])
def test_a_task_does_not_wait_for_a_call_of_the_task_before_to_a_server(start, stage, stop):
    world = World(1)
    hold = world.hold[stage] = threading.Event()
    engine, _ = start(world, remote=["plan", "edit", "judge"])
    timeout = 2.0 if stop == "out of time" else 0.0
    first = engine.submit(TaskRequest("move it", "generate", timeout=timeout))
    until(lambda: any(kind == stage for kind, _ in world.calls))
    del world.hold[stage]
    STOPS[stop](engine, first)
    world.plans = [world.plan_of([2])]
    outcome = result(engine.submit(TaskRequest("go on", "generate")))
    assert world.busy == 1, "the call of the first task hangs still"
    assert (outcome.error, outcome.board.steps[0].goal_image) == (ErrorCode.NONE, picture(3))
    hold.set()
    until(lambda: not world.busy)
    assert engine.board == outcome.board, "a late answer is nobody's"


def test_calls_that_nobody_waits_for_are_bounded(start):
    world = World(1)
    hold = world.hold["plan"] = threading.Event()
    engine, _ = start(world, remote=["plan"])
    for number in range(MAX_ABANDONED):
        ticket = engine.submit(GENERATE)
        until(lambda n=number: world.busy == n + 1)
        ticket.cancel()
    outcome = result(engine.submit(GENERATE))
    why = "4 calls that took too long are still running: restart the model or its server"
    assert outcome.message == f"the planner failed: {why}"
    hold.set()
    until(lambda: not world.busy)
    world.plans = [world.plan_of([0])]
    assert result(engine.submit(GENERATE)).error is ErrorCode.NONE


def test_a_critic_that_fails_while_the_robot_acts_is_no_secret_until_it_answers_again(begin):
    world = World(1)
    engine, _, ticket = begin(world, confirm=False)
    told, answers = world.judge, threading.Event()
    world.judge = lambda _: [Failure(stage="judge", message="no verdict in the reply", reply="Sure!")]
    world.scene = picture(1)
    until(lambda: engine.board.degraded == "the critic failed: no verdict in the reply")

    def ask_again(candidates):
        report_retry(1, "no whole reply")
        assert answers.wait(60)
        return told(candidates)

    world.judge = ask_again
    until(lambda: engine.board.degraded == "the critic failed: no whole reply")
    answers.set()
    outcome = result(ticket)
    assert (outcome.error, outcome.board.degraded) == (ErrorCode.NONE, "")
    assert outcome.board.steps[0].ended_by == "critic"


def doubtful(world: World, kind: str) -> World:
    """A world whose first goal no critic accepts, because of `kind`."""
    if kind == "in words":
        world.plans = [world.plan_of(range(2), words=[0])] * 9
    elif kind == "rejected":
        world.refuse = {"move to 1"}
    else:
        world.fails[kind] = "server gone"
    return world


@pytest.fixture
def examined(tmp_path) -> str:
    """The folder with the examination of a critic that passed it."""
    return examination(tmp_path / "examination", "no")


DOUBTS = {
    "in words": "it is in words alone",
    "rejected": "no critic accepted its picture",
    "plan": "the planner failed: server gone",
    "edit": "it is in words alone",
    "judge": "no critic accepted its picture",
}


@pytest.mark.parametrize("kind", DOUBTS)
def test_a_goal_that_is_not_verified_is_held_back_where_only_verified_ones_may_pass(submit, kind, examined):
    world = doubtful(World(2), kind)
    engine, heard, ticket = submit(world, require_verified=True, max_attempts=1, examination=examined)
    until(lambda: "not verified" in engine.progress().message)
    assert f"(require_verified): {DOUBTS[kind]}; set_active_step goes on" in engine.progress().message
    assert (heard.goals[-1].reason, heard.goals[-1].panel.index, heard.told) == ("holding", 0, [])
    engine.set_step(0, "completed")
    if kind in ("in words", "rejected"):
        until(lambda: heard.told == [1])
    elif kind == "plan":
        assert result(ticket).board.degraded
    else:
        until(lambda: heard.goals[-1].panel.index == 1 and heard.goals[-1].reason == "holding")
    ticket.cancel()
    assert all(g.panel.image_status == "accepted" for g in heard.goals if g.active)


def test_what_is_held_back_is_planned_anew_and_ends_the_task_after_the_last_plan(start, examined):
    world = doubtful(World(1), "in words")
    engine, heard = start(world, require_verified=True, stall_timeout=0.1)
    outcome = result(engine.submit(TaskRequest("move it", max_replans=2)))
    assert (outcome.error, outcome.replans) == (ErrorCode.REPLANS_EXHAUSTED, 2)
    assert outcome.message.startswith(
        "the goal is not verified (require_verified): it is in words alone, and"
    )
    assert heard.told == []
    world = doubtful(World(1), "in words")
    engine, heard = start(world, require_verified=True, stall_timeout=0.1, examination=examined)
    world.plans[1:] = [world.plan_of([0])]
    ticket = engine.submit(MOVE)
    until(lambda: heard.told == [0])
    assert heard.goals[-1].panel.image_status == "accepted"
    ticket.cancel()


def test_a_plan_that_is_kept_for_want_of_a_better_one_is_degraded_still(submit):
    """Nobody planned the task in words, which stands in for a plan."""
    world = World(1)
    world.fails["plan"] = "server gone"
    _, heard, ticket = submit(world, TaskRequest("at 7", max_replans=1), stall_timeout=0.2)
    assert result(ticket).error is ErrorCode.REPLANS_EXHAUSTED
    assert [g.panel.image_status for g in heard.goals if g.active] == ["unjudged"] * 2
    assert all(g.board.degraded for g in heard.goals if g.active)


def test_nobody_confirms_a_task_whose_critic_is_gone(begin):
    world = World(1)
    engine, _, ticket = begin(world, confirm=False)
    world.fails["judge"] = "server gone"
    world.scene = picture(1)
    until(lambda: engine.board.degraded)
    engine.set_step(0, "completed")
    outcome = result(ticket)
    assert (outcome.error, outcome.message) == (ErrorCode.UNCONFIRMED, "the critic failed: server gone")


def test_what_a_critic_accepts_that_nobody_has_examined_is_not_verified(submit, examined, tmp_path):
    for folder, why in (
        (str(tmp_path / "nothing"), "nobody has examined it"),
        (examination(tmp_path / "blind", "yes"), "said yes to each of 30 things that are false"),
    ):
        engine, heard, ticket = submit(World(1), require_verified=True, examination=folder)
        until(lambda engine=engine: "not verified" in engine.progress().message)
        assert why in engine.progress().message
        assert heard.told == []
        ticket.cancel()


def test_a_plan_that_the_planner_could_not_change_is_held_back_however_good_its_pictures(begin, examined):
    world, names = World(2), {"examination": examined, "critic": "server:http://h"}
    engine, heard, ticket = begin(world, require_verified=True, **names)
    world.fails["plan"] = "server gone"
    engine.command("replan")
    until(lambda: heard.goals[-1].reason == "holding")
    assert engine.board.steps[0].image_status == "accepted"
    del world.fails["plan"]
    world.plans = [world.plan_of(range(2))]
    engine.command("replan")
    until(lambda: heard.told == [0, 0])
    ticket.cancel()


def test_between_tasks_the_critic_answers_control_questions(start, tmp_path, submit):
    """None is asked while the robot works; the answers outlive the node."""
    folder, world = tmp_path / "examination", World(3)
    settings = {"controls": 5.0, "examination": str(folder)}
    engine, _, ticket = submit(world, **settings)
    until(lambda: engine.board.steps and all(p.image_status == "accepted" for p in engine.board.steps))
    asked = [c.image for kind, c in world.calls if kind == "judge"]
    assert asked == [picture(1), picture(2), picture(3)], "its own pictures alone"
    ticket.cancel()
    until(lambda: engine.examination and engine.examination.on_false.no >= 3)
    engine.stop()
    again, _ = start(World(1), **settings)
    assert again.examination.on_false == engine.examination.on_false
    assert len(list(folder.glob("node_*.jsonl"))) == 1
