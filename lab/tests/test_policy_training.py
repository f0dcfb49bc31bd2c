"""Demonstrations, backbone and policies of the policy study, small."""

import os

os.environ.setdefault("MUJOCO_GL", "egl")

import copy
from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")


import demos
from backbone import Reader, batches, loss_of, off_by, train
from fit import ARMS, StudyExamples, bank, batch_of, fit, home, misses, save

from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.image import Image
from goalreel.tabletop.env import Tabletop
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.scene import SubGoal
from goalreel_lab.corpora.composition import PAIRS
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, NEW_WORD, sub_task
from goalreel_lab.policy.rollout import GoalCue, LeRobotActor

pytestmark = pytest.mark.lab


def unchanged(pictures):
    return pictures


@pytest.fixture(scope="module")
def made():
    return demos.Demos.join([d for d in map(demos.demonstrate, range(6)) if d is not None])


@pytest.fixture(scope="module")
def reader():
    torch.manual_seed(0)
    return Reader().eval()


@pytest.fixture(scope="module")
def features(made, reader):
    return bank(reader, made, unchanged, seed=0, drawn=0.0)


def test_demonstrations_are_the_same_for_ever_and_hold_nothing_back_but_what_is_held_out(made):
    again = demos.demonstrate(0)
    assert again is not None
    first = len(again.live)
    assert (made.actions[:first] == again.actions).all()
    assert (made.pictures[: len(again.pictures)] == again.pictures).all()
    kept_back = [sub_task(g) for g in PAIRS] + [
        sub_task(SubGoal("inside", NEW_WORD, f"{c} bowl")) for c in ("red", "green", "blue")
    ]
    assert not any((made.sub_tasks == words).all(axis=1).any() for words in kept_back)
    assert (made.goal == made.live + 1).all()


def test_the_backbone_learns_where_things_are_and_goes_on_where_it_was(made):
    torch.manual_seed(0)
    draw = partial(batches, made, 8)
    lesson = next(draw(1))
    whole = Reader()
    before = loss_of(whole, lesson).item()
    steps = [(done, copy.deepcopy(state)) for done, _, state in train(whole, draw, loss_of, 6, 1e-3)]
    assert loss_of(whole.train(), lesson).item() < before
    assert [done for done, _ in steps] == [1, 2, 3, 4, 5, 6]
    assert [done for done, _, _ in train(Reader(), draw, loss_of, 6, 1e-3, steps[3][1])] == [5, 6]
    assert [done for done, _, _ in train(Reader(), draw, loss_of, 3, 1e-3, steps[3][1])] == [1, 2, 3]
    assert off_by(whole, made, np.arange(4), goals=True).ndim == 1


def test_an_arm_is_told_what_it_says_and_nothing_more(features):
    rows = torch.arange(len(features))
    for arm in ARMS:
        told = batch_of(features, rows, arm, None)
        words = features.instructions if arm == "instruction" else features.sub_tasks
        assert (told[ENVIRONMENT] == words).all()
        dark = (told[SUBGOAL] == features.black.float()).flatten(1).all(1)
        assert dark.all() == (arm != "picture")
    left_out = batch_of(features, rows.repeat(20), "picture", torch.Generator().manual_seed(0))
    silent = ~left_out[ENVIRONMENT].any(1)
    dark = (left_out[SUBGOAL] == features.black.float()).flatten(1).all(1)
    assert 0.3 < silent.float().mean() < 0.6
    assert 0.08 < dark.float().mean() < 0.25
    assert not (silent & dark).any()


def test_a_policy_learns_and_its_checkpoint_does_the_same_with_pictures_as_with_features(
    made, reader, features, tmp_path, monkeypatch
):
    lessons = StudyExamples(features, "picture", len(features))
    steps = list(fit(lessons, seed=0, steps=30, batch=32, rate=1e-3))
    assert np.mean([s[1] for s in steps[-5:]]) < 0.85 * steps[0][1]
    policy, scale = steps[-1][2:4]
    assert misses(policy, scale, features, "picture")["pick_cm"] < 30
    plain = made.pictures[made.live[0]], made.pictures[made.goal[0]]
    with torch.inference_mode():
        chunk = policy.predict_action_chunk(batch_of(features, torch.tensor([0]), "picture", None))[0]
    by_features = (chunk * scale.std + scale.mean).numpy()
    save(policy, scale, reader, home(), tmp_path / "policy")
    actor = LeRobotActor.load(tmp_path / "policy", "bordered")

    actor.reset()
    cue = GoalCue("", made.sub_tasks[0], Image(plain[1]))
    with Tabletop(sample_episode(0).scene) as env:
        monkeypatch.setattr(env, "render", lambda *_: plain[0])
        by_pictures = np.stack([actor.act(env, cue) for _ in range(2)])
    # Features are of pictures that were worn a little, and in half precision.
    assert np.abs(by_pictures - by_features).max() < 0.2 * np.abs(by_features - scale.mean.numpy()).max()
