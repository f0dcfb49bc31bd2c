"""Corpora on disk: what an agent asks is what it is trained on; rows come back; a killed run goes on."""

import json
import sys

import pytest
from support.corpora import read_rows
from support.gates import GATE, kill_at_gate
from support.scripted import ScriptedChat

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.critics.chat import ChatCritic
from goalreel.datasets.corpora.critic_rows import CRITIQUES
from goalreel.datasets.corpora.rows import messages_of
from goalreel.errors import DatasetError
from goalreel.image import Image
from goalreel.planners.chat import ChatPlanner
from goalreel.tabletop.splits import seeds
from goalreel_lab.corpora.corpus import LESSONS, CorpusConfig, make_corpus
from goalreel_lab.corpora.grounding import in_order, place
from goalreel_lab.corpora.plans import walk
from goalreel_lab.corpora.rows import EDITS, candidate_of, plan_lesson, task_of, verdict_lesson
from goalreel_lab.corpora.verdicts import critique_rows

SEEDS = seeds("validation", 4, first=30)


class Made(dict):
    """Kind -> what is made of it, when it is first asked for: live rows and wholes take long."""

    def __init__(self, make):
        self.make = make

    def __missing__(self, kind):
        return self.setdefault(kind, self.make(kind))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A corpus of each kind, in two shards: folder, what `make_corpus` returned, and rows. Read only."""
    folder = tmp_path_factory.mktemp("corpora")

    def write(kind):
        rows = []

        def make(part, size):
            for row in LESSONS[kind][1](part, size):
                rows.append(row)
                yield row

        order = CorpusConfig(kind, "validation", len(SEEDS), size=64, first=30, shard=3)
        return folder / kind, make_corpus(order, folder / kind, make=make), rows

    return Made(write)


@pytest.fixture(scope="module")
def rows(written):
    """The rows of each kind, as they were made."""
    return Made(lambda kind: written[kind][2])


def test_a_planner_asks_and_reads_what_it_is_trained_on(rows):
    for row in rows["plans"]:
        conversation, reply = plan_lesson(row)
        chat = ScriptedChat([reply])
        (plan,) = ChatPlanner(chat).plan([task_of(row)])
        assert chat.calls == [[conversation]]
        assert plan == row.plan.model_copy(update={"reasoning": _thinking(row)})
        assert reply.startswith(f"<think>{plan.reasoning}</think>")


def _thinking(row):
    """Where everything stands after the sub-goals behind, and where the blocks of the others go."""
    ahead = list(walk([row.origin.seed], 64, stream=9, roomy=True))[row.origin.done :]
    layout = ahead[0].layout
    moves = [f"{done.goal.object} -> {place(done.reached, done.goal.object)}" for done in ahead]
    things = "; ".join(f"{name} {place(layout, name)}" for name in in_order(layout))
    steps = "1 step" if len(ahead) == 1 else f"{len(ahead)} steps"
    return f"{things}. {steps}: {'; '.join(moves)}."


@pytest.mark.parametrize("mode", ["strict", "fast"])
def test_a_critic_asks_and_reads_what_it_is_trained_on(rows, mode):
    for row in rows["verdicts"]:
        conversation, reply = verdict_lesson(row, mode)
        chat = ScriptedChat([reply])
        (verdict,) = ChatCritic(chat, mode=mode).judge([candidate_of(row)])
        assert chat.calls == [[conversation]]
        assert verdict == row.verdict


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.lab] * (kind in ("live", "wholes"))) for kind in LESSONS]
)
def test_rows_come_back_from_disk(kind, written):
    folder, count, rows = written[kind]
    assert list(read_rows(folder, LESSONS[kind][0])) == rows
    assert len(rows) == count > 2


@pytest.mark.parametrize("kind", ["plans", "edits", "verdicts"])
def test_rows_are_the_same_in_any_shards(kind, rows, tmp_path):
    make_corpus(CorpusConfig(kind, "validation", len(SEEDS), size=64, first=30), tmp_path, text=False)
    assert list(read_rows(tmp_path, LESSONS[kind][0])) == rows[kind]


def test_hugging_face_datasets_reads_a_corpus(rows, written, tmp_path):
    import datasets

    folder = written["edits"][0]
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


@pytest.mark.lab
@pytest.mark.process
def test_workers_write_the_same_files(tmp_path):
    order = CorpusConfig("plans", "validation", 6, size=64, shard=2)
    for name, workers in (("one", 1), ("two", 2)):
        told = []
        make_corpus(order, tmp_path / name, workers=workers, progress=lambda *count: told.append(count))  # noqa: B023
        assert told == [(0, 6), (2, 6), (4, 6), (6, 6)]
    files = {p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file()}
    assert len(files) > 6
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


MAKING = """
from goalreel.cli.corpus import app
from goalreel_lab.corpora import corpus

