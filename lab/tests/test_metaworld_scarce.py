"""The experiment of scarce words on Meta-World: what its policies learn from, and the whole of it, small."""

import json

import numpy as np
import pytest

pytest.importorskip("metaworld", reason="needs metaworld: pip install 'goalreel-lab'")

import metaworld_pieces
import metaworld_scarce
import typer
from metaworld_demos import CHUNK, TaskDemos
from metaworld_policy import vocabulary_of, word_vector
from typer.testing import CliRunner

from goalreel_lab.metaworld.tasks import tasks as all_tasks

pytestmark = pytest.mark.lab

TASKS = ("button-press-v3", "drawer-open-v3")


def test_a_chunk_ends_with_its_episode_and_its_goal_is_the_last_frame():
    lengths = (3, CHUNK + 2)
    count = sum(lengths)
    numbers = np.arange(count, dtype=np.float32)
    demos = TaskDemos(
        pictures=np.zeros((count, 8, 8, 3), np.uint8),
        states=np.zeros((count, 4), np.float32),
        actions=np.repeat(numbers[:, None], 4, 1),
        things=np.zeros((count, 4, 3), np.float32),
        episodes=np.repeat(np.arange(2), lengths),
    )
    assert demos.last.tolist() == [2] * 3 + [count - 1] * (CHUNK + 2)
    chunks, behind = demos.chunks()
    assert chunks[1, :, 0].tolist() == [1.0] + [2.0] * (CHUNK - 1)
    assert behind[1].tolist() == [False] * 2 + [True] * (CHUNK - 2)
    assert chunks[3, :, 0].tolist() == list(range(3, 3 + CHUNK))
    assert not behind[3].any()


def test_only_words_of_trained_tasks_are_told():
    known = vocabulary_of(TASKS)
    assert {"button", "drawer", "handle"} <= set(known)
    assert [word for word, said in zip(known, word_vector(TASKS[0], 0, known), strict=True) if said] == [
        "button", "press", "the",
    ]  # fmt: skip
    assert [
        word for word, said in zip(known, word_vector("door-unlock-v3", 0, known), strict=True) if said
    ] == ["the"]


def test_the_tasks_that_avdc_publishes_are_tasks_here():
    assert set(metaworld_scarce.published_shares()) < set(all_tasks())


def run(out, *words):
    app = typer.Typer()
    app.command()(metaworld_scarce.main)
    sizes = "--episodes 1 --worded 1 --positions 1 --seeds 1 --backbone-steps 1 --steps 2 --held-out none"
    command = ["--out", str(out), "--tasks", ",".join(TASKS), *sizes.split(), "--workers", "0", "--json"]
    return CliRunner().invoke(app, [*command, *words])


def test_the_whole_goes_on_where_it_was_and_says_the_same_again(tmp_path, monkeypatch):
    monkeypatch.setattr(metaworld_pieces, "LONGEST", 3)
    first = run(tmp_path, "--arms", "g")
    assert first.exit_code == 0, first.output
    goals_alone = json.loads(first.stdout.splitlines()[-1])
    assert set(goals_alone["by_task"]) == set(TASKS)
    assert goals_alone["hours_whole"].keys() == metaworld_scarce.whole_units().keys()
    pieces = [path for kind in ("*.npz", "*.pt") for path in tmp_path.rglob(kind)]
    made = {path: path.stat().st_mtime_ns for path in pieces}
    both = run(tmp_path, "--arms", "g,a1_n")
    assert both.exit_code == 0, both.output
    found = json.loads(both.stdout.splitlines()[-1])
    assert {"g_minus_a1_n.unseen_positions", "g_minus_a1_n.unseen_positions_low"} <= found.keys()
    assert found["g.unseen_positions"] == goals_alone["g.unseen_positions"]
    assert all(path.stat().st_mtime_ns == time for path, time in made.items())
    other = run(tmp_path, "--tasks", TASKS[0])
    assert other.exit_code == 1
    assert "choose another --out" in other.output
