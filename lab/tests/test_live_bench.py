"""The part `live`: a critic that knows is right, one that believes all is early."""

from functools import partial

import pytest
from support.tabletop_models import quiet, values

from goalreel.streaming.settings import EngineSettings
from goalreel.tabletop.splits import seeds
from goalreel.types import Verdict
from goalreel_lab.bench.live import (
    CONFIRMED,
    LiveCourse,
    critic_query_frames,
    judge_courses,
    judge_frames,
    judge_wholes,
    live_courses,
    measure_calls,
    measure_courses,
    measure_frames,
    measure_kinds,
)

SOME = seeds("validation", 1, first=400)
ASKS = partial(critic_query_frames, EngineSettings())


class Says:
    """Says the same of every picture."""

    def __init__(self, success: bool) -> None:
        self.success = success
        self.asked = []

    def judge(self, candidates):
        self.asked += candidates
        return [Verdict(success=self.success)] * len(candidates)


@pytest.fixture(scope="module")
def courses():
    return live_courses(SOME, ASKS, quiet)


def test_the_node_asks_when_the_view_is_near_the_goal_and_in_words_all_the_time(courses):
    assert {c.pictured for c in courses} == {True, False}
    shown, told = ([c for c in courses if c.pictured == pictured] for pictured in (True, False))
    assert len(shown) == len(told)
    assert any(c.ends_well for c in shown)
    assert any(not c.ends_well for c in shown)
    for gated, free in zip(shown, told, strict=True):
        assert len(gated.candidates) <= len(free.candidates)
        assert free.candidates[0].image == free.candidates[0].source
        assert not free.reached[0]
    assert all(any(c.reached) for c in shown if c.ends_well), "what is reached is near the goal"


def test_what_is_known_is_never_early(courses):
    found = values(measure_courses(courses, [course.reached for course in courses]))
    for prefix in ("", "words_"):
        for count in CONFIRMED:
            end = "" if count == 1 else f"_{count}"
            assert found[f"{prefix}early{end}"] == found[f"{prefix}fooled{end}"] == 0
            assert found[f"{prefix}noticed{end}"] == 1
    assert found["words_false_success"] == found["gated_missed"] == 0


def test_a_critic_that_accepts_everything_is_early_and_fooled(courses):
    critic = Says(True)
    said = judge_courses(courses, critic, quiet)
    assert [len(row) for row in said] == [len(c.candidates) for c in courses]
    assert len({id(c.image) for c in critic.asked}) == len(critic.asked), "no frame is asked about twice"
    found = values(measure_courses(courses, said))
    assert found["words_early"] == found["words_fooled"] == found["words_false_success"] == 1
    assert found["words_noticed"] == 0


@pytest.mark.parametrize(("success", "wrong", "missed"), [(True, 1, 0), (False, 0, 1)])
def test_single_frames_and_ends_of_whole_tasks(success, wrong, missed):
    answers = judge_frames(seeds("validation", 2, first=400), Says(success), quiet)
    found = values(measure_frames(answers) | measure_kinds(answers))
    assert (found["false_success"], found["missed"], found["balanced_accuracy"]) == (wrong, missed, 0.5)
    assert found["false_success_underway"] == wrong
    critic = Says(success)
    answers = judge_wholes(seeds("validation", 2, first=402), critic, quiet)
    assert "In all: " in critic.asked[0].instruction
    found = values(measure_frames(answers, "whole_"))
    wanted = {"whole_false_success": wrong, "whole_missed": missed, "whole_balanced_accuracy": 0.5}
    assert {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("said", "count", "found"),
    [
        ("--++", 1, (0, 1)),
        ("-+++", 1, (1, 0)),
        ("+-++", 2, (0, 1)),
        ("++++", 2, (1, 0)),
        ("++++", 3, (0, 1)),
        ("--+-", 2, (0, 0)),
        ("+-+-", 2, (0, 0)),
    ],
)
def test_successes_in_a_row_make_a_sub_goal_reached(said, count, found):
    """The last two of four frames show it reached."""
    course = LiveCourse(1, True, (), (False, False, True, True), ends_well=True)
    calls = values(measure_calls([(course, [c == "+" for c in said])], count))
    end = "" if count == 1 else f"_{count}"
    assert (calls[f"early{end}"], calls[f"noticed{end}"]) == found
    assert calls[f"fooled{end}"] is None
