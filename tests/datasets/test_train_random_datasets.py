"""`lerobot-train` itself trains a small ACT on OUT of odd datasets."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from support.random_datasets import Camera, Recipe, write

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.models.load import load

pytestmark = [pytest.mark.slow, pytest.mark.process]
STEPS = 4

FRONT = Camera("front", True, (64, 64), "h264", ("height", "width", "channels"), (0, 0, 2), 3)
CUT = Recipe(
    lengths=(9, 5, 7),
    fps=10,
    clock="offset",
    cameras=(FRONT, replace(FRONT, name="wrist", codec="libaom-av1", size=(48, 32), files=(1, 2, 3))),
    data=(0, 2, 2),
    meta=(1, 1, 3),
    chunks_size=2,
    state=("x", "y", "z", "gripper"),
    keys=("observation.state", "action"),
    extras=False,
    tasks=("pick up the red block", "USB stick: plug it in"),
    task_of=(1, 0, 1),
    rows=(),
    group=7,
    fixed=True,
    stats=True,
    named_index=False,
    linked=True,
)
"""Cut and merged: frames of deleted episodes in its videos, files with gaps between their numbers, links."""
LABELLED = replace(
    CUT,
    clock="steady",
    cameras=(replace(FRONT, video=False, size=(33, 47)),),
    rows=(((0, "subtask", "reach"), (4, "subtask", "LED lamp on")), (), ((2, "memory", "place it"),)),
    extras=True,
    linked=False,
)
"""Stored pictures of an odd size, and language rows in some of its episodes."""
BROADCAST = replace(CUT, fps=29.97, state=None, named_index=True, cameras=(replace(FRONT, codec="hevc"),))
"""A rate that is no whole number, and joints without names."""


@pytest.mark.parametrize("recipe", [CUT, LABELLED, BROADCAST], ids=("cut", "labelled", "broadcast"))
def test_act_trains_on_an_odd_dataset(recipe, tmp_path):
    out, options = tmp_path / "out", Options(layout="closed=low", replace_rows=True, subgoal_form="bordered")
    source = open_dataset(write(recipe, tmp_path))
    summary = annotate(source, out, load("hindsight", recordings=options.recorded(source)), options)
    assert not summary.failures
    small = {"dim_model": 16, "n_heads": 2, "dim_feedforward": 16, "n_encoder_layers": 1, "latent_dim": 4}
    small |= {"chunk_size": 4, "n_action_steps": 4, "pretrained_backbone_weights": "null", "device": "cpu"}
    words = [f"--policy.{name}={value}" for name, value in small.items()]
    words += ["--policy.type=act", "--policy.push_to_hub=false", f"--output_dir={tmp_path / 'trained'}"]
    words += ["--dataset.repo_id=local/odd", f"--dataset.root={out}", "--wandb.enable=false"]
    words += [f"--steps={STEPS}", "--log_freq=1", "--batch_size=2", "--num_workers=0", "--save_freq=100"]
    command = [sys.executable, "-m", "lerobot.scripts.lerobot_train", *words]
    trained = subprocess.run(command, capture_output=True, text=True, check=False)
    assert trained.returncode == 0, trained.stderr[-3000:]
    losses = re.findall(r"\bloss:(\d+\.\d+)", trained.stderr + trained.stdout)
    assert len(losses) == STEPS, "a loss a step, none of them nan"
