"""`goalreel serve` as a user starts it, and at it OpenAI's own client: replies, pictures, names, errors."""

import base64
import math
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import openai
import pytest
from support import serving_models
from support.cli import fails, invoke, kept_signals
from support.serving_models import EchoChat, TintEditor, content, describe, picture, say, serving, tinted
from support.tiny import tiny_vlm
from support.tiny_pipelines import tiny_pipeline

from goalreel.chat.conversation import Message, Token, TokenReply, Usage
from goalreel.critics.chat import ChatCritic
from goalreel.editors.catalogue import like
from goalreel.image import Image
from goalreel.models.load import build_chat, build_editor
from goalreel.serving.settings import Models
from goalreel.types import Candidate, Edit

NAME = "hf:lab/planner-8b"
HELLO = [{"role": "user", "content": "hello"}]
SCENE = picture(1)
URL = "data:image/png;base64," + base64.b64encode(SCENE.png()).decode()


class Counting(EchoChat):
    """An EchoChat that counts: 5 tokens of the prompt, and one a letter."""

    def replies(self, conversations, *, schema=None):
        return [
            TokenReply(r, tuple(Token(c, {c: 1.0}) for c in r), Usage(5, len(r))) if isinstance(r, str) else r
            for r in super().replies(conversations, schema=schema)
        ]


@pytest.fixture(scope="module")
def client():
    models = Models(planner=Counting(), critic=EchoChat(), editor=TintEditor(), planner_name=NAME)
    with serving(models) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, **more):
    return client.chat.completions.create(**{"model": "planner", "messages": HELLO, **more})


def test_a_reply_whole_with_its_usage_or_cut_off(client):
    reply = ask(client, logprobs=True)
    assert reply.choices[0].message.content == "hello"
    assert reply.choices[0].finish_reason == "stop"
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (5, 5, 10)
    assert ask(client, model="critic", logprobs=True).usage is None, "it does not count"
    cut = ask(client, messages=[{"role": "user", "content": "endless"}])
    assert cut.choices[0].finish_reason == "length"
    assert ask(client, extra_body={"tools": None, "stop": None, "logit_bias": None}).choices, "not asked for"


def test_a_reply_ends_before_what_stops_it(client):
    for stop, expected in (("l", "he"), (["zz", "lo"], "hel"), ("h", ""), ("x", "hello")):
        reply = ask(client, stop=stop, logprobs=True)
        assert reply.choices[0].message.content == expected
        assert "".join(t.token for t in getattr(reply.choices[0].logprobs, "content", [])) == expected


def test_every_form_of_a_part_is_read(client):
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
        {"type": "image_url", "image_url": URL},
    ]
    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": parts}]
    reply = ask(client, messages=messages).choices[0].message
    assert reply.content == " ".join(["see", *[describe(SCENE)] * 2])
    assert ask(client, messages=[*messages, reply, *HELLO]).choices[0].message.content == "hello"


def test_names_are_listed_and_found(client):
    assert {m.id for m in client.models.list()} == {"planner", "critic", "editor", NAME}
    assert client.models.retrieve(NAME).id == NAME
    with pytest.raises(openai.NotFoundError, match="critic, editor, planner") as refused:
        client.models.retrieve("gpt-5")
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


PART = "messages.0.content.0"


def parts(part: dict) -> dict:
    return {"messages": [{"role": "user", "content": [part]}]}


@pytest.mark.parametrize(
    ("change", "param", "said"),
    [
        ({"n": 2}, "n", "should be 1"),
        ({"extra_body": {"temprature": 1}}, "temprature", "Extra inputs are not permitted"),
        ({"tools": []}, "tools", "Extra inputs"),
        ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({"stop": [""]}, "stop.0", "at least 1 character"),
        ({"stream": True}, "stream", "should be false: an answer is sent when it is whole"),
        ({"messages": []}, "messages", "at least 1 item"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages.0.role", "'user'"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages.0.content", "should be a valid list"),
        ({"messages": [{"role": "user"}]}, "messages.0.content", "Field required"),
        (parts({"type": "input_audio", "input_audio": {}}), PART, "expected tags: 'text', 'image_url'"),
        (parts({"text": "x"}), PART, "Unable to extract tag"),
        (parts({"type": "image_url", "image_url": {}}), f"{PART}.image_url.url", "Field required"),
        (parts({"type": "text", "text": None}), "messages.0.content.0.text", "should be a valid string"),
    ],
)
def test_what_is_not_understood_is_a_bad_request_in_words(client, change, param, said):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, **change)
    error = refused.value
    assert (error.param, error.type) == (param, "invalid_request_error")
    assert error.body["message"].startswith(f"{param or 'the body'}: ")
    assert said in error.body["message"]
    assert "[" not in error.body["message"].replace("list[", "")


