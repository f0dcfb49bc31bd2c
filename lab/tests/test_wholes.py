"""Ends of whole tasks: what is said of each sub-goal is what the picture shows."""

from dataclasses import replace

import numpy as np
import pytest

from goalreel.chat.places import concluded
from goalreel.chat.verdict import verdict_reply
from goalreel.loop import states_in, whole_state
from goalreel.tabletop.grammar import sample_episode, state_of
from goalreel.tabletop.readback import read_back
from goalreel.tabletop.scene import HALF, SubGoal, shows
from goalreel.tabletop.splits import seeds
from goalreel_lab.corpora.grounding import AT_WORK, compare, whole_verdict
from goalreel_lab.corpora.live import FAULTS, UNDERWAY, whole_rows
from goalreel_lab.corpora.prompts import sentence
from goalreel_lab.corpora.rows import verdict_lesson

SOME = seeds("validation", 8, first=402)
TRAINING = [0, 7, 8, 30, 31]
"""The first whose combination of goals is held out."""
DONE = "All else is as it was."

RED, BLUE, GREEN = "red block", "blue block", "green block"
BOWL, OTHER = "blue bowl", "red bowl"
START = {
    RED: np.array([0.40, -0.20, HALF]),
    BLUE: np.array([0.40, 0.00, HALF]),
    GREEN: np.array([0.40, 0.20, HALF]),
    BOWL: np.array([0.58, -0.15, 0.0]),
    OTHER: np.array([0.58, 0.15, 0.0]),
}
INSIDE, BESIDE = SubGoal("inside", RED, BOWL), SubGoal("left_of", BLUE, GREEN)
ENDED = START | {RED: START[BOWL] + [0, 0, HALF], BLUE: START[GREEN] - [0, 0.12, 0]}


@pytest.fixture(scope="module")
def rows():
    return list(whole_rows(SOME))


def judged(now, goals=(INSIDE, BESIDE), **change):
    seen = replace(compare(START, now, goals[-1]), **change)
    return whole_verdict(START, now, ENDED, goals, seen)


def test_every_episode_has_a_right_end_and_a_wrong_one(rows):
    assert len(rows) >= 8
    right, wrong = rows[::2], rows[1::2]
    assert [row.origin for row in right] == [row.origin for row in wrong]
    assert {row.mistake for row in right} == {None}
    assert {row.mistake for row in wrong} <= {*FAULTS, *UNDERWAY, "undone"}
    assert len({row.mistake for row in wrong}) > 2
    again = rows[0].origin.seed
    assert list(whole_rows([again])) == [row for row in rows if row.origin.seed == again]
    assert list(whole_rows(TRAINING, 64)) == []


def test_the_question_tells_every_state_and_the_reply_what_the_picture_shows(rows):
    for row in rows:
        assert row.verdict.success == (row.mistake is None) == row.verdict.reasoning.endswith(DONE)
        assert row.verdict.refined_prompt is None
        assert row.candidate != row.source
        episode = sample_episode(row.origin.seed)
        assert row.instruction == whole_state(episode.instruction, [state_of(goal) for goal in episode.goals])
        ruled = concluded(states_in(row.instruction), verdict_reply(row.verdict))
        assert ruled.success == row.verdict.success, "the rule reads what the lessons write"
        (_, asked), _ = verdict_lesson(row)
        text = "".join(part for part in asked.parts if isinstance(part, str))
        assert f"Wanted state: {row.instruction}" in text
        assert f"Prompt given to the editor: {episode.instruction}" in text
        if AT_WORK not in row.verdict.reasoning:
            found = read_back(row.candidate.pixels, episode.scene)
            for goal in episode.goals:
                assert (sentence(state_of(goal)) in row.verdict.reasoning) == shows(found, goal)


def test_a_task_is_done_when_every_sub_goal_holds():
    verdict = judged(ENDED)
    assert verdict.success
    assert verdict.reasoning.endswith(
        f"The red block is in the blue bowl. The blue block is to the left of the green block. {DONE}"
    )
    assert verdict.reasoning.startswith("red block c4 r3 -> c6 r8 in blue bowl; green block c17 r3 stays; ")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (ENDED | {RED: START[RED]}, "The red block did not move. The blue block is to the left of"),
        (ENDED | {BLUE: np.array([0.65, 0.0, HALF])}, "blue bowl. The blue block is in the wrong place."),
        (ENDED | {BLUE: ENDED[BLUE] + [0.07, 0, 0]}, "blue bowl. The blue block only just misses its place."),
        (ENDED | {OTHER: START[OTHER] + [0.06, 0, 0]}, "of the green block. The red bowl was moved."),
    ],
)
def test_a_fault_is_told_where_its_sub_goal_has_its_turn(now, said):
    verdict = judged(now)
    assert not verdict.success
    assert said in verdict.reasoning
    assert DONE not in verdict.reasoning
    assert verdict.refined_prompt is None


def test_of_several_sub_goals_of_one_block_the_last_counts_and_the_arm_at_work_before_all():
    undone = SubGoal("inside", RED, OTHER)
    assert judged(ENDED, (undone, INSIDE, BESIDE)).success
    assert not judged(ENDED, (INSIDE, undone, BESIDE)).success
    verdict = judged(ENDED, away=False, held=(RED,))
    assert not verdict.success
    assert verdict.reasoning.endswith(f"blue bowl c6 r8 stays. {AT_WORK}")
    assert "red block c4 r3 held;" in verdict.reasoning
