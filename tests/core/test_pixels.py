"""Camera messages as pictures: every encoding that is taken, and one clear line for every one that is not."""

import array
import io
import random
import struct
import zlib
from contextlib import suppress

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, strategies as st

from goalreel.errors import InputError
from goalreel.image import ENCODINGS, FORMATS, Image, decode_compressed, decode_raw

RGB = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
ALPHA = np.full((4, 6, 1), 7, np.uint8)
FORMS = {
    "rgb8": RGB,
    "bgr8": RGB[:, :, ::-1],
    "rgba8": np.concatenate([RGB, ALPHA], axis=2),
    "bgra8": np.concatenate([RGB[:, :, ::-1], ALPHA], axis=2),
}


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda b: array.array("B", b)])
@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize("encoding", [*FORMS, "mono8"])
def test_colours_come_out_as_rgb_whatever_the_order_and_the_padding(encoding, padding, kind):
    rows = FORMS.get(encoding, RGB[:, :, 0]).reshape(4, -1)
    padded = np.pad(rows, ((0, 0), (0, padding)), constant_values=99)
    data = kind(padded.tobytes())
    image = decode_raw(encoding, 4, 6, padded.shape[1], data)
    if kind is bytearray:
        data[:] = bytes(len(data))
    wanted = np.repeat(RGB[:, :, :1], 3, axis=2) if encoding == "mono8" else RGB
    assert np.array_equal(image.pixels, wanted), "it owns its pixels"
    assert image.pixels.flags.c_contiguous


RED, BLUE = (81, 90, 240), (41, 240, 110)
"""Y, U and V of pure colours (ITU-R BT.601, studio range)."""
_Y = [RED[0]] * 2 + [BLUE[0]] * 2
YUVS = {
    "yuyv": [[RED[0], RED[1], RED[0], RED[2], BLUE[0], BLUE[1], BLUE[0], BLUE[2]]] * 2,
    "uyvy": [[RED[1], RED[0], RED[2], RED[0], BLUE[1], BLUE[0], BLUE[2], BLUE[0]]] * 2,
    "nv12": [_Y, _Y, [*RED[1:], *BLUE[1:]]],
    "nv21": [_Y, _Y, [RED[2], RED[1], BLUE[2], BLUE[1]]],
}
YUVS |= {"yuv422_yuy2": YUVS["yuyv"], "yuv422": YUVS["uyvy"]}


@pytest.mark.parametrize("padding", [0, 4])
@pytest.mark.parametrize("encoding", YUVS)
def test_brightness_and_colour_apart_become_rgb(encoding, padding):
    rows = np.pad(np.array(YUVS[encoding], np.uint8), ((0, 0), (0, padding)), constant_values=99)
    image = decode_raw(encoding, 2, 4, rows.shape[1], rows.tobytes())
    want = np.array([[[255, 0, 0]] * 2 + [[0, 0, 255]] * 2] * 2)
    assert np.abs(image.pixels.astype(int) - want).max() <= 3


@pytest.mark.parametrize(
    ("encoding", "height", "width", "step", "size", "says"),
    [
        ("16UC1", 4, 6, 12, 48, "colour topic"),
        ("bayer_rggb8", 4, 6, 6, 24, "debayer"),
        ("", 4, 6, 18, 72, "no colour or grey of 8 bits"),
        ("yuv422_yuy2", 4, 5, 10, 40, "step 10 and 40 bytes do not hold 5x4 pixels"),
        ("nv12", 3, 6, 6, 27, "do not hold 6x3 pixels"),
        ("nv21", 4, 6, 6, 35, "step 6 and 35 bytes"),
        ("rgb8", 4, 0, 18, 72, "empty image of 0x4"),
        ("rgb8", 4, 6, 17, 72, "step 17 and 72 bytes"),
        ("rgb8", 4, 6, 18, 71, "step 18 and 71 bytes"),
        ("rgb8", 2**31, 2**31, 18, 72, "too large"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(encoding, height, width, step, size, says):
    with pytest.raises(ValueError, match=says) as refused:
        decode_raw(encoding, height, width, step, bytes(size))
    assert "\n" not in str(refused.value)


@given(
    st.sampled_from([*ENCODINGS, "16UC1"]),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 40),
    st.binary(max_size=200),
)
def test_any_fields_give_a_picture_of_that_size_or_a_value_error(encoding, height, width, step, data):
    try:
        image = decode_raw(encoding, height, width, step, data)
    except ValueError:
        return
    assert image.size == (width, height)


@pytest.mark.parametrize("form", ["png", "jpeg", "webp"])
def test_compressed_pictures(form):
    out = io.BytesIO()
    PIL.Image.fromarray(np.full((8, 8, 3), (200, 30, 60), np.uint8)).save(out, form)
    image = decode_compressed(array.array("B", out.getvalue()))
    assert image.size == (8, 8)
    assert np.abs(image.pixels.astype(int) - (200, 30, 60)).max() < 8


def test_compressed_refusals():
    whole, depth = Image(RGB).png(), io.BytesIO()
    PIL.Image.fromarray(np.full((8, 8), 900, np.uint16)).save(depth, "png")
    assert decode_compressed(whole, "bgr8; png compressed bgr8").size == (6, 4)
    for data, form, says in [
        (b"", "", "empty compressed"),
        (b"\0" * 40, "", "not a readable image"),
        (whole[: len(whole) // 2], "", "not a readable image"),
        (depth.getvalue(), "", "colour topic"),
        (whole, "16UC1; compressedDepth png", "no colour picture"),
        (whole, "bayer_rggb8; jpeg compressed", "no colour picture"),
    ]:
        with pytest.raises(ValueError, match=says) as refused:
            decode_compressed(data, form)
        assert "\n" not in str(refused.value)


def test_however_a_picture_is_damaged_it_is_refused():
    """Half of the ways in which Pillow's parsers fail are no OSError."""
    rng, wholes = random.Random(69), []
    for form in FORMATS:
        out = io.BytesIO()
        PIL.Image.fromarray(FORMS["rgba8"]).convert("RGB").save(out, form)
        wholes.append(out.getvalue())
    for data in map(bytearray, rng.choices(wholes, k=1000)):
        for _ in range(rng.choice((1, 4))):
            data[rng.randrange(min(64, len(data)))] = rng.choice((0, 127, 255, rng.randrange(256)))
        with suppress(InputError):
            Image.decode(bytes(data[: rng.choice((20, len(data)))]))


def test_the_memory_of_a_picture_is_bounded_by_pixels_channels_and_depth():
    header = struct.pack(">4sIIBBBBB", b"IHDR", 8000, 8000, 16, 6, 0, 0, 0)
    parts = (b"\x89PNG\r\n\x1a\n\0\0\0\r", header, zlib.crc32(header).to_bytes(4), b"\0\0\0\4IDAT", bytes(99))
    with pytest.raises(InputError, match="so many pixels is too large"):
        Image.decode(b"".join(parts))


@pytest.mark.parametrize("form", ["EPS", "ICO"])
def test_what_runs_a_program_or_holds_another_picture_is_refused(form):
    data = io.BytesIO()
    PIL.Image.new("RGB", (32, 32)).save(data, form)
    for read, file in ((Image.decode, data.getvalue()), (Image.of, PIL.Image.open(data))):
        with pytest.raises(InputError, match="send one of PNG, JPEG"):
            read(file)
