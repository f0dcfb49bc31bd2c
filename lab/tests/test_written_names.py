"""What names claim of a tabletop episode, and which of them a simulator contradicts."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")


from dataclasses import replace

from goalreel.image import Image
from goalreel.tabletop.scene import SubGoal
from goalreel.tabletop.truth import TrueEpisode, TrueSegment
from goalreel.types import Attempt, Segment, Step, Storyboard, StoryboardStep, Verdict
from goalreel_lab.bench.job import measure_accepted, observed_truth
from goalreel_lab.bench.plan import step_of
from goalreel_lab.bench.scenes import walk
from goalreel_lab.bench.written_names import EpisodeTruth, grasp_events
from goalreel_lab.written_names import ClaimCounts, Contact, NameClaim, WrittenName, claim_counts, untruth

SEED = 30
"""The first of one goal whose instruction begins with `put the`."""


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
    missions = {"missions": ("inside",) * 2, "segments": segments}
    true = TrueEpisode(seed=SEED, split="train", instruction="", success=True, **missions)
    read = EpisodeTruth.read(path, 0, true)
    names = frozenset({"red block", "blue block", "green block", "red bowl"})
    return EpisodeTruth(names, read.goals, read.holds, read.contacts)


def segment(block: str, start: int, end: int) -> TrueSegment:
    goal = {
        "kind": "inside",
        "object": block,
        "target": "red bowl",
        "text": f"put the {block} in the red bowl",
    }
    return TrueSegment(**goal, start=start, end=end, success=True, mission=0)


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
    status = "observed" if recorded else "unjudged"
    return StoryboardStep(step=step, attempts=(attempt,), status=status, chosen=0)


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


def test_of_accepted_pictures_those_that_do_not_show_their_step_count():
    scene = walk(SEED)
    right, before = scene.moments[1].picture, scene.moments[0].picture

    def board(*pictures: Image, success: bool = True) -> Storyboard:
        steps = []
        for i, picture in enumerate(pictures):
            verdict = Verdict(success=success)
            attempt = Attempt(prompt="p", seed=0, image=picture, verdict=verdict)
            status = "accepted" if success else "rejected"
            steps.append(StoryboardStep(step=step_of(scene, i), attempts=(attempt,), status=status, chosen=0))
        return Storyboard(task=scene.task, steps=tuple(steps))

    def values(board: Storyboard) -> list[float | None]:
        return [m.value for m in measure_accepted([scene], [board]).values()]

    assert len(scene.goals) == 1
    assert values(board(right)) == [1, 0, 0]
    assert values(board(before)) == [1, 1, 1]
    assert values(board(before, success=False)) == [0, None, None]


# -- untrue words: what a simulator contradicts, and what it does not

RED, BLUE = frozenset({"red"}), frozenset({"blue"})
TOUCHES = [Contact("red", 20, 40), Contact("blue", 70, 90)]


def name(claim: NameClaim, start: int, end: int) -> WrittenName:
    return WrittenName("...", Segment(start=start, end=end), claim)


@pytest.mark.parametrize(
    ("claim", "span", "why"),
    [
        (NameClaim(RED, held=True), (0, 22), None),
        (NameClaim(RED, held=True), (0, 12), "nothing touched"),
        (NameClaim(RED, held=True), (0, 50), "not held"),
        (NameClaim(BLUE, held=True), (0, 22), "another object"),
        (NameClaim(RED, holds=lambda frame: frame >= 40), (22, 60), None),
        (NameClaim(RED, holds=lambda frame: frame >= 40), (22, 42), None),
        (NameClaim(RED, holds=lambda frame: frame >= 50), (22, 45), "relation"),
        (NameClaim(None), (0, 50), None),
        (NameClaim(None), (45, 60), "nothing touched"),
        (NameClaim(frozenset()), (0, 50), "no such object"),
        (NameClaim(None, contact=False), (45, 60), None),
        (NameClaim(None, contact=False), (0, 60), "touched"),
    ],
)
def test_a_name_is_untrue_where_the_simulator_contradicts_it(claim, span, why):
    assert untruth(name(claim, *span), TOUCHES, slack=5) == why


def test_a_contact_is_covered_by_a_true_name_of_its_object():
    grasp, wrong = name(NameClaim(RED, held=True), 0, 22), name(NameClaim(RED), 60, 100)
    assert claim_counts([grasp, wrong], TOUCHES, slack=5) == ClaimCounts(2, 1, 2, 1)
    right = replace(wrong, claim=NameClaim(BLUE))
    assert claim_counts([grasp, right], TOUCHES, slack=5) == ClaimCounts(2, 0, 2, 2)
    assert claim_counts([], TOUCHES, slack=5) == ClaimCounts(0, 0, 2, 0)
