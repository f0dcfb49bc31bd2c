"""`goalreel serve` as a user starts it: real checkpoints (tiny, random), a real process, our own clients."""

import os
import signal
import socket
import subprocess
import sys

import httpx
import numpy as np
import pytest
import typer
from support.serving_models import picture, serving, until
from support.tiny import tiny_vlm
from support.tiny_pipelines import tiny_pipeline
from typer.testing import CliRunner

from goalreel.cli.serve import serve
from goalreel.models.load import build_chat, build_editor
from goalreel.planners.chat import Message
from goalreel.planners.hf import HfChat
from goalreel.serving.settings import Models
from goalreel.types import Edit

app = typer.Typer()
app.command()(serve)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "nothing to serve"),
        (["--planner", "bard"], "no planner called 'bard'"),
        (["--editor", "nobody"], "nobody"),
        (["--planner", "hf:x", "--host", "0.0.0.0"], "GOALREEL_TOKEN"),
        (["--planner", "hf:x", "--replicas", "3"], "need --ray"),
    ],
)
def test_what_cannot_be_served_is_one_line(arguments, says, monkeypatch):
    monkeypatch.delenv("GOALREEL_TOKEN", raising=False)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert says in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_the_command_line_module_is_light():
    heavy = ("torch", "fastapi", "ray", "uvicorn", "transformers", "openai", "prometheus_client")
    code = f"import goalreel.cli.serve, sys; print([m for m in {heavy} if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


def test_a_tiny_real_chat_model_answers_over_http_as_it_does_at_home(tmp_path):
    chat = HfChat.load(str(tiny_vlm(tmp_path / "vlm")), max_new_tokens=8)
    conversations = [(Message("user", (picture(i, (96, 96)), "what next?")),) for i in range(3)]
    with serving(Models(planner=chat, critic=chat)) as url:
        said = build_chat(f"server:{url}", role="critic").complete(conversations)
    assert said == chat.complete(conversations)
    assert all(isinstance(s, str) for s in said)


def test_the_command_serves_a_tiny_real_editor_until_sigterm(tmp_path):
    name = f"diffusers:{tiny_pipeline('Flux2KleinPipeline', tmp_path / 'klein')}"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    code = "import typer; from goalreel.cli.serve import serve; typer.run(serve)"
    command = [sys.executable, "-c", code, "--editor", name, "--port", port]
    url = f"http://127.0.0.1:{port}"
    edit = Edit(task_id="t", step=0, attempt=0, image=picture(size=(64, 64)), prompt="a bowl", seed=3)
    with subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}) as server:
        try:
            until(lambda: server.poll() is not None or healthy(url), seconds=180)
            served = httpx.get(f"{url}/v1/models", timeout=60).json()["data"]
            assert {c["id"] for c in served} == {"editor", "klein"}
            (drawn,) = build_editor(f"server:{url}").edit([edit])
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()
    (at_home,) = build_editor(name).edit([edit])
    assert drawn.size == at_home.size
    assert np.abs(drawn.pixels.astype(int) - at_home.pixels).max() <= 2


def healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=60).status_code == 200
    except httpx.TransportError:
        return False
