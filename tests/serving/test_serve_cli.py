"""`goalreel serve` as a user starts it: real checkpoints (tiny, random), a real process, our own clients."""

import signal
import socket

import httpx
import numpy as np
import pytest
from support.browser import KillableServer
from support.cli import fails
from support.serving_models import picture
from support.tiny import tiny_vlm
from support.tiny_pipelines import tiny_pipeline

from goalreel.chat.conversation import Message
from goalreel.editors.catalogue import like
from goalreel.models.load import build_chat, build_editor
from goalreel.types import Edit

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


@pytest.mark.process
def test_the_command_serves_tiny_real_models_until_sigterm_as_they_answer_at_home(tmp_path):
    vlm, klein = tiny_vlm(tmp_path / "vlm"), tiny_pipeline(KLEIN, tmp_path / "klein")
    like(KLEIN).model_copy(update={"size": (64, 64), "steps": 2}).save(klein)
    chat, editor = f"hf:{vlm}?max_new_tokens=8", f"diffusers:{klein}"
    names = ("--planner", chat, "--critic", chat, "--editor", editor)
    code = "from goalreel.cli.main import app; app()"
    server = KillableServer(code, "serve", *names, "--port", "PORT", look="/health")
    edit = Edit(task_id="t", step=0, attempt=0, image=picture(size=(64, 64)), prompt="a bowl", seed=3)
    conversations = [(Message("user", (picture(i, (96, 96)), "what next?")),) for i in range(3)]
    server.start()
    try:
        said = build_chat(chat, role="critic").complete(conversations)
        (drawn,) = build_editor(editor).edit([edit])
        served = httpx.get(f"{server.url}/v1/models", timeout=60).json()["data"]
        assert {c["id"] for c in served} >= {"planner", "critic", "editor", "klein"}
        assert build_chat(f"server:{server.url}", role="critic").complete(conversations) == said
        (far,) = build_editor(f"server:{server.url}").edit([edit])
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    finally:
        server.kill()
    assert all(reply.cut_off for reply in said), "random weights do not end; the client must learn it"
    assert drawn.size == far.size
    assert np.abs(drawn.pixels.astype(int) - far.pixels).max() <= 2
