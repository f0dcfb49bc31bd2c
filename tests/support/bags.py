"""Bags for tests, by rosbags' own writer: what a camera, a robot and a goalreel node would publish."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from support.places import ROOT

INTERFACES = ROOT / "ros_pkg" / "goalreel_interfaces" / "msg"
START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
NODE = "/goalreel"
STORYBOARD_ID = np.arange(1, 17, dtype=np.uint8)


@dataclass(frozen=True)
class Sent:
    """One message: when it was received (ns after START), topic, type and fields."""

    at: int
    topic: str
    type: str
    fields: dict[str, Any]


@cache
def typestore(without: str = "^$") -> Typestore:
    """ROS 2 Kilted's types and ours, these without the lines that a pattern finds."""
    store = get_typestore(Stores.ROS2_KILTED)
    types = {}
    for file in sorted(INTERFACES.glob("*.msg")):
        text = re.sub(rf"(?m)^.*(?:{without}).*$", "", file.read_text())
        types |= get_types_from_msg(text, f"goalreel_interfaces/msg/{file.stem}")
    store.register(types)
    return store


def message(type_: str, **fields: Any) -> Any:
    """A message with `fields` given and everything else zero or empty; nested dictionaries are messages."""
    store = typestore()
    values = {name: _value(kind, fields.pop(name, None)) for name, kind in store.fielddefs[type_][1]}
    assert not fields, f"{type_} has no {sorted(fields)}"
    return store.types[type_](**values)


def _value(kind: tuple[int, Any], given: Any) -> Any:
    node, detail = kind
    if node == 1:  # a base type
        empty = "" if detail[0] == "string" else False if detail[0] == "bool" else 0
        return empty if given is None else given
    if node == 2:  # another message
        return message(detail, **(given or {}))
    (inner, inner_detail), length = detail
    if inner == 2:
        return [message(inner_detail, **item) for item in given or []]
    if inner_detail[0] == "string":
        return list(given or [])
    dtype = {"byte": "uint8", "char": "uint8"}.get(inner_detail[0], inner_detail[0])
    return np.zeros(length, dtype) if given is None else np.asarray(given, dtype)


def write_bag(
    path: Path, sent: Iterable[Sent], storage: str = "mcap", *, topics: dict[str, str] | None = None
) -> Path:
    """Write a bag folder, in the order of reception. `topics` (name -> type) are announced, sent or not."""
    store = typestore()
    with Writer(path, version=9, storage_plugin=StoragePlugin[storage.upper()]) as writer:
        connections = {t: writer.add_connection(t, k, typestore=store) for t, k in (topics or {}).items()}
        for one in sorted(sent, key=lambda one: one.at):
            if one.topic not in connections:
                connections[one.topic] = writer.add_connection(one.topic, one.type, typestore=store)
            data = store.serialize_cdr(message(one.type, **one.fields), one.type)
            writer.write(connections[one.topic], START + one.at, data)
    return path


def header(at: int, frame_id: str = "camera") -> dict[str, Any]:
    """A std_msgs/Header, `at` ns after START."""
    sec, nanosec = divmod(START + at, SECOND)
    return {"stamp": {"sec": sec, "nanosec": nanosec}, "frame_id": frame_id}


def image(
    at: int, pixels: np.ndarray, *, topic: str = "/image", encoding: str = "rgb8", taken: int | None = None
) -> Sent:
    """A raw picture received at `at`, taken at `taken`."""
    height, width = pixels.shape[:2]
    flat = np.ascontiguousarray(pixels).view(np.uint8).reshape(-1)
    fields = {
        "header": header(at if taken is None else taken),
        "height": height,
        "width": width,
        "encoding": encoding,
        "step": flat.size // height,
        "data": flat,
    }
    return Sent(at, topic, "sensor_msgs/msg/Image", fields)


def jpeg(pixels: np.ndarray, form: str = "jpeg") -> dict[str, Any]:
    """The fields of a sensor_msgs/CompressedImage."""
    out = io.BytesIO()
    PIL.Image.fromarray(pixels).save(out, form, quality=95)
    return {"format": form, "data": np.frombuffer(out.getvalue(), np.uint8)}


