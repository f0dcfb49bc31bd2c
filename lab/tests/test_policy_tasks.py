"""The tasks of the policy study: what their conditions say, and their words as vectors."""

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.tabletop.scene import SubGoal
from goalreel_lab.corpora.composition import PAIRS as NEW_PAIRS
from goalreel_lab.policy.policy_tasks import (
    CONDITIONS,
    LONGEST,
    LONGEST_TRAINED,
    NEW_WORD,
    WORDS,
    instruction,
    sample_task,
    sub_task,
    trained,
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_task_is_the_same_for_ever_and_is_what_its_condition_says(condition):
    for seed in range(900_200, 900_201):
        task = sample_task(condition, seed)
        assert task == sample_task(condition, seed)
        goals = task.goals
        low, high = (LONGEST_TRAINED + 1, LONGEST) if condition == "long" else (1, LONGEST_TRAINED)
        assert low <= len(goals) <= high
        assert trained(goals) == (condition not in ("new_pair", "new_word"))
        assert (condition == "new_pair") == any(g in NEW_PAIRS for g in goals)
        assert (condition == "new_word") == any(g.object == NEW_WORD for g in goals)
        if condition == "unnamed":
            assert [m.kind in ("sort", "clear_all") for m in task.missions] == [True]


def test_words_are_one_hot_and_other_words_are_other_numbers():
    goals = [
        SubGoal(k, o, t)
        for k in ("inside", "left_of")
        for o in ("red block", "blue block")
        for t in ("green bowl", "red bowl")
    ]
    told = np.stack([sub_task(g) for g in goals])
    assert told.shape == (8, WORDS)
    assert set(told.sum(axis=1)) == {3}
    assert len(np.unique(told, axis=0)) == 8


def test_an_instruction_has_a_slot_a_clause_and_names_nothing_that_it_does_not_say():
    named = sample_task("long", 900_201)
    slots = instruction(named.missions).reshape(LONGEST, -1)
    clauses = sum(1 if m.kind in ("sort", "clear_all") else len(m.goals) for m in named.missions)
    assert (slots.sum(axis=1) > 0).sum() == clauses
    unnamed = sample_task("unnamed", 900_201)
    assert instruction(unnamed.missions).sum() == 1
