"""The size that an editor works in, and what a picture loses by it in many steps."""

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
from diffusers.image_processor import VaeImageProcessor
from diffusers.pipelines.pipeline_utils import DiffusionPipeline
from diffusers.utils.outputs import BaseOutput
from hypothesis import example, given
from hypothesis import strategies as st
from support.image_server import picture

from goalreel.drivers import run
from goalreel.editors.catalogue import Entry
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.editors.sizes import LARGEST, from_canvas, on_canvas, placement
from goalreel.image import Image
from goalreel.types import Candidate, Edit, Plan, Step, Task, Verdict


class SamePictures(BaseOutput):
    images: np.ndarray


class SamePicturePipeline(DiffusionPipeline):
    """Draws its picture as it is, at the size it is asked for: what it loses is lost by resizing alone."""

    def __init__(self) -> None:
        super().__init__()
        self.image_processor = VaeImageProcessor(vae_scale_factor=16)

    def __call__(self, prompt, image, width, height, generator=None, output_type="np") -> SamePictures:
        drawn = self.image_processor.preprocess(image, height=height, width=width)
        return SamePictures(images=self.image_processor.postprocess(drawn, output_type=output_type))


def same_picture_editor(
    size: tuple[int, int], multiple: int = 16, *, square: bool = False
) -> DiffusersEditor:
    entry = Entry(kinds=("edit",), size=size, multiple=multiple, square=square)
    return DiffusersEditor(SamePicturePipeline(), entry)


STEPS = 10
sides = st.integers(1, 4000)
sizes = st.tuples(sides, sides)
areas = st.sampled_from([(1024, 1024), (1328, 1328), (512, 768), (128, 128), (96, 96), (1, 1)])
multiples = st.sampled_from([1, 8, 14, 16, 28, 32, 64, 112])


@given(sizes, st.none() | areas, multiples, st.booleans())
@example((1280, 720), (1024, 1024), 16, False)
@example((641, 99), (1024, 1024), 32, False)
@example((4000, 1), (96, 96), 64, True)
def test_a_placement_fits_the_model_and_is_its_own(source, size, multiple, square):
    place = placement(source, size, multiple, square)
    assert not any(side % multiple for side in place.canvas)
    assert prod(place.canvas) <= max(prod(size or LARGEST), multiple**2)
    assert max(place.canvas) <= 8 * min(place.canvas)
    assert not square or place.canvas[0] == place.canvas[1]
    assert all(a <= b for a, b in zip(place.content, place.canvas, strict=True))
    assert placement(place.content, size, multiple, square).content == place.content
    scale = max(place.content) / max(source)
    assert all(abs(a - b * scale) <= 1 for a, b in zip(place.content, source, strict=True)), "no stretching"


@pytest.mark.parametrize("source", [(672, 376), (256, 320), (96, 96), (1, 16), (97, 31)])
@pytest.mark.parametrize(("size", "multiple", "square"), [((256, 256), 16, False), ((256, 256), 64, True)])
def test_an_editor_that_changes_nothing_gives_back_the_source(source, size, multiple, square):
    picture = smooth(*source)
    editor = same_picture_editor(size, multiple, square=square)
    (answer,) = editor.edit([keep(picture)])
    assert answer.size == placement(source, size, multiple, square).content
    difference = np.abs(picture.pixels.astype(int) - answer.resized(source).pixels)
    assert difference.mean() < 1.5, "shifted by a tenth of a pixel of the canvas, it is more"
    editor.entry = editor.entry.model_copy(update={"size": None})
    assert max(source) > max(LARGEST) or editor.edit([keep(picture)]) == [picture]


def keep(image: Image) -> Edit:
    return Edit(task_id="t", step=0, attempt=0, image=image, prompt="keep it", seed=0)


def smooth(width: int, height: int) -> Image:
    """Slopes across and down."""
    y, x = np.mgrid[:height, :width]
    across, down = (x + 0.5) / width, (y + 0.5) / height
    pixels = np.stack([across, down, (across + down) / 2], axis=2)
    return Image((pixels * 255).round().astype(np.uint8))


class Unchanged:
    """A plan of STEPS steps and a Critic that accepts every picture."""

    def plan(self, tasks):
        steps = tuple(Step(name=f"{i}", instruction=f"{i}", prompt="keep it") for i in range(STEPS))
        return [Plan(steps=steps) for _ in tasks]

    def judge(self, candidates: Sequence[Candidate]):
        return [Verdict(success=True)] * len(candidates)


def detailed(width: int, height: int) -> Image:
    """Edges of all directions and a little noise."""
    y, x = np.mgrid[:height, :width]
    rings = 127 + 90 * np.sin(((x - width / 3) ** 2 + (y - height / 2) ** 2) / width / 3)
    noise = np.random.default_rng(0).normal(0, 6, (height, width, 3))
    return Image((rings[..., None] * (1, 0.8, 0.6) + noise).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("size", [(320, 180), (101, 333), (256, 256)])
def test_a_long_storyboard_loses_nothing_from_step_to_step(size):
    task, models = Task(id="t", instruction="keep it", image=detailed(*size)), Unchanged()
    board = next(run([task], models, same_picture_editor((256, 256)), models, max_attempts=1))
    pictures = [step.goal_image for step in board.steps]
    assert pictures[0].size == placement(size, (256, 256), 16).content
    assert all(picture == pictures[0] for picture in pictures), "nothing was resized again"
    handed_out = board.goal_images()
    assert {picture.size for picture in handed_out} == {size}
    assert handed_out[-1] == handed_out[0]


# A picture goes onto a canvas of another shape and comes back as it was.

SQUARE, WIDE, TALL = (1024, 1024), (1536, 1024), (1024, 1536)
ASPECTS = pytest.mark.parametrize("aspect", [SQUARE, WIDE, TALL, (16, 9), (21, 9)])


@ASPECTS
@pytest.mark.parametrize("size", [(64, 48), (48, 64), (33, 64), (64, 64), (1, 7)])
def test_onto_a_canvas_and_back_is_the_picture(size, aspect):
    source = picture(*size)
    assert from_canvas(on_canvas(source, aspect), size, aspect) == source


@pytest.mark.parametrize("aspect", [SQUARE, WIDE, TALL])
@pytest.mark.parametrize("size", [(640, 480), (33, 64), (641, 99), (1000, 1)])
def test_what_is_cut_keeps_its_size_from_step_to_step(size, aspect):
    """The second step's source is the first one's picture, at the server's scale."""
    source = picture(*size)
    once = from_canvas(on_canvas(source, aspect).resized(aspect), size, aspect)
    assert any(abs(cut - drawn) <= 1 for cut, drawn in zip(once.size, aspect, strict=True))
    expected = source.resized(once.size).pixels.astype(int)
    assert np.abs(once.pixels - expected).mean() < 1.5
    assert from_canvas(on_canvas(once, aspect), once.size, aspect) == once


@pytest.mark.parametrize("drawn", [(1536, 1024), (1024, 1536), (900, 1024)])
def test_an_answer_of_another_shape_is_not_stretched(drawn):
    canvas = np.zeros((drawn[1], drawn[0], 3), np.uint8)
    x, y = drawn[0] // 2, drawn[1] // 2
    canvas[y - 100 : y + 100, x - 100 : x + 100] = 255
    for size in ((320, 192), (640, 480)):
        shown = from_canvas(Image(canvas), size, SQUARE).pixels[..., 0] > 128
        assert (shown.any(0).sum(), shown.any(1).sum()) == (200, 200)
