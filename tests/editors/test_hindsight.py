"""The hindsight editor and the difference critic, on pictures made by hand and on real ones."""

from dataclasses import dataclass, field

import cv2
import numpy as np
import pytest

from goalreel.critics.difference import DifferenceCritic
from goalreel.editors.hindsight import HindsightEditor, rank
from goalreel.errors import DatasetError
from goalreel.image import Image
from goalreel.types import Candidate, Edit, Segment

RNG = np.random.default_rng(0)
GREY = cv2.resize(RNG.uniform(60, 180, (6, 8)), (160, 120), interpolation=cv2.INTER_CUBIC)
GREY += RNG.normal(0, 10, GREY.shape)
GROUND = np.clip(GREY, 0, 255).astype(np.uint8)[:, :, None].repeat(3, axis=2)


def scene(block=None, arm=None, blur=0.0):
    """A textured ground with a block at x, and an arm across the picture at x."""
    picture = GROUND.copy()
    if block is not None:
        picture[80:92, block : block + 12] = (210, 60, 50)
    if arm is not None:
        picture[:90, arm : arm + 30] = (15, 15, 15)
    return cv2.GaussianBlur(picture, (0, 0), blur) if blur else picture


@dataclass
class Film:
    """A Recording of pictures; remembers which frames were decoded."""

    pictures: list[np.ndarray]
    fps: float = 10.0
    id: str = "film"
    decoded: list[int] = field(default_factory=list)

    def frames(self, camera, indices):
        if camera != "front":
            raise DatasetError(f"no camera {camera!r}")
        self.decoded += indices
        return [Image(self.pictures[i].copy(), f"{camera}#{i}") for i in indices]


def edit(segment, attempt=0, task="film", step=0):
    span = Segment(**dict(zip(("start", "end", "goal"), segment, strict=False))) if segment else None
    return Edit(task_id=task, step=step, attempt=attempt, image=None, prompt="go", seed=attempt, segment=span)


def judged(source, image):
    before = None if source is None else Image(source.copy())
    candidate = Candidate(
        task_id="t", step=0, source=before, image=Image(image.copy()), instruction="it is so", prompt="go"
    )
    return DifferenceCritic().judge([candidate])[0]


def test_the_sharpest_and_then_the_latest_frame_is_taken_and_one_with_the_arm_in_it_last():
    blurred = scene(60, blur=3)
    film = Film([scene(10)] * 20 + [blurred, blurred, scene(60), scene(60, blur=2), blurred])
    assert HindsightEditor({"film": film}, "front").edit([edit((0, 25))])[0].frame == "front#22"
    film = Film([scene(10)] * 20 + [scene(60), scene(60), scene(60, arm=50), scene(60), scene(60)])
    editor = HindsightEditor({"film": film}, "front")
    order = [editor.edit([edit((0, 25), k)])[0].frame for k in range(5)]
    assert (order[0], order[-1]) == ("front#24", "front#22")


@pytest.mark.parametrize(
    ("segment", "window", "shown"),
    [((0, 30), 0.4, (26, 27, 28, 29)), ((18, 20), 5.0, (18, 19)), ((0, 10, (12, 16)), 0.3, (12, 13, 14, 15))],
)
def test_every_attempt_gets_another_frame_of_the_segment_until_none_is_left(segment, window, shown):
    film = Film([scene(k) for k in range(30)])
    editor = HindsightEditor({"film": film}, "front", window=window)
    *answers, last = (editor.edit([edit(segment, k)])[0] for k in range(len(shown) + 1))
    assert {a.frame for a in answers} == {f"front#{i}" for i in shown}
    assert (last.stage, f"all {len(shown)} frames have been tried" in last.message) == ("edit", True)


def test_only_what_is_needed_is_decoded_and_only_once():
    film = Film([scene(k) for k in range(40)])
    editor = HindsightEditor({"film": film}, "front", window=1.0)
    for k in range(6):
        editor.edit([edit((0, 20), k), edit((20, 40), k, step=1)])
    assert sorted(film.decoded) == sorted({*film.decoded})
    assert len(film.decoded) == 12
    assert min(film.decoded) >= 10


