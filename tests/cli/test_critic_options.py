"""The options of the critic reach the critic: on every command, over the preset's own."""

import html
import json

import pytest
from support.chat_server import ChatServer, Request, logprobs, said
from support.cli import goalreel, invoke
from support.serving_models import TintEditor, picture, plan_of, serving

from goalreel import load_storyboard
from goalreel.chat.conversation import Token, TokenReply
from goalreel.serving.settings import Models

SCORES = '"scores"'


def answer(request: Request):
    """A plan of two steps; a verdict that never accepts, and scores where they are asked for."""
    if request.json["model"] == "planner":
        return said(plan_of("##"))
    verdict = {"previous_step_success": False, "refine_prompt": "anew"}
    if SCORES in json.dumps(request.json["messages"]).replace('\\"', '"'):
        worse = "anew" in request.text
        verdict["scores"] = dict.fromkeys(
            ("success", "over_editing", "naturalness", "artefacts"), 3 if worse else 8
        )
    return said(f"<answer>{json.dumps(verdict)}</answer>")


@pytest.fixture(scope="module")
def server():
    with ChatServer(answer) as running:
        yield running


@pytest.fixture(scope="module")
def models(server):
    with serving(Models(editor=TintEditor())) as url:
        chats = [f"--{role}" for role in ("planner", "critic")]
        named = [f"openai:{role}@{server.url}?temperature=0.3" for role in ("planner", "critic")]
        yield [chats[0], named[0], chats[1], named[1], "--editor", f"server:{url}"]


@pytest.fixture
def frame(tmp_path):
    (tmp_path / "frame.png").write_bytes(picture().png())
    return tmp_path / "frame.png"


def planned(frame, models, *more: object):
    goalreel("plan", frame, "tidy up", "--out", frame.parent / "p", "--preset", "server", *models, *more)
    return load_storyboard(frame.parent / "p")


def test_the_mode_and_the_longest_plan_reach_the_models(frame, models, server):
    strict = len(server.requests)
    planned(frame, models, "--critic-mode", "strict")
    fast = len(server.requests)
    planned(frame, models, "--critic-mode", "fast")
    first = [
        next(r.json["messages"][0] for r in server.requests[at:] if r.json["model"] == "critic")
        for at in (strict, fast)
    ]
    assert first[0] != first[1], "another mode, another system turn"
    result = invoke(
        "plan", "tidy up", "--out", frame.parent / "q", "--preset", "server", *models, "--max-steps", 1
    )
    assert "it has 2 steps: give at most 1" in result.stderr


def unsure(request: Request):
    """A plan of a step; a picture is accepted with a probability of 0.6."""
    if request.json["model"] == "planner":
        return said(plan_of("#"))
    before, after = '{"previous_step_success": ', ', "refine_prompt": null}'
    true = Token("true", {"true": 0.6, "false": 0.4})
    tokens = (Token(before, {before: 1.0}), true, Token(after, {after: 1.0}))
    spoken = TokenReply("".join(token.text for token in tokens), tokens)
    return said(spoken.text, logprobs=logprobs(spoken))


def test_a_threshold_decides(frame, models):
    with ChatServer(unsure) as server:
        chats = ["--planner", f"openai:planner@{server.url}", "--critic", f"openai:critic@{server.url}"]
        named = [*chats, *models[-2:]]
        for threshold, status in ((0.5, "accepted"), (0.7, "rejected")):
            (step,) = planned(frame, named, "--critic-threshold", threshold, "--max-attempts", 1).steps
            assert step.status == status
            assert step.attempts[0].verdict.probability == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize(
    "option", ["--critic-threshold=1.5", "--critic-mode=loose", "--max-steps=0", "--keep=x"]
)
@pytest.mark.parametrize(
    "command",
    [
        "plan x --out o",
        "annotate d --out o",
        "serve",
        "node",
        "eval tabletop",
        "eval wise --data d --out o",
        "doctor --models nano",
    ],
)
def test_every_command_with_a_critic_has_them(command, option):
    if command.startswith("doctor") and option.startswith("--keep"):
        pytest.skip("one verdict leaves nothing to keep")
    result = invoke(*command.split(), option)
    assert result.exit_code == 2
    assert f"Invalid value for '{option.partition('=')[0]}'" in result.stderr


def test_the_report_names_the_models_and_how_they_were_asked(models, video_dataset, tmp_path, monkeypatch):
    monkeypatch.delenv("GOALREEL_INTERLEAVETHINKER", raising=False)
    asked = [f"{word}&dialect=interleavethinker" if "?" in word else word for word in models]
    out = tmp_path / "out"
    goalreel("annotate", video_dataset, "--out", out, "--preset", "server", *asked, "--episodes", "0")
    goalreel("show", out, "--out", tmp_path / "report")
    page = html.unescape((tmp_path / "report/index.html").read_text())
    for name, limit in (("openai:planner", "&max_tokens=20480"), ("openai:critic", "")):
        shown = f"{name}?dialect=interleavethinker{limit}&temperature=0.3"
        assert page.count(f"{shown} (the published prompts are not at hand") == 1
