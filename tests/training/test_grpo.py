"""GRPO of a Critic: what it is asked, and its runs; and the trainers in two processes, as on two GPUs."""

import json
import logging
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("trl", reason="needs trl: pip install 'goalreel[train]'")

import torch
import yaml
from safetensors.torch import load_file
from support import train_together
from support.grpo_runs import SMALL, config, corpus, history, run
from typer.testing import CliRunner

from goalreel.chat.dialects import OWN
from goalreel.chat.hf import HfChat
from goalreel.checkpoints import NANO
from goalreel.cli.train import app
from goalreel.datasets.corpora.critic_rows import CritiqueRow
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.errors import BackendError, InputError
from goalreel.tabletop.truth import held_out_split
from goalreel.training import grpo
from goalreel.training.rewards import Marks
from goalreel.training.rows import Critiques, asked_of
from goalreel.training.run import last_checkpoint
from goalreel_lab.corpora.corpus import CorpusConfig, make_corpus
from goalreel_lab.corpora.verdicts import critique_rows

if not NANO.is_dir():
    pytest.skip("goalreel-nano is not installed", allow_module_level=True)

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def rows() -> list[CritiqueRow]:
    """Made candidates alone: this editor draws nothing."""
    return list(critique_rows(range(400, 402), lambda sources, prompts: [None] * len(prompts)))


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory) -> Path:
    return corpus(tmp_path_factory.mktemp("rl") / "rl", rows)


def test_trap_13_every_row_asks_about_two_pictures(folder, rows):
    read = Critiques([folder], held_out_split)
    again = [read.row(n) for n in range(len(read))]
    assert [(r.source, r.candidate, r.prompt) for r in again] == [
        (r.source, r.candidate, r.prompt) for r in rows
    ]
    assert [r.semantics for r in again] == pytest.approx([r.semantics for r in rows])
    for row in (rows[0], replace(rows[0], drawn=True)):
        messages, pictures = asked_of(row, OWN, "strict")
        places = [p for m in messages for p in m["content"] if p["type"] == "image"]
        assert len(places) == len(pictures) == 2
    asked = read.as_dataset(OWN, "strict")[0]
    assert asked["number"] == 0
    assert len(asked["images"]) == 2


@pytest.mark.parametrize("seed", [900_000, 950_000])
def test_trap_15_rows_of_held_out_episodes_are_refused(rows, tmp_path, seed):
    held = corpus(tmp_path / "held", [*rows, replace(rows[0], task_id=f"tabletop-{seed}")])
    with pytest.raises(InputError, match=r"held-out episodes \(1 of (validation|test)\)"):
        Critiques([held], held_out_split)
    real = corpus(tmp_path / "real", [replace(rows[0], task_id="episode-7")])
    assert len(Critiques([real], held_out_split)) == 1


def test_an_outage_ends_the_run_with_its_last_step_kept(folder, tmp_path, caplog):
    settings = config(folder, max_steps=3, save_steps=100, outage={"waits": [0, 0]}, temperature=2.0)
    caplog.set_level(logging.WARNING)
    calls: list[int] = []
    whole = grpo.CriticReward.marks

    async def marks(self, rows, replies):
        calls.append(len(rows))
        return await whole(self, rows, replies) if len(calls) == 1 else [None] * len(rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpo.CriticReward, "marks", marks)
        with pytest.raises(BackendError, match=r"6 of 6 rewards are unknown.*--resume"):
            run(settings, tmp_path / "out")
    assert len(calls) == 1 + 3, "asked again after each pause"
    assert last_checkpoint(tmp_path / "out/checkpoints").endswith("checkpoint-1")
    assert not any("images" in record.getMessage() for record in caplog.records)


def test_rewards_are_asked_for_in_groups_and_some_may_be_unknown(folder, tmp_path, monkeypatch):
    async def marks(self, rows, replies):
        assert [rows.index(row) // 4 for row in rows] == [0] * 4 + [1] * 4 + [2] * 4
        return [None, *[Marks(1.0, 1.0, 0.5, False)] * 11]

    monkeypatch.setattr(grpo.CriticReward, "marks", marks)
    some = {"num_generations": 4, "per_device_train_batch_size": 12, "max_steps": 1, "outage": {"most": 0.1}}
    run(config(folder, **some), tmp_path / "out")
    (told, *_) = history(tmp_path / "out", 1)
    assert told["critic/unknown"] == pytest.approx(1 / 12)


KILLED = """
import os, signal, transformers
transformers.TrainerCallback.on_save = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
from goalreel.cli.train import app
app()
"""


@pytest.mark.process
def test_a_killed_run_resumes_to_what_the_unkilled_is(folder, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**SMALL, "corpus": [str(folder)], "temperature": 1.5}))
    whole, killed = (
        ["critic", "--method", "grpo", "--config", str(path), "--out", str(tmp_path / name)]
        for name in ("whole", "killed")
    )
    result = CliRunner().invoke(app, [*whole, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["steps"] > 0
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    died = subprocess.run([sys.executable, "-c", KILLED, *killed], env=environment, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    result = CliRunner().invoke(app, [*killed, "--resume"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    start = load_file(NANO / "critic/model.safetensors")
    assert any(not torch.equal(value, start[name].float()) for name, value in one.items())
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=0, atol=1e-6, msg=name)
    assert list((tmp_path / "killed/logs").glob("events.*"))
    assert {"critic/true_rate", "critic/unknown"} <= history(tmp_path / "whole", 2)[0].keys()
    HfChat.load(tmp_path / "killed", device="cpu")


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


@pytest.mark.process
def test_every_process_ends_with_what_one_learns_from_all_rows(trained, tmp_path):
    first, second = (load_file(trained / f"line-{rank}.safetensors")["weight"] for rank in (0, 1))
    assert torch.equal(first, second)
    alone = train_together.fit_line(tmp_path, 0)
    assert torch.allclose(first, alone, atol=1e-5)
    assert not torch.allclose(alone, torch.zeros(1, 4), atol=1e-2)


@pytest.mark.process
def test_an_editor_is_written_once_and_resumed(trained):
    told = [json.loads((trained / f"told-{rank}.json").read_text()) for rank in (0, 1)]
    lengths = {"vae": 4, "latents": 2, "denoiser": 4}
    assert told == [[[stage, n + 1, most] for stage, most in lengths.items() for n in range(most)], []]
    assert "| seed | 0 |" in (trained / "editor/editor/README.md").read_text()
    DiffusersEditor.load(trained / "editor/editor", device="cpu")


@pytest.mark.process
def test_a_planner_takes_each_row_in_one_process(trained):
    rows = json.loads((trained / "plans/sharegpt/plans.json").read_text())
    state = json.loads((trained / "planner/checkpoints/checkpoint-4/trainer_state.json").read_text())
    assert state["epoch"] == 4 / math.ceil(len(rows) / 4)
    assert "| seed | 0 |" in (trained / "planner/README.md").read_text()
    HfChat.load(trained / "planner", device="cpu")
