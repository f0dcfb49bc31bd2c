"""Runs lerobot's rollout and the engine of storyboards side by side, until the task is done."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from lerobot.rollout import RolloutContext, build_rollout_context, create_strategy
from lerobot.scripts.lerobot_rollout import RolloutConfig
from lerobot.utils.visualization_utils import init_visualization, shutdown_visualization

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.load import Trio
from goalreel.streaming.engine import Engine
from goalreel.streaming.frames import FrameSlot
from goalreel.streaming.request import TaskOutcome, TaskRequest
from goalreel.streaming.rollout.configure import add_camera
from goalreel.streaming.rollout.following import Following, SubgoalWords
from goalreel.streaming.rollout.goals import PresentGoal
from goalreel.streaming.settings import EngineSettings
from goalreel.subgoal_camera import DEFAULT_FORM, LIVE_FORMS, SubGoalForm


@dataclass(frozen=True)
class RolloutOrder:
    """What a policy is to be led through, and how it is told."""

    instruction: str
    settings: EngineSettings
    camera: str | None = None
    """The robot's camera that is planned from and watched; None: its only one."""
    subgoal_camera: str = "subgoal"
    text: Literal["subgoal", "instruction"] = "subgoal"
    """What the policy reads as its task."""
    form: SubGoalForm = DEFAULT_FORM
    """Of the sub-goal camera, as in the dataset that the policy was trained on."""


def lead(
    config: RolloutConfig,
    order: RolloutOrder,
    models: Trio,
    stop: threading.Event,
    say: Callable[[str], None],
) -> TaskOutcome | None:
    """Run lerobot's rollout and lead its policy through the plan, until the task ends or `stop` is set.

    The robot is connected, and at the end let go of, by lerobot. `say` hears a line of every goal, in
    another thread.

    Returns:
        How the task ended; None where the rollout ended before it.

    Raises:
        InputError: policy, robot and order do not fit together.
        OSError: the robot, or one of its cameras, cannot be reached.
    """
    if order.form in LIVE_FORMS:
        raise InputError(
            f"--subgoal-form {order.form} shows the live frame too, which no camera of lerobot knows: "
            "use plain or bordered, or the ways through ROS 2 in docs/policies.md"
        )
    goals, slot = PresentGoal(say), FrameSlot(_decode, longest=order.settings.max_image_side)
    pictured = add_camera(config, goals, order.subgoal_camera, order.form)
    if not pictured:
        if order.text == "instruction":
            raise InputError(
                f"the policy takes no observation.images.{order.subgoal_camera}, and --text instruction "
                "tells it no sub-goal: nothing of the plan would reach it"
            )
        say(f"the policy takes no observation.images.{order.subgoal_camera}: it is told in words alone")
    engine = Engine(order.settings, slot.newest, goals, time.time_ns, lambda _: models)
    with ExitStack() as undo:
        if config.display_data:
            init_visualization(
                config.display_mode, session_name="rollout", ip=config.display_ip, port=config.display_port
            )
            undo.callback(shutdown_visualization, config.display_mode)
        context = _built(config, stop)
        strategy = create_strategy(config.strategy)
        undo.callback(engine.stop)
        undo.callback(strategy.teardown, context)
        if pictured:
            _check_camera(context, order.subgoal_camera)
        seen = _watched(context, order)
        context = _led(context, goals, order, lambda o: slot.put(o[seen], time.time_ns(), seen))
        engine.start()
        strategy.setup(context)
        ticket = engine.submit(TaskRequest(order.instruction))
        ticket.outcome.add_done_callback(lambda _: stop.set())
        strategy.run(context)
        return ticket.outcome.result() if ticket.done else None


def _built(config: RolloutConfig, stop: threading.Event) -> RolloutContext:
    try:
        return build_rollout_context(config, stop)
    except (ValueError, NotImplementedError) as e:
        raise InputError(f"lerobot-rollout: {' '.join(str(e).split())}") from e


def _check_camera(context: RolloutContext, name: str) -> None:
    """A robot whose cameras are on another machine opens none here."""
    camera = context.hardware.robot_wrapper.cameras.get(name)
    if camera is None or not camera.is_connected:
        robot = context.hardware.robot_wrapper.name
        raise InputError(
            f"a {robot} does not open its cameras here, so that the sub-goal would never be read: "
            "see docs/policies.md for the ways through ROS 2"
        )


def _watched(context: RolloutContext, order: RolloutOrder) -> str:
    """The name of the camera to watch."""
    features = context.hardware.robot_wrapper.observation_features
    cameras = [name for name, shape in features.items() if isinstance(shape, tuple)]
    others = [name for name in cameras if name != order.subgoal_camera]
    named = order.camera
    if named is None:
        if len(others) != 1:
            raise InputError(f"the robot's cameras are {', '.join(others) or 'none'}: name one with --camera")
        return others[0]
    if named not in others:
        raise InputError(f"the robot's cameras are {', '.join(others) or 'none'}: {named!r} is none of them")
    return named


def _led(
    context: RolloutContext, goals: PresentGoal, order: RolloutOrder, watch: Callable[[dict[str, Any]], None]
) -> RolloutContext:
    """The context with us before its policy."""
    following = Following(context.policy.inference, goals, watch)
    if order.text == "subgoal":
        steps = context.policy.preprocessor.steps
        context.policy.preprocessor.steps = [SubgoalWords(lambda: following.words), *steps]
    return replace(context, policy=replace(context.policy, inference=following))


def _decode(frame: Any) -> Image:
    return Image(np.array(frame))
