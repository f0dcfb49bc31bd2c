"""The server of the models that come with goalreel, as docs/how-to/serve-models.md prints it."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from support.pages import text_of
from support.wait import until

from goalreel.annotator.plan import plan_task
from goalreel.models import presets
from goalreel.models.load import load

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("fastapi", reason="needs fastapi: pip install 'goalreel[serve]'")
pytestmark = [pytest.mark.process, pytest.mark.lab]

URL = "http://127.0.0.1:8000"


def healthy() -> bool:
    try:
        return httpx.get(f"{URL}/health", timeout=60, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def test_it_plans_as_the_models_do_in_this_process(tmp_path):
    from goalreel.tabletop.splits import seeds
    from goalreel_lab.bench.scenes import walks

    (line,) = re.findall(r"`(goalreel serve --planner hf:nano[^`]*)`", text_of("docs/how-to/serve-models.md"))
    task = walks(seeds("validation", 3), lambda *_: None)[2].task
    command = [str(Path(sys.executable).with_name("goalreel")), *shlex.split(line)[1:]]
    with subprocess.Popen(command) as server:
        try:
            until(lambda: server.poll() is not None or healthy(), 180)
            there = plan_task(task, tmp_path / "there", load(presets.load("server"), roles=()))
        finally:
            server.kill()
    here = plan_task(task, tmp_path / "here", load(presets.load("nano"), roles=()))
    assert (there.failure, here.failure) == (None, None)
    assert [step.step for step in there.steps] == [step.step for step in here.steps]
    assert [step.status for step in there.steps] == [step.status for step in here.steps]
