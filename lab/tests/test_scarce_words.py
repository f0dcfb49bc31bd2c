"""The experiment of scarce words: what its arms are told, and the whole of it, small."""

import os

os.environ.setdefault("MUJOCO_GL", "egl")

import copy
import json

import pytest
import torch

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

import scarce
import typer
from fit import Bank, fit
from scarce_examples import ARMS, ScarceExamples
from typer.testing import CliRunner

from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, WORDS

pytestmark = pytest.mark.lab

SAMPLES, WORDED = 200, 50


@pytest.fixture(scope="module")
def features():
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(2, SAMPLES, 512, 4, 4, generator=generator).half()
    words = torch.eye(WORDS)[torch.arange(SAMPLES) % 40]
    actions = torch.rand(SAMPLES, 2, 6, generator=generator)
    return Bank(pictures[0], pictures[1], torch.zeros(512, 4, 4).half(), words, words, actions)


def told(features, arm):
    generator = torch.Generator().manual_seed(1)
    rows = torch.arange(SAMPLES).repeat(10)
    inputs = ScarceExamples(features, arm, WORDED).inputs(rows, generator)
    spoken = inputs[ENVIRONMENT].any(1)
    right = (inputs[ENVIRONMENT] == features.sub_tasks[rows]).all(1)
    return rows < WORDED, spoken, right, inputs[SUBGOAL].flatten(1).any(1)


def test_each_arm_is_told_words_and_shown_goals_where_its_name_says(features):
    worded, spoken, right, lit = told(features, "mix")
    assert (spoken == worded).all()
    assert right[spoken].all()
    assert not lit.any()
    worded, spoken, right, lit = told(features, "goals")
    assert not spoken[~worded].any()
    assert lit[~worded].all()
    assert right[spoken].all()
    assert 0.45 < spoken[worded].float().mean() < 0.7
    assert 0.75 < lit[worded].float().mean() < 0.95
    assert (spoken | lit).all(), "goals are left out beside words only"
    worded, spoken, right, lit = told(features, "auto")
    assert spoken.all()
    assert right[worded].all()
    assert not lit.any()
    by_sample = right.view(10, SAMPLES)
    assert (by_sample == by_sample[0]).all(), "an automatic annotator is always wrong in the same"
    assert 0.28 < (~right[~worded]).float().mean() < 0.5


def test_half_a_batch_has_words_where_others_have_none(features):
    for arm in ARMS:
        rows = ScarceExamples(features, arm, WORDED).rows(4000, torch.Generator().manual_seed(0))
        share = float((rows < WORDED).float().mean())
        assert share == pytest.approx({"worded": 1, "auto": 0.25}.get(arm, 0.625), abs=0.03)


def test_a_training_goes_on_as_if_it_had_never_stopped(features):
    lessons = ScarceExamples(features, "goals", WORDED)
    whole = [(step[1], copy.deepcopy(step[4])) for step in fit(lessons, 0, 4, 8, 1e-3)]
    rest = list(fit(lessons, 0, 4, 8, 1e-3, whole[1][1]))
    assert [step[0] for step in rest] == [3, 4]
    assert [step[1] for step in rest] == [loss for loss, _ in whole[2:]]
    assert [step[0] for step in fit(lessons, 0, 3, 8, 1e-3, whole[1][1])] == [1, 2, 3]


def run(out, *words):
    app = typer.Typer()
    app.command()(scarce.main)
    sizes = "--worded 5 --seeds 1 --scenes 2 --checks 1 --backbone-steps 1 --steps 2 --editor-share 0.0002"
    tasks = "--episodes 1 --split validation --workers 1 --json"
    return CliRunner().invoke(app, ["--out", str(out), *sizes.split(), *tasks.split(), *words])


@pytest.mark.process
def test_the_whole_experiment_goes_on_where_it_was_and_says_the_same_again(tmp_path):
    first = run(tmp_path, "--runs", "g,a1_mix")
    assert first.exit_code == 0, first.output
    pilot = json.loads(first.stdout.splitlines()[-1])
    assert {"g.success", "g_minus_a1_mix", "g_minus_a1_mix_low"} <= pilot.keys()
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    whole = run(tmp_path, "--runs", "g,g_own,a1_mix")
    assert whole.exit_code == 0, whole.output
    found = json.loads(whole.stdout.splitlines()[-1])
    assert {key: found[key] for key in pilot} == pilot
    assert "g_own_minus_a1_mix" in found
    assert all(path.stat().st_mtime_ns == time for path, time in made.items())
