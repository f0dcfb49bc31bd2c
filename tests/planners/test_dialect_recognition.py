"""A folder's files tell the dialect; where nothing does, a warning names both options."""

import json
import logging
import shutil

import pytest

from goalreel.chat.dialects import default_dialect
from goalreel.checkpoints import NANO
from goalreel.models.load import dialect_of
from goalreel.training.card import Card, write_card

QWEN = {"model_type": "qwen3_vl", "text_config": {"hidden_size": 4096}}
LLAMA_FACTORY = """---
library_name: transformers
base_model: Qwen/Qwen3-VL-8B-Instruct
tags: [llama-factory, full, generated_from_trainer]
model-index:
- name: weights
  results: []
---
This model is a fine-tuned version of Qwen/Qwen3-VL-8B-Instruct on the sft_planner dataset.
"""
CITATION = "# Critic\n\nSee [the paper](https://arxiv.org/abs/2606.13679)."
OTHER = "---\nbase_model: Qwen/Qwen3-VL-8B-Instruct\n---\n# My captions\n"


def folder_of(path, *, card=None, config=QWEN):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    if card is not None:
        (path / "README.md").write_text(card)
    return path


@pytest.mark.parametrize(
    ("name", "card", "config"),
    [
        ("ckpt/planner_sft", None, QWEN),
        ("ckpt/critic_rl/global_step_50/actor/huggingface", None, QWEN),
        ("weights/Critic-SFT-8B", None, QWEN),
        ("hub/models--InterleaveThinker--Critic-SFT-8B/snapshots/" + "a1" * 20, None, QWEN),
        ("weights/a", LLAMA_FACTORY, QWEN),
        ("weights/b", CITATION, QWEN),
        ("weights/c", "---\nbase_model: InterleaveThinker/Critic-SFT-8B\n---\n# Quantized", QWEN),
        ("weights/d", None, QWEN | {"_name_or_path": "/home/me/ckpt/critic_sft"}),
    ],
)
def test_a_published_model_is_known_by_its_folder(tmp_path, name, card, config, caplog):
    folder = folder_of(tmp_path / name, card=card, config=config)
    assert default_dialect(str(folder)) == "interleavethinker"
    link = tmp_path / "model"
    link.symlink_to(folder)
    assert default_dialect(f"{link}/") == "interleavethinker"
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("name", "card", "config"),
    [
        ("Qwen3-VL-8B-Instruct", None, QWEN),
        ("weights", OTHER, QWEN),
        ("weights", None, {"model_type": "qwen3_vl", "text_config": {"hidden_size": 2560}}),
        ("weights", "---\n: [\n---\n", []),
    ],
)
def test_other_models_are_asked_in_our_words_without_a_warning(tmp_path, name, card, config, caplog):
    assert default_dialect(str(folder_of(tmp_path / name, card=card, config=config))) == "own"
    assert caplog.text == ""


def test_our_own_trainer_says_it_in_the_card(tmp_path, caplog):
    folder = folder_of(tmp_path / "ckpt/critic_rl")
    facts = {"summary": "After InterleaveThinker.", "use": "", "library": "x", "task": "", "seed": 0}
    write_card(folder, Card("critic", **facts, limits=""))
    assert default_dialect(str(folder)) == "own"
    write_card(folder, Card("critic", **facts, limits="", tags=("interleavethinker",)))
    assert default_dialect(str(folder)) == "interleavethinker"
    nano = tmp_path / "planner_sft"
    shutil.copytree(NANO / "planner", nano, ignore=shutil.ignore_patterns("*.safetensors"))
    assert default_dialect(str(nano)) == "own"
    assert dialect_of("hf:nano-critic", "critic").name == "own"
    assert caplog.text == ""


def test_what_may_be_one_is_said_once(tmp_path, caplog):
    unknown = folder_of(tmp_path / "weights")
    small = folder_of(tmp_path / "my-planner", config={"model_type": "qwen3_vl"})
    names = [f"hf:{unknown}", f"hf:{small}", "openai:critic-8b@http://h/v1", "hf:somebody/Interleave-8B"]
    with caplog.at_level(logging.WARNING):
        for name in [*names, *names]:
            assert dialect_of(name, "critic").name == "own"
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == len(names)
    for text in told:
        assert "Add ?dialect=interleavethinker if it is one, or ?dialect=own if not" in text
    caplog.clear()
    for name in (f"hf:{small}?dialect=own", "openai:critic@http://h/v1", "openai:gpt-5@http://h/v1"):
        assert dialect_of(name, "critic").name == "own"
    assert caplog.text == ""
