"""Two checkpoints averaged: a leg of training and what it went on from."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[gpu]'")

import average_weights
import torch
import typer
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

CARD = "# A model\n\n## How it was made\n\n| | |\n|---|---|\n| seed | 0 |\n\n## What it cannot do\n\nMuch.\n"


def checkpoint(folder, value, dtype=torch.float16, shape=(2, 3), card=""):
    (folder / "part").mkdir(parents=True)
    weights = {"w": torch.full(shape, value, dtype=dtype), "n": torch.tensor([int(value)])}
    save_file(weights, folder / "part/model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(f'{{"of": {value}}}')
    if card:
        (folder / "README.md").write_text(card)
    return folder


def test_weights_are_mixed_and_the_rest_is_the_second_ones(tmp_path):
    before = checkpoint(tmp_path / "before", 1.0, torch.float32)
    after = checkpoint(tmp_path / "after", 3.0, card=CARD)
    for folder in (before, after):  # a part that stayed as it was
        save_file({"w": torch.ones(1)}, folder / "same.safetensors")
    (after / "checkpoints").mkdir()
    save_file({"w": torch.zeros(1)}, after / "checkpoints/optimizer.safetensors")
    out = tmp_path / "out"
    average_weights.average(before, after, out, 0.25)
    made = load_file(out / "part/model.safetensors")
    assert made["w"].dtype == torch.float16
    assert made["w"].unique().tolist() == [1.5]
    assert made["n"].tolist() == [3], "what is no share is the second one's"
    assert (out / "config.json").read_text() == (after / "config.json").read_text()
    assert not (out / "checkpoints").exists()
    card = (out / "README.md").read_text()
    assert "| seed | 0 |\n| averaged with | 0.75 of before/part/model.safetensors, sha256 `" in card
    assert "same.safetensors" not in card
    assert card.endswith("## What it cannot do\n\nMuch.\n")


@pytest.mark.parametrize(("share", "like"), [(0.0, 1.0), (1.0, 3.0)])
def test_the_ends_are_the_checkpoints_themselves(share, like, tmp_path):
    before, after = checkpoint(tmp_path / "before", 1.0), checkpoint(tmp_path / "after", 3.0)
    average_weights.average(before, after, tmp_path / "out", share)
    assert load_file(tmp_path / "out/part/model.safetensors")["w"].unique().tolist() == [like]


def test_a_card_of_another_s_names_it_too(tmp_path):
    before, after = checkpoint(tmp_path / "before", 1.0), checkpoint(tmp_path / "after", 3.0, card="# Mine\n")
    average_weights.average(before, after, tmp_path / "out", 0.5)
    card = (tmp_path / "out/README.md").read_text()
    assert card.startswith(
        "# Mine\n\n## How it was made\n\n| | |\n|---|---|\n| averaged with | 0.5 of before/"
    )


def told(*words):
    app = typer.Typer()
    app.command()(average_weights.main)
    ended = CliRunner().invoke(app, [str(word) for word in words])
    assert ended.exit_code, ended.output
    return ended.output


def test_what_cannot_be_averaged_is_refused_in_one_line(tmp_path):
    before, after = checkpoint(tmp_path / "before", 1.0), checkpoint(tmp_path / "after", 3.0)
    other, out = checkpoint(tmp_path / "other", 1.0, shape=(4,)), tmp_path / "out"
    assert "is of another shape than" in told(other, after, "--out", out)
    (tmp_path / "none").mkdir()
    assert "do not hold the same files of weights" in told(tmp_path / "none", after, "--out", out)
    assert "is there already" in told(before, after, "--out", other)
    assert "name a folder elsewhere" in told(before, after, "--out", after / "part/out")
    (before / "part/model.safetensors").write_bytes(b"cut")
    assert "cannot be read" in told(before, after, "--out", out)
    assert not out.exists(), "nothing is left behind"
