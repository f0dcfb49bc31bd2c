"""The trainers in two processes, as `accelerate` starts one for each GPU."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("trl", reason="needs trl: pip install 'goalreel[train]'")

import torch
from safetensors.torch import load_file
from support import train_together

from goalreel.chat.hf import HfChat
from goalreel.editors.diffusers import DiffusersEditor
from goalreel_lab.corpora.corpus import CorpusConfig, make_corpus

pytestmark = [pytest.mark.lab, pytest.mark.process]

TOGETHER = Path(train_together.__file__)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    for kind in ("edits", "plans"):
        make_corpus(CorpusConfig(kind, "train", 6, size=64), folder / kind)
    # `accelerate launch` starts several processes only where there are GPUs.
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "ACCELERATE_MIXED_PRECISION": "bf16"}
    command = [*run, str(TOGETHER), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_process_ends_with_what_one_learns_from_all_rows(trained, tmp_path):
    first, second = (load_file(trained / f"line-{rank}.safetensors")["weight"] for rank in (0, 1))
    assert torch.equal(first, second)
    alone = train_together.fit_line(tmp_path, 0)
    assert torch.allclose(first, alone, atol=1e-5)
    assert not torch.allclose(alone, torch.zeros(1, 4), atol=1e-2)


def test_an_editor_is_written_once_and_resumed(trained):
    told = [json.loads((trained / f"told-{rank}.json").read_text()) for rank in (0, 1)]
    lengths = {"vae": 4, "latents": 2, "denoiser": 4}
    assert told == [[[stage, n + 1, most] for stage, most in lengths.items() for n in range(most)], []]
    assert "| seed | 0 |" in (trained / "editor/editor/README.md").read_text()
    DiffusersEditor.load(trained / "editor/editor", device="cpu")


def test_a_planner_takes_each_row_in_one_process(trained):
    rows = json.loads((trained / "plans/sharegpt/plans.json").read_text())
    state = json.loads((trained / "planner/checkpoints/checkpoint-4/trainer_state.json").read_text())
    assert state["epoch"] == 4 / math.ceil(len(rows) / 4)
    assert "| seed | 0 |" in (trained / "planner/README.md").read_text()
    HfChat.load(trained / "planner", device="cpu")
