"""Turn ROS 2 bags, which are recordings of topics, into LeRobot datasets. Needs rosbags, and no ROS."""

from pathlib import Path
from typing import Literal

from goalreel.errors import DatasetError
from goalreel.files import find
from goalreel.settings import Settings, setting

type StampClock = Literal["received", "header"]
_PANEL = "ROS 2 bags"
_OF_TYPE = "[default: the one of its type]"


class TopicRequest(Settings):
    """The topics and settings that a person requested; the others are chosen by message type."""

    image_topic: list[str] | None = setting(
        None,
        "Camera; repeat for more. The first gives the goal images. [default: the only one]",
        metavar="[NAME=]TOPIC",
        panel=_PANEL,
    )
    state_topic: list[str] | None = setting(
        None, "Topic of the robot's state; repeat to join several.", panel=_PANEL
    )
    action_topic: list[str] | None = setting(
        None, "Topic of the actions; repeat to join several.", panel=_PANEL
    )
    instruction_topic: str | None = setting(
        None, "Topic of the instructions; each message starts an episode.", panel=_PANEL
    )
    task: str | None = setting(None, "The instruction of a bag that is one episode.", panel=_PANEL)
    fps: int | None = setting(None, "Frames a second. [default: the camera's]", ge=1, le=1000, panel=_PANEL)
    clock: StampClock = setting(
        "received", "Order messages by when they were received, or by their header's stamp.", panel=_PANEL
    )
    subgoal_topic: str | None = setting(None, _OF_TYPE, panel=_PANEL)
    storyboard_topic: str | None = setting(None, _OF_TYPE, panel=_PANEL)


def find_bags(path: Path) -> list[Path]:
    """Find the bag at `path`, or the bags in that folder by name; empty where there is none."""
    if path.is_file():
        return [path] if path.suffix in (".mcap", ".db3") else []
    if (path / "metadata.yaml").is_file():
        return [path]
    inside = find(path) if path.is_dir() else []
    return [p for p in inside if p.suffix in (".mcap", ".db3") or (p / "metadata.yaml").is_file()]


def require_bags(path: Path) -> list[Path]:
    """Find bags as `find_bags` does; raises DatasetError where there is none."""
    if bags := find_bags(path):
        return bags
    raise DatasetError(f"{path}: no bag there: give a folder with metadata.yaml, .mcap or .db3")