@pytest.mark.parametrize(
    ("text", "kind"), [("no backend", openai.InternalServerError), ("no reply", openai.APIStatusError)]
)
def test_an_error_has_its_status(client, text, kind):
    with pytest.raises(kind) as failed:
        ask(client, messages=[{"role": "user", "content": text}])
    assert failed.value.status_code == (503 if text == "no backend" else 424)


def edit(client: openai.OpenAI, **more):
    image = ("a.png", SCENE.png(), "image/png")
    return client.images.edit(**{"model": "editor", "image": image, "prompt": "a cup", **more})


def decoded(encoded: str) -> Image:
    return Image.decode(base64.b64decode(encoded))


def test_a_picture_comes_whole(client):
    seed = {"extra_body": {"seed": 3}}
    expected = tinted(SCENE, "a cup", 3)
    whole = edit(client, image=[SCENE.png()], quality="high", output_format="png", **seed)
    assert decoded(whole.data[0].b64_json) == expected
    drawn = client.images.generate(model="editor", prompt="a cup", **seed)
    assert decoded(drawn.data[0].b64_json) == tinted(None, "a cup", 3)


@pytest.mark.parametrize(
    "change",
    [
        {"n": 2},
        {"stream": True},
        {"size": "1024x1024"},
        {"output_format": "jpeg"},
        {"response_format": "url"},
        {"extra_body": {"sede": 1}},
        {"extra_body": {"seed": -1}},
    ],
)
def test_a_picture_that_cannot_be_had_is_a_bad_request(client, change):
    (name,) = change.get("extra_body", change)
    with pytest.raises(openai.BadRequestError) as refused:
        edit(client, **change)
    assert refused.value.param == name
    with pytest.raises(openai.BadRequestError, match=name):
        client.images.generate(**{"model": "editor", "prompt": "x", **change})
    with pytest.raises(openai.BadRequestError, match="mask"):
        edit(client, mask=("m.png", SCENE.png(), "image/png"))


def test_a_body_that_is_no_request_is_refused_in_words(client):
    url = str(client.base_url)
    as_json = {"Content-Type": "application/json"}
    for path, body, said in (
        ("chat/completions", {"content": b"{", "headers": as_json}, "the body is no JSON"),
        ("chat/completions", {"content": b"[1]", "headers": as_json}, "should be a JSON object"),
        ("chat/completions", {"content": b"{}"}, "sent as application/json"),
        ("images/edits", {"data": {"prompt": "x", "image": "y"}}, "image: should be a file"),
        ("images/edits", {"data": {"image": "y"}}, "prompt: Field required"),
    ):
        answer = httpx.post(url + path, timeout=60, **body)
        assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True), answer.text


@pytest.fixture(scope="module")
def served():
    with serving_models.talking(Models(planner=serving_models.TokenEcho(), critic=EchoChat())) as client:
        yield client


def test_the_official_client_reads_them(served):
    official = openai.OpenAI(base_url=f"{served.base_url}/v1", api_key="unused", max_retries=0)
    (choice,) = official.chat.completions.create(
        model="planner", messages=[{"role": "user", "content": "aü"}], logprobs=True, top_logprobs=2
    ).choices
    assert choice.message.content == "aü"
    first, second = choice.logprobs.content
    assert (first.token, second.token, second.bytes) == ("a", "ü", list("ü".encode()))
    assert first.logprob == pytest.approx(math.log(0.5))
    assert [(t.token, t.logprob) for t in first.top_logprobs] == [
        ("a", pytest.approx(math.log(0.5))),
        ("?", pytest.approx(math.log(0.25))),
    ]
    (token,) = say(served, "a", logprobs=True, top_logprobs=20).json()["choices"][0]["logprobs"]["content"]
    assert token["top_logprobs"][-1] == {"token": "!", "logprob": -9999.0, "bytes": [33]}, "it is still JSON"


