"""A chat model that watches is shown what people have accepted: here a scripted one behind a real server."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.chat_server import ChatServer
from support.cli import fails, invoke
from support.person import says
from support.watcher import text_of, watch

from goalreel import Options, annotate, open_dataset
from goalreel.annotator.examples import read_examples
from goalreel.datasets.corrections.events import FlagIssue, GiveVerdict, MoveBoundary, RenameStep, SetOutcome
from goalreel.datasets.records import FOLDER, LOCAL
from goalreel.errors import InputError
from goalreel.models import presets
from goalreel.models.load import load

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


def run(dataset: Path, out: Path, server: ChatServer, *words: object):
    planner = f"watch:openai:seer@{server.url}"
    models = ("--preset", "watch", "--planner", planner, "--critic", "difference")
    return invoke("annotate", dataset, "--out", out, *models, "--batch-size", 1, *words)


def asked(server: ChatServer) -> dict[int, str]:
    """Last frame of an episode -> what was asked about it."""
    texts = map(text_of, server.requests)
    return {int(re.findall(r"Frames 0 to (\d+)", text)[-1]): text for text in texts}


def test_the_request_holds_what_people_accepted(sharded_dataset, reviewed, tmp_path, caplog):
    with ChatServer(watch) as server:
        plain = run(sharded_dataset, tmp_path / "plain", server)
        result = run(sharded_dataset, tmp_path / "out", server, "--examples", reviewed)
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
        assert run(sharded_dataset, out, server, "--examples", reviewed, "--episodes", "0").exit_code == 0
        assert run(sharded_dataset, out, server, "--examples", reviewed, "--episodes", "1").exit_code == 0
        without = run(sharded_dataset, out, server)
        says(reviewed, 2, GiveVerdict(verdict="accept"))
        others = run(sharded_dataset, out, server, "--examples", reviewed)
        assert len(server.requests) == 2
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
