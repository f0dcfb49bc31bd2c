"""lerobot-rollout's own options, and the sub-goal camera among the robot's."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import cast

from draccus.utils import ParsingError
from lerobot.configs import parser
from lerobot.configs.parser import PluginLoadError
from lerobot.scripts.lerobot_rollout import RolloutConfig  # which registers every robot
from lerobot.utils.import_utils import register_third_party_plugins

from goalreel.errors import InputError
from goalreel.streaming.rollout.goals import PresentGoal
from goalreel.subgoal_camera import SubGoalForm

IMAGES = "observation.images."


def read_options(instruction: str, options: Sequence[str]) -> RolloutConfig:
    """Read what `lerobot-rollout` takes, with the instruction as its task.

    Raises:
        InputError: an option that lerobot refuses, in its words; a second task.
        SystemExit: lerobot's help was asked for.
    """
    if any(option.partition("=")[0] == "--task" for option in options):
        raise InputError("--task is goalreel's own: the instruction comes before --")
    register_third_party_plugins()
    said = StringIO()
    try:
        with _argv(["lerobot-rollout", *options, f"--task={instruction}"]), redirect_stderr(said):
            return _parse()
    except SystemExit as e:
        if not e.code:
            raise
        raise InputError(_last_line(said.getvalue())) from e
    except (ParsingError, PluginLoadError, ValueError) as e:
        # draccus says of a configuration that refuses its values only that it does.
        why = e.__cause__ if isinstance(e, ParsingError) and e.__cause__ else e
        raise InputError(f"lerobot-rollout: {' '.join(str(why).split())}") from e


def add_camera(config: RolloutConfig, goals: PresentGoal, name: str, form: SubGoalForm) -> bool:
    """Add the camera `name` in the size that the policy was trained with; False where it takes none.

    Raises:
        InputError: the robot has that camera, or takes none at all.
    """
    from goalreel.streaming.rollout.subgoal_camera import SubgoalCameraConfig

    assert config.policy is not None
    assert config.robot is not None
    key = config.rename_map.get(IMAGES + name, IMAGES + name)
    feature = (config.policy.input_features or {}).get(key)
    if feature is None:
        return False
    cameras = getattr(config.robot, "cameras", None)
    if not isinstance(cameras, dict):
        raise InputError(
            f"robot type {config.robot.type} has no --robot.cameras, where the sub-goal would be one more: "
            "see docs/policies.md for the ways through ROS 2"
        )
    if name in cameras:
        raise InputError(f"the robot has a camera {name!r} already: call it, or --subgoal-camera, otherwise")
    _, height, width = feature.shape
    size = {"width": width, "height": height, "fps": round(config.fps)}
    cameras[name] = SubgoalCameraConfig(**size, goals=goals, form=form)
    return True


def _itself(cfg: RolloutConfig) -> RolloutConfig:
    return cfg


_parse = cast("Callable[[], RolloutConfig]", parser.wrap()(_itself))


@contextmanager
def _argv(words: list[str]) -> Iterator[None]:
    """lerobot reads the command line itself, in the depth of its configuration too."""
    before, sys.argv = sys.argv, words
    try:
        yield
    finally:
        sys.argv = before


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "lerobot-rollout refuses its options"
