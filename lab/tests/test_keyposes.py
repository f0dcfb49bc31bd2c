"""Key poses: what the expert's are worth, and what a wild one does."""

import os

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.tabletop.env import REACH, Tabletop
from goalreel.tabletop.grammar import sample_episode
from goalreel_lab.policy.policy_tasks import KEY_POSE_NAMES, approach, key_poses


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


def test_a_pose_is_named_number_by_number_and_the_hand_closes_then_opens():
    episode = sample_episode(900_391)
    with Tabletop(episode.scene) as env:
        poses = key_poses(env, episode.goals[0])
        at = env.layout()[episode.goals[0].object]
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


def test_the_block_that_a_finger_touches_is_named():
    episode = sample_episode(900_391)
    goal = episode.goals[0]
    with Tabletop(episode.scene) as env:
        assert env.touched() == ()
        for action, _ in approach(env, key_poses(env, goal)[0]):
            env.step(action)
        assert env.touched() == (goal.object,)
