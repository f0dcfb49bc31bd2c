# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The lifecycle node `goalreel`, and everything that exists between its configure and its cleanup."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial, wraps
from typing import Any, Concatenate

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import SetParametersResult
from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ROSClock
from rclpy.clock_type import ClockType
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from goalreel.errors import UserError
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.streaming.board import NO_ID, Frame, Goal
from goalreel.streaming.camera import FrameSlot
from goalreel.streaming.engine import Engine, OnPhase
from goalreel.streaming.request import TaskEnded, TaskOutcome, TaskRequest, Ticket, excerpt
from goalreel.streaming.settings import EngineSettings
from goalreel_interfaces.msg import StoryboardProgress
from goalreel_ros import convert, diagnostics, parameters, pictures
from goalreel_ros.cameras import CameraInputs, CameraSlot
from goalreel_ros.outputs import Outputs
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.qos import OVERRIDABLE, create_publisher
from goalreel_ros.servers import Actions, Services

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
LONGEST_STEP = 10.0
"""Seconds of /clock between two looks at it, of which there are several a second; more is a jump."""


def log_failures[**P](
    transition: Callable[Concatenate["GoalreelNode", P], TransitionCallbackReturn],
) -> Callable[Concatenate["GoalreelNode", P], TransitionCallbackReturn]:
    """Log what a transition raises, which rclpy does not. A UserError makes it a FAILURE, not an ERROR."""
    name = transition.__name__.removeprefix("on_").replace("_", " ")

    @wraps(transition)
    def wrapper(self: "GoalreelNode", *args: P.args, **kwargs: P.kwargs) -> TransitionCallbackReturn:
        try:
            return transition(self, *args, **kwargs)
        except Exception as e:
            told = isinstance(e, UserError)
            if not self.closed:
                self.get_logger().error(f"cannot {name}: {e if told else f'{type(e).__name__}: {e}'}")
            if told:
                return FAILURE
            raise

    return wrapper


class GoalreelNode(LifecycleNodeMixin, Node):
    """Declares its parameters when created. Everything else exists from configure to cleanup only.

    Configuring takes as long as the models load. Meanwhile the executor's other threads answer for the state.
    `build` makes the models of a preset; `options` are those of any lifecycle node.

    Raises:
        InputError: an override has a name that is nearly a parameter's.
        rclpy.exceptions.ParameterException: an override has the wrong type or is out of range.
    """

    def __init__(self, build: Callable[[Preset], ModelSet], **options: Any) -> None:
        self._build = build
        self._entities: NodeEntities | None = None
        self.closed = False
        """The process is about to end."""
        self._creation = threading.Lock()
        Node.__init__(self, "goalreel", **options)
        LifecycleNodeMixin.__init__(self, callback_group=ReentrantCallbackGroup())
        parameters.declare(self)
        for name in parameters.check_names(self._parameter_overrides, self._parameters):
            self.get_logger().warning(f"there is no parameter {name}: it is ignored")
        self.add_on_set_parameters_callback(self._check)
        self.add_post_set_parameters_callback(self._apply)

    def close(self) -> None:
        """Stop the policy, and remove every entity for good. Works in any state, and ends any transition."""
        self.closed = True
        self._remove_entities()

    # -- transitions

    @log_failures
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Check the parameters, create every entity and load the models."""
        settings = parameters.read_engine_settings(self)
        with self._creation:
            if self.closed:
                return FAILURE
            options = parameters.read_node_options(self)
            self._entities = entities = NodeEntities(self, settings, options, self._build)
            loading = entities.engine.begin_loading()  # before anybody can close the node
        try:
            loaded = entities.engine.finish_loading(loading)
        except UserError:
            entities.publish_diagnostics()
            self._remove_entities()
            raise
        if not loaded:
            return FAILURE
        self.get_logger().info("configured; the models are loaded")
        return SUCCESS

    @log_failures
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Make sure that the models' servers answer, and accept requests."""
        entities = self._require_entities()
        engine = entities.engine
        answered = engine.probe(parameters.read_node_options(self).server_timeout)
        for remark in engine.probes.remarks if engine.probes else ():
            self.get_logger().warning(remark)
        if not answered:
            return FAILURE
        engine.start()
        entities.active = True
        self.get_logger().info("active; ready for tasks")
        return super().on_activate(state)

    @log_failures
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the task under way as PREEMPTED. The models stay loaded."""
        entities = self._require_entities()
        entities.active = False
        entities.engine.end_task()
        entities.actions.drain(1.0)
        self.get_logger().info("inactive")
        return super().on_deactivate(state)

    @log_failures
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Destroy every entity and release the models, so that configure works again."""
        self._remove_entities()
        return SUCCESS

    on_shutdown = on_error = on_cleanup  # from any state

    # -- internals

    def _remove_entities(self) -> None:
        with self._creation:
            entities, self._entities = self._entities, None
        if entities is not None:
            entities.remove()

    def _require_entities(self) -> "NodeEntities":
        if self._entities is None:
            raise RuntimeError("the node is not configured")
        return self._entities

    def _check(self, changed: list[Parameter]) -> SetParametersResult:
        return parameters.check(self, changed, self._entities is not None)

    def _apply(self, _: list[Parameter]) -> None:
        if self._entities is not None:
            options = parameters.read_node_options(self)
            self._entities.configure(parameters.read_engine_settings(self), options)


