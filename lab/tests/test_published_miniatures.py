"""`goalreel eval rise` and `comm` on miniatures: real servers as agents and judge, a tiny real editor."""

import json

import pytest
from support.chat_server import ChatServer, said
from support.cli import results
from support.miniatures import COMM_ROW, RISE_ROWS, comm_clone, comm_data, rise_clone, rise_data
from support.published import editor as tiny_editor, pictures

from goalreel.image import Image
from goalreel.storyboard_io import load_storyboard


@pytest.fixture(scope="module")
def editor(tmp_path_factory):
    return tiny_editor(tmp_path_factory.mktemp("editor") / "klein-tiny")


def agents(first):
    """A Planner of a picture and a step in words, numbered from `first`, and a Critic that accepts."""
    pictured = {"instruction": "It is poured.", "prompt": "Pour it.", "auxiliary_text": "Pour it."}
    told = {"instruction": None, "prompt": None, "auxiliary_text": "Enjoy."}
    steps = [{"step_number": first + n, "step_name": "s", **step} for n, step in enumerate((pictured, told))]

    def answer(request):
        if "execution_plan" in json.dumps(request.json["messages"]):
            return said(f"<answer>{json.dumps({'execution_plan': steps})}</answer>")
        return said('<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>')

    return answer


def evaluate(name, server, judge, editor, data, clone, out, *more):
    chat = f"openai:agent@{server.url}"
    models = ("--preset", "klein", "--planner", chat, "--critic", chat, "--editor", f"diffusers:{editor}")
    judged = ("--judge", f"openai:any@{judge.url}", "--yes", "--clone", clone)
    return results("eval", name, *models, "--data", data, "--out", out, *judged, *more)


def test_rise_from_data_to_scores(tmp_path, editor):
    rows = [RISE_ROWS[i] for i in (0, 2, 3, 6)]
    data, clone, out = rise_data(tmp_path / "data", rows), rise_clone(tmp_path / "clone"), tmp_path / "out"

    def judged(request):
        return said("**Final Score:** **" + ("4" if "spatial_cons" in request.text else "5") + "**")

    with ChatServer(agents(1)) as server, ChatServer(judged) as judge:
        report = evaluate("rise", server, judge, editor, data, clone, out)
        asked = len(server.requests), len(judge.requests)
        assert evaluate("rise", server, judge, editor, data, clone, out) == report
        assert (len(server.requests), len(judge.requests)) == asked
    keys = ("temporal", "causal", "spatial", "logical", "overall")
    assert [report[key] for key in keys] == [100, 100, 0, 100, 75]
    assert [report[f"{key}_prefix"] for key in keys] == [100, 0, 0, 100, 50]
    assert (report["overall_prefix_paper"], "overall_paper" in report) == (28.9, False)
    assert (report["unjudged"], report["unanswered"]) == (0, 0)
    assert sorted(pictures(request) for request in judge.requests) == [1] * 7 + [2] * 3
    exported = {path.stem for path in (out / "export/images").rglob("*.png")}
    assert exported == {row["index"] for row in rows}
    board = load_storyboard(out / "samples/causal_reasoning_2")
    file = out / "export/images/causal_reasoning/causal_reasoning_2.png"
    assert Image.decode(file.read_bytes()) == board.steps[0].goal_image
    assert [step.status for step in board.steps] == ["accepted", "text"]


@pytest.mark.parametrize("task", [3, 4])
def test_comm_from_data_to_scores(tmp_path, editor, task):
    """The third question is about what the judge answered to the second."""
    data, clone = comm_data(tmp_path / "data", [COMM_ROW]), comm_clone(tmp_path / "clone")
    out = tmp_path / "out"
    consistency = {"style_consistency": 9, "entity_consistency": 8, "trend_consistency": "NA"}
    document = {
        "Image_Coherence": {"overall_score": consistency},
        "Completeness": {"Score": 7},
        "Image_Quality": {"Score": 6},
    }
    replies = {
        "document": {"scores": document},
        "texts": {"Tasks": {"Pictures": {"Image 0": "a stream of tea"}}},
        "descriptions": {"Consistency": {"overall_score": 3}},
    }

    def judged(request):
        system = request.json["messages"][0]["content"].split("_")[0]
        return said(f"```json\n{json.dumps(replies[system])}\n```")

    with ChatServer(agents(3 if task == 3 else 1)) as server, ChatServer(judged) as judge:
        report = evaluate("comm", server, judge, editor, data, clone, out, "--task", task)
        assert evaluate("comm", server, judge, editor, data, clone, out, "--task", task) == report
        assert len(judge.requests) == 3
    assert [report[key] for key in ("sty", "enti", "tren", "comp", "imgq", "irs")] == [9, 8, 0, 7, 6, 3]
    assert report["irs_paper"] == {3: 5.2, 4: 8.2}[task]
    assert (report["unjudged"], report["unanswered"]) == (0, 0)
    assert judge.requests[0].json["temperature"] == 1.0
    given = 2 if task == 3 else 0
    assert [pictures(request) for request in judge.requests[2:]] == [1]
    assert {pictures(request) for request in judge.requests[:2]} == {given, given + 1}
    assert "a stream of tea" in judge.requests[2].text
    exported = json.loads((out / f"export/site_tea-1_task{task}/results.json").read_text())
    wanted = {3: "(3) Pour it. <IMAGE> (4) Enjoy.", 4: "(1) Pour it. <IMAGE> (2) Enjoy."}
    assert exported["model_output"] == wanted[task]
    asked = server.requests[0]
    assert pictures(asked) == given
    assert ("Fill the pot." in json.dumps(asked.json)) == (task == 3)
