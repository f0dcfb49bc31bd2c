"""A picture goes onto a canvas of another shape and comes back as it was."""

import numpy as np
import pytest

from goalreel.editors.sizes import from_canvas, on_canvas
from goalreel.image import Image

SQUARE, WIDE, TALL = (1024, 1024), (1536, 1024), (1024, 1536)
ASPECTS = pytest.mark.parametrize("aspect", [SQUARE, WIDE, TALL, (16, 9), (21, 9)])


def picture(width: int, height: int) -> Image:
    across, down = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image(np.stack([across, down, 255 - across], axis=2).astype(np.uint8))


@ASPECTS
@pytest.mark.parametrize("size", [(64, 48), (48, 64), (33, 64), (64, 64), (1, 7)])
def test_onto_a_canvas_and_back_is_the_picture(size, aspect):
    source = picture(*size)
    assert from_canvas(on_canvas(source, aspect), size, aspect) == source


@pytest.mark.parametrize("aspect", [SQUARE, WIDE, TALL])
@pytest.mark.parametrize("size", [(640, 480), (33, 64), (641, 99), (99, 641), (1000, 1), (3840, 2160)])
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
