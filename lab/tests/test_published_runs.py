"""`goalreel eval ueval` and `wise` on miniatures: real servers as agents and judge, a tiny real editor."""

import json

import pytest
from support import published as bench
from support.chat_server import ChatServer, said
from support.cli import fails, goalreel, invoke, results
from support.serving_models import TintEditor, serving

from goalreel.chat.openai import OpenAIChat
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.load import build_critic, build_planner
from goalreel.models.model_set import Lazy, ModelSet, Provenance
from goalreel.serving.settings import Models
from goalreel.storyboard_io import load_storyboard
from goalreel.types import Failure
from goalreel_lab.published.run import PublishedConfig, run_benchmark
from goalreel_lab.published.ueval import UEval


@pytest.fixture(scope="module")
def klein(tmp_path_factory):
    return f"diffusers:{bench.editor(tmp_path_factory.mktemp('editor') / 'klein-tiny')}"


@pytest.fixture
def editor():
    """Behind a server: no command, and no process of its own, loads a pipeline for it."""
    with serving(Models(editor=TintEditor())) as url:
        yield f"server:{url}"


@pytest.fixture
def agents():
    with ChatServer(bench.agents) as server:
        yield server


@pytest.fixture
def at_once(monkeypatch):
    """A server that is gone is not waited for."""
    monkeypatch.setitem(OpenAIChat.__init__.__kwdefaults__, "retries", 0)


def words(name, agents, editor, data, out, *more):
    chat = f"openai:agent@{agents.url}"
    models = ("--preset", "klein", "--planner", chat, "--critic", chat, "--editor", editor)
    return ("eval", name, *models, "--data", data, "--out", out, *more)


def judging(server, model="gemini-2.5-pro"):
    return ("--judge", f"openai:{model}@{server.url}", "--yes")


def ueval_judge(request):
    """Accepts what is about a planet or a brush, is not sure of boxes, rejects the rest."""
    asked = request.text.rsplit(":", 1)[1]
    met = "true" if "planet" in asked or "brush" in asked else '"not sure"' if "boxes" in asked else "false"
    return said(f'{{"criteria_met": {met}}}')


@pytest.mark.long
def test_ueval_from_data_to_scores_and_a_second_run_asks_nobody(tmp_path, agents, klein):
    data, out = bench.ueval_data(tmp_path / "data"), tmp_path / "out"
    clone = bench.ueval_clone(tmp_path / "clone")
    with ChatServer(ueval_judge) as judge:
        run = words("ueval", agents, klein, data, out, *judging(judge), "--clone", clone)
        report = results(*run)
        asked, judged = len(agents.requests), len(judge.requests)
        again = results(*run)
    assert (asked, judged) == (3 + 3 * 2, 6)
    assert (len(agents.requests), len(judge.requests)) == (asked, judged)
    assert again == report
    # space: text 1, image 1; paper: no text, image 0; art: text 1/2, image 0
    assert (report["space"], report["paper"], report["art"]) == (100, 0, 25)
    assert (report["text"], report["image"]) == (75, pytest.approx(100 / 3))
    assert report["avg_tasks"] == pytest.approx(125 / 3)
    assert report["avg_items"] == pytest.approx((75 + 100 / 3) / 2)
    assert report["textbook"] is None
    assert report["unjudged"] == 0
    assert report["avg_items_low"] <= report["avg_items"] <= report["avg_items_high"]
    assert (report["avg_items_paper"], report["image_paper"]) == (66.3, 74.0)
    assert any("3 samples, the published ones 1000" in note for note in report["notes"])
    assert not any("judge" in note.lower() for note in report["notes"][:2])


def test_wise_from_data_to_scores(tmp_path, agents, klein):
    clone, out = bench.wise_clone(tmp_path / "WISE"), tmp_path / "out"

    def judge_(request):
        marks = (2, 1, 0) if "sowing" in request.text else (0, 2, 2)
        return said("Consistency: {}\n**Realism:** {}\nAesthetic Quality: {}".format(*marks))

    with ChatServer(judge_) as judge:
        data = clone / "WISE_legacy" / "data"
        run = words("wise", agents, klein, data, out, *judging(judge, "gpt-4o"), "--clone", clone)
        report = results(*run)
    assert report["cultural"] == pytest.approx((0.7 * 2 + 0.2) / 2)
    assert report["time"] == report["chemistry"] == pytest.approx((0.2 * 2 + 0.1 * 2) / 2)
    assert report["space"] is None
    assert report["overall"] == pytest.approx((0.4 * 0.8 + 0.167 * 0.3 + 0.1 * 0.3) / 0.667)
    assert report["overall_paper"] == 0.73
    assert judge.requests[0].json["messages"][0]["content"] == "Be strict."
    assert {r.text for r in judge.requests} == {
        f"Mark it.\nPROMPT: {prompt} WHY: about {number}" for number, prompt in bench.PROMPTS.items()
    }
    assert "the paper's was gpt-4o-2024-05-13" in report["notes"][0]
    board = load_storyboard(out / "samples" / "7")
    assert Image.decode((out / "export" / "7.png").read_bytes()) == board.steps[-1].goal_image


