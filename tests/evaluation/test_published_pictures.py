"""`goalreel eval rise` and `comm`, whose samples hold pictures, on miniatures through the whole command."""

import json

import pytest

pytest.importorskip("diffusers", reason="needs diffusers: pip install 'goalreel[gpu]'")

from support import published as bench
from support.chat_server import ChatServer, said
from support.cli import goalreel

from goalreel.folder import load_storyboard

SCORES = {
    "Image_Coherence": {
        "overall_score": {"style_consistency": 9, "entity_consistency": 8, "trend_consistency": 7}
    },
    "Completeness": {"Score": 6},
    "Image_Quality": {"Score": 5},
}


@pytest.fixture(scope="module")
def editor(tmp_path_factory):
    return bench.editor(tmp_path_factory.mktemp("editor") / "klein-tiny")


@pytest.fixture
def agents():
    with ChatServer(bench.agents) as server:
        yield server


def run(name, agents, editor, judge, data, out, *more):
    chat = f"openai:agent@{agents.url}"
    models = ("--planner", chat, "--critic", chat, "--editor", f"diffusers:{editor}")
    judging = ("--judge", f"openai:gpt-4o@{judge.url}", "--yes", "--json")
    text = goalreel("eval", name, *models, "--data", data, "--out", out, *judging, *more)
    return json.loads(text.splitlines()[-1])


def rise_judge(request):
    """Perfect, but for what is asked about the second row's reasoning."""
    failed = "reasoning" in request.text and "Do 2" in request.text
    return said(f"Well.\nFinal Score: {2 if failed else 5}")


def comm_judge(request):
    system = request.json["messages"][0]["content"]
    if "document" in system:
        return said(json.dumps({"scores": SCORES}))
    if "texts_to" in system:
        return said(json.dumps({"Tasks": {"Step 1": {"<IMAGE_3>": "a pot", "<IMAGE_4>": "a cup"}}}))
    return said(json.dumps({"Consistency": {"overall_score": 4}}))


def test_rise_from_data_to_scores(tmp_path, agents, editor):
    (tmp_path / "data").mkdir()
    data, out = bench.rise_data(tmp_path / "data"), tmp_path / "out"
    clone = bench.rise_clone(tmp_path / "clone")
    with ChatServer(rise_judge) as judge:
        report = run("rise", agents, editor, judge, data, out, "--clone", clone)
        asked = len(judge.requests), len(agents.requests)
        again = run("rise", agents, editor, judge, data, out, "--clone", clone)
        assert (len(judge.requests), len(agents.requests)) == asked
    assert again == report
    assert (report["temporal"], report["causal"], report["overall"]) == (100, 0, 50)
    assert report["overall_prefix_paper"] == 28.9
    assert (report["unjudged"], report["unplanned"]) == (0, 0)
    board = load_storyboard(out / "samples" / "temporal_reasoning_1")
    assert board.task.images == (board.task.image,)
    assert (out / "export/images/temporal_reasoning/temporal_reasoning_1.png").is_file()


@pytest.mark.parametrize("task", [3, 4])
def test_comm_asks_its_third_question_after_the_second(tmp_path, agents, editor, task):
    (tmp_path / "data").mkdir()
    data, out = bench.comm_data(tmp_path / "data"), tmp_path / "out"
    clone = bench.comm_clone(tmp_path / "clone")
    more = ("--clone", clone, "--task", task)
    with ChatServer(comm_judge) as judge:
        report = run("comm", agents, editor, judge, data, out, *more)
        assert len(judge.requests) == 3
        assert run("comm", agents, editor, judge, data, out, *more) == report
        assert len(judge.requests) == 3
    assert "a cup" in judge.requests[2].text
    assert [report[key] for key in ("sty", "enti", "tren", "comp", "imgq", "irs")] == [9, 8, 7, 6, 5, 4]
    assert (report["task"], report["unjudged"]) == (task, 0)
    board = load_storyboard(next((out / "samples").iterdir()))
    assert len(board.task.done) == (2 if task == 3 else 0)
    assert judge.requests[0].json["temperature"] == 1.0
