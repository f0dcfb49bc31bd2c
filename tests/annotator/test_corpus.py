"""`goalreel corpus from-storyboards` on disk: what it reads, what it writes, and what stops it."""

import json
import re
import shutil
from dataclasses import replace

import pytest
from support.chat_server import ChatServer, Reply, said
from support.cli import fails, goalreel, invoke
from support.corpora import read_rows
from support.person import says
from support.steady import contents
from support.told import attempt, board, step, unplanned, words

from goalreel.annotator.corpus.boards import NamedScorer, StoredBoard, find_boards, scorer_of
from goalreel.annotator.corpus.make import RecipeConfig, make_from_storyboards
from goalreel.annotator.plan import write_plan
from goalreel.annotator.show import read_storyboards
from goalreel.chat.dialects import InterleaveThinkerDialect
from goalreel.datasets.corpora.critic_rows import CRITIQUES, JUDGEMENTS, judgement_lesson
from goalreel.datasets.corpora.planner_rows import (
    CONTINUATIONS,
    EASY,
    OUTPUT,
    PLANS,
    REFLECTION,
    UNIFIED_EASY,
    UNIFIED_REFLECTION,
    markup,
    plan_row,
    unified_row,
)
from goalreel.datasets.corpora.rows import messages_of
from goalreel.datasets.corpora.trajectories import STORED_EDITS, HumanVerdict
from goalreel.datasets.corrections.events import FlagIssue, GiveVerdict, TakeFrame
from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import Source
from goalreel.errors import BackendError, DatasetError, UserError
from goalreel.files import exclusive
from goalreel.loop import storyboard
from goalreel.storyboard_io import load_storyboard, save_storyboard
from goalreel.tabletop.truth import TrueEpisode, Truth, recording_task_ids, write_truth
from goalreel.types import PictureScores, Plan, Storyboard, Task


def tried(number):
    """A storyboard whose record holds scores: two steps in two attempts each."""
    return board(
        step("a", attempt("x", False, (1 + number % 4, 8)), attempt("y", True, (9, 9))),
        step("b", attempt("z", False, (5, 5)), attempt("w", number % 2 == 0, (7, 7))),
    )


def stored(folder, count):
    """So many of them on disk."""
    for i in range(count):
        save_storyboard(tried(i), folder / f"b{i:02d}")
    return folder


def kept(count):
    """So many of them in memory: a disk that is busy takes long to be sure of a file."""
    boards = [tried(i) for i in range(count)]
    return [StoredBoard(f"b{i:02d}", f"{i}", lambda told=told: told) for i, told in enumerate(boards)]


class Marker:
    """Scores by the prompt; stops being reachable after so many calls."""

    def __init__(self, lasts=10**9):
        self.lasts, self.asked = lasts, []

    def score(self, candidates):
        if len(self.asked) + len(candidates) > self.lasts:
            raise BackendError("the judge is out of reach")
        self.asked += candidates
        return [PictureScores(9.0 if c.prompt in "yw" else 3.0, 8.0, "seen", "clean") for c in candidates]


@pytest.mark.long
def test_from_the_command_line(tmp_path):
    stored(tmp_path / "in", 12)
    printed = goalreel("corpus", "from-storyboards", tmp_path / "in", "--out", tmp_path / "out")
    assert printed == f"Look at {tmp_path / 'out/report.json'}\n"
    report = json.loads((tmp_path / "out/report.json").read_text())
    kinds = (JUDGEMENTS, CRITIQUES, PLANS, CONTINUATIONS, EASY, REFLECTION, STORED_EDITS)
    rows = {
        folder: list(read_rows(tmp_path / "out" / folder, kind))
        for folder, kind in zip(report["rows"], kinds, strict=True)
    }
    assert {folder: len(each) for folder, each in rows.items()} == report["rows"]
    assert report["parts"] == {"sft": 18, "rl": 6}
    counts = {"sft": 24, "rl": 12, "plans": 12, "continuations": 12, "easy": 6, "reflection": 6, "edits": 18}
    assert report["rows"] == counts
    sides = {"sft before": [12, 18], "sft": [12, 12], "rl before": [6, 6], "rl": [6, 6]}
    assert report["success"] == {"scored": [18, 30]} | sides
    assert report["samples"] == 48
    told = load_storyboard(tmp_path / "in/b00")
    first = next(r for r in rows["sft"] if r.task_id == "b00")
    assert first.source == told.task.image or first.step == 1
    sharegpt = json.loads((tmp_path / "out/sft/sharegpt/judgements.json").read_text())
    assert len(sharegpt) == 24