def test_what_is_missing_is_said_before_anybody_is_asked(tmp_path, agents, editor):
    clone, data = bench.wise_clone(tmp_path / "WISE"), bench.ueval_data(tmp_path / "data")
    wise, out = clone / "WISE_legacy" / "data", tmp_path / "out"
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/rows.json").write_text('[{"id": "1", "prompt": "p", "task": "space"}]')
    with ChatServer(ueval_judge) as judge:
        assert "--clone" in fails(*words("wise", agents, editor, wise, out, *judging(judge)))
        unasked = words("ueval", agents, editor, data, out, "--judge", f"openai:j@{judge.url}")
        assert "--yes" in fails(*unasked)
        for name, where in (("ueval", "zlab-princeton/UEval"), ("wise", "WISE_legacy/data")):
            assert where in fails(*words(name, agents, editor, tmp_path / "none", out))
        assert "lacks text_rubrics" in fails(*words("ueval", agents, editor, tmp_path / "rows", out))
        assert judge.requests == agents.requests == []


class Refuser(TintEditor):
    """Refuses the second stage until it is told not to."""

    refuses = True

    def edit(self, edits):
        no = Failure(stage="edit", message="not that stage", refused=True)
        made = super().edit(edits)
        return [no if self.refuses and "2" in e.prompt else m for e, m in zip(edits, made, strict=True)]


def test_what_an_editor_refuses_is_said_and_tried_again_on_request(tmp_path, agents):
    """And what it cannot do at all is refused before the first plan."""
    data, out, editor = bench.ueval_data(tmp_path / "data"), tmp_path / "out", Refuser()
    run = words("ueval", agents, "qwen-image-edit-2511", data, out)
    assert "--editor qwen-image+qwen-image-edit-2511" in fails(*run)
    assert "there are tasks without a picture" in fails(*run)
    assert agents.requests == []
    with serving(Models(editor=editor)) as url, ChatServer(ueval_judge) as judge:
        run = words("ueval", agents, f"server:{url}", data, out, *judging(judge))
        report = results(*run)
        (note,) = (n for n in report["notes"] if "3 samples lack what a model refused" in n)
        assert "not that stage" in note
        assert report["settings"]["background"] == "ignore"
        assert "- background: ignore" in (out / "report.md").read_text()
        asked, editor.refuses = len(agents.requests), False
        assert results(*run)["notes"] == report["notes"]
        assert len(agents.requests) == asked
        assert not any("refused" in n for n in results(*run, "--retry")["notes"])
        assert len(agents.requests) > asked


def test_the_editor_alone_in_parts_that_one_run_puts_together(tmp_path, agents, editor):
    """The paper's base row: one step, and nobody judges it."""
    clone, out = bench.wise_clone(tmp_path / "WISE"), tmp_path / "out"
    run = words("wise", agents, editor, clone / "WISE_legacy" / "data", out)
    run += ("--planner", "instruction", "--critic", "accept", "--max-attempts", 1)
    for part in ("1/2", "2/2"):
        assert results(*run, "--shard", part)["samples"] == 3
        assert not (out / "export").exists()
    made = {path: path.stat().st_mtime_ns for path in (out / "samples").rglob("*.png")}
    report = results(*run)
    assert (report["answered"], agents.requests) == (3, [])
    assert made == {path: path.stat().st_mtime_ns for path in made}
    (step,) = load_storyboard(out / "samples" / "450").steps
    assert (step.step.prompt, step.status) == (bench.PROMPTS[450], "unjudged")
    assert len(list((out / "export").glob("*.png"))) == 3


def test_all_plans_are_made_before_the_planner_s_memory_is_the_others_s(tmp_path, agents, monkeypatch):
    """As `plan` and `annotate` do it: 24 GB hold no three models."""
    monkeypatch.setattr("goalreel.models.model_set.has_gpu", lambda: True)
    events, chat = [], f"openai:agent@{agents.url}"
    preset = presets.load("klein", planner=chat, critic=chat, editor="hindsight")
    planner = Lazy(lambda: events.append("planner") or build_planner(chat), lambda: events.append("freed"))
    drawn = Lazy(lambda: events.append("editor") or TintEditor())
    judged = Lazy(lambda: events.append("critic") or build_critic(chat))
    models = ModelSet(planner, drawn, judged, Provenance(preset), planner_apart=True)
    data = bench.ueval_data(tmp_path / "data")
    report = run_benchmark(PublishedConfig(UEval(), data, tmp_path / "out", concurrency=2), models)
    assert events == ["planner", "freed", "editor", "critic"]
    assert report.answered == 3


