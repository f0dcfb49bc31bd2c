"""What names claim of a tabletop episode, and recordings as strangers make them."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from support.tabletop_variants import VARIANTS, vary

from goalreel.image import Image
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.scene import COLOURS, SubGoal
from goalreel.tabletop.truth import TrueEpisode, TrueSegment, Truth, read_truth, write_truth
from goalreel.types import Attempt, Segment, Step, Storyboard, StoryboardStep, Verdict
from goalreel_lab.bench.job import measure_verified, observed_truth
from goalreel_lab.bench.plan import step_of
from goalreel_lab.bench.scenes import walk
from goalreel_lab.bench.written_names import EpisodeTruth, grasp_events
from goalreel_lab.written_names import Contact, WrittenName, untruth

SEED = 30
"""The first of one goal whose instruction begins with `put the`."""
EPISODE = sample_episode(SEED)


def truth(tmp_path: Path) -> EpisodeTruth:
    """Frames 10 to 20 hold the red block, 40 to 50 the blue one; each is in its place from then on."""
    owners = np.repeat([0, 1], [30, 30])
    frames = np.arange(60)
    predicates = np.zeros((60, 7))
    predicates[20:, 0] = predicates[50:, 1] = 1
    held = (frames >= 10) & (frames < 20) | (frames >= 40) & (frames < 50)
    predicates[:, -2] = held
    columns = {"episode_index": np.zeros(60, int), "frame_index": frames, "subgoal": owners[:, None].tolist()}
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table(columns | {"predicates": predicates.tolist()}), path)
    segments = (segment("red block", 0, 30), segment("blue block", 30, 60))
    true = TrueEpisode(
        seed=SEED, split="train", instruction="", missions=("inside",) * 2, segments=segments, success=True
    )
    read = EpisodeTruth.read(path, 0, true)
    names = frozenset({"red block", "blue block", "green block", "red bowl"})
    return EpisodeTruth(names, read.goals, read.holds, read.contacts)


def segment(block: str, start: int, end: int) -> TrueSegment:
    text = f"put the {block} in the red bowl"
    return TrueSegment(
        kind="inside",
        object=block,
        target="red bowl",
        text=text,
        start=start,
        end=end,
        success=True,
        mission=0,
    )


def test_truth_is_read_from_the_columns(tmp_path):
    read = truth(tmp_path)
    assert read.contacts == (Contact("red block", 10, 20), Contact("blue block", 40, 50))
    assert read.goals == tuple(SubGoal("inside", f"{c} block", "red bowl") for c in ("red", "blue"))
    assert [s.start for s in grasp_events(read)] == [0, 10, 20, 40]


@pytest.mark.parametrize(
    ("text", "span", "why"),
    [
        ("pick up the red block", (0, 11), None),
        ("pick up the blue block", (0, 11), "another object"),
        ("pick up the purple block", (0, 11), "no such object"),
        ("pick up the return", (0, 11), "no such object"),
        ("pick up something", (0, 11), None),
        ("pick up one of every block that has a bowl", (0, 11), None),
        ("put the red block in the red bowl", (11, 20), None),
        ("put the red block into the red bowl", (11, 30), None),
        ("stack the red block on the green block", (11, 20), "relation"),
        ("put the blue block in the red bowl", (30, 42), "relation"),
        ("sort the blocks by colour (1 of 2)", (0, 30), None),
        ("clear the red bowl", (0, 30), None),
        ("go home", (22, 35), None),
        ("go home", (22, 60), "touched"),
        ("look at the red bowl", (0, 30), "touched"),
        ("return to the home position", (52, 60), None),
    ],
)
def test_a_name_is_compared_with_the_simulator(tmp_path, text, span, why):
    read = truth(tmp_path)
    name = WrittenName(text, Segment(start=span[0], end=span[1]), read.claim(text))
    assert untruth(name, read.contacts, slack=5) == why


def observed(name: str, frame: int, recorded: bool = True) -> StoryboardStep:
    """A step whose only picture, which picture checks accept, is a frame of the recording, or made."""
    image = Image(np.zeros((8, 8, 3), np.uint8), frame=f"front#{frame}" if recorded else None)
    verdict = Verdict(success=True, pictures_only=True)
    attempt = Attempt(prompt=name, seed=0, image=image, verdict=verdict)
    step = Step(name=name, instruction=name, prompt=name)
    return StoryboardStep(
        step=step, attempts=(attempt,), status="observed" if recorded else "unverified", chosen=0
    )


@pytest.mark.parametrize(
    ("name", "frame", "said"),
    [
        ("pick up the red block", 12, "true"),
        ("pick up the red block", 8, "early"),
        ("pick up the red block", 30, "untrue"),
        ("put the red block in the red bowl", 25, "true"),
        ("put the red block in the red bowl", 18, "early"),
        ("put the red block in the red bowl", 5, "untrue"),
        ("pick up the purple block", 12, "untrue"),
        ("sort the blocks by colour", 12, None),
        ("go home", 12, None),
    ],
)
def test_what_an_observed_frame_shows_is_compared_with_the_simulator(tmp_path, name, frame, said):
    assert observed_truth(observed(name, frame), truth(tmp_path), slack=5) == said
    assert observed_truth(observed(name, frame, recorded=False), truth(tmp_path), slack=5) is None


def test_of_verified_pictures_those_that_do_not_show_their_step_count():
    scene = walk(SEED)
    right, before = scene.moments[1].picture, scene.moments[0].picture

    def board(*pictures: Image, success: bool = True) -> Storyboard:
        steps = []
        for i, picture in enumerate(pictures):
            verdict = Verdict(success=success)
            attempt = Attempt(prompt="p", seed=0, image=picture, verdict=verdict)
            status = "verified" if success else "unverified"
            steps.append(StoryboardStep(step=step_of(scene, i), attempts=(attempt,), status=status, chosen=0))
        return Storyboard(task=scene.task, steps=tuple(steps))

    def values(board: Storyboard) -> list[float | None]:
        return [m.value for m in measure_verified([scene], [board]).values()]

    assert len(scene.goals) == 1
    assert values(board(right)) == [1, 0, 0]
    assert values(board(before)) == [1, 1, 1]
    assert values(board(before, success=False)) == [0, None, None]


def recording(root: Path) -> Path:
    """A recording without pictures of one frame."""
    columns = {
        "observation.state": [[0.0, 0.06]],
        "action": [[0.0, -1.0]],
        "episode_index": [0],
        "task_index": [0],
        "language_persistent": [""],
        "language_events": [""],
    }
    (root / "data/chunk-000").mkdir(parents=True)
    (root / "meta/episodes/chunk-000").mkdir(parents=True)
    pq.write_table(pa.table(columns), root / "data/chunk-000/file-000.parquet")
    tasks = pa.table({"task_index": [0], "task": [EPISODE.instruction]})
    pq.write_table(tasks, root / "meta/tasks.parquet")
    episodes = pa.table({"episode_index": [0], "tasks": [[EPISODE.instruction]]})
    pq.write_table(episodes, root / "meta/episodes/chunk-000/file-000.parquet")
    features = {name: {} for name in columns}
    (root / "meta/info.json").write_text(json.dumps({"features": features}))
    (root / "meta/stats.json").write_text(json.dumps(features))
    true = TrueEpisode(
        seed=SEED, split="train", instruction=EPISODE.instruction, missions=(), segments=(), success=True
    )
    write_truth(root, Truth(phases=(), episodes=(true,)))
    return root


def test_a_variant_has_other_numbers_names_and_words_and_no_true_rows(tmp_path):
    root = recording(tmp_path / "in")
    assert vary(root, tmp_path / "mirrored", VARIANTS["mirrored"]) == [0]
    table = pq.read_table(tmp_path / "mirrored/data/chunk-000/file-000.parquet")
    np.testing.assert_allclose(table["observation.state"].to_pylist(), [[0.0, 0.02]], atol=1e-6)
    assert table["action"].to_pylist() == [[0.0, 1.0]]
    assert "language_persistent" not in table.column_names
    vary(root, tmp_path / "renamed", VARIANTS["renamed"])
    renamed = pq.read_schema(tmp_path / "renamed/data/chunk-000/file-000.parquet").names
    assert {"state", "actions"} < set(renamed)
    features = json.loads((tmp_path / "renamed/meta/info.json").read_text())["features"]
    assert set(features) == set(renamed)
    vary(root, tmp_path / "home", VARIANTS["then_home"])
    text = f"{EPISODE.instruction}, then go home"
    assert pq.read_table(tmp_path / "home/meta/tasks.parquet")["task"].to_pylist() == [text]
    assert read_truth(tmp_path / "home").episodes[0].instruction == text


@pytest.mark.parametrize("name", ["other_object", "absent_object", "other_order"])
def test_wrong_words_differ_from_what_is_done(name):
    words = [(e, VARIANTS[name].words(e)) for e in map(sample_episode, range(30))]
    asked = [(e, text) for e, text in words if text is not None]
    assert len(asked) > 3
    assert all(text.lower() != e.instruction.lower() for e, text in asked)
    for episode, text in asked:
        names = {b.name for b in (*episode.scene.blocks, *episode.scene.bowls)}
        absent = set(re.findall(r"[a-z]+ (?:block|bowl)\b", text)) & {f"{c} block" for c in COLOURS} - names
        assert bool(absent) == (name == "absent_object")
