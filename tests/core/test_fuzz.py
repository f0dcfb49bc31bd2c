"""Damaged input by new random seeds, for `make soak`: whatever comes in, one line comes out."""

import base64
import io
import json
import random
import shutil
import time
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cli import invoke

from goalreel.editors.formats import OpenAIImages
from goalreel.image import Image, decode_compressed

PICTURES, DATASETS = 20_000, 100
ODD = (
    10**400,
    2**63,
    -1,
    0,
    1e308,
    1e-300,
    float("nan"),
    "",
    "x" * 10_000,
    None,
    True,
    [],
    {},
    [[1]],
    "{a:9999d}",
)
MODES = ("RGB", "RGBA", "L", "LA", "P", "1", "I;16", "F", "CMYK")


def pictures() -> list[bytes]:
    """A small picture in every format and mode that Pillow writes."""
    PIL.Image.init()
    whole = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 30, 4), np.uint8))
    written = []
    for form in sorted(PIL.Image.SAVE):
        for mode in MODES:
            out = io.BytesIO()
            try:
                whole.convert("L" if mode == "I;16" else mode).convert(mode).save(out, form)
            except (OSError, ValueError, KeyError, TypeError):
                continue
            written.append(out.getvalue())
    return written


def damage(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, insert and remove, most often near the header."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 2, 16))):
        at = rng.randrange(min(len(damaged), rng.choice((64, len(damaged)))) + 1) if damaged else 0
        new = rng.choice((b"", rng.randbytes(1), b"\xff" * 4, b"\0" * 4))
        damaged[at : at + rng.choice((0, 1, 4, rng.choice((4, 10_000))))] = new
    return bytes(damaged)


@pytest.mark.slow
def test_damaged_pictures_are_refused():
    seed = time.time_ns()
    rng, wholes = random.Random(seed), pictures()
    for _ in range(PICTURES):
        data = damage(rng.choice(wholes), rng)
        reply = json.dumps({"data": [{"b64_json": base64.b64encode(data).decode()}]}).encode()
        for read, given in (
            (Image.decode, data),
            (decode_compressed, data),
            (OpenAIImages("m").picture, reply),
        ):
            try:
                read(given)
            except ValueError:  # an InputError is one
                continue
            except Exception:  # noqa: BLE001
                pytest.fail(f"seed {seed}: {data!r}")


def spoil(root: Path, rng: random.Random) -> str:
    """Damage one thing in a dataset."""
    path = rng.choice([p for p in sorted(root.rglob("*")) if p.is_file()])
    if path.name == "info.json":
        info = json.loads(path.read_text())
        place = rng.choice([info, *info["features"].values()])
        key = rng.choice(sorted(place))
        place[key] = rng.choice(ODD)
        path.write_text(json.dumps(info))
        return f"{key}={str(place[key])[:20]}"
    if path.suffix == ".parquet" and rng.random() < 0.8:
        table = pq.read_table(path)
        at = rng.randrange(table.num_columns)
        value = rng.choice(([1.0] * rng.randrange(3), "x", {"a": 1}, None, 2**62, -5, float("nan"), b"\xff"))
        table = table.set_column(at, table.column_names[at], pa.array([value] * len(table)))
        pq.write_table(table, path)
        return f"{path.name} {table.column_names[at]}={value!r}"
    path.write_bytes(damage(path.read_bytes(), rng))
    return str(path)


@pytest.mark.slow
def test_damaged_datasets_are_refused(video_dataset, tmp_path):
    seed = time.time_ns()
    rng = random.Random(seed)
    for _ in range(DATASETS):
        root = shutil.copytree(video_dataset, tmp_path / "in")
        done = spoil(root, rng)
        for words in (("check", root), ("annotate", root, "--out", tmp_path / "out")):
            result = invoke(*words)
            assert result.exit_code in (0, 1), (seed, done)
            assert "this is a bug" not in result.stderr, (seed, done, result.stderr)
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
