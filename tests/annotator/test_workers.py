"""Annotating in Ray workers: the bytes of one process, though a worker is killed on the way."""

import base64
import json
import os
import signal
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.chat_server import ChatServer, Reply, Request, said
from support.cli import fails
from support.serving_models import plan_of
from support.steady import contents

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.job import Summary
from goalreel.annotator.options import Options
from goalreel.annotator.workers import DEATHS, STARTS, Workers, _Worker
from goalreel.datasets.records import FOLDER, LOCAL
from goalreel.drivers import Limits
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.models.presets import Preset


def answer(request: Request) -> Reply:
    """What depends on the request alone: two steps, pictures by their prompt, every one accepted."""
    if request.path.endswith("/edit"):
        number = zlib.crc32(f"{request.json['prompt']} {request.json['seed']}".encode())
        pixels = np.random.default_rng(number).integers(0, 256, (48, 48, 3), np.uint8)
        picture = base64.b64encode(Image(pixels).png()).decode()
        return Reply(body=json.dumps({"success": True, "edited_image": picture}).encode())
    if request.json["model"] == "critic":
        return said(
            '<think>look</think><answer>{"previous_step_success": true, "refine_prompt": null}</answer>'
        )
    return said(plan_of("##"))


def preset_of(server: ChatServer) -> Preset:
    chats = {role: f"openai:{role}@{server.url}" for role in ("planner", "critic")}
    return presets.load("api", **chats, editor=f"interleavethinker:{server.url}")


def work(server: ChatServer, source: Path, out: Path, workers: int = 0) -> Summary:
    names, dataset, options = preset_of(server), open_dataset(source), Options()
    models = load(names, recordings=options.recorded(dataset), roles=())
    crew = Workers(preset=names, workers=workers) if workers else None
    return annotate(dataset, out, models, options, batch_size=2, in_flight=2, workers=crew)


def below(parent: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    children = [
        int(c) for task in Path(f"/proc/{parent}/task").iterdir() for c in _read(task / "children").split()
    ]
    return [pid for child in children for pid in (child, *below(child))] if children else []


def _read(path: Path) -> str:
    try:
        return path.read_text().replace("\0", " ")
    except OSError:  # it has ended meanwhile
        return ""


@pytest.mark.process
@pytest.mark.slow  # Ray gives itself 30 s to start, and no setting changes that: a busy machine takes longer
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_killed_worker_loses_nothing(sharded_dataset, tmp_path):
    killed: list[int] = []

    def kill_one(request: Request) -> Reply:
        if request.path.endswith("/edit") and not killed:
            worker = next(
                pid for pid in below(os.getpid()) if "_Worker" in _read(Path(f"/proc/{pid}/cmdline"))
            )
            killed.append(worker)
            os.kill(worker, signal.SIGKILL)
        return answer(request)

    with ChatServer(answer) as server:
        assert work(server, sharded_dataset, tmp_path / "whole").clean
        asked = len(server.requests)
        server.answer = kill_one
        summary = work(server, sharded_dataset, tmp_path / "out", workers=2)
        assert killed
        assert (summary.annotated, summary.not_begun, summary.clean) == (4, 0, True)
        assert dict(summary.steps) == {"accepted": 8}
        assert contents(tmp_path / "out") == contents(tmp_path / "whole")
        assert len(server.requests) < 3 * asked, "what had an answer is not asked again"


def test_what_workers_could_not_do_is_counted():
    lost = {"failures": {3: "no reply"}, "stopped": "stopped: x"}
    part = Summary(Path("out"), "front", annotated=2, incomplete=1, **lost)
    part.steps["accepted"] += 5
    part.unaligned = 2
    whole = Summary(Path("out"), "front", annotated=1)
    whole.add(part.as_json())
    whole.add(Summary(Path("out"), "front", resumed=1).as_json())
    assert (whole.annotated, whole.incomplete, whole.resumed, whole.ended) == (3, 1, 1, 5)
    assert (whole.failures, whole.stopped, whole.clean) == ({3: "no reply"}, "stopped: x", False)
    assert (dict(whole.steps), whole.unaligned) == ({"accepted": 5}, 2)


def test_options_that_do_not_fit(sharded_dataset, tmp_path):
    work = ("annotate", sharded_dataset, "--out", tmp_path / "out")
    assert "need --ray" in fails(*work, "--workers", "2")
    assert "--shard is for processes without --ray" in fails(*work, "--ray", "--shard", "1/2")


def test_a_batch_is_counted_after_its_worker_died_and_a_killer_is_given_up(sharded_dataset, tmp_path):
    starts = tmp_path / LOCAL / STARTS
    with ChatServer(answer) as server:
        source, names = open_dataset(sharded_dataset), preset_of(server)
        models = load(names, recordings=Options().recorded(source), roles=())
        annotate(source, tmp_path, models, episodes=[0, 1], batch_size=2, in_flight=2)
        asked, of = len(server.requests), source.fingerprint().episodes
        for episode in (2, 3):
            write_bytes(starts / str(episode), b"." * (DEATHS if episode == 2 else 1))
        worker = _Worker(sharded_dataset, tmp_path / FOLDER, "", names, Options(), Limits(1, 1))
        batch = {"episode": range(4), "before": [-1] * 4, "of": [of[i] for i in range(4)]}
        part = json.loads(worker(batch)["summary"][0])
    assert (part["annotated"], list(part["failures"])) == (3, ["2"])
    assert "its worker died 3 times" in part["failures"]["2"]
    assert len(server.requests) > asked
    assert [path.name for path in starts.iterdir()] == ["2"], "what has ended is forgotten"
