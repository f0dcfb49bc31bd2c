"""Episodes annotated by a chat model that watches, here a scripted one behind a real HTTP server.

What it says about pictures is made up: these hold structure, cost and what failures do, no label's quality.
"""

import json
import logging
from pathlib import Path

import numpy as np
from support.chat_server import ChatServer, Reply, Request, error, said
from support.cli import invoke
from support.watcher import segments, text_of, watch

from goalreel import Edit, Image, ModelSet, Options, annotate, open_dataset
from goalreel.datasets.records import FOLDER, Records
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.types import StoryboardStep


def run(dataset: Path, out: Path, server: ChatServer, *words: str):
    model = f"openai:seer@{server.url}"
    models = ("--planner", f"watch:{model}", "--critic", model)
    return invoke("annotate", dataset, "--out", out, "--preset", "watch", *models, "--json", *words)


def summary(result) -> dict:
    return json.loads(result.stdout.splitlines()[-1])


def recorded(out: Path, episode: int) -> tuple[StoryboardStep, ...]:
    return Records(out / FOLDER, source="").outline(episode).steps


SPANS = [(0, 5), (5, 6), (6, 8), (8, 12)]
"""Of the steps of episode 0."""


def test_preset_watch(video_dataset, tmp_path, caplog):
    def contradicts(request: Request) -> Reply:
        text = text_of(request)
        if "Frames 0 to 8" in text:
            return said(segments(text, agrees=False, seen="a red bowl, no block", outcome="failed"))
        return watch(request)

    with ChatServer(contradicts) as server:
        result = run(video_dataset, tmp_path / "out", server)
        asked = [text_of(request) for request in server.requests]
    assert result.exit_code == 0, result.stderr
    said_first = "watching 3 episode(s) takes at least 3 call(s) to the planner, with 3 contact sheet(s)"
    assert caplog.messages[0].startswith(said_first)
    assert sum("You watch a recorded robot episode" in text for text in asked) == 3
    assert summary(result)["annotated"] == 3
    steps = recorded(tmp_path / "out", 0)
    assert [(s.segment.start, s.segment.end) for s in steps] == SPANS
    assert all(s.goal_image.frame.startswith("frame:observation.images.front#") for s in steps)
    (tried,) = recorded(tmp_path / "out", 1)
    assert tried.step.auxiliary_text == "not as instructed: a red bowl, no block"
    assert tried.step.outcome == "failed"
    kept = "".join(path.read_text() for path in (tmp_path / "out" / FOLDER).rglob("*.json"))
    assert "watch:openai:seer" in kept
    assert "127.0.0.1" not in kept


def test_garbage_to_the_end_leaves_one_episode_to_do(video_dataset, tmp_path, caplog):
    caplog.set_level(logging.INFO, "goalreel.chat.ask")

    def stubborn(request: Request) -> Reply:
        if "Frames 0 to 8" in text_of(request):
            return said("{ sorry")
        return faults.pop() if faults else watch(request)

    faults = [error(500, "internal", **{"Retry-After": "0"}), said("I am sorry, here { is [ nothing")]
    with ChatServer(stubborn) as server:
        result = run(video_dataset, tmp_path / "out", server)
        before = len(server.requests)
        server.answer = watch
        again = run(video_dataset, tmp_path / "out", server)
    assert result.exit_code == 1
    assert list(summary(result)["failures"]) == ["1"]
    assert "no usable answer in 3 replies" in summary(result)["failures"]["1"]
    assert caplog.messages.count("the reply: { sorry") == 3
    assert (summary(again)["annotated"], summary(again)["resumed"]) == (1, 2)
    assert len(server.requests) == before + 2, "one watch and one verdict"
    assert any(message.startswith("watching 1 episode(s)") for message in caplog.messages)


class Painter:
    """Renders goals: a picture a step, of no recording."""

    def __init__(self) -> None:
        self.edits: list[Edit] = []

    def edit(self, edits):
        self.edits += edits
        return [Image(np.random.default_rng(e.seed).integers(0, 256, (48, 48, 3), np.uint8)) for e in edits]


def test_goals_are_rendered_towards_what_was_seen(video_dataset, tmp_path, monkeypatch):
    """Where the recording is watched, no rendered goal is sought in it."""
    monkeypatch.setattr("goalreel.annotator.job.align", None)
    source, painter = open_dataset(video_dataset), Painter()
    with ChatServer(watch) as server:
        preset = presets.load("watch", planner=f"watch:openai:seer@{server.url}", critic="difference")
        model_set = load(preset, recordings=Options().recorded(source))
        result = annotate(source, tmp_path / "out", ModelSet(model_set.planner, painter, model_set.critic))
    assert result.clean
    steps = recorded(tmp_path / "out", 0)
    assert [(s.segment.start, s.segment.end) for s in steps] == SPANS
    assert {edit.prompt for edit in painter.edits} >= {
        "Reach and grasp, so that: reach and grasp is done. Keep everything else unchanged."
    }
    assert all(s.goal_image.frame.startswith("images/") for s in steps)
