"""Servers of the nano models: as docs/how-to/serve-models.md prints it, and transformers' own."""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from support.pages import text_of
from support.wait import until

from goalreel.annotator.plan import plan_task
from goalreel.checkpoints import NANO
from goalreel.models import presets
from goalreel.models.load import load

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("fastapi", reason="needs fastapi: pip install 'goalreel[serve]'")
pytestmark = [pytest.mark.process, pytest.mark.lab]


@contextmanager
def server(words: Sequence[str], url: str) -> Iterator[None]:
    """Run a command of this environment until it is healthy."""

    def healthy() -> bool:
        assert process.poll() is None
        try:
            return httpx.get(f"{url}/health", timeout=60, trust_env=False).is_success
        except httpx.TransportError:
            return False

    command = [str(Path(sys.executable).with_name(words[0])), *words[1:]]
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(command, env=offline) as process:
        try:
            until(healthy, 300)
            yield
        finally:
            process.kill()


def check_plan(preset: presets.Preset, folder: Path) -> bool:
    """Models behind a server plan as they do in this process; whether every step comes out alike too."""
    from goalreel.tabletop.splits import seeds
    from goalreel_lab.bench.scenes import walks

    task = walks(seeds("validation", 3), lambda *_: None)[2].task
    there = plan_task(task, folder / "there", load(preset, roles=()))
    here = plan_task(task, folder / "here", load(presets.load("nano"), roles=()))
    assert (there.failure, here.failure) == (None, None)
    assert [step.step for step in there.steps] == [step.step for step in here.steps]
    assert all(attempt.verdict for step in there.steps for attempt in step.attempts)
    return [step.status for step in there.steps] == [step.status for step in here.steps]


def test_goalreels_server(tmp_path):
    (line,) = re.findall(r"`(goalreel serve --planner hf:nano[^`]*)`", text_of("docs/how-to/serve-models.md"))
    with server(shlex.split(line), "http://127.0.0.1:8000"):
        assert check_plan(presets.load("server"), tmp_path)


def test_transformers_server(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    behind = {role: f"openai:{NANO / role}@{url}/v1?max_tokens=512" for role in ("planner", "critic")}
    with server(["transformers", "serve", "--device", "cpu", "--port", port], url):
        check_plan(presets.load("nano", **behind), tmp_path)
