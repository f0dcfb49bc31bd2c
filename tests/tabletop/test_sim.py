"""The simulator: state, expert, teleport, pictures and what they read back to."""

import cv2
import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.tabletop import splits
from goalreel.tabletop.env import ACTION_NAMES, STATE_NAMES, Tabletop, teleport
from goalreel.tabletop.expert import LONGEST, PHASES, rollout
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.mjcf import CAMERAS
from goalreel.tabletop.readback import read_back, read_turns, shown
from goalreel.tabletop.scene import KINDS, SubGoal

SEEDS = splits.seeds("validation", 12, first=1000)


def of_kind(kind: str):
    """The first training episode that begins with a sub-goal of the kind."""
    return next(e for e in map(sample_episode, range(500)) if e.goals[0].kind == kind)


@pytest.fixture
def env():
    with Tabletop(sample_episode(0).scene) as made:
        yield made


def test_objects_start_where_the_scene_says_and_at_rest(env):
    for name, at in env.scene.layout().items():
        np.testing.assert_allclose(env.layout()[name], at, atol=2e-3)
    assert all(map(env.still, env.blocks))
    assert not any(map(env.grasped, env.blocks))
    assert env.observation().shape == (len(STATE_NAMES),)


def test_a_snapshot_continues_bit_for_bit_and_in_another_environment_of_the_scene(env):
    actions = np.random.default_rng(0).uniform(-1, 1, (20, len(ACTION_NAMES))) * [0.03, 0.03, 0.03, 0.2, 1]
    for action in actions[:10]:
        env.step(action)
    state = env.get_state()
    picture = env.render("front", 64)
    first = [env.step(action) for action in actions[10:]]
    env.set_state(state)
    assert np.array_equal(env.render("front", 64), picture)
    assert np.array_equal(first, [env.step(action) for action in actions[10:]])
    env.reset()
    goal = sample_episode(0).goals[0]
    state = teleport(env, goal)
    with Tabletop(env.scene) as other:
        assert not other.holds(goal)
        other.set_state(state)
        assert other.holds(goal)
        assert np.array_equal(other.render("side", 64), env.render("side", 64))


@pytest.mark.lab
@pytest.mark.parametrize("kind", KINDS)
def test_the_expert_reaches_every_kind_of_goal(kind):
    episode = of_kind(kind)
    with Tabletop(episode.scene) as env:
        phases = [tick.phase for tick in rollout(env, episode.goals[:1])]
        assert env.holds(episode.goals[0])
        np.testing.assert_allclose(env.tip, env.observation()[7:10], atol=0.01)
    order = [p for i, p in enumerate(phases) if i == 0 or p != phases[i - 1]]
    assert tuple(order) == PHASES
    assert all(2 <= phases.count(p) <= 20 < LONGEST for p in PHASES)


@pytest.mark.lab
@pytest.mark.parametrize("seed", SEEDS)
def test_teleport_makes_the_goal_hold_and_moves_nothing_else(seed):
    episode = sample_episode(seed)
    with Tabletop(episode.scene) as env:
        for goal in episode.goals:
            assert not env.holds(goal)
            before = env.layout()
            teleport(env, goal)
            assert env.holds(goal)
            assert all(map(env.still, env.blocks))
            for name, at in env.layout().items():
                if name != goal.object:
                    np.testing.assert_allclose(at, before[name], atol=1.5e-3)
        assert all(map(env.holds, episode.goals))


@pytest.mark.lab
def test_teleport_gives_the_picture_the_expert_ends_with():
    episode = of_kind("on")
    with Tabletop(episode.scene) as env:
        start = env.get_state()
        before = env.render("front", 128).astype(int)
        teleport(env, episode.goals[0])
        goal_image = env.render("front", 128).astype(int)
        env.set_state(start)
        assert all(tick for tick in rollout(env, episode.goals[:1]))
        end = env.render("front", 128).astype(int)
    assert np.mean(np.abs(goal_image - end) > 40) < 0.004
    assert np.mean(np.abs(goal_image - before) > 40) > 0.008


