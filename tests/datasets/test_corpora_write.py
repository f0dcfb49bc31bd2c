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
from goalreel.datasets.corpora.sharegpt import messages_of
from goalreel.datasets.tabletop.lessons.conversations import (
    candidate_of,
    plan_lesson,
    task_of,
    verdict_lesson,
)
from goalreel.datasets.tabletop.lessons.corpus import LESSONS, CorpusOrder, make_corpus
from goalreel.datasets.tabletop.lessons.kinds import EDITS, PLANS, VERDICTS
from goalreel.datasets.tabletop.splits import seeds
from goalreel.errors import DatasetError
from goalreel.image import Image
from goalreel.planners.critic import ChatCritic
from goalreel.planners.planner import ChatPlanner

SEEDS = seeds("validation", 4, first=30)


@pytest.fixture(scope="module")
def rows():
    """The rows of each kind."""
    return {kind: list(make(SEEDS, 64)) for kind, (_, make) in LESSONS.items()}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A corpus of each kind, in two shards: its folder and what `make_corpus` returned. Read only."""
    folder = tmp_path_factory.mktemp("corpora")
    orders = {kind: CorpusOrder(kind, "validation", 4, size=64, first=30, shard=3) for kind in LESSONS}
    return {kind: (folder / kind, make_corpus(order, folder / kind)) for kind, order in orders.items()}


def test_a_planner_asks_and_reads_what_it_is_trained_on(rows):
    for row in rows["plans"]:
        conversation, reply = plan_lesson(row)
        chat = ScriptedChat([reply])
        (plan,) = ChatPlanner(chat).plan([task_of(row)])
        assert chat.calls == [[conversation]]
        assert plan == row.plan


@pytest.mark.parametrize("mode", ["strict", "fast"])
def test_a_critic_asks_and_reads_what_it_is_trained_on(rows, mode):
    for row in rows["verdicts"]:
        conversation, reply = verdict_lesson(row, mode)
        chat = ScriptedChat([reply])
        (verdict,) = ChatCritic(chat, mode=mode).judge([candidate_of(row)])
        assert chat.calls == [[conversation]]
        assert verdict == row.verdict


@pytest.mark.parametrize("kind", LESSONS)
def test_rows_come_back_from_disk(kind, rows, written):
    folder, count = written[kind]
    assert list(read_rows(folder, LESSONS[kind][0])) == rows[kind]
    assert len(rows[kind]) == count > 3


def test_hugging_face_datasets_reads_a_corpus(rows, written, tmp_path):
    import datasets

    folder, _ = written["edits"]
    loaded = datasets.load_dataset(str(folder), split="validation", cache_dir=str(tmp_path / "cache"))
    assert [r["prompt"] for r in loaded] == [row.prompt for row in rows["edits"]]
    assert loaded[0]["target"].size == (64, 64)
    assert loaded[-1]["seed"] == SEEDS[-1]


def test_sharegpt_holds_every_message_and_image(rows, written):
    folder = written["verdicts"][0] / "sharegpt"
    info = json.loads((folder / "dataset_info.json").read_text())["goalreel_verdicts"]
    told = json.loads((folder / info["file_name"]).read_text())
    for row, one in zip(rows["verdicts"], told, strict=True):
        messages, images = messages_of(verdict_lesson(row))
        assert one["messages"] == messages
        assert [m["role"] for m in messages] == ["system", "user", "assistant"]
        assert "".join(m["content"] for m in messages).count("<image>") == len(images) == 2
        stored = [Image.decode((folder / path).read_bytes()) for path in one["images"]]
        assert stored == images == [row.source, row.candidate]
        assert (one["seed"], one["done"]) == (row.origin.seed, row.origin.done)


def test_edits_as_json(rows, written):
    folder = written["edits"][0] / "sharegpt"
    row, one = rows["edits"][0], json.loads((folder / "edits.json").read_text())[0]
    assert (one["prompt"], one["register"]) == (row.prompt, row.register)
    assert Image.decode((folder / one["target"]).read_bytes()) == row.target
    assert not (folder / "dataset_info.json").exists()


@pytest.mark.process
def test_workers_write_the_same_files(tmp_path):
    order = CorpusOrder("plans", "validation", 6, size=64, shard=2)
    for name, workers in (("one", 1), ("two", 2)):
        told = []
        make_corpus(order, tmp_path / name, workers=workers, progress=lambda *count: told.append(count))  # noqa: B023
        assert told == [(0, 6), (2, 6), (4, 6), (6, 6)]
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
    assert {r.origin.seed for r in read_rows(out, EDITS)} == set(seeds("validation", len(kept)))
    told = []
    order = CorpusOrder("edits", "validation", episodes, size=64, shard=1)
    make_corpus(order, out, progress=lambda done, _: told.append(done))
    assert told[0] == len(kept)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    assert not list(out.rglob(".goalreel-tmp-*"))
    make_corpus(order, tmp_path / "whole")
    assert list(read_rows(out, EDITS)) == list(read_rows(tmp_path / "whole", EDITS))
    joined = [(f / "sharegpt/edits.json").read_text() for f in (out, tmp_path / "whole")]
    assert joined[0] == joined[1]


def test_another_corpus_is_never_mixed_in(tmp_path):
    make_corpus(CorpusOrder("plans", "validation", 1, size=64), tmp_path / "c", text=False)
    assert not (tmp_path / "c/sharegpt").exists()
    for episodes, text in ((2, False), (1, True)):
        with pytest.raises(DatasetError, match="asked for otherwise"):
            make_corpus(CorpusOrder("plans", "validation", episodes, size=64), tmp_path / "c", text=text)
    with pytest.raises(DatasetError, match="holds no corpus"):
        next(read_rows(tmp_path / "nothing", PLANS))


def test_bad_orders_are_one_line():
    for order in (
        ("walls", "train", 1),
        ("plans", "dev", 1),
        ("plans", "train", 1, 8),
        ("plans", "test", 60_000),
    ):
        with pytest.raises(ValueError):
            CorpusOrder(*order)
    result = CliRunner().invoke(app, ["make", "--kind", "plans", "--episodes", "950001", "--out", "x"])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1


def test_rows_from_a_given_maker(rows, tmp_path):
    order = CorpusOrder("verdicts", "validation", 2, size=64, source="editor X")
    make_corpus(order, tmp_path / "c", make=lambda part, size: rows["verdicts"][:1])
    assert len(list(read_rows(tmp_path / "c", VERDICTS))) == 1
    assert "from the editor X" in (tmp_path / "c/README.md").read_text()