kind, make = corpus.LESSONS["edits"]
parts = []

def made(part, size, **how):
    parts.append(part)
    if len(parts) == 3:
        gate()
    return make(part, size, **how)

corpus.LESSONS["edits"] = kind, made
app()
"""


@pytest.mark.lab
@pytest.mark.process
def test_a_killed_run_goes_on_and_keeps_what_was_finished(tmp_path):
    out, episodes = tmp_path / "c", 4
    order = f"make --kind edits --split validation --episodes {episodes} --shard 1 --size 64 --out"
    kill_at_gate([sys.executable, "-c", GATE + MAKING, *order.split(), out])
    kept = {p: p.stat().st_mtime_ns for p in out.glob("data/validation-*.parquet")}
    assert len(kept) == 2
    (out / "data" / ".goalreel-tmp-validation-00003.parquet").write_bytes(b"half")
    assert {r.origin.seed for r in read_rows(out, EDITS)} == set(seeds("validation", len(kept)))
    told = []
    order = CorpusConfig("edits", "validation", episodes, size=64, shard=1)
    make_corpus(order, out, progress=lambda done, _: told.append(done))
    assert told[0] == len(kept)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    assert not list(out.rglob(".goalreel-tmp-*"))
    make_corpus(order, tmp_path / "whole")
    assert list(read_rows(out, EDITS)) == list(read_rows(tmp_path / "whole", EDITS))
    joined = [(f / "sharegpt/edits.json").read_text() for f in (out, tmp_path / "whole")]
    assert joined[0] == joined[1]


def test_another_corpus_is_never_mixed_in(tmp_path):
    make_corpus(CorpusConfig("plans", "validation", 1, size=64), tmp_path / "c", text=False)
    assert not (tmp_path / "c/sharegpt").exists()
    for episodes, text in ((2, False), (1, True)):
        with pytest.raises(DatasetError, match="made with other options"):
            make_corpus(CorpusConfig("plans", "validation", episodes, size=64), tmp_path / "c", text=text)


@pytest.mark.parametrize(("right", "wrong"), [(1, 19), (2, 18), (20, 0)])
def test_the_card_says_how_many_verdicts_are_right_and_a_one_sided_corpus_is_warned_of(
    rows, tmp_path, caplog, right, wrong
):
    kinds = [next(row for row in rows["verdicts"] if row.verdict.success is good) for good in (True, False)]
    some = [kinds[0]] * right + [kinds[1]] * wrong
    order = CorpusConfig("verdicts", "validation", 1, size=64)
    make_corpus(order, tmp_path, make=lambda part, size: some)
    assert f"20 rows, {right} of them right, of 1 episodes" in (tmp_path / "README.md").read_text()
    warned = f"of 20 rows {right} are right" in caplog.text
    assert warned == (right in (1, 20))


def test_critiques_have_no_reply_and_so_no_conversations(tmp_path):
    order = CorpusConfig("critiques", "validation", 1, first=30, source="editor X")

    def copied(part, size):
        return critique_rows(part, lambda sources, prompts: sources, size)

    count = make_corpus(order, tmp_path, make=copied)
    assert len(list(read_rows(tmp_path, CRITIQUES))) == count > 0
    assert not (tmp_path / "sharegpt").exists()
    assert "`task_id` and `step` make a row's scene again" in (tmp_path / "README.md").read_text()
