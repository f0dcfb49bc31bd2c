"""What `goalreel serve --ray` makes of its command line for storyboards, without a cluster."""

import socket
from contextlib import nullcontext

import httpx
import pytest
import typer
from support.serving_models import serving
from typer.testing import CliRunner

from goalreel.chat.openai import OpenAIChat
from goalreel.cli.serve import serve
from goalreel.editors.remote import RemoteEditor
from goalreel.serving.settings import Models, ServeSettings

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
app = typer.Typer()
app.command()(serve)
PLANNER, CRITIC = "hf:InterleaveThinker/InterleaveThinker-Planner-8B", "hf:weights/critic"


@pytest.fixture
def replicated(monkeypatch):
    """The models of the storyboards' application by the options of the command."""
    from goalreel.serving import cluster

    deployed = []
    monkeypatch.delenv("GOALREEL_TOKEN", raising=False)
    monkeypatch.setattr(
        cluster, "serve_cluster", lambda build, settings, *_, **__: deployed.append((build, settings))
    )
    monkeypatch.setattr("goalreel.http.access.listen", lambda *_: nullcontext())

    def models(*options: str) -> tuple[Models, ServeSettings]:
        CliRunner().invoke(app, [*options, "--ray", "--port", "4321"], catch_exceptions=False)
        build, settings = deployed.pop()
        return cluster._replicated(build, settings), settings

    return models


def test_storyboards_are_asked_for_as_the_options_say(replicated):
    asked = ["--critic-mode", "fast", "--critic-scores", "--critic-threshold", "0.7"]
    models, settings = replicated("--planner", PLANNER, "--critic", CRITIC, *asked)
    loop = settings.loop
    assert (loop.critic_mode, loop.critic_scores, loop.critic_threshold) == ("fast", True, 0.7)
    assert (loop.max_attempts, loop.max_steps, loop.keep) == (3, 40, "best")
    assert models.planner_dialect.name == "interleavethinker"
    assert models.critic_dialect.name == "own"


def test_the_models_are_the_replicas(replicated):
    models, _ = replicated("--planner", PLANNER, "--critic", CRITIC, "--editor", "flux2-klein-4b")
    url = "http://127.0.0.1:4321/v1"
    for chat, role in ((models.planner, "planner"), (models.critic, "critic")):
        assert isinstance(chat, OpenAIChat)
        assert (chat.model, chat.base_url) == (role, url)
    assert isinstance(models.editor, RemoteEditor)
    assert models.editor._client.endpoint.address == url


def test_a_role_that_is_not_named_is_missing(replicated):
    models, _ = replicated("--planner", PLANNER, "--editor", "flux2-klein-4b")
    with serving(models) as url:
        answer = httpx.post(f"{url}/v1/storyboards", json={"instruction": "tidy up"}, timeout=60)
    assert (answer.status_code, "this server has no critic" in answer.text) == (404, True)


def test_a_taken_port_is_one_line_before_a_cluster_is_begun():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = CliRunner().invoke(app, ["--planner", PLANNER, "--ray", "--port", port])
    assert ended.exit_code == 1
    assert f"port {port} of 127.0.0.1 is taken" in ended.output
    assert ended.output.count("\n") == 1