def test_whole_storyboards_for_models_that_draw_as_they_write(tmp_path):
    """One reply of the assistant: plan, pictures as outputs, the critic's words; markup and columns agree."""
    order = RecipeConfig(NamedScorer("m", Marker()), unified=True)
    report = make_from_storyboards(kept(4), order, tmp_path)
    rows = {
        kind.name: list(read_rows(tmp_path / kind.name, kind)) for kind in (UNIFIED_EASY, UNIFIED_REFLECTION)
    }
    assert {name: len(each) for name, each in rows.items()} == {
        name: report.rows[name] for name in ("easy", "reflection")
    }
    easy, reflection = rows["easy"][0], rows["reflection"][0]
    assert [a["success"] for a in easy["attempts"]] == [True, True]
    assert [a["success"] for a in reflection["attempts"]] == [False, True, False, True]
    assert [len(row["outputs"]) for row in (easy, reflection)] == [2, 4]
    assert (easy["instruction"], len(easy["inputs"])) == ("<image>tidy up", 1)
    text = markup(reflection)
    places = re.findall(r"<plan>\n(.*)\n</plan>|(<image><img_token></image>)|\"success\": (true|false)", text)
    drawn = [OUTPUT, "false", OUTPUT, "true"]
    assert ["".join(place) for place in places] == ["do a", *drawn, "do b", *drawn]
    assert text.startswith("<gthink>\n2 steps remain: a; b.\n</gthink>")
    assert "<critic>" not in markup(easy)
    (first, *_) = json.loads((tmp_path / "reflection/sharegpt/reflection.json").read_text())
    assert first["messages"][1] == {"role": "assistant", "content": text}
    assert len(first["images"]) == 5
    with pytest.raises(DatasetError, match="made with other options"):
        make_from_storyboards(kept(4), RecipeConfig(NamedScorer("m", Marker())), tmp_path)


def test_rows_ask_in_the_words_of_the_dialect(tmp_path):
    wording = InterleaveThinkerDialect(None)
    make_from_storyboards(kept(4), RecipeConfig(NamedScorer("m", Marker()), dialect=wording), tmp_path)
    (row, *_) = read_rows(tmp_path / "continuations", CONTINUATIONS)
    texts = [part for part in row.lesson[0][0].parts if isinstance(part, str)]
    assert len(row.lesson[0]) == 1
    assert "Step 1: a is done" in "".join(texts)
    (critic, *_) = json.loads((tmp_path / "sft/sharegpt/judgements.json").read_text())
    judged = next(read_rows(tmp_path / "sft", JUDGEMENTS))
    wanted, _ = messages_of(judgement_lesson(judged, wording))
    assert critic["messages"] == wanted != messages_of(judgement_lesson(judged))[0]
    assert json.loads((tmp_path / "settings.json").read_text())["dialect"] == "interleavethinker"
    rows = [*read_rows(tmp_path / "sft", JUDGEMENTS)]
    replies = [json.loads(judgement_lesson(row, wording)[1].split("<answer>")[1][:-9]) for row in rows]
    accepted = [
        (row.prompt, reply["refine_prompt"]) for row, reply in zip(rows, replies, strict=True) if row.success
    ]
    assert accepted
    assert all(asked == answered for asked, answered in accepted), "the checkpoints repeat what they accept"
    (_, last), *_ = (row.lesson for row in read_rows(tmp_path / "easy", EASY))
    assert '"previous_step_success": true, "refine_prompt": "' in last


