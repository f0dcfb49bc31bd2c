"""The dataset card: valid for huggingface_hub, IN's kept, and what a push carries."""

import pytest
from huggingface_hub import DatasetCard
from support.examined import examination

from goalreel.critics.examination import read_examination
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import build
from goalreel.datasets.writing.plan import TextOptions

THEIRS = """---
license: apache-2.0
tags: [droid]
task_categories: robotics
pretty_name: Blöcke
---
# Ours of Tuesday

Recorded by hand.
"""


@pytest.fixture
def carded(root):
    """IN with a card of its own."""
    (root / "README.md").write_text(THEIRS, encoding="utf-8")
    return root


def card(root):
    """As huggingface_hub reads it."""
    return DatasetCard.load(root / "README.md")


def test_a_card_is_written_where_there_is_none(video_dataset, annotated, tmp_path):
    out = annotated(
        video_dataset, tmp_path / "out", {0: {}, 1: {"statuses": ("accepted", "rejected", "accepted")}}
    )
    found = card(out)
    assert found.data.license is None, "nobody said"
    assert found.data.task_categories == ["robotics"]
    assert found.data.tags == ["LeRobot", "goalreel", "visual-sub-goals"]
    assert found.data.to_dict()["configs"][0]["data_files"] == "data/*/*.parquet"
    assert "2 of 3 episodes" in found.text
    assert "Their steps: 5 accepted, 1 rejected." in found.text
    assert "lerobot_collate_fn" in found.text
    assert " --dataset.repo_id=OWNER/NAME --dataset.root=FOLDER\n" in found.text


def test_the_card_of_in_is_kept_through_every_pass(carded, annotated, tmp_path):
    first = annotated(carded, tmp_path / "first", {0: {}})
    second = annotated(first, tmp_path / "second", {1: {}}, text=TextOptions(language=False))
    for out in (first, second):
        found = card(out)
        assert (found.data.license, found.data.pretty_name) == ("apache-2.0", "Blöcke")
        assert found.data.tags == ["droid", "LeRobot", "goalreel", "visual-sub-goals"]
        assert found.data.task_categories == ["robotics"]
        assert found.text.count("# Ours of Tuesday\n\nRecorded by hand.\n") == 1
        assert found.text.count("## Visual sub-goals") == 1
    assert "lerobot_collate_fn" not in card(second).text


@pytest.mark.parametrize("broken", ["---\nlicense: [\n---\nbody\n", "---\n- a\n---\nbody\n"])
def test_a_card_that_cannot_be_read_is_kept_as_text(carded, annotated, tmp_path, broken, caplog):
    (carded / "README.md").write_text(broken)
    found = card(annotated(carded, tmp_path / "out", {0: {}}))
    assert broken in found.text
    assert "front matter" in caplog.text


def test_models_are_named_as_the_settings_do(video_dataset, board, tmp_path):
    source = Source.open(video_dataset)
    names = {"planner": "openai:qwen?temperature=0.2", "editor": "server", "critic": "difference"}
    with Records.open(tmp_path / "out", names, source.fingerprint()) as records:
        records.commit(0, board(12))
        examination(records.examination, "no")
        examined = read_examination(records.examination).line
        build(source, tmp_path / "out", records)
    text = card(tmp_path / "out").text
    assert f"- {examined}\n" in text
    assert "- planner: `openai:qwen?temperature=0.2`\n- editor: `server`\n- critic: `difference`" in text
