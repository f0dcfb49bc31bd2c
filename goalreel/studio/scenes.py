"""Scenes to begin from: examples, frames of datasets and of ROS cameras; and a robot that acts on a plan."""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from goalreel.errors import DatasetError, InputError, UserError
from goalreel.extras import ROS as ROS_PACKAGES
from goalreel.extras import install_ros, is_installed
from goalreel.files import find, read_mapping
from goalreel.image import Image
from goalreel.serving.errors import responses
from goalreel.serving.images import to_base64
from goalreel.types import Storyboard

MAX_DATASETS, MAX_DEPTH = 200, 3
"""Limits of the list: datasets, and the depth below the folder at which they are looked for."""
ROS_SECONDS = 5.0
"""Time that a camera, a node, and its answer are waited for."""
NODE = "goalreel"
"""The robot's node, relative to the namespace."""
NO_FOLDER = "no folder of datasets is allowed here: start the server with --datasets DIR"

type Scene = dict[str, str]
type Ability = dict[str, Any]
"""`available`, and the `reason` where it is not."""


def scene(name: str, instruction: str, image: Image) -> Scene:
    """Describe a picture with what a robot could do there."""
    picture = f"data:image/png;base64,{to_base64(image)}"
    return {"name": name, "instruction": instruction, "picture": picture}


def ability(reason: str | None) -> Ability:
    """Tell if something can be done: there is no reason against it."""
    return {"available": reason is None, "reason": reason}


@cache
def example_scenes() -> tuple[Scene, ...]:
    """Read the scenes that come with goalreel: pictures of its simulated tabletop."""
    folder = Path(str(files(__package__))) / "examples"
    listed = read_mapping(folder / "examples.yaml", "write one `file: instruction` a line")
    return tuple(
        scene(f"Scene {number}", str(instruction), Image.of(folder / name))
        for number, (name, instruction) in enumerate(listed.items(), start=1)
    )


def dataset_ability(folder: Path | None) -> Ability:
    """Tell if frames of datasets can be taken."""
    if folder is None:
        return ability("start the server with --datasets DIR")
    return ability(None if is_installed("av") else "av is not installed: pip install 'goalreel[annotate]'")


def ros_ability() -> Ability:
    """Tell if ROS is here."""
    missing = [package for package in ROS_PACKAGES if not is_installed(package)]
    return ability(f"{missing[0]} is not installed: {install_ros()}" if missing else None)


def send_to_robot(storyboard: Storyboard) -> None:
    """Let the node of a robot execute a storyboard; returns once it has begun.

    Raises:
        InputError: no ROS here, or the node refuses the storyboard, or is not active.
        TimeoutError: no node is there, or it does not answer.
    """
    client = _ros_client()
    try:
        client.start_storyboard(storyboard, NODE, ROS_SECONDS)
    except UserError as e:
        raise InputError(f"the robot's node does not execute it: {e}") from e


def _ros_client() -> Any:
    here = ros_ability()
    if not here["available"]:
        raise InputError(here["reason"])
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    return import_module("goalreel_ros.client.once")


def _datasets(folder: Path, depth: int) -> Iterator[Path]:
    """Folders with a `meta/info.json`; links out of the folder are not followed."""
    if (folder / "meta" / "info.json").is_file():
        yield folder
    elif depth:
        for path in find(folder):
            if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
                yield from _datasets(path, depth - 1)


def _folder(request: Request) -> Path:
    folder: Path | None = request.app.state.datasets
    if folder is None:
        raise InputError(NO_FOLDER)
    return folder.resolve()


type DatasetFolder = Annotated[Path, Depends(_folder)]
router = APIRouter(prefix="/v1", tags=["studio"])


@router.get("/examples", responses=responses())
def examples() -> dict[str, Any]:
    """List the scenes that come with goalreel."""
    return {"scenes": example_scenes()}


@router.get("/datasets", responses=responses())
def datasets(root: DatasetFolder) -> dict[str, Any]:
    """List the datasets whose frames can be taken, in order of their paths; none that cannot be read."""
    from goalreel.datasets.source import Source

    views: list[dict[str, Any]] = []
    for path in sorted(_datasets(root, MAX_DEPTH))[:MAX_DATASETS]:
        with suppress(DatasetError):
            episodes = len(Source.open(path).indices)
            views.append({"path": str(path.relative_to(root)), "episodes": episodes})
    return {"datasets": views}


@router.get("/frames", responses=responses())
def first_frame(
    root: DatasetFolder,
    dataset: Annotated[str, Query(min_length=1, max_length=1000)],
    episode: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    camera: Annotated[str | None, Query(max_length=200)] = None,
) -> Scene:
    """Take the first frame of an episode, with its instruction."""
    from goalreel.datasets.source import Source

    try:
        path = (root / dataset).resolve(strict=True)
        if not path.is_relative_to(root) or not path.is_dir():
            raise FileNotFoundError
    except (OSError, ValueError) as e:  # not there, too long, or with a NUL
        raise InputError("there is no such dataset below the folder of --datasets") from e
    try:
        source = Source.open(path)
        recording = source.episode(source.select([episode])[0])
        image = recording.frames(source.camera(camera), [0])[0]
    except DatasetError as e:  # whoever asks can ask for another one
        raise InputError(str(e)) from e
    return scene(f"{dataset}, episode {episode}", recording.instruction, image)


@router.get("/frames/ros", responses=responses())
def camera_frame(
    topic: Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_/~]+$")],
) -> Scene:
    """Take the next frame of a ROS camera."""
    return scene(topic, "", _ros_client().next_frame(topic, ROS_SECONDS))
