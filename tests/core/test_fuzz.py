"""Damaged input by new random seeds, for `make soak` and each night: one line comes out, and nothing is lost.

`pytest tests/core/test_fuzz.py -m slow` runs all kinds. GOALREEL_EXAMPLES says how many inputs of each kind,
GOALREEL_SEED makes those of a failure again.
"""

import base64
import contextlib
import faulthandler
import io
import json
import os
import random
import shlex
import shutil
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import httpx
import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import bags
from support.cli import commands, invoke
from support.places import DATA
from support.recordings import make_dataset
from support.review import review_page
from support.serving_models import CriticChat, PlannerChat, TintEditor, running, serving
from support.steady import contents
from support.studio import SCENE, app, scripted

from goalreel.chat.plan import parse_plan
from goalreel.chat.verdict import parse_verdict
from goalreel.cli.errors import BUG
from goalreel.editors.remote import OpenAIImages
from goalreel.errors import UserError
from goalreel.image import Image, decode_compressed
from goalreel.serving.settings import Models

ODD = (10**400, 2**63, -1, 0, 1e308, float("nan"), "", "x" * 10_000, None, True, [], {}, [[1]], "{a:9999d}")
MODES = ("RGB", "RGBA", "L", "LA", "P", "1", "I;16", "F", "CMYK")
INTERRUPTED_S, LONGEST_S = 20, 120
"""Seconds after which a command is interrupted, and those after which it counts as one that hangs."""
type Fuzz = Callable[[random.Random], str]
"""Makes one input and feeds it, and says what it was. What it raises is a fault."""


def damage(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, insert and remove, most often near the header."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 2, 16))):
        at = rng.randrange(min(len(damaged), rng.choice((64, len(damaged)))) + 1) if damaged else 0
        new = rng.choice((b"", rng.randbytes(1), b"\xff" * 4, b"\0" * 4))
        damaged[at : at + rng.choice((0, 1, 4, rng.choice((4, 10_000))))] = new
    return bytes(damaged)


def spoil(root: Path, rng: random.Random) -> str:
    """Damage one thing in a folder."""
    path = rng.choice([p for p in sorted(root.rglob("*")) if p.is_file()])
    if rng.random() < 0.05:
        path.unlink()
        os.mkfifo(path)
        return f"{path} is a pipe"
    if path.suffix == ".json" and rng.random() < 0.8:
        place = whole = json.loads(path.read_text())
        for _ in range(rng.randrange(1, 5)):
            inner = place.values() if isinstance(place, dict) else place
            place = rng.choice([x for x in inner if x and isinstance(x, dict | list)] or [place])
        key = rng.choice(sorted(place)) if isinstance(place, dict) else rng.randrange(len(place))
        place[key] = rng.choice(ODD)
        path.write_text(json.dumps(whole))
        return f"{path.name} {key}={str(place[key])[:20]}"
    if path.suffix == ".parquet" and rng.random() < 0.8:
        table = pq.read_table(path)
        at = rng.randrange(table.num_columns)
        value = rng.choice(([1.0] * rng.randrange(3), "x", {"a": 1}, None, 2**62, -5, float("nan"), b"\xff"))
        table = table.set_column(at, table.column_names[at], pa.array([value] * len(table)))
        pq.write_table(table, path)
        return f"{path.name} {table.column_names[at]}={value!r}"
    path.write_bytes(damage(path.read_bytes(), rng))
    return str(path)


def command(*words: object) -> None:
    """Run a command, which says in one line why it ends; one that is at work for long is interrupted."""
    began = time.process_time()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(INTERRUPTED_S)
    try:
        result = invoke(*words)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    lines = [line for line in result.stderr.splitlines() if line.startswith("goalreel: ")]
    assert result.exit_code in (0, 1, 2, 130), result.stderr
    assert BUG not in result.stderr, result.stderr
    assert len(lines) < 2, result.stderr
    assert result.exit_code == 0 or result.output.strip(), "it ended without a word"
    assert result.exit_code != 130 or time.process_time() - began > INTERRUPTED_S / 10, "it waited"


@contextlib.contextmanager
def pictures(folder: Path) -> Iterator[Fuzz]:
    """A small picture in every format and mode that Pillow writes, in each place where pictures come in."""
    PIL.Image.init()
    whole = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 30, 4), np.uint8))
    written = []
    for form in sorted(PIL.Image.SAVE):
        for mode in MODES:
            out = io.BytesIO()
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                whole.convert("L" if mode == "I;16" else mode).convert(mode).save(out, form)
                written.append(out.getvalue())

    def one(rng: random.Random) -> str:
        data = damage(rng.choice(written), rng)
        reply = json.dumps({"data": [{"b64_json": base64.b64encode(data).decode()}]}).encode()
        places = ((Image.decode, data), (decode_compressed, data), (OpenAIImages("m").picture, reply))
        for read, given in places:
            with contextlib.suppress(ValueError):  # an InputError is one
                read(given)
        return repr(data[:100])

    yield one


