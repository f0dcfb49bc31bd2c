"""Scenes to begin from: examples that come with goalreel, frames of datasets and of ROS cameras."""

import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from goalreel.errors import DatasetError, InputError
from goalreel.extras import ROS as ROS_PACKAGES
from goalreel.extras import install_ros, is_installed
from goalreel.files import read_mapping
from goalreel.image import Image
from goalreel.serving.images import to_base64
from goalreel.studio.schemas import Ability, DatasetView, Scene

if TYPE_CHECKING:
    from goalreel.datasets.source import Source

MAX_DATASETS, MAX_DEPTH = 200, 3
"""Of the list: datasets, and how deep below the folder they are looked for."""
ROS_SECONDS = 5.0
"""How long a camera is waited for."""
NO_DATASET = "there is no such dataset below the folder of --datasets"


def scene(name: str, instruction: str, image: Image) -> Scene:
    """A picture with what a robot could do there."""
    return Scene(name=name, instruction=instruction, picture=f"data:image/png;base64,{to_base64(image)}")


@cache
def example_scenes() -> tuple[Scene, ...]:
    """The scenes that come with goalreel: pictures of its simulated tabletop."""
    folder = Path(str(files(__package__))) / "examples"
    listed = read_mapping(folder / "examples.yaml", "write one `file: instruction` a line")
    return tuple(
        scene(f"Scene {number}", str(instruction), Image.of(folder / name))
        for number, (name, instruction) in enumerate(listed.items(), start=1)
    )


class DatasetFrames:
    """First frames of the datasets below a folder."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else folder.resolve()

    @property
    def ability(self) -> Ability:
        """Whether there is a folder."""
        if self._folder is None:
            return Ability(available=False, reason="start the server with --datasets DIR")
        if not is_installed("av"):
            return Ability(available=False, reason="av is not installed: pip install 'goalreel[annotate]'")
        return Ability(available=True)

    def datasets(self) -> list[DatasetView]:
        """The datasets, in order of their paths; those that cannot be read are left out.

        Raises:
            InputError: no folder was allowed.
        """
        views = []
        for path in sorted(_datasets(self._root(), MAX_DEPTH))[:MAX_DATASETS]:
            try:
                episodes = len(_source(path).indices)
            except DatasetError:
                continue
            views.append(DatasetView(path=str(path.relative_to(self._root())), episodes=episodes))
        return views

    def first_frame(self, dataset: str, episode: int, camera: str | None) -> Scene:
        """The first frame of an episode, with its instruction.

        Raises:
            InputError: no folder was allowed, the dataset is not below it, cannot be read, or has no such
                episode or camera.
        """
        root = self._root()
        if not (path := _resolved(root / dataset)).is_relative_to(root) or not path.is_dir():
            raise InputError(NO_DATASET)
        try:
            source = _source(path)
            recording = source.episode(source.select([episode])[0])
            image = recording.frames(source.camera(camera), [0])[0]
        except DatasetError as e:  # whoever asks can ask for another one
            raise InputError(str(e)) from e
        return scene(f"{dataset}, episode {episode}", recording.instruction, image)

    def _root(self) -> Path:
        if self._folder is None:
            raise InputError("no folder of datasets is allowed here: start the server with --datasets DIR")
        return self._folder


def ros_ability() -> Ability:
    """Whether frames of ROS cameras can be taken."""
    missing = [package for package in ROS_PACKAGES if not is_installed(package)]
    if not missing:
        return Ability(available=True)
    return Ability(available=False, reason=f"{missing[0]} is not installed: {install_ros()}")


def ros_frame(topic: str) -> Scene:
    """The next frame of a camera's topic, as ROS spells it.

    Raises:
        InputError: no ROS here, nothing arrives, or it is no colour picture.
    """
    ability = ros_ability()
    if not ability.available:
        raise InputError(ability.reason or "there is no ROS here")
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    image = import_module("goalreel_ros.client.once").next_frame(topic, ROS_SECONDS)
    return scene(topic, "", image)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, ValueError) as e:  # not there, too long, or with a NUL
        raise InputError(NO_DATASET) from e


def _datasets(folder: Path, depth: int) -> Iterator[Path]:
    """Folders with a `meta/info.json`; links out of the folder are not followed."""
    if (folder / "meta" / "info.json").is_file():
        yield folder
    elif depth:
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
                yield from _datasets(path, depth - 1)


def _source(path: Path) -> "Source":
    from goalreel.datasets.source import Source

    return Source.open(path)
