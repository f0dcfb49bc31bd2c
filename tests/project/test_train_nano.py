"""The scripts that make the shipped checkpoints, each stage once, and write what they score."""

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
from goalreel.files import exclusive

SAID = "the block stays", "the block is misshapen", "Take the red block out of the blue bowl."
ROWS = [{"messages": [{"role": "assistant", "content": said}]} for said in SAID]


@pytest.fixture
def calls(monkeypatch):
    """The commands that the script would run; each leaves what shows that it is done."""
    made = []

    def pretend(*words):
        words = [str(w) for w in words]
        made.append(words)
        if words[0] == "corpus":
            kind, out = (words[words.index(name) + 1] for name in ("--kind", "--out"))
            table = Path(out) / "sharegpt" / f"{kind}.json"
            table.parent.mkdir(parents=True)
            table.write_text(json.dumps(ROWS))
        folder = Path(words[words.index("--out") + 1])
        folder = folder / "editor" if words[1] == "editor" else folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / train_nano.DONE).write_text("done")
        (folder / "training.yaml").write_text("for resuming")

    monkeypatch.setattr(train_nano, "_goalreel", pretend)
    return made


def test_every_stage_runs_once_and_with_options_that_exist(calls, tmp_path):
    train_nano.main(tmp_path)
    assert [c[:2] for c in calls] == [
        *[["corpus", "make"]] * 6,
        ["train", "planner"],
        ["train", "editor"],
        ["corpus", "make"],
        ["train", "critic"],
        ["train", "critic"],
        ["train", "planner"],
    ]
    for words in calls:
        command = get_command(app)
        context = command.make_context("goalreel", words[:1])
        for name in words[:2]:
            command = command.get_command(context, name)
        command.make_context(words[1], words[2:])  # raises what the shell would be told
    critic, planner = ([w for i, w in enumerate(c) if c[i - 1] == "--corpus"] for c in calls[-2:])
    rare = [json.loads(Path(f).read_text()) for f in critic if Path(f).stem == train_nano.RARE]
    assert rare == [ROWS[1:2]] * 2
    plans, hard, rest = planner
    assert [Path(f).stem for f in (plans, rest)] == ["plans", "continuations"]
    assert json.loads(Path(hard).read_text()) == ROWS[2:]
    train_nano.main(tmp_path)
    assert len(calls) == 12


def test_the_whole_way_can_be_tried_in_small(calls, tmp_path):
    train_nano.main(tmp_path, share=0.01, editor="nano-editor-klein")
    counts = [int(c[c.index("--episodes") + 1]) for c in calls if c[0] == "corpus"]
    assert counts == [*(n // 100 for n in train_nano.CORPORA.values()), round(train_nano.OWN / 100)]
    configs = {c[c.index("--config") + 1] for c in calls if c[0] == "train"}
    told = {Path(c).stem: yaml.safe_load(Path(c).read_text()) for c in configs}
    assert (told["nano-planner"]["steps"], told["nano-planner"]["warmup"]) == (11, 1)
    drawn = told["nano-editor-klein"]
    assert (drawn["vae"]["steps"], drawn["denoiser"]["steps"]) == (30, 60)
    for other in ({"editor": "nano-editor-klein"}, {"share": 0.01}):
        with pytest.raises(typer.BadParameter, match=r"was begun with --share 0\.01 --editor nano-"):
            train_nano.main(tmp_path, **other)
    with pytest.raises(typer.BadParameter, match="--install is for --share 1"):
        train_nano.main(tmp_path / "other", share=0.5, install=True)


def test_two_at_once_are_refused(calls, tmp_path, capsys):
    with exclusive(tmp_path, tmp_path), pytest.raises(typer.Exit):
        train_nano.main(tmp_path)
    assert "another goalreel run is writing there" in capsys.readouterr().err
    assert not calls


def test_a_stage_that_was_killed_is_resumed(tmp_path, monkeypatch):
    calls = []
    (tmp_path / "runs/planner/checkpoints/checkpoint-200").mkdir(parents=True)
    (tmp_path / "runs/editor/junk").mkdir(parents=True)
    monkeypatch.setattr(train_nano, "_goalreel", lambda *words: calls.append([str(w) for w in words]))
    train_nano._train("planner", "nano-planner", tmp_path / "runs/planner")
    assert calls[-1][-1] == "--resume"
    train_nano._train("editor", "nano-editor", tmp_path / "runs/editor", done="editor")
    assert "--resume" not in calls[-1]
    assert not (tmp_path / "runs/editor").exists()


def test_install_leaves_out_what_only_resuming_needs(calls, tmp_path, monkeypatch):
    monkeypatch.setattr(train_nano, "NANO", tmp_path / "nano")
    train_nano.main(tmp_path / "out", install=True)
    for role in ("planner", "editor", "critic"):
        assert [f.name for f in (tmp_path / "nano" / role).iterdir()] == [train_nano.DONE]


def test_scores_are_written_where_they_are_told_and_can_be_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(nano_scores, "ROOT", tmp_path)
    monkeypatch.setattr(nano_scores, "NANO", tmp_path)
    told = [tmp_path / "README.md", tmp_path / "docs" / "nano.md"]
    cards = [tmp_path / role / "README.md" for role in ("planner", "editor", "critic")]
    for path in (*told, *cards):
        path.parent.mkdir(exist_ok=True)
        path.write_text("before\n<!-- scores -->\n<!-- /scores -->\n## What it cannot do\n\nfly\n")
    run = {"split": "test", "look": "plain", "camera": "front"}
    scores = run | {
        "episodes": 7,
        "plan.exact": 0.5,
        "plan.exact_low": 0.25,
        "plan.exact_high": 0.75,
    }
    (tmp_path / "s.json").write_text(json.dumps(scores))
    more = {"edit.score": 0.875, "edit.score_low": None, "edit.score_high": None, "critic.rewrite": None}
    (tmp_path / "more.json").write_text(json.dumps(run | {"episodes": 3} | more))
    nano_scores.main([tmp_path / "s.json", tmp_path / "more.json"])
    first = [path.read_text() for path in (*told, *cards)]
    for text in first[:2]:
        assert "| 50.0 % | 25 - 75 % |  | 7 |" in text
        assert "| 87.5 % |  | 97 % | 3 |" in text
    assert "50.0 %" in first[2]
    assert "87.5 %" not in first[2]
    assert "| test split |" in first[4]
    nano_scores.main([tmp_path / "s.json", tmp_path / "more.json"])
    assert [path.read_text() for path in (*told, *cards)] == first

    for other in ({"split": "validation"}, {"look": "unseen"}, {"camera": "left"}):
        (tmp_path / "s.json").write_text(json.dumps(scores | other))
        with pytest.raises(typer.Exit):
            nano_scores.main([tmp_path / "s.json"])
    assert [path.read_text() for path in (*told, *cards)] == first
