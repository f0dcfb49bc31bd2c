"""The scripts that only maintainers run, once each and small."""

import json
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

import forms_picture
import nano_picture
import nano_scores
import numpy as np
import PIL.Image
import train_nano
import yaml
from support import tabletop_models as models
from support.places import ROOT
from typer.main import get_command

from goalreel.cli.main import app
from goalreel.drivers import run
from goalreel.models.model_set import ModelSet
from goalreel.types import Candidate, Verdict
from goalreel_lab.bench.loop import TruePlanner
from goalreel_lab.bench.scenes import walk

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
    for words in calls:
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
    cards = [tmp_path / role / "README.md" for role in ("planner", "editor", "critic")]
    paths = [tmp_path / "lab" / "docs" / "nano.md", *cards]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before\n<!-- scores -->\n<!-- /scores -->\n## What it cannot do\n\nfly\n")
    scores = {"split": "test", "look": "plain", "camera": "front", "episodes": 7}
    scores |= {"plan.exact": 0.5, "plan.exact_low": 0.25, "plan.exact_high": 0.75}
    (tmp_path / "scores.json").write_text(json.dumps(scores))
    nano_scores.main([tmp_path / "scores.json"])
    texts = [path.read_text() for path in paths]
    assert all("| 50.0 % | 25 - 75 % |  | 7 |" in text for text in texts[:2])
    nano_scores.main([tmp_path / "scores.json"])
    assert [path.read_text() for path in paths] == texts


class ExplainingCritic:
    """A critic that knows the truth and gives a reason in the nano Critic's style."""

    def __init__(self, critic: models.Critic) -> None:
        self.critic = critic

    def judge(self, candidates: list[Candidate]) -> list[Verdict]:
        reason = {"reasoning": "red block c3 r5 stays. The red block did not move."}
        return [verdict.model_copy(update=reason) for verdict in self.critic.judge(candidates)]


@pytest.mark.lab
def test_nano_picture_shows_both_attempts_of_a_storyboard_that_the_simulator_confirms():
    scene = walk(next(nano_picture.candidates()))
    planner = TruePlanner({scene.task.id: scene}, "terse")
    model_set = ModelSet(
        planner, models.Editor([scene], terse=0.5, how="also"), ExplainingCritic(models.Critic([scene]))
    )
    board = next(run([scene.task], model_set.planner, model_set.editor, model_set.critic, max_attempts=3))
    models.close()
    assert nano_picture.objection(scene, board) is None
    assert not nano_picture.hides(scene)
    assert nano_picture.smudged(scene, board) == set()
    picture = nano_picture.sheet(scene.seed, board)
    for colour in ((0x2B, 0x5D, 0x86), (0x9A, 0x23, 0x23)):
        assert (picture.pixels == colour).all(axis=2).sum() > 4000, "a frame is missing"


@pytest.mark.long
def test_the_picture_of_the_forms_is_what_its_script_makes():
    with PIL.Image.open(ROOT / "docs/images/forms.png") as picture:
        shown = np.asarray(picture.convert("RGB"), int)
    made = forms_picture.sheet().pixels
    assert made.shape == shown.shape
    differs = np.abs(made - shown).max(axis=2) > 40  # more than another driver or font makes of it
    assert differs.mean() < 0.008, "run dev/forms_picture.py"