def test_the_planner_s_thoughts_are_kept_shown_and_learned(tmp_path):
    thoughts = "First the cup, as it is in the way."
    loop = storyboard(Task(id="t", instruction="tidy up"), max_attempts=1)
    next(loop)
    with pytest.raises(StopIteration) as done:
        loop.send(Plan(steps=(words("a").step,), reasoning=thoughts))
    told = Storyboard.model_validate_json(done.value.value.model_dump_json())
    write_plan(told, tmp_path, {}, None)
    assert thoughts in (tmp_path / "index.html").read_text()
    assert load_storyboard(tmp_path) == told
    assert plan_row(told, "t").lesson[1].startswith(f"<think>{thoughts}</think>")
    assert unified_row(told, "t", rejected=False)["markup"].startswith(f"<gthink>\n{thoughts}\n</gthink>")


def test_two_runs_at_once_and_foreign_files_are_refused(tmp_path):
    stored(tmp_path / "in", 2)
    with exclusive(tmp_path / "out/.lock", tmp_path / "out"):
        line = fails("corpus", "from-storyboards", tmp_path / "in", "--out", tmp_path / "out")
        assert "another goalreel run is writing there" in line
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("x")
    line = fails("corpus", "from-storyboards", tmp_path / "in", "--out", tmp_path / "mine")
    assert "choose another --out" in line
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_garbage_is_one_line_or_counted(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "nowhere"):
        line = fails("corpus", "from-storyboards", folder, "--out", tmp_path / "out")
        assert "holds no storyboard" in line
        assert not (tmp_path / "out").exists()
    folder = stored(tmp_path / "in", 3)
    assert [b.task_id for b in find_boards([folder, folder / "b01", folder])] == ["b00", "b01", "b02"]
    (tmp_path / "in/b00/storyboard.json").write_bytes(b"\xff{")
    shutil.rmtree(tmp_path / "in/b01/images")
    save_storyboard(unplanned(), tmp_path / "in/b03")
    save_storyboard(board(words("a")), tmp_path / "in/b04")
    ended = invoke("corpus", "from-storyboards", tmp_path / "in", "--out", tmp_path / "out", "--json")
    assert (ended.exit_code, "2 of 5 storyboards cannot be read" in ended.stderr) == (1, True)
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert json.loads(ended.stdout) == {"out": str(tmp_path / "out"), **report}
    assert (report["storyboards"], report["damaged"]) == (5, 2)
    assert report["dropped"]["trajectories"] == {"damaged": 2, "no_plan": 1, "words_only": 1}


def test_an_empty_result_is_a_whole_one_and_says_why(tmp_path):
    save_storyboard(board(step("a", attempt("x", True))), tmp_path / "in/b")
    command = ("corpus", "from-storyboards", tmp_path / "in", "--out")
    told = invoke(*command, tmp_path / "out")
    assert told.exit_code == 0
    assert "no rows for the Critic; most were dropped for: unscored (1)" in told.stderr
    assert "name a judge" in told.stderr
    assert list(read_rows(tmp_path / "out/sft", JUDGEMENTS)) == []
    assert goalreel(*command, tmp_path / "out")


@pytest.mark.long
def test_an_annotated_dataset_is_read_with_its_frames(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "lab", {i: {} for i in range(3)})
    sorted((out / FOLDER / "episodes").rglob("*.json"))[1].write_text("{")
    boards = find_boards([tmp_path])
    assert [b.task_id for b in boards] == [f"lab/episode_{i:06d}" for i in range(3)]
    assert boards[0].load() == dict(read_storyboards(out))[0]
    with pytest.raises(UserError, match="damaged record"):
        boards[1].load()
    episodes = tuple(
        TrueEpisode(seed=s, split="train", instruction="x", missions=(), segments=(), success=True)
        for s in (5, 6, 7)
    )
    write_truth(out, Truth(phases=(), episodes=episodes))
    assert [b.task_id for b in find_boards([out], recording_task_ids)] == [
        "tabletop-5",
        "tabletop-6",
        "tabletop-7",
    ]


