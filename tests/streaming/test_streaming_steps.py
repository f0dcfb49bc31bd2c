"""Steps in words alone, and pictures: rendered early, of the editor's own size, or all rejected."""

import threading

import numpy as np
import pytest
from support.streaming_world import GENERATE, MOVE, World, picture, play, result
from support.wait import until

from goalreel.image import Image
from goalreel.models import presets
from goalreel.streaming.board import ErrorCode
from goalreel.streaming.camera import FrameSlot
from goalreel.streaming.request import TaskRequest, preset_of_task
from goalreel.streaming.settings import EngineSettings
from goalreel.types import Candidate, Edit, Verdict


def edits(world: World) -> list:
    return [request for kind, request in world.calls if kind == "edit"]


@pytest.fixture
def worded() -> World:
    """Three steps, the middle one in words alone."""
    world = World()
    world.plans = [World.plan_of(range(3), words={1})]
    return world


def test_a_step_in_words_is_on_the_board_without_a_picture(worded, start):
    engine, heard = start(worded, on_rejected="fail")
    phases = []
    board = result(engine.submit(GENERATE, phases.append)).board
    assert board.state == "ready"
    assert [(p.image_status, p.attempts) for p in board.steps] == [
        ("accepted", 1),
        ("text", 0),
        ("accepted", 1),
    ]
    assert [p.goal_image is None for p in board.steps] == [False, True, False]
    assert board.steps[1].created
    assert [p.shown().status for p in board.steps] == ["accepted", "text", "accepted"]
    assert [e.image for e in edits(worded)] == [picture(0), picture(1)]
    assert phases[-1].completion == 1.0
    untouched = next(b for b in heard.boards if b.steps).steps[1]
    assert (untouched.picture_is_final, untouched.shown().status) == (False, "skipped")


def test_the_critic_says_when_a_step_in_words_is_done(worded, submit):
    _, heard, ticket = submit(worded, rerender=1.0)
    play(worded, heard)
    assert result(ticket).board.state == "succeeded"
    assert heard.told == [0, 1, 2]
    told = [g.panel for g in heard.goals if g.active]
    assert [p.goal_image is None for p in told] == [False, True, False]
    asked = [c for kind, c in worded.calls if kind == "judge" and c.step == 1]
    assert {(c.prompt, c.first_prompt) for c in asked} == {("at 2", None)}


def test_after_words_the_next_goal_is_imagined_from_the_scene_that_they_led_to(worded, submit):
    engine, heard, ticket = submit(worded)
    until(lambda: len(edits(worded)) == 2)
    until(lambda: heard.told == [0])
    worded.scene = picture(1)
    until(lambda: heard.told == [0, 1])
    worded.scene = picture(2, extra=4)
    until(lambda: heard.told == [0, 1, 2])
    assert edits(worded)[-1].image == worded.scene
    assert len(edits(worded)) == 3
    engine.command("cancel")
    result(ticket)


def test_where_all_is_in_words_only_what_lost_its_picture_is_unjudged(worded, finish):
    board = finish(worded, TaskRequest("move it", "generate", text_only=True)).board
    assert [p.image_status for p in board.steps] == ["unjudged", "text", "unjudged"]
    assert not edits(worded)


class Large(World):
    """Its pictures have twice the camera's size."""

    def edit(self, requests):
        return [Image(p.pixels.repeat(2, 0).repeat(2, 1)) for p in super().edit(requests)]

    def judge(self, candidates):
        halved = (
            c.model_copy(update={"image": Image(c.image.pixels[::2, ::2].copy())})
            if c.image.size == (192, 96)
            else c
            for c in candidates
        )
        return super().judge(list(halved))


def test_goals_have_the_cameras_size_and_the_next_picture_starts_from_the_editors_own(submit):
    world = Large()
    _, heard, ticket = submit(world)
    play(world, heard)
    board = result(ticket).board
    assert board.state == "succeeded"
    assert {p.goal_image.size for p in board.steps} == {(96, 48)}
    assert np.abs(board.steps[0].goal_image.pixels.astype(int) - picture(1).pixels).mean() < 3
    assert [e.image.size for e in edits(world)] == [(96, 48), (192, 96), (192, 96)]


class Huge(World):
    """A camera of 2560x1440 behind a real slot; the left half of a picture is the state."""

    def __init__(self):
        super().__init__(1)
        self.slot = FrameSlot(lambda level: half(level, (2560, 1440)))
        self.newest = self.slot.newest

    def edit(self, edits):
        return self._call("edit", edits, lambda e: half(200, e.image.size))

    def judge(self, candidates):
        return self._call("judge", candidates, lambda c: Verdict(success=bool(c.image.pixels[0, 0, 0] > 150)))

    def continue_plan(self, progress):
        return self._call("replan", progress, lambda p: self.plan_of([1]))


def half(level: int, size: tuple[int, int]) -> Image:
    pixels = np.full((size[1], size[0], 3), 90, np.uint8)
    pixels[:, : size[0] // 2] = level
    return Image(pixels)


def given(asked: object) -> list[Image]:
    """Every picture in a request to a model."""
    board = getattr(asked, "storyboard", None)
    steps = board.steps if board is not None else ()
    found = [getattr(asked, "image", None), getattr(asked, "source", None), *(s.goal_image for s in steps)]
    return [image for image in found if image is not None]


def test_models_are_given_a_large_frame_at_their_size_and_goals_keep_the_cameras(submit):
    world = Huge()
    world.slot.put(30, stamp=1, frame_id="camera")
    engine, heard, ticket = submit(world, max_image_age=60.0, image_timeout=60.0)
    until(lambda: heard.told)
    engine.command("replan")
    until(lambda: any(kind == "replan" for kind, _ in world.calls) and len(heard.told) > 1)
    world.slot.put(200, stamp=2, frame_id="camera")
    board = result(ticket, 60).board
    assert board.state == "succeeded"
    assert {kind for kind, _ in world.calls} == {"plan", "replan", "edit", "judge"}
    assert {image.size for _, asked in world.calls for image in given(asked)} == {(1280, 720)}
    assert board.source.image.size == (1280, 720)
    assert board.source.size == board.steps[0].goal_image.size == (2560, 1440)


def test_a_task_takes_what_may_change_and_keeps_what_the_models_were_loaded_with():
    loaded = presets.load("nano", critic_mode="fast", max_steps=7)
    settings = EngineSettings.of("nano", max_attempts=9, keep="last", confirm=True, max_steps=60)
    task = preset_of_task(settings, loaded)
    assert (task.max_attempts, task.keep, task.confirm) == (9, "last", True)
    assert (task.critic_mode, task.max_steps) == ("fast", 7)
    assert preset_of_task(EngineSettings(), loaded) == loaded


class Looking:
    """Sees nothing but live frames."""

    def __init__(self, world: World) -> None:
        self.world, self.asked = world, []

    def judge(self, candidates):
        self.asked += candidates
        return self.world.judge(candidates)


def test_live_frames_go_to_the_one_who_observes_and_pictures_to_the_critic(begin):
    world = World(1)
    looking = Looking(world)
    _engine, _, ticket = begin(world, live_critic=looking)
    before = [c for kind, c in world.calls if kind == "judge"]
    assert [c.image for c in before] == [picture(1)]
    assert looking.asked == []
    world.scene = picture(1)
    assert result(ticket).board.state == "succeeded"
    assert looking.asked
    assert looking.asked[-1].image == picture(1)


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
