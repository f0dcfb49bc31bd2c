"""`goalreel doctor --models`: real questions to real models and servers, good, bad, absent and dead."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.chat_server import ChatServer, Reply, Request, error, said
from support.cli import fails, goalreel, invoke
from support.serving_models import TintEditor, picture, plan_of, serving

from goalreel.annotator.model_check import INSTRUCTION, SCENE
from goalreel.image import Image
from goalreel.serving.settings import Models

KEY = "sk-s3cret"
NO = '<think>no</think><answer>{"previous_step_success": false, "refine_prompt": null}</answer>'
YES = '<think>fine</think><answer>{"previous_step_success": true, "refine_prompt": null}</answer>'


def good(request: Request) -> Reply:
    if request.json["model"] == "planner":
        return said(plan_of("##"))
    parts = [p for m in request.json["messages"] if isinstance(m["content"], list) for p in m["content"]]
    pictures = [p["image_url"]["url"] for p in parts if p["type"] == "image_url"]
    if not pictures:
        return said(NO)
    before, after = pictures
    is_true = after != before and "outside" not in request.text and not lacks_the_block(after)
    return said(YES if is_true else NO)


def lacks_the_block(url: str) -> bool:
    """Tell whether a picture is the drawn one without its red block: blank, or damaged."""
    image = Image.decode(base64.b64decode(url.partition(",")[2]))
    red = np.abs(image.pixels.astype(int) - (196, 44, 40)).sum(-1) < 30
    return image.size == (512, 512) and red.sum() < 1000


@pytest.fixture
def editor():
    with serving(Models(editor=TintEditor())) as url:
        yield f"server:{url}"


def preset(folder: Path, planner: str, editor: str, critic: str) -> str:
    text = f"# mine\nplanner: {planner}\neditor: {editor}\ncritic: {critic}\nmax_attempts: 1\n"
    (folder / "mine.yaml").write_text(text)
    return str(folder / "mine.yaml")


def trial(folder: Path) -> dict[str, dict]:
    return {role["role"]: role for role in json.loads((folder / "trial.json").read_text())["models"]}


@pytest.mark.long
def test_the_models_that_come_with_goalreel(tmp_path):
    shown = goalreel("doctor", "--models", "nano", "--out", tmp_path)
    assert "dialect own, temperature 0 (greedy)" in shown
    found = trial(tmp_path)
    for role in ("planner", "critic"):
        (reply,) = found[role]["replies"]
        assert all(line in shown for line in reply["text"].splitlines())
        assert reply["text"].startswith("<think>")
    assert Image.decode((tmp_path / "frame.png").read_bytes()) == Image.of(SCENE)
    assert Image.decode((tmp_path / "edited.png").read_bytes()) != Image.of(SCENE)
    assert INSTRUCTION in json.loads((tmp_path / "asked.json").read_text())["planner"][-1]
    assert all(model["load_s"] > 0 and model["ask_s"] > 0 for model in found.values())


def test_what_was_asked_and_answered_is_saved_without_keys(editor, tmp_path, monkeypatch):
    monkeypatch.setenv("GOALREEL_API_KEY", KEY)
    (tmp_path / "scene.png").write_bytes(picture().png())
    with ChatServer(good) as server:
        chat = f"@{server.url}?temperature=0.5&dialect=interleavethinker"
        mine = preset(tmp_path, f"openai:planner{chat}", editor, f"openai:critic{chat}")
        out = tmp_path / "out"
        frame = ("--frame", tmp_path / "scene.png", "--instruction", "tidy up")
        shown = goalreel("doctor", "--models", mine, *frame, "--out", out, "--json")
        assert {r.headers["authorization"] for r in server.requests} == {f"Bearer {KEY}"}
    assert json.loads(shown)["usable"]
    planner, critic = trial(out)["planner"], trial(out)["critic"]
    assert [(r["text"], r["read_as"]) for r in planner["replies"]] == [(plan_of("##"), "2")]
    assert [(r["text"], r["read_as"]) for r in critic["replies"]] == [(YES, "yes")]
    assert critic["sight"] == "accepted what is true, and nothing else"
    asked = json.loads((out / "asked.json").read_text())
    assert "do 0" in "".join(asked["critic"]), "the first step's prompt"
    assert "[20 x 10 picture]" in "".join(asked["critic"])
    for turn in (turn.partition(": ")[2] for turns in asked.values() for turn in turns):
        assert json.dumps(turn) not in shown + (out / "trial.json").read_text(), "no prompt, to be attached"
    assert "dialect interleavethinker, temperature 0.5" in critic["how"]
    assert "the published prompts are not at hand" in critic["note"]
    for path in out.iterdir():
        assert KEY.encode() not in path.read_bytes()


def test_what_cannot_be_read_is_shown_with_why(editor, tmp_path):
    with ChatServer(
        lambda request: said("I would rather not." if request.json["model"] == "p" else YES)
    ) as server:
        mine = preset(tmp_path, f"openai:p@{server.url}", editor, f"openai:c@{server.url}")
        result = invoke("doctor", "--models", mine, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert result.stdout.count("    | I would rather not.") == 3
    assert "  reply 3 cannot be read: " in result.stdout
    assert "  failed  no usable answer in 3 replies" in result.stdout
    assert f"  fix     it is named in {mine}" in result.stdout
    kinds = ("blank", "unchanged", "opposite_words", "damaged")
    blind = f"failed  it is blind: {'; '.join(f'it accepted {kind}' for kind in kinds)}"
    assert blind in result.stdout, "the critic is asked all the same"
    replies = trial(tmp_path / "out")["planner"]["replies"]
    assert [reply["read_as"] for reply in replies] == [None] * 3
    assert replies[0]["problem"]


def test_replies_before_a_server_fails_are_kept(editor, tmp_path):
    heard = {"p": iter([said("I would rather not.")]), "c": iter([said(NO)])}
    with ChatServer(lambda request: next(heard[request.json["model"]], error(404, "gone"))) as server:
        mine = preset(tmp_path, f"openai:p@{server.url}", editor, f"openai:c@{server.url}")
        result = invoke("doctor", "--models", mine, "--out", tmp_path / "out")
    assert "    | I would rather not." in result.stdout
    planner, critic = trial(tmp_path / "out")["planner"], trial(tmp_path / "out")["critic"]
    assert "gone" in planner["problem"]
    assert "gone" in critic["problem"], "its first answer is no sign that it looks"
    assert [reply["text"] for reply in planner["replies"]] == ["I would rather not."]


def test_a_model_that_is_not_there_is_one_line_to_change(editor, tmp_path):
    with ChatServer(lambda request: error(404, "no such model")) as server:
        mine = preset(tmp_path, f"openai:old@{server.url}", editor, "nonsense")
        result = invoke("doctor", "--models", mine, "--out", tmp_path / "out")
        option = ("--planner", f"hf:{tmp_path / 'nowhere'}", "--editor", editor, "--critic", "difference")
        other = invoke("doctor", "--models", "nano", *option, "--out", tmp_path)
    assert result.exit_code == other.exit_code == 1
    assert result.stdout.count(f"  fix     it is named in {mine}") == 2
    assert "a picture of 128 x 128" in result.stdout, "the editor is asked all the same"
    assert "  fix     it is named in --planner" in other.stdout
    assert other.stdout.count("  failed  ") == 1, "the rules of `difference` need no server"


def test_a_dead_server(tmp_path, retry_pauses):
    dead = "http://127.0.0.1:9"
    mine = preset(tmp_path, f"openai:p@{dead}/v1", "hindsight", f"openai:c@{dead}/v1")
    result = invoke("doctor", "--models", mine, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert result.stdout.count(f"  failed  cannot reach {dead}/v1: is the server running?") == 2
    assert "hindsight only reads recordings" in result.stdout


def counting(with_pictures: int) -> Callable[[Request], Reply]:
    """A critic that says no, and counts so many tokens."""

    def answer(request: Request) -> Reply:
        count = with_pictures if "image_url" in json.dumps(request.json) else 500
        body = json.loads(said(NO).body) | {"usage": {"prompt_tokens": count, "completion_tokens": 9}}
        return Reply(body=json.dumps(body).encode())

    return answer


@pytest.mark.parametrize(("count", "ok"), [(500, False), (60, False), (1000, True)])
def test_a_server_that_drops_the_pictures_counts_too_few_tokens(count, ok, editor, tmp_path, caplog):
    with ChatServer(counting(count)) as server:
        critic = ("--critic", f"openai:c@{server.url}")
        others = ("--planner", "kinematic", "--editor", editor)
        invoke("doctor", "--models", "nano", *others, *critic, "--out", tmp_path)
    found = trial(tmp_path)["critic"]
    assert (found["problem"] is None) == ok
    assert ok or f"its server counts {count} tokens with the pictures and 500 without" in found["problem"]
    assert ("cannot hold a question and its pictures" in caplog.text) == (count == 60)


@pytest.mark.parametrize("looks", [True, False])
def test_a_planner_that_watches_is_asked_about_frames_in_disorder(looks, editor, tmp_path):
    sheets = dict[str, int]()

    def answer(request: Request) -> Reply:
        if "You watch a recorded robot episode" not in json.dumps(request.json):
            return good(request)
        cut = 30 + 5 * sheets.setdefault(json.dumps(request.json), len(sheets)) if looks else 30
        ends = {"outcome": "done", "agrees": True, "seen": None}
        spans = [(0, cut, "carry the block"), (cut, 60, "let go of it")]
        parts = [{"start": a, "end": b, "name": n, "state": "it is so", **ends} for a, b, n in spans]
        return said(json.dumps({"segments": parts}))

    with ChatServer(answer) as server:
        mine = preset(tmp_path, f"watch:openai:planner@{server.url}", editor, f"openai:critic@{server.url}")
        invoke("doctor", "--models", mine, "--out", tmp_path / "out")
    asked = trial(tmp_path / "out")["planner"]
    if looks:
        assert asked["problem"] is None
        assert asked["sight"] == "frames that are shuffled or frozen gave other steps (2 of 2 answered)"
    else:
        assert asked["problem"] == "it is blind: the same steps for frames that are shuffled or frozen"


def test_what_does_not_fit_is_one_line(tmp_path):
    (tmp_path / "scene.png").write_bytes(picture().png())
    out = ("--out", tmp_path / "out")
    assert "--frame needs --instruction" in fails(
        "doctor", "--models", "nano", "--frame", tmp_path / "scene.png", *out
    )
    assert "these options need --models PRESET" in fails("doctor", "--instruction", "tidy up", *out)
    assert "no preset 'magic'" in fails("doctor", "--models", "magic", *out)
    assert "give --planner and --editor and --critic" in fails("doctor", "--models", "api", *out)
    assert not (tmp_path / "out").exists()
