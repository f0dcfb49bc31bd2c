"""Runs lerobot's own rollout and the storyboard engine side by side, until the task is done.

No ROS, and nothing of lerobot is changed: sub-goals go to the policy, a camera's frames come back.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any, Literal, cast

import lerobot.rollout
import numpy as np
from draccus.utils import ParsingError
from lerobot.configs import parser
from lerobot.configs.parser import PluginLoadError
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.rollout import (
    InferenceEngine,
    RolloutContext,
    RolloutStrategy,
    build_rollout_context,
    create_strategy,
)
from lerobot.rollout.ring_buffer import RolloutRingBuffer
from lerobot.scripts.lerobot_rollout import RolloutConfig  # which registers every robot
from lerobot.utils.import_utils import register_third_party_plugins
from lerobot.utils.visualization_utils import init_visualization, shutdown_visualization

from goalreel.datasets.writing import language
from goalreel.errors import BackendError, InputError
from goalreel.image import Image
from goalreel.models.model_set import ModelSet
from goalreel.streaming.board import Goal
from goalreel.streaming.camera import FrameSlot
from goalreel.streaming.engine import Engine
from goalreel.streaming.request import TaskOutcome, TaskRequest
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.subgoalcamera import GoalGatedEngine, NewestGoal, SubgoalCameraConfig, SubgoalTaskStep
from goalreel.subgoal_camera import DEFAULT_FORM, LIVE_FORMS, SubGoalForm

IMAGES = "observation.images."
_FOLLOWED = "goalreel.followed"
"""In a frame that is kept for later: what is followed in it."""
STEERING: Any = lerobot.rollout
"""Has RolloutController and LinkedEvent after lerobot 0.6.1."""


def read_options(instruction: str, options: Sequence[str]) -> RolloutConfig:
    """Read the options of `lerobot-rollout`, with the instruction as its task.

    Raises:
        InputError: an option that lerobot refuses, with its message; a second task.
        SystemExit: the options ask for lerobot's help.
    """
    if any(option.partition("=")[0] == "--task" for option in options):
        raise InputError("--task is goalreel's own: the instruction comes before --")
    register_third_party_plugins()
    original, stderr = sys.argv, StringIO()
    sys.argv = ["lerobot-rollout", *options, f"--task={instruction}"]  # which nested configurations read too
    try:
        with redirect_stderr(stderr):
            return cast(Any, _parse)()
    except SystemExit as e:
        if not e.code:
            raise
        lines = stderr.getvalue().strip().splitlines() or ["lerobot-rollout refuses its options"]
        raise InputError(lines[-1].strip()) from e
    except (ParsingError, PluginLoadError, ValueError) as e:
        # Where a configuration refuses its values, the reason is in the cause of draccus's own error.
        cause = e.__cause__ if isinstance(e, ParsingError) and e.__cause__ else e
        raise InputError(f"lerobot-rollout: {' '.join(str(cause).split())}") from e
    finally:
        sys.argv = original


@parser.wrap()
def _parse(cfg: RolloutConfig) -> RolloutConfig:
    return cfg


def add_camera(config: RolloutConfig, goals: NewestGoal, name: str, form: SubGoalForm) -> bool:
    """Add the camera `name` in the policy's size. Returns False where the policy has no such input.

    Raises:
        InputError: the robot has a camera of that name, or takes no cameras.
    """
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


@dataclass(frozen=True)
class RolloutRequest:
    """The task of a rollout, and how the policy gets its sub-goals."""

    instruction: str
    settings: EngineSettings
    camera: str | None = None
    """The robot's camera whose frames are planned from and watched; None stands for its only one."""
    subgoal_camera: str = "subgoal"
    text: Literal["subgoal", "instruction"] = "subgoal"
    """The text that the policy reads as its task."""
    form: SubGoalForm = DEFAULT_FORM
    """The form of the sub-goal camera: that of the policy's training dataset."""


