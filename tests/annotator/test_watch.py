"""Episodes annotated by a chat model that watches, and is shown what people have accepted.

A scripted model answers over real HTTP: these hold structure, cost and failures, no label's quality.
"""

import json
import logging
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.chat_server import ChatServer, Reply, Request, error, said
from support.cli import fails, invoke
from support.person import says
from support.watcher import segments, text_of, watch

from goalreel import Edit, Image, ModelSet, Options, annotate, open_dataset
from goalreel.annotator.examples import read_examples
from goalreel.datasets.corrections.events import FlagIssue, GiveVerdict, MoveBoundary, RenameStep, SetOutcome
from goalreel.datasets.records import FOLDER, LOCAL, Records
from goalreel.errors import InputError
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
    assert sum("You watch a recorded robot episode" in text for text in asked) == 4, "one stands still"
    assert f"judging took {len(asked) - 4} call(s) to the critic, with" in caplog.text
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


def test_a_model_that_does_not_look_is_named_and_its_steps_are_in_doubt(video_dataset, tmp_path, caplog):
    def blind(request: Request) -> Reply:
        text = text_of(request)
        return said(segments(text)) if "You watch a recorded robot episode" in text else watch(request)

    with ChatServer(blind) as server:
        run(video_dataset, tmp_path / "out", server)
    assert caplog.text.count("the planner is blind") == 1
    assert all(step.in_doubt for step in recorded(tmp_path / "out", 0))


def test_garbage_to_the_end_leaves_one_episode_to_do(video_dataset, tmp_path, caplog):
    caplog.set_level(logging.INFO, "goalreel.chat.conversation")

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
    assert any(edit.prompt.startswith("Reach and grasp, so that: reach") for edit in painter.edits)
    assert all(s.goal_image.frame.startswith("images/") for s in steps)


NAMES = [tuple(f"{what} {episode}" for what in ("reach", "grasp", "place")) for episode in range(4)]


@pytest.fixture
def reviewed(sharded_dataset, annotated, tmp_path) -> Path:
    """Of its four episodes the first two are accepted, the third is rejected, the last not reviewed."""
    orders = ("put the block away", "put the red block away", "put the red block in the bowl", "put it in")
    boards = {i: {"instruction": orders[i], "names": NAMES[i], "vain": (1,)} for i in range(4)}
    out = annotated(sharded_dataset, tmp_path / "reviewed", boards)
    says(out, 0, MoveBoundary(step="0", edge="end", frame=3), RenameStep(step="2", name="set it down"))
    says(out, 0, GiveVerdict(verdict="accept"))
    says(out, 1, GiveVerdict(verdict="accept"))
    says(out, 2, GiveVerdict(verdict="accept"), GiveVerdict(verdict="reject"))
    return out


def run_one_by_one(dataset: Path, out: Path, server: ChatServer, *words: object):
    planner = f"watch:openai:seer@{server.url}"
    models = ("--preset", "watch", "--planner", planner, "--critic", "difference")
    return invoke("annotate", dataset, "--out", out, *models, "--batch-size", 1, *words)


def asked(server: ChatServer) -> dict[int, str]:
    """Last frame of an episode -> what was asked about it."""
    texts = map(text_of, server.requests)
    return {int(re.findall(r"Frames 0 to (\d+)", text)[-1]): text for text in texts}


def test_the_request_holds_what_people_accepted(sharded_dataset, reviewed, tmp_path, caplog):
    with ChatServer(watch) as server:
        plain = run_one_by_one(sharded_dataset, tmp_path / "plain", server)
        result = run_one_by_one(sharded_dataset, tmp_path / "out", server, "--examples", reviewed)
        texts = asked(server)
    assert (plain.exit_code, result.exit_code) == (0, 0), result.stderr
    assert "Example 2: put the block away\n1.2 s\n" in texts[14]
    assert "Example 1: put the red block away\n0.9 s\n" in texts[14], "the likest first"
    assert "Example 3" not in texts[14]
    first = '{"segments":[{"start_s":0.0,"end_s":0.3,"name":"reach 0","outcome":"done"},'
    second = '{"start_s":0.3,"end_s":0.8,"name":"grasp 0","outcome":"failed"},'
    assert first + second in texts[7]
    assert '"set it down"' in texts[7], "as they corrected it"
    assert "reach 1" in texts[11]
    assert "reach 0" not in texts[11], "not the episode itself"
    assert not re.search(r"(reach|grasp|place) [23]", "".join(texts.values()))
    costs = [re.search(r"about ([\d,]+) tokens", message) for message in caplog.messages]
    before, after = (int(cost[1].replace(",", "")) for cost in costs if cost)
    assert after > before


