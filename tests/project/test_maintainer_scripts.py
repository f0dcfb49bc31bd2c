"""The scripts that only maintainers run, once each and small."""

import json
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

import nano_scores
import train_nano
import typer
import yaml
from typer.main import get_command

from goalreel.cli.main import app
from goalreel_lab.nano import editor_training

REPLIES = "the block stays", "the block is misshapen", "Take the red block out of the blue bowl."
ROWS = [{"messages": [{"role": "assistant", "content": reply}]} for reply in REPLIES]


def test_train_nano_runs_every_stage_once_and_with_options_that_exist(tmp_path, monkeypatch):
    calls: list[list[str]] = []

    def pretend(*words: object) -> None:
        """Leave what shows that a command is done."""
        command = [str(word) for word in words]
        calls.append(command)
        folder = Path(command[command.index("--out") + 1])
        if command[0] == "corpus":
            kind = command[command.index("--kind") + 1]
            (folder / "sharegpt").mkdir(parents=True)
            (folder / "sharegpt" / f"{kind}.json").write_text(json.dumps(ROWS))
        folder = folder / "editor" if command[1] == "editor" else folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / train_nano.DONE).write_text("done")

    monkeypatch.setattr(train_nano, "_goalreel", pretend)
    train_nano.main(tmp_path, share=0.01)
    stages = [" ".join(command[:2]) for command in calls]
    assert stages[:8] == [*["corpus make"] * 6, "train planner", "train editor"]
    assert stages[8:] == ["corpus make", "train critic", "train critic", "train planner"]
    trainer = typer.Typer()
    trainer.command()(editor_training.main)
    for words in calls:
        if words[:2] == ["train", "editor"]:
            get_command(trainer).make_context("editor", words[2:])
            continue
        command = get_command(app)
        context = command.make_context("goalreel", words[:1])
        for name in words[:2]:
            command = command.get_command(context, name)
        command.make_context(words[1], words[2:])  # raises what the shell would print
    configs = (Path(c[c.index("--config") + 1]) for c in calls if c[0] == "train")
    steps = {path.stem: yaml.safe_load(path.read_text()) for path in configs}
    assert (steps["nano-planner"]["max_steps"], steps["nano-editor"]["denoiser"]["steps"]) == (11, 120)
    train_nano.main(tmp_path, share=0.01)
    assert len(calls) == 12


def test_nano_scores_writes_the_tables_and_can_write_them_again(tmp_path, monkeypatch):
    monkeypatch.setattr(nano_scores, "ROOT", tmp_path)
    monkeypatch.setattr(nano_scores, "NANO", tmp_path)
    paths = [
        tmp_path / place for place in ("lab/docs/nano.md", *(f"{r}/README.md" for r in nano_scores.CARDS))
    ]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text("before\n<!-- scores -->\n<!-- /scores -->\n## What it cannot do\n\nfly\n")
    scores = {"split": "test", "look": "plain", "camera": "front", "episodes": 7}
    scores |= {"plan.exact": 0.5, "plan.exact_low": 0.25, "plan.exact_high": 0.75}
    (tmp_path / "scores.json").write_text(json.dumps(scores))
    texts = []
    for _ in range(2):
        nano_scores.main([tmp_path / "scores.json"])
        texts.append([path.read_text() for path in paths])
    assert texts[0] == texts[1]
    assert all("| 50.0 % | 25 - 75 % |  | 7 |" in text for text in texts[0][:2])