def lead(
    config: RolloutConfig,
    request: RolloutRequest,
    models: ModelSet,
    stop: threading.Event,
    report: Callable[[str], None],
) -> TaskOutcome | None:
    """Run lerobot's rollout and lead its policy through the plan, until the task ends or `stop` is set.

    lerobot connects the robot and disconnects it at the end. `report` gets a line about every goal, in
    another thread.

    Returns:
        How the task ended; None where the rollout ended before it.

    Raises:
        InputError: policy, robot and request do not fit together.
        OSError: the robot, or one of its cameras, cannot be reached.
    """
    if request.form in LIVE_FORMS:
        raise InputError(
            f"--subgoal-form {request.form} shows the live frame too, which no camera of lerobot knows: "
            "use plain or bordered, or the ways through ROS 2 in docs/how-to/connect-a-policy.md"
        )
    goals = NewestGoal(report)
    slot = FrameSlot(lambda frame: Image(np.array(frame)), longest=request.settings.max_image_side)
    has_camera = add_camera(config, goals, request.subgoal_camera, request.form)
    if not has_camera:
        if request.text == "instruction":
            raise InputError(
                f"the policy takes no observation.images.{request.subgoal_camera}, and --text instruction "
                "tells it no sub-goal: nothing of the plan would reach it"
            )
        report(f"the policy takes no observation.images.{request.subgoal_camera}: it is told in words alone")
    engine = Engine(request.settings, slot.newest, goals, time.time_ns, lambda _: models)
    with ExitStack() as undo:
        if config.display_data:
            init_visualization(
                config.display_mode, session_name="rollout", ip=config.display_ip, port=config.display_port
            )
            undo.callback(shutdown_visualization, config.display_mode)
        steered = hasattr(STEERING, "RolloutController")
        try:
            context = build_rollout_context(config, STEERING.LinkedEvent(stop) if steered else stop)
        except (ValueError, NotImplementedError) as e:
            raise InputError(f"lerobot-rollout: {' '.join(str(e).split())}") from e
        strategy = create_strategy(config.strategy)
        undo.callback(engine.stop)
        undo.callback(strategy.teardown, context)
        if has_camera:
            _check_camera(context, request.subgoal_camera)
        camera = _camera_name(context, request)

        def observe(observation: dict[str, Any]) -> None:
            slot.put(observation[camera], time.time_ns(), camera)
            if engine.cue is not None:
                engine.cue.push({n: float(v) for n, v in observation.items() if np.ndim(v) == 0})

        def pause(is_paused: bool) -> None:
            engine.command("pause" if is_paused else "resume")

        context = _with_goals(context, goals, request, observe, pause)
        engine.start()
        strategy.setup(context)
        if (dataset := context.data.dataset) is not None:
            FollowedRows(dataset, request.instruction, goals, getattr(strategy, "_ring", None))
        ticket = engine.submit(TaskRequest(request.instruction, text_only=not has_camera))
        ticket.outcome.add_done_callback(lambda _: stop.set())
        _run(strategy, context)
        return ticket.outcome.result() if ticket.done else None


def _run(strategy: RolloutStrategy, context: RolloutContext) -> None:
    """Run the strategy until it ends or is stopped; by lerobot's controller where that takes it.

    Raises:
        BackendError: the policy or the robot failed under the controller.
    """
    if not getattr(strategy.config, "supports_interactive", False):
        strategy.run(context)
        return

    def on_event(event: Any, _: object) -> None:
        if event is STEERING.RolloutEvent.SEGMENT_ENDED:  # of itself: the duration is over
            controller.stop()

    controller = STEERING.RolloutController(strategy, context, on_event)
    controller.start()
    controller.serve()
    if controller.failed:
        why = (controller.failure_traceback or "its engine failed").strip().splitlines()[-1]
        raise BackendError(f"lerobot-rollout: {why}")


def _check_camera(context: RolloutContext, name: str) -> None:
    """Check that the camera is open: a robot whose cameras are on another machine opens none here."""
    camera = context.hardware.robot_wrapper.cameras.get(name)
    if camera is None or not camera.is_connected:
        robot = context.hardware.robot_wrapper.name
        raise InputError(
            f"a {robot} does not open its cameras here, so that the sub-goal would never be read: "
            "see docs/how-to/connect-a-policy.md for the ways through ROS 2"
        )


def _camera_name(context: RolloutContext, request: RolloutRequest) -> str:
    """Name the robot's camera whose frames are planned from and watched."""
    features = context.hardware.robot_wrapper.observation_features
    cameras = [name for name, shape in features.items() if isinstance(shape, tuple)]
    others = [name for name in cameras if name != request.subgoal_camera]
    chosen = [name for name in others if request.camera in (None, name)]
    if len(chosen) == 1:
        return chosen[0]
    problem = "name one with --camera" if request.camera is None else f"{request.camera!r} is none of them"
    raise InputError(f"the robot's cameras are {', '.join(others) or 'none'}: {problem}")