def test_an_impossible_teleport_says_so_and_changes_nothing():
    episode = of_kind("inside")
    bowl = episode.goals[0].target
    with Tabletop(episode.scene) as env:
        teleport(env, episode.goals[0])
        state = env.get_state()
        other = next(b for b in env.blocks if b != episode.goals[0].object)
        with pytest.raises(ValueError, match=f"cannot put the {other} in the {bowl} from here in one move"):
            teleport(env, SubGoal("inside", other, bowl))
        assert np.array_equal(env.get_state().physics, state.physics)


def test_pictures_from_every_camera(env):
    pictures = {camera: env.render(camera, 64) for camera in CAMERAS}
    for picture in pictures.values():
        assert picture.shape == (64, 64, 3)
        assert picture.dtype == np.uint8
        assert picture.std() > 15
    assert len({p.tobytes() for p in pictures.values()}) == len(CAMERAS)
    assert env.render("front", 96).shape == (96, 96, 3)
    with pytest.raises(ValueError, match="front, side, corner, left, top, wrist"):
        env.render("behind")


def read_goals(seeds, size, change=lambda picture: picture):
    """Shares of sub-goals that show before and after they are reached, and how far off blocks are, in m."""
    before, after, errors = [], [], []
    for seed in seeds:
        episode = sample_episode(seed)
        with Tabletop(episode.scene) as env:
            for goal in episode.goals:
                before.append(shown(read_back(change(env.render("front", size)), episode.scene), goal))
                teleport(env, goal)
                found, truth = read_back(change(env.render("front", size)), episode.scene), env.layout()
                after.append(shown(found, goal))
                errors += [np.linalg.norm(truth[n] - found[n]) if n in found else 1.0 for n in env.blocks]
    return np.mean(before), np.mean(after), errors


def compressed(picture: np.ndarray) -> np.ndarray:
    return cv2.imdecode(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 85])[1], cv2.IMREAD_COLOR)


@pytest.mark.lab
@pytest.mark.parametrize("size", [96, 128])
def test_goal_images_read_back_to_their_sub_goals(size):
    before, after, errors = read_goals(SEEDS[:7], size)
    assert before <= 0.01 < 0.97 <= after
    assert np.median(errors) < 0.005
    assert max(errors) < 1, "a block is not found"
    before, after, _ = read_goals(SEEDS[:3], 128, compressed)
    assert before <= 0.05 < 0.95 <= after


def test_what_a_picture_does_not_show_is_not_read_and_what_is_no_picture_is_refused():
    scene = sample_episode(0).scene
    with Tabletop(scene) as env:
        block, other = env.blocks[0], env.blocks[1]
        env.place(block, np.array([0.5, 0.1, -0.5]))  # under the table
        found = read_back(env.render("front", 128), scene)
    assert block not in found
    assert other in found
    assert read_back(np.full((128, 128, 3), 128, np.uint8), scene) == {}
    with pytest.raises(ValueError, match="front, side, corner, left, top"):
        read_back(np.zeros((64, 64, 3), np.uint8), scene, "wrist")
    with pytest.raises(ValueError, match="square"):
        read_back(np.zeros((64, 48, 3), np.uint8), scene)


@pytest.mark.lab
@pytest.mark.parametrize(("size", "median", "worst"), [(256, 4, 15), (128, 9, 32)])
def test_turns_read_off_a_picture_are_those_of_the_blocks(size, median, worst):
    errors, guessed = [], []
    for seed in splits.seeds("validation", 8, first=2000):
        scene = sample_episode(seed).scene
        with Tabletop(scene) as env:
            picture = env.render("front", size)
            turns = read_turns(picture, read_back(picture, scene))
            assert set(turns) == set(env.blocks)
            errors += [_apart(turns[b], env.block_yaw(b)) for b in env.blocks]
            guessed += [_apart(0.0, env.block_yaw(b)) for b in env.blocks]
    assert np.median(errors) < median < np.median(guessed)
    assert max(errors) < worst


def _apart(a: float, b: float) -> float:
    """Degrees between two turns of a cube."""
    return abs(np.degrees((a - b + np.pi / 4) % (np.pi / 2) - np.pi / 4))


@pytest.mark.slow
def test_the_expert_succeeds():
    reached = 0
    for seed in splits.seeds("validation", 200):
        episode = sample_episode(seed)
        with Tabletop(episode.scene) as env:
            assert all(rollout(env, episode.goals))
            reached += all(map(env.holds, episode.goals))
    assert reached >= 198
