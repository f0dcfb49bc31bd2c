"""The tasks of the policy study: conditions, words as vectors, and key poses: the expert's and wild ones."""

import os

os.environ.setdefault("MUJOCO_GL", "egl")

from itertools import product

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.tabletop.env import REACH, Tabletop
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.scene import SubGoal
from goalreel_lab.corpora.composition import PAIRS as NEW_PAIRS
from goalreel_lab.policy.policy_tasks import (
    CONDITIONS,
    KEY_POSE_NAMES,
    LONGEST,
    LONGEST_TRAINED,
    NEW_WORD,
    WORDS,
    approach,
    instruction,
    key_poses,
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


def test_words_are_one_hot_and_an_instruction_has_a_slot_a_clause():
    things = product(("inside", "left_of"), ("red block", "blue block"), ("green bowl", "red bowl"))
    told = np.stack([sub_task(SubGoal(*words)) for words in things])
    assert told.shape == (8, WORDS)
    assert set(told.sum(axis=1)) == {3}
    assert len(np.unique(told, axis=0)) == 8
    named = sample_task("long", 900_201)
    slots = instruction(named.missions).reshape(LONGEST, -1)
    clauses = sum(1 if m.kind in ("sort", "clear_all") else len(m.goals) for m in named.missions)
    assert (slots.sum(axis=1) > 0).sum() == clauses
    assert instruction(sample_task("unnamed", 900_201).missions).sum() == 1


# -- key poses


@pytest.mark.lab
@pytest.mark.parametrize("seed", [900_391, 900_007, 900_011])
def test_the_experts_two_poses_reach_every_sub_goal(seed):
    episode = sample_episode(seed)
    with Tabletop(episode.scene) as env:
        for goal in episode.goals:
            held = []
            for pose in key_poses(env, goal):
                for action, _ in approach(env, pose):
                    env.step(action)
                held.append(env.grasped(goal.object))
            assert held == [True, False]
            assert env.holds(goal)


def test_a_pose_is_named_number_by_number_and_the_hand_closes_on_the_block_then_opens():
    episode = sample_episode(900_391)
    goal = episode.goals[0]
    with Tabletop(episode.scene) as env:
        poses = key_poses(env, goal)
        at = env.layout()[goal.object]
        assert env.touched() == ()
        for action, _ in approach(env, poses[0]):
            env.step(action)
        assert env.touched() == (goal.object,)
    assert poses.shape == (2, len(KEY_POSE_NAMES))
    assert np.allclose(poses[0, :3], at, atol=0.003)
    assert np.allclose(np.linalg.norm(poses[:, 3:5], axis=1), 1)
    assert poses[:, 5].tolist() == [-1, 1]


@pytest.mark.lab
@pytest.mark.parametrize("far", [(9, 9, 9), (-9, -9, -9)])
def test_what_no_arm_reaches_is_brought_to_where_it_does(far):
    with Tabletop(sample_episode(900_391).scene) as env:
        for gripper in (-1, 1):
            for action, _ in approach(env, np.array([*far, 0, 0, gripper], np.float32)):
                env.step(action)
                low, high = REACH
                assert (low <= env.tip).all()
                assert (env.tip <= high).all()
        assert env.grip > 0
