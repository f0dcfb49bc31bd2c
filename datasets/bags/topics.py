"""A ROS 2 bag on disk, MCAP or sqlite3, message by message, and the use of its topics.

Message definitions are the bag's own; without (sqlite3 before ROS 2 Iron) those of ROS 2 Kilted. Topics are
used as requested, or by type where only one topic has that type.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from goalreel.datasets.bags import TopicRequest
from goalreel.errors import DatasetError, UserError, first_line
from goalreel.files import check_file, find
from goalreel.image import Image, decode_compressed, decode_raw


class Bag:
    """An open bag. Made by `Bag.open`."""

    def __init__(self, path: Path, reader: Reader) -> None:
        self.path = path
        self._reader = reader
        self.topics = reader.topics
        """Name -> type, and number of messages."""

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Open a bag folder, or a bare .mcap or .db3 file; raises DatasetError where it is no whole bag."""
        with ExitStack() as stack:
            with _one_line(path):
                for file in find(path) if path.is_dir() else [path]:
                    if not file.is_dir():
                        check_file(file)
                        _check_merged(file)
                reader = stack.enter_context(Reader(path))
            yield cls(path, reader)

    def messages(self, topics: Iterable[str]) -> Iterator[tuple[str, int, Any]]:
        """Yield (topic, time of recording in ns, message) in order; raises DatasetError for a damaged bag."""
        names, stores = set(topics), dict[str, Typestore]()
        connections = [c for c in self._reader.connections if c.topic in names]
        if not connections:
            return
        with _one_line(self.path):
            for connection, stamp, data in self._reader.messages(connections):
                kind = connection.msgtype
                if kind not in stores:
                    stores[kind] = _typestore(self.path, connection)
                yield connection.topic, stamp, stores[kind].deserialize_cdr(data, kind)


def _check_merged(file: Path) -> None:
    """Refuse a database whose last messages a killed recorder left beside it, where they are not read."""
    for beside in (file.with_name(file.name + end) for end in ("-wal", "-journal")):
        if beside.is_file() and beside.stat().st_size:
            raise DatasetError(
                f"{beside} holds what a killed recorder left: `sqlite3 '{file}' VACUUM` merges it"
            )


def unlisted(path: Path) -> list[Path]:
    """Find recordings in a bag folder that its metadata.yaml does not list, so that they are not read."""
    metadata = path / "metadata.yaml"
    listed = metadata.read_text("utf-8", "replace") if metadata.is_file() else ""
    return [f for f in find(path) if f.suffix in (".mcap", ".db3") and f.name not in listed] if listed else []


def _typestore(path: Path, connection: Connection) -> Typestore:
    if connection.msgdef.format is MessageDefinitionFormat.MSG:
        store = get_typestore(Stores.EMPTY)
        store.register(get_types_from_msg(connection.msgdef.data, connection.msgtype))
        return store
    store = get_typestore(Stores.ROS2_KILTED)
    if connection.msgtype not in store.fielddefs:
        raise DatasetError(
            f"{path}: {connection.topic} is of type {connection.msgtype}, which the bag does not define: "
            "record it to MCAP"
        )
    return store


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turn whatever rosbags stumbles over into one line: it checks little of what it reads."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as e:
        raise DatasetError(f"{path}: no bag there: give a folder with metadata.yaml, .mcap or .db3") from e
    except Exception as e:
        raise DatasetError(
            f"{path}: not readable as a ROS 2 bag ({first_line(e)}): "
            "truncated? `mcap recover` or `ros2 bag reindex` saves what a killed recorder left"
        ) from e


type NamedNumbers = tuple[tuple[str, ...], tuple[float, ...]]
"""Names and values, one a dimension."""

JOINT_STATE = "sensor_msgs/msg/JointState"
IMAGE_TYPES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
STRING = "std_msgs/msg/String"
SUBGOAL = "goalreel_interfaces/msg/SubGoal"
STORYBOARD = "goalreel_interfaces/msg/Storyboard"
PROGRESS = "goalreel_interfaces/msg/StoryboardProgress"

