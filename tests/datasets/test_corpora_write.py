"""Corpora on disk: what an agent asks is what it is trained on; rows come back; a killed run goes on."""

import json
import os
import signal
import subprocess
import sys
import time

os.environ.setdefault("MUJOCO_GL", "egl")

import pytest
from support.scripted import ScriptedChat
from typer.testing import CliRunner

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.cli.corpus import app
from goalreel.datasets.corpora.columns import read_rows
from goalreel.datasets.corpora.edits import edit_rows
from goalreel.datasets.corpora.lessons import candidate_of, plan_lesson, task_of, verdict_lesson
from goalreel.datasets.corpora.plans import plan_rows
from goalreel.datasets.corpora.sharegpt import messages_of
from goalreel.datasets.corpora.verdicts import verdict_rows
from goalreel.datasets.corpora.write import MAKERS, Order, write_corpus
from goalreel.datasets.tabletop.splits import seeds
from goalreel.errors import DatasetError
from goalreel.image import Image
from goalreel.planners.critic import ChatCritic
from goalreel.planners.planner import ChatPlanner

SEEDS = seeds("validation", 4, first=30)


def test_a_planner_asks_and_reads_what_it_is_trained_on():
    for row in plan_rows(SEEDS, 64):
        conversation, reply = plan_lesson(row)
        chat = ScriptedChat([reply])
        (plan,) = ChatPlanner(chat).plan([task_of(row)])
        assert chat.calls == [[conversation]]
        assert plan == row.plan


@pytest.mark.parametrize("mode", ["strict", "fast"])
def test_a_critic_asks_and_reads_what_it_is_trained_on(mode):
    for row in verdict_rows(SEEDS, 64):
        conversation, reply = verdict_lesson(row, mode)
        chat = ScriptedChat([reply])
        (verdict,) = ChatCritic(chat, mode=mode).judge([candidate_of(row)])
        assert chat.calls == [[conversation]]
        assert verdict == row.verdict


@pytest.mark.parametrize("kind", MAKERS)
def test_rows_come_back_from_disk(kind, tmp_path):
    order = Order(kind, "validation", 4, size=64, first=30, shard=3)
    count = write_corpus(order, tmp_path / "c")
    rows = list(read_rows(tmp_path / "c", kind))
    assert rows == list(MAKERS[kind](SEEDS, 64))
    assert len(rows) == count > 3


def test_hugging_face_datasets_reads_a_corpus(tmp_path):
    import datasets

    write_corpus(Order("edits", "validation", 2, size=64, first=30), tmp_path / "c", text=False)
    loaded = datasets.load_dataset(str(tmp_path / "c"), split="validation", cache_dir=str(tmp_path / "cache"))
    rows = list(edit_rows(SEEDS[:2], 64))
    assert [r["prompt"] for r in loaded] == [row.prompt for row in rows]
    assert loaded[0]["target"].size == (64, 64)
    assert loaded[-1]["seed"] == SEEDS[1]
    assert not (tmp_path / "c/sharegpt").exists()


def test_sharegpt_holds_every_message_and_image(tmp_path):
    write_corpus(Order("verdicts", "validation", 4, size=64, first=30, shard=2), tmp_path / "c")
    folder = tmp_path / "c/sharegpt"
    info = json.loads((folder / "dataset_info.json").read_text())["goalreel_verdicts"]
    told = json.loads((folder / info["file_name"]).read_text())
    rows = list(verdict_rows(SEEDS, 64))
    assert len(told) == len(rows)
    for row, one in zip(rows, told, strict=True):
        messages, images = messages_of(verdict_lesson(row))
        assert one["messages"] == messages
        assert [m["role"] for m in messages] == ["system", "user", "assistant"]
        assert "".join(m["content"] for m in messages).count("<image>") == len(images) == 2
        stored = [Image.decode((folder / path).read_bytes()) for path in one["images"]]
        assert stored == images == [row.source, row.candidate]
        assert (one["seed"], one["done"]) == (row.origin.seed, row.origin.done)


def test_edits_as_json(tmp_path):
    write_corpus(Order("edits", "validation", 1, size=64, first=30), tmp_path / "c")
    folder = tmp_path / "c/sharegpt"
    row, one = next(edit_rows(SEEDS[:1], 64)), json.loads((folder / "edits.json").read_text())[0]
    assert (one["prompt"], one["register"]) == (row.prompt, row.register)
    assert Image.decode((folder / one["target"]).read_bytes()) == row.target


@pytest.mark.process
def test_workers_write_the_same_files(tmp_path):
    order = Order("plans", "validation", 6, size=64, shard=2)
    for name, workers in (("one", 1), ("two", 2)):
        told = []
        write_corpus(order, tmp_path / name, workers=workers, progress=told.append)
        assert told == [0, 2, 4, 6]
    files = {p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file()}
    assert len(files) > 6
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


@pytest.mark.process
def test_a_killed_run_goes_on_and_keeps_what_was_finished(tmp_path):
    out, episodes = tmp_path / "c", 12
    code = "from goalreel.cli.corpus import app; app()"
    order = f"--kind edits --split validation --episodes {episodes} --shard 1 --size 64"
    command = [sys.executable, "-c", code, "make", *order.split(), "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(out.glob("data/validation-*.parquet"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {p: p.stat().st_mtime_ns for p in out.glob("data/validation-*.parquet")}
    assert 2 <= len(kept) < episodes
    (out / "data" / ".goalreel-tmp-validation-00011.parquet").write_bytes(b"half")
    assert {r.origin.seed for r in read_rows(out, "edits")} == set(seeds("validation", len(kept)))
    told = []
    order = Order("edits", "validation", episodes, size=64, shard=1)
    write_corpus(order, out, progress=told.append)
    assert told[0] == len(kept)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    assert not list(out.rglob(".goalreel-tmp-*"))
    write_corpus(order, tmp_path / "whole")
    assert list(read_rows(out, "edits")) == list(read_rows(tmp_path / "whole", "edits"))
    joined = [(f / "sharegpt/edits.json").read_text() for f in (out, tmp_path / "whole")]
    assert joined[0] == joined[1]


def test_another_corpus_is_never_mixed_in(tmp_path):
    write_corpus(Order("plans", "validation", 1, size=64), tmp_path / "c")
    with pytest.raises(DatasetError, match="asked for otherwise"):
        write_corpus(Order("plans", "validation", 2, size=64), tmp_path / "c")
    with pytest.raises(DatasetError, match="holds no corpus"):
        next(read_rows(tmp_path / "nothing", "plans"))


def test_bad_orders_are_one_line():
    for order in (
        ("walls", "train", 1),
        ("plans", "dev", 1),
        ("plans", "train", 1, 8),
        ("plans", "test", 60_000),
    ):
        with pytest.raises(ValueError):
            Order(*order)
    result = CliRunner().invoke(app, ["make", "--kind", "plans", "--episodes", "950001", "--out", "x"])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1


def test_rows_from_a_given_maker(tmp_path):
    order = Order("verdicts", "validation", 2, size=64, source="editor X")
    write_corpus(order, tmp_path / "c", make=lambda part, size: list(verdict_rows(part, size))[:1])
    assert len(list(read_rows(tmp_path / "c", "verdicts"))) == 1
    assert "from the editor X" in (tmp_path / "c/README.md").read_text()