def test_only_whole_accepted_episodes_are_examples(sharded_dataset, reviewed):
    def read():
        return read_examples(reviewed, open_dataset(sharded_dataset))

    assert [one.id for one in read()] == ["episode 0 of reviewed", "episode 1 of reviewed"]
    says(reviewed, 0, FlagIssue(step="1", issue="wrong_object", on=True))
    says(reviewed, 1, SetOutcome(step="1", outcome="done"), GiveVerdict(verdict="accept"))
    (left,) = read()
    assert [step.outcome for step in left.steps] == ["done"] * 3
    says(reviewed, 1, GiveVerdict(verdict="unsure"))
    with pytest.raises(InputError, match="nobody has accepted or corrected an episode"):
        read()
    says(reviewed, 3, RenameStep(step="0", name="go there"))
    assert [one.steps[0].name for one in read()] == ["go there"], "corrected, and no opinion of it"


def test_others_are_other_settings(sharded_dataset, reviewed, tmp_path):
    out = tmp_path / "out"
    with ChatServer(watch) as server:
        for episode in ("0", "1"):
            more = ("--examples", reviewed, "--episodes", episode)
            assert run_one_by_one(sharded_dataset, out, server, *more).exit_code == 0
        without = run_one_by_one(sharded_dataset, out, server)
        says(reviewed, 2, GiveVerdict(verdict="accept"))
        others = run_one_by_one(sharded_dataset, out, server, "--examples", reviewed)
        assert len(server.requests) == 3, "two, and one of a still picture"
    assert re.search(r"examples was '\w{16}' and\s+is now None", without.stderr)
    assert re.search(r"examples was '\w{16}' and\s+is now '\w{16}'", others.stderr)
    assert str(reviewed) not in (out / FOLDER / "settings.json").read_text()


class Killing:
    """A critic that ends the run."""

    def judge(self, candidates):
        raise KeyboardInterrupt


def test_a_killed_run_asks_nothing_twice(sharded_dataset, reviewed, tmp_path):
    source, out = open_dataset(sharded_dataset), tmp_path / "out"
    options = Options(labelled=read_examples(reviewed, source))
    with ChatServer(watch) as server:
        preset = presets.load("watch", planner=f"watch:openai:seer@{server.url}", critic="difference")
        models = load(preset, recordings=options.recorded(source))
        with pytest.raises(KeyboardInterrupt):
            annotate(source, out, replace(models, critic=Killing()), options)
        kept = len(list((out / LOCAL / "answers").glob("*.json")))
        assert 0 < kept <= len(server.requests)
        before = len(server.requests)
        assert annotate(source, out, models, options).clean
        assert len(server.requests) == before + 4 - kept
    assert models.provenance.examples
    other, none = (replace(models.provenance, examples=digest) for digest in ("other", None))
    assert len({names.key("planner") for names in (models.provenance, other, none)}) == 3
    assert len({names.key("critic") for names in (models.provenance, other, none)}) == 1


def test_what_cannot_be_shown_is_one_line(sharded_dataset, reviewed, tmp_path):
    words = ("annotate", sharded_dataset, "--out", tmp_path / "out", "--examples")
    assert "leave out rows" in fails(*words, reviewed, "--planner", "rows")
    assert "nowhere: no such folder" in fails(*words, tmp_path / "nowhere")
    assert "no episode has sub-task labels" in fails(*words, sharded_dataset)
    assert not (tmp_path / "out").exists()