_PLAIN = {"image", "image_raw", "image_rect", "image_color", "image_rect_color", "color", "rgb", "compressed"}
_OURS = re.compile(r"/(subgoal|storyboard)/image(/compressed)?$")


def picture(message: Any) -> Image:
    """Decode an Image or CompressedImage message; raises as `decode_raw` and `decode_compressed`."""
    if hasattr(message, "encoding"):
        return decode_raw(message.encoding, message.height, message.width, message.step, message.data)
    return decode_compressed(message.data, message.format)


def stamp(message: Any, received: int) -> int:
    """The header's stamp in ns; `received` for a message without a header."""
    header = getattr(message, "header", None)
    return received if header is None else header.stamp.sec * 1_000_000_000 + header.stamp.nanosec


def _joint_state(m: Any) -> NamedNumbers:
    """The positions; nothing of a message that has only velocities or efforts, as ROS allows."""
    if not len(m.position):
        return (), ()
    if len(m.name) != len(m.position):
        raise ValueError(f"{len(m.name)} joint names but {len(m.position)} positions")
    return tuple(m.name), tuple(map(float, m.position))


def _array(m: Any) -> NamedNumbers:
    values = tuple(map(float, np.atleast_1d(m.data)))
    return tuple(map(str, range(len(values)))), values


def _point(m: Any) -> NamedNumbers:
    return ("x", "y", "z"), (m.x, m.y, m.z)


def _pose(m: Any) -> NamedNumbers:
    p, q = m.position, m.orientation
    return ("x", "y", "z", "qx", "qy", "qz", "qw"), (p.x, p.y, p.z, q.x, q.y, q.z, q.w)


def _twist(m: Any) -> NamedNumbers:
    a, b = m.linear, m.angular
    return ("vx", "vy", "vz", "wx", "wy", "wz"), (a.x, a.y, a.z, b.x, b.y, b.z)


NUMBERS: dict[str, Callable[[Any], NamedNumbers]] = {
    JOINT_STATE: _joint_state,
    "geometry_msgs/msg/Point": _point,
    "geometry_msgs/msg/PointStamped": lambda m: _point(m.point),
    "geometry_msgs/msg/Pose": _pose,
    "geometry_msgs/msg/PoseStamped": lambda m: _pose(m.pose),
    "geometry_msgs/msg/Twist": _twist,
    "geometry_msgs/msg/TwistStamped": lambda m: _twist(m.twist),
    **{f"std_msgs/msg/{k}MultiArray": _array for k in ("Float32", "Float64", "Int32", "Int64", "UInt8")},
    **{f"std_msgs/msg/{k}": _array for k in ("Bool", "Float32", "Float64", "Int32", "Int64", "UInt8")},
}
"""Message type -> its numbers. Of joint states the positions."""


@dataclass(frozen=True)
class TopicChoice:
    """The chosen topics of one bag; each exists and has a type that can be read."""

    cameras: Mapping[str, str]
    """Camera name -> topic; the first one leads."""
    states: tuple[str, ...]
    actions: tuple[str, ...]
    instruction: str | None
    subgoal: str | None
    storyboard: str | None
    progress: str | None
    """The heartbeat of the node whose sub-goals are read."""

    @property
    def all(self) -> tuple[str, ...]:
        """Every topic once, the cameras first."""
        optional = (self.instruction, self.subgoal, self.storyboard, self.progress)
        chosen = (*self.cameras.values(), *self.states, *self.actions, *filter(None, optional))
        return tuple(dict.fromkeys(chosen))