@contextlib.contextmanager
def datasets(folder: Path) -> Iterator[Fuzz]:
    """Files of a dataset."""
    root = make_dataset(folder / "data", (8, 7))

    def one(rng: random.Random) -> str:
        given = shutil.copytree(root, folder / "in")
        done, before = spoil(given, rng), contents(given)
        command("check", given)
        command("annotate", given, "--out", folder / "out")
        assert contents(given) == before, "it wrote into the dataset"
        shutil.rmtree(given)
        shutil.rmtree(folder / "out", ignore_errors=True)
        return done

    yield one


@contextlib.contextmanager
def records(folder: Path) -> Iterator[Fuzz]:
    """Files of an annotated dataset, which are shown, exported, and built again."""
    root, whole = make_dataset(folder / "data", (8, 7)), folder / "whole"
    command("annotate", root, "--out", whole)

    def one(rng: random.Random) -> str:
        given, out = shutil.copytree(whole, folder / "in"), folder / "out"
        done = spoil(rng.choice((given, given / "meta/goalreel")), rng)
        for words in (
            ("show", given, "--out", out / "report"),
            ("export", given, "--out", out / "steps.csv"),
            ("corpus", "from-storyboards", given, "--out", out / "corpus"),
            ("build", given),
            ("annotate", root, "--out", given),
        ):
            command(*words)
        with contextlib.suppress(UserError):
            page = review_page(given, root)
            for route in ("/api/dataset", "/api/episodes/0", "/api/episodes/1"):
                assert page.get(route).status_code < 500
        shutil.rmtree(given)
        shutil.rmtree(out, ignore_errors=True)
        return done

    yield one


VALUES = ("", "-1", "0", "1e400", "nan", "x" * 300, "é\u202e", "a=b", "nano", "http://[")
"""Values of options, beside the folders and files of a test."""


@contextlib.contextmanager
def options(folder: Path) -> Iterator[Fuzz]:
    """Every command but the laboratory's, with options that it has, each with some value, in some order.

    The ports of servers are taken, so that none waits for visitors.
    """
    (folder / "empty").mkdir()
    (folder / "file").write_bytes(b"\x89PNG\0")
    os.mkfifo(folder / "pipe")
    (folder / "info.json").write_text("[1]")
    with (folder / "large.yaml").open("wb") as large:
        large.truncate(2**40)
    (folder / "pipes").mkdir()
    for name in ("config.json", "model_index.json", "storyboard.json", "metadata.yaml"):
        os.mkfifo(folder / "pipes" / name)
    places = ["empty", "file", "info.json", "nothing", "empty/new", "empty/../..", "pipe", "."]
    places += ["large.yaml", "/dev/zero", "pipes", "hf:pipes", "diffusers:pipes"]
    every = {
        words: command
        for words, command in commands().items()
        if command.params and getattr(command.callback, "__module__", "").startswith("goalreel.")
    }
    del every[()], every["node",]  # whose rclpy ends this very process

    def one(rng: random.Random) -> str:
        words = rng.choice(sorted(every))
        line: list[str] = []
        for parameter in every[words].params:
            if parameter.param_type_name == "argument" and rng.random() < 0.9:
                line.append(rng.choice([*VALUES, *places]))
        for parameter in rng.choices(every[words].params, k=rng.randrange(5)):
            if parameter.param_type_name == "option" and parameter.name not in ("help", "host", "port"):
                line.append(rng.choice(parameter.opts))
                if not getattr(parameter, "is_flag", False) and rng.random() < 0.95:
                    own = get_args(parameter.type_descriptor.annotation)
                    line.append(rng.choice([*VALUES, *places, *(x for x in own if isinstance(x, str))]))
        if any(parameter.name == "port" for parameter in every[words].params):
            line += ["--port", str(taken.getsockname()[1])]
        command(*words, *line)
        assert stat.S_ISFIFO((folder / "pipe").stat().st_mode), "a pipe was replaced"
        return shlex.join((*words, *line))

    with socket.create_server(("127.0.0.1", 0)) as taken, contextlib.chdir(folder):
        yield one


