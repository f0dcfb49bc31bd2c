"""What a run understands of the robot before it begins: one reading for all that it does."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from goalreel.datasets.episode import Episode
from goalreel.datasets.source import Source
from goalreel.datasets.still_camera import find_still_camera
from goalreel.errors import DatasetError, InputError
from goalreel.planners.kinematic.layout import Layout, Unsegmentable
from goalreel.planners.kinematic.robot import SAMPLE, Finding, Robot, infer_robot


@lru_cache(maxsize=4)
def read_robot(source: Source, layout: Layout | None = None, camera: str | None = None) -> Robot:
    """Infer the robot from all episodes of a dataset, or from `SAMPLE` of them, evenly spread.

    Episodes that cannot be read are left out. `layout` and `camera` are what a person says.

    Raises:
        DatasetError: there is no such camera, or none at all.
        InputError: an index of `layout` lies outside the recordings.
    """
    indices = source.indices
    if len(indices) > SAMPLE:
        indices = [indices[i] for i in np.linspace(0, len(indices) - 1, SAMPLE).round().astype(int).tolist()]
    episodes = [episode for index in indices if (episode := _episode(source, index))]
    sampled_from = len(source.indices) if len(source.indices) > SAMPLE else None
    try:
        robot = (
            infer_robot(episodes, layout, source.info.get("robot_type"), sampled_from)
            if episodes
            else Robot(layout=layout or Layout(), findings=())
        )
    except Unsegmentable as e:
        raise InputError(f"{source.root}: {e}") from e
    return robot.model_copy(update={"findings": (*robot.findings, _camera(source, camera))})


def goal_camera(robot: Robot, source: Source) -> str:
    """The camera of the goal images; where none is known to stand still, the one that its name suggests."""
    (finding,) = (f for f in robot.findings if f.field == "camera")
    return finding.value or source.camera(None)


def stored_layout(settings: Mapping[str, Any]) -> Layout | None:
    """How a run read the robot, by the settings that OUT keeps; None finds it for each episode alone."""
    robot, layout = settings.get("robot"), settings.get("layout")
    if not robot:
        return Layout.parse(layout) if layout else None
    found = Layout.parse(robot["layout"])
    other = found.other.model_copy(update={"complete": True}) if found.other else None
    return found.model_copy(update={"complete": True, "other": other})


def question(robot: Robot) -> str | None:
    """One line that asks for what a run needs and the data do not tell; None where all is known."""
    for finding in robot.unknown:
        if finding.field == "camera":
            return f"{finding.reason}: name the one for the goal images with --camera"
        hand = finding.field.removesuffix(" closed") if finding.field != "closed" else "the gripper"
        return (
            f"which end of {hand} is closed is not known ({finding.reason}): "
            "say --layout closed=low or --layout closed=high"
        )
    return None


def _camera(source: Source, camera: str | None) -> Finding:
    if camera is None:
        return find_still_camera(source)
    value = source.camera(camera)
    return Finding(field="camera", value=value, confidence="given", reason="by --camera")


def _episode(source: Source, index: int) -> Episode | None:
    try:
        return source.episode(index)
    except DatasetError:
        return None
