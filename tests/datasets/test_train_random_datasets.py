"""`lerobot-train` itself trains a small ACT on OUT of odd datasets."""

import re
from dataclasses import replace

import pytest
from support.policies import flags, tiny, train
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
    words = [*flags(tiny("act")), "--dataset.repo_id=local/odd", f"--dataset.root={out}", "--log_freq=1"]
    log = train([*words, f"--output_dir={tmp_path / 'trained'}", f"--steps={STEPS}", "--save_freq=100"])
    losses = re.findall(r"\bloss:(\d+\.\d+)", log)
    assert len(losses) == STEPS, "a loss a step, none of them nan"
