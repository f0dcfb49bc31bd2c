"""Reads lerobot-rollout's options, and adds the sub-goal camera to the robot's."""

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
from goalreel.streaming.rollout.goals import NewestGoal
from goalreel.subgoal_camera import SubGoalForm

IMAGES = "observation.images."


def read_options(instruction: str, options: Sequence[str]) -> RolloutConfig:
    """Read the options of `lerobot-rollout`, with the instruction as its task.

    Raises:
        InputError: an option that lerobot refuses, with its message; a second task.
        SystemExit: the options ask for lerobot's help.
    """
    if any(option.partition("=")[0] == "--task" for option in options):
        raise InputError("--task is goalreel's own: the instruction comes before --")
    register_third_party_plugins()
    stderr = StringIO()
    try:
        with _argv(["lerobot-rollout", *options, f"--task={instruction}"]), redirect_stderr(stderr):
            return _parse()
    except SystemExit as e:
        if not e.code:
            raise
        raise InputError(_last_line(stderr.getvalue())) from e
    except (ParsingError, PluginLoadError, ValueError) as e:
        # Where a configuration refuses its values, the reason is in the cause of draccus's own error.
        cause = e.__cause__ if isinstance(e, ParsingError) and e.__cause__ else e
        raise InputError(f"lerobot-rollout: {' '.join(str(cause).split())}") from e


def add_camera(config: RolloutConfig, goals: NewestGoal, name: str, form: SubGoalForm) -> bool:
    """Add the camera `name` in the policy's size. Returns False where the policy has no such input.

    Raises:
        InputError: the robot has a camera of that name, or takes no cameras.
    """
    from goalreel.streaming.rollout.config_subgoal_camera import SubgoalCameraConfig

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
            "see docs/how-to/connect-a-policy.md for the ways through ROS 2"
        )
    if name in cameras:
        raise InputError(f"the robot has a camera {name!r} already: call it, or --subgoal-camera, otherwise")
    _, height, width = feature.shape
    size = {"width": width, "height": height, "fps": round(config.fps)}
    cameras[name] = SubgoalCameraConfig(**size, goals=goals, form=form)
    return True


def _identity(cfg: RolloutConfig) -> RolloutConfig:
    return cfg


_parse = cast("Callable[[], RolloutConfig]", parser.wrap()(_identity))


@contextmanager
def _argv(arguments: list[str]) -> Iterator[None]:
    """Replace `sys.argv`: lerobot reads it itself, in nested configurations too."""
    original, sys.argv = sys.argv, arguments
    try:
        yield
    finally:
        sys.argv = original


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "lerobot-rollout refuses its options"