@pytest.mark.long
def test_a_dead_judge_ends_the_run_in_one_line_and_nothing_is_asked_twice(tmp_path):
    boards = kept(6)
    dying = Marker(lasts=20)
    with pytest.raises(UserError, match=r"out of reach.*run the same command again to resume"):
        make_from_storyboards(boards, RecipeConfig(NamedScorer("m", dying)), tmp_path / "out")
    assert not (tmp_path / "out/report.json").exists()
    (tmp_path / "out/answers/left-by-a-kill.json").write_text("{}")
    well = Marker()
    make_from_storyboards(boards, RecipeConfig(NamedScorer("m", well)), tmp_path / "out")
    assert len(dying.asked) == 16
    assert len(dying.asked) + len(well.asked) == 24
    make_from_storyboards(boards, RecipeConfig(NamedScorer("m", Marker())), tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert not (tmp_path / "out/answers").exists()


def test_a_judge_that_says_nothing_is_asked_anew_whether_it_is_there(tmp_path):
    class Dying(Marker):
        def score(self, candidates):
            return [None] * len(super().score(candidates))

    with pytest.raises(UserError, match="out of reach"):
        make_from_storyboards(kept(2), RecipeConfig(NamedScorer("m", Dying(lasts=8))), tmp_path / "out")


def judging(request) -> Reply:
    marks = dict.fromkeys(("success", "over_editing"), 8)
    if "naturalness" in request.text:
        marks = {"naturalness": 9, "artefacts": 9}
    return said(json.dumps({"reasoning": "seen", **marks}))


def test_a_judge_over_http(tmp_path):
    with ChatServer(judging) as server:
        order = RecipeConfig(scorer_of(f"openai:m@{server.url}"))
        report = make_from_storyboards(kept(2), order, tmp_path / "out")
    assert report.dropped.get("scores") is None
    assert report.success["scored"] == [8, 0]


def test_a_judge_that_scored_none_is_not_told_to_be_named(tmp_path):
    save_storyboard(board(step("a", attempt("x", True))), tmp_path / "in/b")
    with ChatServer(lambda request: said("no")) as server:
        order = ("--scorer", f"openai:m@{server.url}", "--out", tmp_path / "out")
        told = invoke("corpus", "from-storyboards", tmp_path / "in", *order)
    assert "most were dropped for: unscored (1)" in told.stderr
    assert "name a judge" not in told.stderr


def test_what_a_person_said_reaches_the_rows(tmp_path):
    boards = kept(4)
    verdict = HumanVerdict(
        success=False, reasoning="It leans.", refined_prompt="straighten it", correction="wrong_picture"
    )
    boards[0] = replace(boards[0], human_verdicts={(1, 1): verdict})
    make_from_storyboards(boards, RecipeConfig(scorer_of("critic")), tmp_path / "out")
    trusted = [r for r in read_rows(tmp_path / "out/sft", JUDGEMENTS) if r.trust]
    trusted += [r for r in read_rows(tmp_path / "out/rl", CRITIQUES) if r.trust]
    assert len(trusted) == 1
    assert getattr(trusted[0], "critique", trusted[0]).correction == "wrong_picture"


@pytest.mark.long
def test_that_a_person_said_so_is_no_reasoning_to_learn(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "in", {0: {"statuses": ("rejected",) * 3}, 1: {}})
    frame = TakeFrame(step="1", camera=Source.open(video_dataset).camera(None), frame=1)
    says(out, 0, frame, GiveVerdict(verdict="accept"))
    says(out, 1, FlagIssue(step="0", issue="wrong_picture", on=True), frame)
    made = invoke("corpus", "from-storyboards", out, "--out", tmp_path / "out", "--rl-variance", 25)
    assert "no sft row: steps that vary little" in made.stderr
    rows = json.loads((tmp_path / "out/report.json").read_text())["rows"]
    assert rows == {"sft": 0, "rl": 5, "plans": 2, "continuations": 1, "easy": 1, "reflection": 1, "edits": 4}
    for name in ("easy/sharegpt/easy", "reflection/sharegpt/reflection"):
        told = json.loads((tmp_path / f"out/{name}.json").read_text())
        learned = [m["content"] for one in told for m in one["messages"] if m["role"] == "assistant"]
        assert any("<think></think>" in text for text in learned)
        assert not [text for text in learned if "person" in text.lower()]