def test_what_the_judge_says_nothing_readable_about_is_unjudged_and_never_zero(tmp_path, agents, editor):
    """And the estimate comes before the first call."""
    data, out = bench.ueval_data(tmp_path / "data"), tmp_path / "out"

    def judge_(request):
        return said("Lovely!") if "planet" in request.text else ueval_judge(request)

    with ChatServer(judge_) as judge:
        run = words("ueval", agents, editor, data, out, *judging(judge), "--price-in", 1e6, "--price-out", 0)
        result = invoke(*run, "--json")
        garbage = [r for r in judge.requests if "planet" in r.text]
        judged = len(judge.requests)
        goalreel(*run)
        assert len(judge.requests) == judged
    report = json.loads(result.stdout)
    assert report["space"] is None
    assert (report["unjudged"], report["art"]) == (1, 25)
    assert len(garbage) == 2 * 3
    assert any("goalreel's words" in note for note in report["notes"])
    line = next(line for line in result.stderr.splitlines() if "Judging takes" in line)
    assert "about 6 calls with" in line
    tokens = int(line.split("with ")[1].split(" prompt")[0].replace(",", ""))
    assert f"${tokens:,}.00" in line
    assert 6 * 20 < tokens < 6 * 400


def test_a_sample_without_a_plan_is_counted_scores_nothing_and_is_tried_again(tmp_path, agents, editor):
    data, out = bench.ueval_data(tmp_path / "data"), tmp_path / "out"
    rows = json.loads((data / "data" / "test-00000-of-00001.json").read_text())
    rows[0]["prompt"] = "unplannable"
    (data / "data" / "test-00000-of-00001.json").write_text(json.dumps(rows))
    with ChatServer(ueval_judge) as judge:
        run = words("ueval", agents, editor, data, out, *judging(judge))
        report = results(*run)
        assert (report["unplanned"], report["space"], report["unjudged"]) == (1, 0, 0)
        assert not any("planet" in r.text for r in judge.requests)
        assert "Without a plan" in (out / "report.md").read_text()
        asked = len(agents.requests)
        goalreel(*run)
    assert 0 < len(agents.requests) - asked <= 4


def test_judging_alone_needs_no_models_and_a_limit_only_adds(tmp_path, agents, editor):
    data, out = bench.ueval_data(tmp_path / "data"), tmp_path / "out"
    run = words("ueval", agents, editor, data, out)
    goalreel(*run, "--only", "generate", "--limit", 1)
    one = {p.name for p in (out / "samples").iterdir()}
    asked = len(agents.requests)
    goalreel(*run, "--limit", 2)
    two = {p.name for p in (out / "samples").iterdir()}
    assert len(one) == 1
    assert one < two
    assert len(agents.requests) == 2 * asked
    with ChatServer(ueval_judge) as judge:
        again = ("eval", "ueval", "--data", data, "--out", out, "--only", "judge", *judging(judge))
        report = results(*again)
    assert report["answered"] == 2
    assert len(agents.requests) == 2 * asked
    assert any("Only 2 of 3 samples" in note for note in report["notes"])


def test_a_dead_model_ends_the_run_in_one_line_and_what_was_made_is_kept(tmp_path, agents, editor, at_once):
    data, out = bench.ueval_data(tmp_path / "data"), tmp_path / "out"
    with ChatServer(ueval_judge) as judge, ChatServer(bench.agents) as dead:
        gone = judging(judge)
    assert "run the same command again" in fails(*words("ueval", dead, editor, data, tmp_path / "dead"))
    assert not (tmp_path / "dead/samples").exists()
    assert "run the same command again" in fails(*words("ueval", agents, editor, data, out), *gone)
    assert len(list((out / "samples").iterdir())) == 3


class Silent(TintEditor):
    """Draws nothing, as in an outage, until it is told to."""

    silent = True

    def edit(self, edits):
        made, lost = super().edit(edits), Failure(stage="edit", message="connection refused")
        return [lost if self.silent else picture for picture in made]


def test_answers_that_an_outage_cut_short_are_made_again(tmp_path, agents, at_once):
    data, out, editor = bench.ueval_data(tmp_path / "data"), tmp_path / "out", Silent()
    with serving(Models(editor=editor)) as url:
        run = words("ueval", agents, f"server:{url}", data, out, "--only", "generate")
        assert "the editor answered none" in fails(*run)
        editor.silent = False
        goalreel(*run)
    boards = [load_storyboard(path) for path in (out / "samples").iterdir()]
    assert len(boards) == 3
    assert not any(a.failure for board in boards for step in board.steps for a in step.attempts)