def compressed(at: int, pixels: np.ndarray, *, topic: str = "/image/compressed") -> Sent:
    return Sent(at, topic, "sensor_msgs/msg/CompressedImage", {"header": header(at), **jpeg(pixels)})


def joints(at: int, names: Iterable[str], values: Iterable[float], topic: str = "/joint_states") -> Sent:
    fields = {"header": header(at), "name": list(names), "position": list(values)}
    return Sent(at, topic, "sensor_msgs/msg/JointState", fields)


def array(at: int, values: Iterable[float], topic: str = "/target") -> Sent:
    return Sent(at, topic, "std_msgs/msg/Float64MultiArray", {"data": list(values)})


def text(at: int, words: str, topic: str = "/instruction") -> Sent:
    return Sent(at, topic, "std_msgs/msg/String", {"data": words})


def subgoal(
    at: int,
    index: int,
    name: str,
    *,
    picture: np.ndarray | None = None,
    accepted: bool = True,
    active: bool = True,
    task: str = "tidy the table",
    revision: int = 0,
    id_: np.ndarray = STORYBOARD_ID,
    words: str = "",
    claims: Iterable[Mapping[str, Any]] = (),
    degraded: Iterable[str] = (),
) -> Sent:
    """A SubGoal as the node latches it."""
    fields = {
        "header": header(at),
        "storyboard_id": {"uuid": id_},
        "revision": revision,
        "index": index,
        "active": active,
        "task": task,
        "name": name,
        "instruction": name and f"{name} is done",
        "auxiliary_text": words,
        "image_status": 3 if accepted else 4,
        "goal_image": {} if picture is None else jpeg(picture),
        "claims": list(claims),
        "degraded": list(degraded),
    }
    return Sent(at, f"{NODE}/subgoal", "goalreel_interfaces/msg/SubGoal", fields)


def storyboard(
    at: int,
    names: Iterable[str],
    active: int,
    *,
    revision: int = 0,
    words: Mapping[str, str] | None = None,
    probability: float = 0.5,
) -> Sent:
    """A Storyboard whose steps before `active` are done, each accepted with scores 8 and 9.

    `words`: those of the steps that are planned without a picture, by their names.
    """
    words = words or {}
    steps = [
        {
            "index": i,
            "name": name,
            "instruction": f"{name} is done",
            "auxiliary_text": words.get(name, ""),
            "prompt": "" if name in words else f"make it so that {name}",
            "status": 1 if i < active else 4 if i == active else 0,
            "image_status": 3,
            "attempts": 2,
            "critic": {
                "verdict": 1,
                "reasoning": f"{name} shows",
                "probability": probability,
                "scores": [{"criterion": "semantics", "score": 8}, {"criterion": "quality", "score": 9}],
            },
        }
        for i, name in enumerate(names)
    ]
    fields = {
        "header": header(at),
        "id": {"uuid": STORYBOARD_ID},
        "revision": revision,
        "task": "tidy the table",
        "state": 4,
        "steps": steps,
        "planner_model": "p",
        "editor_model": "e",
        "critic_model": "c",
    }
    return Sent(at, f"{NODE}/storyboard", "goalreel_interfaces/msg/Storyboard", fields)


def moving(frame: int, size: int = 48) -> np.ndarray:
    """A picture that tells its frame apart, though it went through a video encoder."""
    picture = np.full((size, size, 3), 40, np.uint8)
    picture[8:40, 8:40] = (frame * 8 % 256, 255 - frame * 8 % 256, 128)
    return picture


def number_of(pixels: np.ndarray) -> int:
    """Which `moving` picture this is (0 to 31)."""
    red, green = (float(pixels[16:32, 16:32, c].mean()) for c in (0, 1))
    return round((red + 255 - green) / 16)


def robot(frames: int = 20, fps: int = 10, *, after: int = 0) -> Iterator[Sent]:
    """Camera and joint states at `fps`, and a command 30 ms after each picture."""
    for i in range(frames):
        at = after + i * SECOND // fps
        yield joints(at - 2_000_000, ("a", "b", "gripper"), (0.1 * i, -i, float(i % 2)))
        yield image(at, moving(i))
        yield array(at + 30_000_000, (0.5 * i, 1.0))
