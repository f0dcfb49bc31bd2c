"""One simulated episode twice: recorded as a dataset, and published, recorded to a bag and converted."""

import json
from pathlib import Path

import numpy as np
import pytest
from support import bags as b
from typer.testing import CliRunner

from goalreel.cli.main import app
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.tabletop.env import STATE_NAMES, Tabletop
from goalreel.tabletop.expert import rollout
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.record import record
from goalreel.types import Storyboard

SEED, SIZE, TICK = 950_000, 96, 100_000_000
TOPICS = (
    "--image-topic",
    "front=/front/image_raw",
    "--state-topic",
    "/joint_states",
    "--action-topic",
    "/target",
)


def published(seed: int) -> list[b.Sent]:
    """The same episode as messages: camera, joint state, command, and the node's sub-goal of each segment."""
    episode = sample_episode(seed)
    ticks, pictures = [], []
    sent: list[b.Sent] = []
    with Tabletop(episode.scene) as env:
        for i, tick in enumerate(rollout(env, episode.goals)):
            ticks.append(tick.goal)
            pictures.append(env.render("front", SIZE))
            sent.append(b.joints(i * TICK - 5_000_000, STATE_NAMES, map(float, env.observation())))
            sent.append(b.image(i * TICK, pictures[-1], topic="/front/image_raw", encoding="rgb8"))
            sent.append(b.array(i * TICK + 20_000_000, map(float, tick.action)))
    for index, goal in enumerate(episode.goals):
        first, last = ticks.index(index), len(ticks) - 1 - ticks[::-1].index(index)
        at = first * TICK - 10_000_000
        sent.append(b.subgoal(at, index, goal.text, picture=pictures[last], task=episode.instruction))
    sent.append(b.subgoal(len(ticks) * TICK, len(episode.goals) - 1, "", active=False))
    return sorted(sent, key=lambda s: s.at)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tabletop")
    record(folder / "recorded", [SEED], cameras=("front",), size=SIZE)
    b.write_bag(folder / "bag", published(SEED))
    run("bag2lerobot", folder / "bag", "--out", folder / "converted", *TOPICS, "--subgoal-form", "plain")
    return folder


def run(*arguments: object) -> dict:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.lab
def test_states_and_actions_are_exact_and_pictures_but_for_the_codec(folder):
    ours, theirs = Source.open(folder / "converted").episode(0), Source.open(folder / "recorded").episode(0)
    assert ours.instruction == theirs.instruction
    assert np.array_equal(ours.state, theirs.state)
    assert np.array_equal(ours.action, theirs.action)
    assert ours.state_names == theirs.state_names
    where = range(0, len(ours), 7)
    for a, c in zip(*(e.frames("observation.images.front", where) for e in (ours, theirs)), strict=True):
        assert np.abs(a.pixels.astype(int) - c.pixels).mean() < 1


@pytest.mark.lab
def test_the_streamed_sub_goals_are_the_true_segments_and_their_last_frames(folder):
    truth = json.loads((folder / "recorded" / "meta" / "tabletop.json").read_text())["episodes"][0][
        "segments"
    ]
    board = Records(folder / "converted" / FOLDER, "").outline(0)
    got = [(s.step.name, s.segment.start, s.segment.end, s.status) for s in board.steps]
    assert got == [(t["text"], t["start"], t["end"], "accepted") for t in truth]
    episode = Source.open(folder / "converted").episode(0)
    for segment in truth:
        (goal,) = episode.frames("observation.images.subgoal", [segment["start"]])
        (last,) = episode.frames("observation.images.front", [segment["end"] - 1])
        assert np.abs(goal.pixels.astype(int) - last.pixels).mean() < 4


@pytest.mark.lab
def test_annotate_reads_the_same_sub_goals_off_the_bag_as_off_the_dataset(folder):
    run("annotate", folder / "recorded", "--out", folder / "a", "--replace-rows")
    run("annotate", folder / "bag", "--out", folder / "b", *TOPICS)

    def cuts(out: str) -> list[tuple[str, int, int]]:
        board: Storyboard = Records(folder / out / FOLDER, "").outline(0)
        return [(s.step.name, s.segment.start, s.segment.end) for s in board.steps]

    assert cuts("a") == cuts("b")
    assert len(cuts("a")) == 4, "two things picked up and put somewhere"