@contextlib.contextmanager
def bags_of_robots(folder: Path) -> Iterator[Fuzz]:
    """Files of a bag, in both storages."""
    small = [s for s in bags.robot(12) if s.topic != "/image"]
    small += [bags.image(i * 100_000_000, np.full((16, 16, 3), 9, np.uint8)) for i in range(12)]
    small.sort(key=lambda sent: sent.at)
    wholes = [bags.write_bag(folder / storage, small, storage) for storage in ("mcap", "sqlite3")]

    def one(rng: random.Random) -> str:
        given = shutil.copytree(rng.choice(wholes), folder / "in")
        done = spoil(given, rng)
        command(
            "bag2lerobot", given, "--task", "t", "--state-topic", "/joint_states", "--out", folder / "out"
        )
        for path in folder.glob("*out*"):
            shutil.rmtree(path)
        shutil.rmtree(given)
        return done

    yield one


@contextlib.contextmanager
def replies(folder: Path) -> Iterator[Fuzz]:
    """Replies of models."""
    wholes = [path.read_bytes() for path in sorted((DATA / "replies").iterdir())]

    def one(rng: random.Random) -> str:
        reply = damage(rng.choice(wholes), rng).decode("utf-8", "surrogateescape")
        for parse in (parse_plan, parse_verdict):
            parse(reply)  # gives a Problem
        return reply[:100]

    yield one


@contextlib.contextmanager
def requests(folder: Path) -> Iterator[Fuzz]:
    """Requests to a server of models, to the studio and to a review, which live on."""
    root = make_dataset(folder / "data", (8, 7))
    command("annotate", root, "--out", folder / "out")
    rename = {"kind": "rename", "step": "1", "name": "take it", "instruction": "it is held"}
    chat = {"model": "planner", "messages": [{"role": "user", "content": "#"}]}
    bodies = (
        ("/v1/chat/completions", chat),
        ("/v1/storyboards", {"instruction": "#", "image": SCENE, "max_attempts": 1}),
        ("/v1/images/generations", {"model": "editor", "prompt": "p"}),
        ("/edit", {"prompt": "p", "image": SCENE}),
        ("/api/episodes/0/events", {"revision": 0, "by": "ann", "event": rename}),
    )

    def one(rng: random.Random) -> str:
        path, body = rng.choice(bodies)
        text = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        kind = f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        parts = [head.encode(), kind.encode(), text]
        at = rng.randrange(3)
        parts[at] = damage(parts[at], rng)
        for url in urls:
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 60) as connection:
                connection.sendall(b"".join(parts))
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                with contextlib.suppress(ConnectionResetError):
                    while part := connection.recv(2**16):
                        answer += part
            assert b" 500 " not in answer[:20], (parts, answer)
            assert httpx.get(f"{url}/", timeout=60).status_code < 500
        return repr(parts)

    models = Models(planner=PlannerChat(), critic=CriticChat(), editor=TintEditor())
    with (
        serving(models) as served,
        running(app(folder / "boards", scripted())) as (studio, _),
        running(review_page(folder / "out", root).app) as (review, _),
    ):
        urls = (served, studio, review)
        yield one


KINDS: dict[str, tuple[Callable[[Path], contextlib.AbstractContextManager[Fuzz]], int]] = {
    "pictures": (pictures, 20_000),
    "replies": (replies, 20_000),
    "requests": (requests, 1_000),
    "options": (options, 1_000),
    "bags": (bags_of_robots, 300),
    "datasets": (datasets, 200),
    "records": (records, 50),
}


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_input_is_refused(kind, tmp_path):
    make, usual = KINDS[kind]
    seed = os.environ.get("GOALREEL_SEED", str(time.time_ns()))
    with make(tmp_path) as one:
        for number in range(int(os.environ.get("GOALREEL_EXAMPLES", usual))):
            faulthandler.dump_traceback_later(LONGEST_S, exit=True)
            try:
                one(random.Random(f"{seed} {number}"))
            except BaseException as e:
                e.add_note(f"GOALREEL_SEED={seed}, input {number}")
                raise
            finally:
                faulthandler.cancel_dump_traceback_later()