def test_what_cannot_be_shown_is_a_failure_and_the_rest_of_the_batch_is_not():
    film = Film([scene(k) for k in range(10)])
    answers = HindsightEditor({"film": film}, "front").edit(
        [edit(None), edit((0, 10), task="gone"), edit((0, 10))]
    )
    assert "has no segment" in answers[0].message
    assert "no recording 'gone'" in answers[1].message
    assert isinstance(answers[2], Image)
    assert "no camera" in HindsightEditor({"film": film}, "top").edit([edit((0, 10))])[0].message


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (scene(10), "Nothing visible changed"),
        (scene(60, blur=3), "Blurred"),
        (np.zeros_like(GROUND), "Black"),
        (np.full_like(GROUND, 255), "Washed out"),
        (np.full_like(GROUND, 128), "Flat"),
    ],
)
def test_a_moved_block_is_accepted_and_unusable_pictures_are_rejected_with_the_reason(image, words):
    moved, verdict = judged(scene(10), scene(60)), judged(scene(10), image)
    assert moved.success
    assert "changed" in moved.reasoning
    assert not verdict.success
    assert verdict.reasoning.startswith(words)
    assert verdict.refined_prompt is None
    bad_alone = words not in ("Nothing visible changed", "Blurred")
    assert judged(None, image).success != bad_alone, "only the picture counts"


def test_compression_and_exposure_are_no_change():
    source = scene(10)
    twice = [
        cv2.imdecode(cv2.imencode(".jpg", source, [cv2.IMWRITE_JPEG_QUALITY, q])[1], cv2.IMREAD_COLOR)
        for q in (70, 85)
    ]
    assert judged(*twice).reasoning.startswith("Nothing")
    brighter = np.clip(source.astype(int) + 15, 0, 255).astype(np.uint8)
    assert judged(source, brighter).reasoning.startswith("Nothing")
    noisy = np.clip(source + RNG.normal(0, 8, source.shape), 0, 255).astype(np.uint8)
    assert judged(source, noisy).reasoning.startswith("Nothing")


def test_a_picture_is_judged_at_its_sources_size():
    """As an editor gives it, that works in a size of its own: it is not blurred for having more pixels."""
    larger, same = (cv2.resize(scene(x), (640, 480), interpolation=cv2.INTER_NEAREST) for x in (60, 10))
    assert judged(scene(10), larger).success
    assert judged(scene(10), larger).score == pytest.approx(judged(scene(10), scene(60)).score, abs=1e-6)
    assert judged(scene(10), same).reasoning.startswith("Nothing")
    assert judged(cv2.resize(scene(10), (320, 240)), scene(10)).reasoning.startswith("Nothing")


def test_a_camera_that_has_moved_to_where_fewer_edges_are_is_not_blurred():
    source = np.clip(128 + RNG.normal(0, 60, GROUND.shape), 0, 255).astype(np.uint8)
    elsewhere = cv2.resize(
        RNG.integers(0, 255, (12, 16, 3), np.uint8), (160, 120), interpolation=cv2.INTER_NEAREST
    )
    assert judged(source, elsewhere).success
    assert judged(source, cv2.GaussianBlur(elsewhere, (0, 0), 3)).reasoning.startswith("Blurred")


def test_real_episodes_their_ends_are_accepted_their_beginnings_are_not(real_dataset):
    from goalreel.datasets.source import Source

    source = Source.open(real_dataset)
    camera = source.camera(None)
    for index in source.indices[:4]:
        episode = source.episode(index)
        n = len(episode)
        first = episode.frames(camera, [0])[0].pixels
        goal = HindsightEditor({episode.id: episode}, camera).edit([edit((0, n), task=episode.id)])[0]
        assert n - episode.fps <= int(goal.frame.split("#")[1]) < n
        assert judged(first, goal.pixels).success
        assert judged(first, episode.frames(camera, [1])[0].pixels).reasoning.startswith("Nothing")
        assert judged(first, cv2.GaussianBlur(goal.pixels, (0, 0), 3)).reasoning.startswith("Blurred")


def test_ranking_one_picture_and_black_ones():
    black = Image(np.zeros((8, 8, 3), np.uint8), "c#0")
    assert rank([black]) == [black]
    assert [i.frame for i in rank([black, Image(black.pixels.copy(), "c#1")])] == ["c#1", "c#0"]