def test_the_probability_gets_through_to_a_client():
    models = Models(
        planner=serving_models.PlannerChat(), critic=serving_models.TokenCritic(), editor=TintEditor()
    )
    candidate = Candidate(task_id="t", step=0, source=None, image=picture(), instruction="a", prompt="b")
    with serving(models) as url:
        (verdict,) = ChatCritic(build_chat(f"server:{url}", role="critic")).judge([candidate])
        assert (verdict.success, verdict.probability) == (True, pytest.approx(0.75))


def test_none_unless_asked_for_and_none_of_a_model_that_tells_none(served):
    assert say(served, "a").json()["choices"][0]["logprobs"] is None
    silent = say(served, "a", "critic", logprobs=True, top_logprobs=5)
    assert (content(silent), silent.json()["choices"][0]["logprobs"]) == ("a", None)
    lost = say(served, "no reply", logprobs=True)
    assert (lost.status_code, "too long" in lost.text) == (424, True)
    assert say(served, "a", logprobs=True, top_logprobs=21).status_code == 400


KLEIN = "Flux2KleinPipeline"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "nothing to serve"),
        (["--planner", "bard"], "no planner called 'bard'"),
        (["--editor", "nobody"], "nobody"),
        (["--planner", "hf:x", "--host", "0.0.0.0"], "GOALREEL_TOKEN"),
    ],
)
def test_what_cannot_be_served_is_one_line(arguments, says, monkeypatch):
    monkeypatch.delenv("GOALREEL_TOKEN", raising=False)
    assert says in fails("serve", *arguments)


def test_a_port_that_is_taken_is_said_before_a_model_is_loaded():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = fails("serve", "--planner", "hf:/nowhere", "--port", port)
    what_to_do = "end what listens there, or choose another with --port"
    assert said == f"goalreel: port {port} of 127.0.0.1 is taken: {what_to_do}"


def test_the_command_serves_tiny_real_models_until_sigterm_as_they_answer_at_home(tmp_path):
    vlm, klein = tiny_vlm(tmp_path / "vlm"), tiny_pipeline(KLEIN, tmp_path / "klein")
    like(KLEIN).model_copy(update={"size": (64, 64), "steps": 2}).save(klein)
    chat, editor = f"hf:{vlm}?max_new_tokens=8", f"diffusers:{klein}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    names = ("--planner", chat, "--critic", chat, "--editor", editor, "--port", port)
    edit = Edit(task_id="t", step=0, attempt=0, image=picture(size=(64, 64)), prompt="a bowl", seed=3)
    conversations = [(Message("user", (picture(i, (96, 96)), "what next?")),) for i in range(3)]
    said = build_chat(chat, role="critic").complete(conversations)
    (drawn,) = build_editor(editor).edit([edit])
    url = f"http://127.0.0.1:{port}"

    def ask() -> tuple[set[str], list, list[Image]]:
        try:
            with httpx.Client(transport=httpx.HTTPTransport(retries=9), timeout=60) as patient:
                listed = {c["id"] for c in patient.get(f"{url}/v1/models").json()["data"]}
            replies = build_chat(f"server:{url}", role="critic").complete(conversations)
            return listed, replies, build_editor(f"server:{url}").edit([edit])
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    with kept_signals(), ThreadPoolExecutor() as pool:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # but for the handler of a server that runs
        heard = pool.submit(ask)
        served = invoke("serve", *names)
    assert served.exit_code == 0, served.stderr
    listed, same, (far,) = heard.result()
    assert listed >= {"planner", "critic", "editor", "klein"}
    assert same == said
    assert all(reply.cut_off for reply in said), "random weights do not end; the client must learn it"
    assert drawn.size == far.size
    assert np.abs(drawn.pixels.astype(int) - far.pixels).max() <= 2
