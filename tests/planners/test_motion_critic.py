"""What the recording itself says against a goal frame, on pictures made by hand."""

import cv2
import numpy as np
import pytest
from support.places import SHARED

from goalreel.annotator.options import Options
from goalreel.critics.motion import MotionCritic
from goalreel.datasets.source import Source
from goalreel.drivers import run
from goalreel.image import Image
from goalreel.models.load import load
from goalreel.planners.kinematic import Layout
from goalreel.types import Candidate, Task

GROUND = np.random.default_rng(0).integers(60, 180, (60, 80, 3), np.uint8)
WAY = np.concatenate([np.linspace(0, 1, 20), np.ones(10), np.linspace(1, 0.5, 15), np.full(10, 0.5)])
"""Out, a grasp, back halfway, a release: then the arm stays, or goes home."""
HOME = np.linspace(0.5, 0, 10)
SHUT = (24, 50)


class Filmed:
    """An arm, a black bar at x; a red block that it takes along while the hand is shut."""

    id, instruction, fps = "a", "move the block", 10.0
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    def __init__(self, x, shut=SHUT, carries=True, blurred=(), reach=40):
        self.x, self.carries, self.blurred, self.reach = np.asarray(x), carries, blurred, reach
        hand = np.zeros(len(x))
        hand[shut[0] : shut[1]] = 1
        self.state = np.column_stack([self.x, hand]).astype(np.float32)
        self.action = np.zeros((len(x), 0), np.float32)
        self.timestamps = (np.arange(len(x)) / 10).astype(np.float32)
        self.shut = shut

    def frames(self, camera, indices):
        return [Image(self.picture(i), frame=f"{camera}#{i}") for i in indices]

    def picture(self, i):
        picture = GROUND.copy()
        held = self.x[min(max(i, self.shut[0]), self.shut[1])] if self.carries else self.x[self.shut[0]]
        block, arm = round(10 + 50 * held), round(10 + 50 * self.x[i])
        picture[44:54, block : block + 10] = (220, 40, 40)
        picture[: self.reach, arm : arm + 12] = 0
        return cv2.GaussianBlur(picture, (0, 0), 0.45) if i in self.blurred else picture


def judged(film: Filmed, goal: int, start: int = 0):
    source, image = film.frames("front", [start, goal])
    candidate = Candidate(task_id="a", step=0, source=source, image=image, instruction="i", prompt="p")
    layout = Layout.parse("gripper=1,position=0:1,closed=high")
    return MotionCritic({"a": film}, layout).judge([candidate])[0]


def test_a_hand_that_has_gone_home_shows_what_it_did():
    assert judged(Filmed([*WAY, *HOME]), 64).success


def test_a_hand_that_has_not_left_may_cover_what_it_let_go_of():
    """A later frame tells, once the hand is away."""
    verdict = judged(Filmed([*WAY, *HOME], reach=60), 54)
    assert (verdict.success, verdict.reasoning) == (False, "Cannot see: the hand covers what changed.")
    assert judged(Filmed([*WAY, *HOME], reach=60), 64).success


@pytest.mark.parametrize("reach", [40, 49])
def test_a_hand_that_has_not_left_is_no_fault_where_the_thing_shows(reach):
    assert judged(Filmed([*WAY, *HOME], reach=reach), 54).success


def test_at_the_end_of_a_recording_the_hand_may_stay():
    """No other frame shows whether it covers anything."""
    assert judged(Filmed(WAY, reach=60), 54).success


def test_a_small_thing_that_moved_is_a_change():
    first = cv2.resize(GROUND, (320, 240))
    second = first.copy()
    first[50:58, 40:48] = second[50:58, 200:208] = (220, 40, 40)
    candidate = Candidate(
        task_id="a", step=0, source=Image(first), image=Image(second), instruction="i", prompt="p"
    )
    assert MotionCritic({}).judge([candidate])[0].success


def test_a_grasp_that_moved_nothing_changed_nothing():
    """The arm is back where it passed before, so its own picture cancels out."""
    back = [*np.linspace(0.5, WAY[6], 8), WAY[6], WAY[6]]
    verdict = judged(Filmed([*WAY, *back], carries=False), 64)
    assert (verdict.success, verdict.reasoning) == (False, "Nothing changed but the arm.")


def test_a_push_without_a_return_can_be_seen():
    """The hand is still at what it pushed: nothing says that it hides it."""
    out = [*np.zeros(10), *np.linspace(0, 1, 30)]
    assert judged(Filmed(out, shut=(0, 39)), 39).success
    assert judged(Filmed(out, shut=(0, 0), carries=False), 39).success


def test_what_is_carried_fast_and_blurred_cannot_be_seen():
    swing = 0.65 - 0.35 * np.cos(np.linspace(0, np.pi, 15))
    way = [*np.linspace(0, 0.3, 20), *np.full(10, 0.3), *swing, *np.full(10, 1.0)]
    assert judged(Filmed(way), 37).success
    verdict = judged(Filmed(way, blurred=(37,)), 37)
    assert not verdict.success
    assert verdict.reasoning.endswith("moving at full speed, and the picture is blurred.")


def test_a_rendered_picture_is_judged_by_its_pixels_alone():
    film = Filmed([*WAY, *HOME])
    source, image = film.frames("front", [0, 54])
    drawn = Image(image.pixels)
    candidate = Candidate(task_id="a", step=0, source=source, image=drawn, instruction="i", prompt="p")
    assert MotionCritic({"a": film}).judge([candidate])[0].success


@pytest.mark.long
def test_on_real_frames_it_accepts_what_shows_and_rejects_what_the_arm_hides():
    """Four episodes, looked at by eye (dev/LOG.md, 2026-11-27)."""
    root = SHARED / "droid_new_setup"
    if not root.is_dir():
        pytest.skip(f"no real episodes at {root}")
    source = Source.open(root)
    context = Options().recorded(source)
    models = load("hindsight", recordings=context)
    reasons = []
    for index in (0, 5, 9, 11):
        episode = source.episode(index)
        (first,) = episode.frames(context.camera, [0])
        task = Task(id=episode.id, instruction=episode.instruction, image=first)
        attempts = models.provenance.preset.max_attempts
        (board,) = run([task], models.planner, models.editor, models.critic, max_attempts=attempts)
        reasons += [(index, s.status == "observed" or s.attempts[0].verdict.reasoning) for s in board.steps]
    assert reasons == [(0, True)] * 2 + [(5, True)] * 2 + [(9, True)] + [(11, True)] * 4


def test_a_motion_whose_closed_end_is_unknown_is_not_read():
    """What a guess would refuse is left to the pixels."""
    film = Filmed([*WAY, *HOME], reach=60)
    assert not judged(film, 54).success
    source, image = film.frames("front", [0, 54])
    candidate = Candidate(task_id="a", step=0, source=source, image=image, instruction="i", prompt="p")
    unknown = Layout.parse("gripper=1,position=0:1").model_copy(update={"complete": True})
    assert MotionCritic({"a": film}, unknown).judge([candidate])[0].success