def _with_goals(
    context: RolloutContext,
    goals: NewestGoal,
    request: RolloutRequest,
    on_observation: Callable[[dict[str, Any]], None],
    pause: Callable[[bool], None],
) -> RolloutContext:
    """Give the context with its policy's engine wrapped, and its task replaced where the request says so."""
    inner = context.policy.inference
    tell = getattr(inner, "set_task", None) if request.text == "subgoal" else None
    engine = GoalGatedEngine(inner, goals, on_observation, tell or (lambda _: None), pause)
    if request.text == "subgoal" and tell is None:
        steps = context.policy.preprocessor.steps
        context.policy.preprocessor.steps = [SubgoalTaskStep(lambda: engine.subtask), *steps]
    return replace(context, policy=replace(context.policy, inference=cast(InferenceEngine, engine)))


class FollowedRows:
    """Writes what each frame of a recording follows into the dataset, once lerobot has finished it.

    `subtask` is the step that was attempted, well or not; `memory` has only the steps that were seen to be
    done, so a failed try never enters it; `plan` is what was still to do. The task of every frame is the
    whole instruction.
    """

    def __init__(
        self,
        dataset: LeRobotDataset,
        instruction: str,
        goals: NewestGoal,
        ring: RolloutRingBuffer | None = None,
    ) -> None:
        """Watch the dataset from now on: its methods are replaced by ones that note what they do.

        `ring` holds the frames that `--strategy.type=highlight` may record later.
        """
        self._dataset, self._instruction, self._goals = dataset, instruction, goals
        self._frames, self._said = 0, dict[str, str]()
        self._rows: list[language.RecordedRow] = []
        self._episodes: dict[int, list[language.RecordedRow]] = {}
        # Of a dataset that is resumed: lerobot takes no frames of them.
        for name in (language.PERSISTENT, language.EVENTS):
            dataset.meta.features.pop(name, None)
            if dataset.writer is not None and dataset.writer.episode_buffer is not None:
                dataset.writer.episode_buffer.pop(name, None)
        self._add, self._save = dataset.add_frame, dataset.save_episode
        self._clear, self._finalize = dataset.clear_episode_buffer, dataset.finalize
        vars(dataset).update(
            add_frame=self.add_frame,
            save_episode=self.save_episode,
            clear_episode_buffer=self.clear_episode_buffer,
            finalize=self.finalize,
        )
        if ring is not None:
            keep = ring.append
            vars(ring).update(append=lambda frame: keep(frame | {_FOLLOWED: _said(goals.newest)}))

    def add_frame(self, frame: dict[str, Any]) -> None:
        """Add a frame, and note what is followed in it where that has changed."""
        followed = frame.pop(_FOLLOWED) if _FOLLOWED in frame else _said(self._goals.newest)
        self._add(frame | {"task": self._instruction})
        for style, text in followed.items():
            if self._said.get(style) != text:
                self._rows.append((self._frames, style, text))
                self._said[style] = text
        self._frames += 1

    def save_episode(self, *arguments: Any, **options: Any) -> None:
        """Save the episode, and keep its rows."""
        index = self._dataset.meta.total_episodes
        self._save(*arguments, **options)
        self._episodes[index] = self._rows
        self._begin()

    def clear_episode_buffer(self, *arguments: Any, **options: Any) -> None:
        """Discard the episode with its rows."""
        self._clear(*arguments, **options)
        self._begin()

    def finalize(self) -> None:
        """Finish the dataset, and write the rows."""
        self._finalize()
        if self._episodes:
            language.put_rows(self._dataset.root, self._episodes)
            self._episodes = {}

    def _begin(self) -> None:
        self._frames, self._rows = 0, []
        self._said.clear()


def _said(goal: Goal | None) -> Mapping[str, str]:
    """Give the row of each style that holds while this is the newest goal."""
    if goal is None or goal.panel is None:
        return {}
    steps, at = goal.board.steps, goal.panel.index
    done = [(p.index, p.step.name) for p in steps if p.status == "completed" and p.index < at]
    memory = {"memory": language.memory_text(done)} if done else {}
    plan = language.plan_text([p.step.name for p in steps[at:]])
    return {"plan": plan, **memory, "subtask": goal.panel.step.name}
