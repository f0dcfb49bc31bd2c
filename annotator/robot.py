"""The robot as a run understands it before it begins: one reading for all that it does."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from goalreel.datasets.episode import Episode
from goalreel.datasets.info_file import number_features
from goalreel.datasets.source import Source, find_still_camera
from goalreel.errors import DatasetError, InputError
from goalreel.planners.kinematic.layout import Finding, Layout, Unsegmentable
from goalreel.planners.kinematic.robot import SAMPLE, Robot, infer_robot


def read_robot(source: Source, layout: Layout | None = None, camera: str | None = None) -> Robot:
    """Infer the robot from all episodes of a dataset, or from `SAMPLE` of them, evenly spread.

    Episodes that cannot be read are left out. `layout` and `camera` are what a person says; from now on the
    source reads the features that `layout` names.

    Raises:
        DatasetError: there is no such camera, or none at all.
        InputError: an index of `layout` lies outside the recordings, or a feature is not there.
    """
    layout = layout or Layout()
    source.read_numbers(layout.state, layout.action)
    robots, key = _robots.setdefault(source, {}), (layout.model_dump_json(), camera)
    if key not in robots:
        robots[key] = _read_robot(source, layout, camera)
    return robots[key]


_robots = WeakKeyDictionary[Source, dict[tuple[str, str | None], Robot]]()
"""By layout and camera; the metadata of a dataset that nobody uses any more is not held for it."""


def _read_robot(source: Source, layout: Layout, camera: str | None) -> Robot:
    indices, sampled_from = source.indices, None
    if len(indices) > SAMPLE:
        sampled_from = len(indices)
        indices = [indices[i] for i in np.linspace(0, len(indices) - 1, SAMPLE).round().astype(int).tolist()]
    episodes: list[Episode] = []
    for index in indices:
        with suppress(DatasetError):
            episodes.append(source.episode(index))
    robot = Robot(layout=layout, findings=())
    try:
        if episodes:
            robot = infer_robot(episodes, layout, source.info.get("robot_type"), sampled_from)
    except Unsegmentable as e:
        raise InputError(f"{source.root}: {e}") from e
    findings = (*_numbers(source, layout), *robot.findings, _camera(source, camera))
    return robot.model_copy(update={"findings": findings})


def goal_camera(robot: Robot, source: Source) -> str:
    """The camera of the goal images; where none is known to stand still, the one that its name suggests."""
    (finding,) = (f for f in robot.findings if f.field == "camera")
    return finding.value or source.camera(None)


def stored_layout(source: Source, settings: Mapping[str, Any]) -> Layout | None:
    """Restore the layout that a run read, from OUT's settings; None finds it for each episode alone.

    From now on the source reads the features that the layout names.
    """
    robot, given = settings.get("robot"), settings.get("layout")
    layout = Layout.parse(given) if given else None
    if robot:
        stored = Layout.parse(robot["layout"])
        other = stored.other.model_copy(update={"complete": True}) if stored.other else None
        layout = stored.model_copy(update={"complete": True, "other": other})
    source.read_numbers(layout.state if layout else (), layout.action if layout else ())
    return layout


def _numbers(source: Source, layout: Layout) -> Iterator[Finding]:
    """Say which features are read where they are not lerobot's own."""
    for role, names, label, value in (
        ("state", source.numbers.state, ("observation.state",), layout.state),
        ("action", source.numbers.action, ("action",), layout.action),
    ):
        if names and names != label:
            reason = "by --layout" if value else f"there is no {label[0]}"
            confidence = "given" if value else "likely"
            yield Finding(field=role, value="+".join(names), confidence=confidence, reason=reason)
    if not source.numbers.state and not source.numbers.action:
        others = number_features(source.features)
        holds = f"{', '.join(others)} holds numbers: state=NAME,action=NAME names both"
        reason = f"there is neither observation.state nor action, and {holds if others else 'no numbers'}"
        answers = tuple(f"state={name}" for name in others)
        yield Finding(field="state", value=None, confidence="unknown", reason=reason, answers=answers)


def _camera(source: Source, camera: str | None) -> Finding:
    if camera is None:
        return find_still_camera(source)
    value = source.camera(camera)
    return Finding(field="camera", value=value, confidence="given", reason="by --camera")