def choose(bag: Bag, request: TopicRequest) -> TopicChoice:
    """Find the topics that a person requested.

    Raises:
        DatasetError: no such topic (the message lists those that are there), one of a type that cannot be
            read, no images, or nothing that says what the task was.
    """
    if request.task is not None and not request.task.strip():
        raise DatasetError("--task is empty: give the instruction")
    if request.task is not None and request.instruction_topic is not None:
        raise DatasetError("give --task or --instruction-topic, not both")
    instruction, subgoal = request.instruction_topic, _optional(bag, request.subgoal_topic, SUBGOAL)
    if request.task is None and instruction is None and subgoal is None:
        raise DatasetError(
            f"{bag.path}: the instruction is not known: "
            f"pass --task TEXT or --instruction-topic; {_listing(bag, (STRING,))}"
        )
    states, actions = (
        tuple(_typed(bag, topic, NUMBERS, "numbers") for topic in topics or ())
        for topics in (request.state_topic, request.action_topic)
    )
    return TopicChoice(
        cameras=_cameras(bag, request.image_topic or ()),
        states=states,
        actions=actions,
        instruction=instruction and _typed(bag, instruction, (STRING,), "text"),
        subgoal=subgoal,
        storyboard=_optional(bag, request.storyboard_topic, STORYBOARD),
        progress=_heartbeat(bag, subgoal),
    )


def camera_name(topic: str) -> str:
    """A camera's name from its topic, less the words that every image topic has.

    >>> camera_name("/front/camera/image_raw/compressed")
    'front_camera'
    """
    return "_".join([p for p in topic.split("/") if p and p not in _PLAIN]) or "camera"


def _cameras(bag: Bag, options: Collection[str]) -> dict[str, str]:
    if not options:
        candidates = [n for n, t in bag.topics.items() if t.msgtype in IMAGE_TYPES and not _OURS.search(n)]
        if len(candidates) != 1:
            what = "no images in it" if not candidates else "which images? pass --image-topic"
            raise DatasetError(f"{bag.path}: {what}; {_listing(bag, IMAGE_TYPES if candidates else ())}")
        options = candidates
    cameras: dict[str, str] = {}
    for text in options:
        name, _, topic = text.rpartition("=")
        name = name or camera_name(topic)
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or name in cameras:
            raise DatasetError(
                f"--image-topic {text}: {name!r} cannot be the camera's name, or is taken: pass NAME={topic}"
            )
        if topic in cameras.values():
            raise DatasetError(f"--image-topic {topic} is given twice")
        cameras[name] = _typed(bag, topic, IMAGE_TYPES, "images")
    return cameras


def _optional(bag: Bag, topic: str | None, kind: str) -> str | None:
    name = kind.rpartition("/")[2]
    if topic is not None:
        return _typed(bag, topic, (kind,), name)
    candidates = [name for name, topic in bag.topics.items() if topic.msgtype == kind]
    if len(candidates) > 1:
        raise DatasetError(f"{bag.path}: {', '.join(candidates)} are all {kind}: pass --{name.lower()}-topic")
    return candidates[0] if candidates else None


def _heartbeat(bag: Bag, subgoal: str | None) -> str | None:
    """The progress topic beside that of the sub-goals, if the bag has it."""
    name = f"{(subgoal or '').rpartition('/')[0]}/progress"
    topic = bag.topics.get(name)
    return name if topic is not None and topic.msgtype == PROGRESS and topic.msgcount else None


def _typed(bag: Bag, name: str, types: Collection[str], what: str) -> str:
    """The topic, if it is there, has messages and is of one of the types."""
    topic = bag.topics.get(name)
    if topic is None:
        raise DatasetError(f"{bag.path}: no topic {name}; {_listing(bag, ())}")
    if topic.msgtype not in types or not topic.msgcount:
        lacks = f"does not hold {what}; {_listing(bag, types)}" if topic.msgcount else "has no message"
        raise DatasetError(f"{bag.path}: {name} ({topic.msgtype}) {lacks}")
    return name


def _listing(bag: Bag, types: Collection[str]) -> str:
    """The bag's topics, only those of `types` if there are any such."""
    topics = {name: str(topic.msgtype) for name, topic in sorted(bag.topics.items())}
    fitting = {name: kind for name, kind in topics.items() if kind in types} or topics
    return "it has " + (", ".join(f"{name} ({kind})" for name, kind in fitting.items()) or "no topics at all")
