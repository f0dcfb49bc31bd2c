"""A background that an edit moved: measured, corrected, rejected, or not measurable."""

import cv2
import numpy as np
import pytest

from goalreel.drivers import run
from goalreel.image import Image
from goalreel.loop import KEEP_STILL
from goalreel.registration import register
from goalreel.types import Attempt, Plan, Step, Storyboard, Task, Verdict

SIZE = 320, 240


def scene(size: tuple[int, int] = SIZE) -> np.ndarray:
    """Boxes of many greys on a plain ground."""
    rng, pixels = np.random.default_rng(5), np.full((size[1], size[0], 3), 90, np.uint8)
    for _ in range(60):
        x, y, side, *colour = (int(v) for v in rng.integers(0, (size[0], size[1], 24, 256, 256, 256)))
        cv2.rectangle(pixels, (x, y), (x + 6 + side, y + 6 + side), colour, -1)
    return cv2.GaussianBlur(pixels, (0, 0), 0.8).astype(np.uint8)


def edit(pixels: np.ndarray) -> np.ndarray:
    """A fifth of the picture lies somewhere else."""
    edited = pixels.copy()
    edited[20:126, 20:163] = 90
    edited[120:226, 160:303] = pixels[20:126, 20:163]
    return edited


def moved(pixels: np.ndarray, right: float, down: float, scale: float = 1.0) -> Image:
    height, width = pixels.shape[:2]
    matrix = np.array([[scale, 0, right], [0, scale, down]], np.float64)
    matrix[:, 2] += (1 - scale) * (width - 1) / 2, (1 - scale) * (height - 1) / 2
    warped = cv2.warpAffine(pixels, matrix, (width, height), borderMode=cv2.BORDER_REFLECT)
    return Image(warped.astype(np.uint8))


@pytest.mark.parametrize(
    ("right", "down", "scale", "outcome"),
    [
        (0.4, -0.3, 1, "kept"),
        (-7.5, 4.25, 1, "corrected"),
        (0, 0, 0.97, "corrected"),
        (2, 1, 1.04, "corrected"),
        (64, 0, 1, "rejected"),
    ],
)
def test_shift_and_scale_are_measured_though_a_fifth_was_edited(right, down, scale, outcome):
    source = Image(scene())
    picture = moved(edit(scene()), right, down, scale)
    measured, answer = register(source, picture)
    assert measured.shift == pytest.approx((right, down), abs=0.35)
    assert measured.scale == pytest.approx(100 * (scale - 1), abs=0.3)
    assert measured.outcome == outcome
    assert (answer is picture) == (outcome != "corrected")
    again, same = register(source, answer)
    if outcome == "corrected":
        assert (again.outcome, same) == ("kept", answer)
        assert np.abs(answer.pixels.astype(int) - edit(scene())).mean() < 8


def test_a_correction_fills_the_border_with_the_sources_pixels():
    source, picture = Image(scene()), moved(scene(), 9, 0)
    _, answer = register(source, picture)
    assert (answer.pixels[:, -8:] == source.pixels[:, -8:]).all()


def test_a_picture_of_another_size_is_measured_in_pixels_of_the_source():
    source, large = Image(scene()), moved(scene(), 4, -3).resized((1024, 768))
    measured, answer = register(source, large)
    assert measured.shift == pytest.approx((4, -3), abs=0.35)
    assert answer.size == large.size
    assert register(source, answer)[0].outcome == "kept"


@pytest.mark.parametrize(
    ("pixels", "reason"),
    [
        (np.full((1, 1, 3), 90, np.uint8), "too few corners"),
        (scene(), "too little of the source's background"),
    ],
)
def test_what_cannot_be_measured_is_no_zero(pixels, reason):
    noise = np.random.default_rng(1).integers(0, 255, pixels.shape, np.uint8)
    measured, answer = register(Image(pixels), Image(noise))
    assert measured.shift is None
    assert reason in measured.line
    assert np.array_equal(answer.pixels, noise)


class Shifting:
    """Draws the picture's background shifted by each step of `shifts` in turn."""

    def __init__(self, *shifts: int) -> None:
        self.shifts, self.prompts, self.judged = list(shifts), [], []

    def plan(self, tasks):
        return [Plan(steps=(Step(name="s", instruction="i", prompt="move it"),)) for _ in tasks]

    def edit(self, edits):
        self.prompts += [e.prompt for e in edits]
        return [moved(e.image.pixels, self.shifts.pop(0), 0) for e in edits]

    def judge(self, candidates):
        self.judged += [c.image for c in candidates]
        return [Verdict(success=True)] * len(candidates)


def board(models: Shifting, **options: object) -> Storyboard:
    task = Task(id="t", instruction="go", image=Image(scene()))
    return next(run([task], models, models, models, max_attempts=3, **options))


def test_a_large_shift_is_an_attempt_that_the_critic_never_sees():
    models = Shifting(40, 41, 5)
    first, second, third = board(models).steps[0].attempts
    for attempt in (first, second):
        assert attempt.registration.outcome == "rejected"
        assert not attempt.verdict.success
        assert "Background moved by +4" in attempt.verdict.reasoning
    assert models.prompts == ["move it", f"move it {KEEP_STILL}", f"move it {KEEP_STILL}"]
    assert third.registration.outcome == "corrected"
    assert models.judged == [third.image]
    assert register(Image(scene()), third.image)[0].outcome == "kept"
    assert Attempt.model_validate_json(third.model_dump_json()) == third


def test_measuring_alone_and_ignoring_change_no_picture():
    (measured,) = board(Shifting(40), background="measure").steps[0].attempts
    assert (measured.accepted, measured.registration.outcome) == (True, "kept")
    assert measured.registration.shift == pytest.approx((40, 0), abs=0.5)
    (ignored,) = board(Shifting(40), background="ignore").steps[0].attempts
    assert ignored.registration is None
    assert "registration" not in ignored.model_dump()


def test_a_recorded_frame_is_no_edit():
    class Frames(Shifting):
        def edit(self, edits):
            return [Image(i.pixels, frame="front#3") for i in super().edit(edits)]

    (attempt,) = board(Frames(40)).steps[0].attempts
    assert (attempt.accepted, attempt.registration) == (True, None)