class TaskClock:
    """The clock of ages, time-outs and stalls, in s: steady time, or that of /clock with `use_sim_time`.

    So nothing is late while a simulator pauses. Where nobody publishes /clock, time is steady: the simulator
    is gone. It never goes back, and a jump of /clock counts for nothing. Safe from any thread.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._lock = node, threading.Lock()
        self._time, self._last = 0.0, (False, time.monotonic())

    def __call__(self) -> float:
        clock = self._node.get_clock()
        simulated = isinstance(clock, ROSClock) and clock.ros_time_is_active
        simulated = simulated and self._node.count_publishers("/clock") > 0
        with self._lock:
            now = clock.now().nanoseconds / 1e9 if simulated else time.monotonic()
            step = now - self._last[1] if simulated == self._last[0] else 0.0
            self._time += step if not simulated or 0 <= step <= LONGEST_STEP else 0.0
            self._last = simulated, now
            return self._time


class NodeEntities:
    """The engine, its topics, services and actions. `build` makes the models of the settings' preset.

    Raises:
        InputError: the preset does not exist, or predicts no goal images.
    """

    def __init__(
        self,
        node: Node,
        settings: EngineSettings,
        options: NodeOptions,
        build: Callable[[Preset], ModelSet],
    ) -> None:
        self._log, self._clock = node.get_logger(), node.get_clock()
        self._name = node.get_fully_qualified_name()
        self._own_name = node.get_name(), node.get_namespace()
        self._nodes = node.get_node_names_and_namespaces
        self._settings, self._options = settings, options
        clock = TaskClock(node)
        self._slot: CameraSlot = FrameSlot(pictures.decode, clock, settings.max_image_side)
        self.active = False
        """The node is active: it takes orders."""
        self._refusal = self._degraded = self._rivals = ""
        with ExitStack() as undo:
            self.outputs = Outputs(node, options, self.now, self._live_frame)
            undo.callback(self.outputs.destroy)
            follow = self.outputs.follow_camera
            self._camera = CameraInputs(node, lambda: self._options, self._slot, follow)
            undo.callback(self._camera.destroy)
            newest, silence = self._slot.newest, self._camera.explain_silence
            self.engine = Engine(
                settings, newest, self.outputs, self.now, build, silence, self._log.info, clock
            )
            undo.callback(self.engine.stop)
            group = MutuallyExclusiveCallbackGroup()
            self.actions = Actions(node, self.submit, self.outputs, self.now, group)
            undo.callback(self.actions.destroy)
            services = Services(node, self._active_engine, self.submit, self.outputs.jpegs, self.now, group)
            undo.callback(services.destroy)
            self._subscribe(node, undo, group)
            self._create_reports(node, undo)
            self._undo = undo.pop_all()
        self.outputs.on_board(self.engine.board)
        self.outputs.on_goal(Goal(self.engine.board, None, "not_active", self.now()))

    def now(self) -> int:
        """Give the node's clock in ns. Never 0, which consumers drop: 1 before simulated time begins."""
        return max(1, self._clock.now().nanoseconds)

    def configure(self, settings: EngineSettings, options: NodeOptions) -> None:
        """Use new settings and options from the next request or message on."""
        self._settings, self._options = settings, options
        self._slot.longest = settings.max_image_side
        self.engine.configure(settings)
        self.outputs.configure(options)

    def submit(self, make: Callable[[], TaskRequest], on_phase: OnPhase | None = None) -> Ticket:
        """Make a request and hand it to the engine. A ticket that has ended already says why."""
        try:
            request = make()
        except TaskEnded as e:
            return Ticket(NO_ID, lambda *_: None).refuse(TaskRequest(""), (e.error, e.message))
        ticket = self.engine.submit(request, on_phase)
        self._refusal = ""
        self._log.info(f"{request.kind}: {excerpt(request.task) or ticket.id!s}")
        ticket.outcome.add_done_callback(self._log_outcome)
        return ticket

    def remove(self) -> None:
        """End the task under way, wait until its results are sent, and remove every entity."""
        self.active = False
        self.engine.stop()
        self.actions.drain(1.0)
        self.outputs.finish()
        self.outputs.wait_for_delivery(0.3)
        self._undo.close()

    # -- ~/progress, /diagnostics and the instruction topic

    def publish_diagnostics(self) -> None:
        """Publish the state of camera, models and task."""
        self.outputs.follow_camera()
        # Without a task nobody else reads the camera, and unreadable frames would be noticed too late.
        with suppress(ValueError):
            if (frame := self._slot.newest()) is not None:
                self.outputs.set_camera_size(frame.size)
        camera = self._camera.diagnose(self._settings.max_image_age)
        at = convert.header(self.now(), "")
        before, count = self._rivals, self._nodes().count(self._own_name)
        says = f"{count} nodes are called {self._name}, and each takes every order: stop one, or rename it"
        self._rivals = says if count > 1 else ""
        if self._rivals not in ("", before):
            self._log.warning(self._rivals)
        report = diagnostics.diagnose(self._name, at, camera, self.engine, self._refusal, self._rivals)
        self._diagnostics.publish(report)

    def _active_engine(self) -> Engine | None:
        return self.engine if self.active else None

    def _live_frame(self) -> Frame | None:
        """The newest camera frame; None where it is too old or cannot be read."""
        with suppress(ValueError):
            frame = self._slot.newest()
            if frame is not None and self._slot.clock() - frame.received <= self._settings.max_image_age:
                return frame
        return None

    def _subscribe(self, node: Node, undo: ExitStack, group: CallbackGroup) -> None:
        create = partial(node.create_subscription, qos_overriding_options=OVERRIDABLE)
        qos, sensor = QoSProfile(depth=10), QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
        orders = create(String, "~/instruction", self._on_instruction, qos, callback_group=group)
        undo.callback(node.destroy_subscription, orders)
        if self._settings.examples:
            own = MutuallyExclusiveCallbackGroup()
            joints = create(JointState, "joint_states", self._on_joints, sensor, callback_group=own)
            undo.callback(node.destroy_subscription, joints)

    def _create_reports(self, node: Node, undo: ExitStack) -> None:
        self._progress = create_publisher(node, StoryboardProgress, "~/progress", QoSProfile(depth=10))
        self._diagnostics = create_publisher(node, DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        for publisher in (self._progress, self._diagnostics):
            undo.callback(node.destroy_publisher, publisher)
        # Simulated time may stand still, but the reports must go on.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        group = MutuallyExclusiveCallbackGroup()
        for period, callback in (
            (1 / self._options.progress_rate, self._publish_progress),
            (1.0, self.publish_diagnostics),
        ):
            timer = node.create_timer(period, callback, callback_group=group, clock=steady)
            undo.callback(partial(node.destroy_timer, timer))

    def _on_joints(self, message: JointState) -> None:
        if (cue := self.engine.cue) is not None:
            cue.push(dict(zip(message.name, message.position, strict=False)))

    def _on_instruction(self, message: String) -> None:
        ticket = self.submit(lambda: TaskRequest(task=message.data))
        if ticket.done:
            self._refusal = ticket.outcome.result().message
            self._log.warning(f"instruction refused: {self._refusal}")

    def _log_outcome(self, future: Future[TaskOutcome]) -> None:
        outcome = future.result()
        if outcome.error:
            self._log.warning(f"{outcome.error.name}: {outcome.message}")
        else:
            note = f": {outcome.message}" if outcome.message else ""
            self._log.info(f"{outcome.board.state} after {outcome.elapsed:.1f} s{note}")

    def _publish_progress(self) -> None:
        progress = self.engine.progress()
        self._progress.publish(convert.progress(progress, self.now()))
        self.actions.publish_progress(progress)
        if (degraded := progress.board.degraded) != self._degraded:
            self._degraded = degraded
            if degraded:
                self._log.warning(degraded)
