"""A real OpenAI-compatible server, transformers' own, with our nano checkpoints and with a language model."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from support import wait

from goalreel.annotator.plan import plan_task
from goalreel.checkpoints import NANO
from goalreel.models import presets
from goalreel.models.load import load

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("fastapi", reason="transformers serve needs fastapi: pip install 'goalreel[serve]'")
pytestmark = [pytest.mark.process, pytest.mark.lab]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """The address of `transformers serve`, which loads a model by its folder when it is asked."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log.txt"
    command = [
        Path(sys.executable).with_name("transformers"),
        "serve",
        "--device",
        "cpu",
        "--port",
        str(port),
    ]
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            return httpx2.get(f"{url}/health", trust_env=False).is_success
        except httpx2.TransportError:
            return False

    with (
        log.open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=offline) as process,
    ):
        try:
            wait.until(ready, 300)
            yield f"{url}/v1"
        finally:
            process.kill()


def test_a_whole_plan_by_nano_behind_transformers_serve(server, tmp_path):
    from goalreel.tabletop.splits import seeds
    from goalreel_lab.bench.scenes import walks

    task = walks(seeds("validation", 3), lambda *_: None)[2].task
    preset = presets.load(
        "nano",
        planner=f"openai:{NANO / 'planner'}@{server}?max_tokens=512",
        critic=f"openai:{NANO / 'critic'}@{server}?max_tokens=512",
    )
    board = plan_task(task, tmp_path / "plan", load(preset, roles=()))
    here = plan_task(task, tmp_path / "here", load(presets.load("nano"), roles=()))
    assert board.failure is None
    assert [step.step for step in board.steps] == [step.step for step in here.steps]
    for step in board.steps:
        assert step.goal_image is not None
        assert all(attempt.verdict for attempt in step.attempts), "a verdict on each picture"
