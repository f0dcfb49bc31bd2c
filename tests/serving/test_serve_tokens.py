"""How likely a served model's tokens were, over real HTTP: OpenAI's shape, and the Critic's probability."""

import math

import openai
import pytest
from support.serving_models import (
    EchoChat,
    PlannerChat,
    TintEditor,
    TokenCritic,
    TokenEcho,
    content,
    picture,
    say,
    serving,
    talking,
)

from goalreel.critics.chat import ChatCritic
from goalreel.models.load import build_chat
from goalreel.serving.settings import Models
from goalreel.types import Candidate


@pytest.fixture
def served():
    models = Models(planner=TokenEcho(), critic=EchoChat())
    with talking(models) as client:
        yield client, models.planner


def test_the_official_client_reads_them(served):
    client, _ = served
    official = openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="unused", max_retries=0)
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


def test_what_could_not_have_stood_there_is_still_json(served):
    client, _ = served
    (token,) = say(client, "a", logprobs=True, top_logprobs=20).json()["choices"][0]["logprobs"]["content"]
    assert token["top_logprobs"][-1] == {"token": "!", "logprob": -9999.0, "bytes": [33]}


def test_the_probability_gets_through_to_a_client():
    models = Models(planner=PlannerChat(), critic=TokenCritic(), editor=TintEditor())
    candidate = Candidate(task_id="t", step=0, source=None, image=picture(), instruction="a", prompt="b")
    with serving(models) as url:
        (verdict,) = ChatCritic(build_chat(f"server:{url}", role="critic")).judge([candidate])
        assert (verdict.success, verdict.probability) == (True, pytest.approx(0.75))


def test_none_unless_asked_for_and_none_of_a_model_that_tells_none(served):
    client, _ = served
    assert say(client, "a").json()["choices"][0]["logprobs"] is None
    silent = say(client, "a", "critic", logprobs=True, top_logprobs=5)
    assert (content(silent), silent.json()["choices"][0]["logprobs"]) == ("a", None)
    lost = say(client, "no reply", logprobs=True)
    assert (lost.status_code, "too long" in lost.text) == (424, True)
    assert say(client, "a", logprobs=True, top_logprobs=21).status_code == 400
