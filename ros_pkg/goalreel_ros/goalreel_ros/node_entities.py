"""Everything that exists between configure and cleanup: the engine, its topics, services and actions."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import String

from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.streaming.board import Frame, Goal
from goalreel.streaming.engine import Engine, OnPhase
from goalreel.streaming.request import TaskOutcome, TaskRequest, Ticket, excerpt
from goalreel.streaming.settings import EngineSettings
from goalreel_interfaces.msg import StoryboardProgress
from goalreel_ros import convert
from goalreel_ros.cameras import CameraInputs, CameraSlot
from goalreel_ros.convert import RequestRefusedError
from goalreel_ros.diagnostics import Diagnostics
from goalreel_ros.outputs import Outputs
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.qos import OVERRIDABLE, create_publisher
from goalreel_ros.servers import Actions, Services

DIAGNOSTICS_PERIOD = 1.0


class NodeEntities:
    """The node's entities, created when it is configured and destroyed when it is cleaned up.

    `active_engine` gives the engine, or raises RequestRefusedError while the node is inactive. `build` makes
    the models of the preset that the settings name, and `slot` holds the newest camera frame.

    Raises:
        InputError: the preset does not exist, or predicts no goal images.
    """

    def __init__(
        self,
        node: Node,
        settings: EngineSettings,
        options: NodeOptions,
        active_engine: Callable[[], Engine],
        *,
        build: Callable[[Preset], ModelSet],
        slot: CameraSlot,
    ) -> None:
        self._log, self._active_engine = node.get_logger(), active_engine
        self._clock = node.get_clock()
        self._settings, self._options = settings, options
        slot.longest = settings.max_image_side
        self._refusal = self._degraded = ""
        with ExitStack() as undo:
            self.outputs = Outputs(
                node, options, self.now, partial(self._live_frame, slot), lambda: self._camera.info
            )
            undo.callback(self.outputs.destroy)
            undo.callback(self.outputs.finish)
            self._camera = CameraInputs(node, lambda: self._options, slot, self.outputs.follow_camera)
            undo.callback(self._camera.destroy)
            silence = self._camera.explain_silence
            self.engine = Engine(
                settings, slot.newest, self.outputs, self.now, build, silence, self._log.info
            )
            undo.callback(self.engine.stop)
            self.actions = Actions(node, self.submit, self.outputs, self.now)
            undo.callback(self.actions.destroy)
            services = Services(node, active_engine, self.submit, self.outputs.jpegs, self.now)
            undo.callback(services.destroy)
            self._subscribe(node, undo)
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
        self._camera.slot.longest = settings.max_image_side
        self.engine.configure(settings)
        self.outputs.configure(options)

    def submit(self, request: TaskRequest, on_phase: OnPhase | None = None) -> Ticket:
        """Hand a request to the engine.

        Raises:
            RequestRefusedError: the node is not active.
        """
        ticket = self._active_engine().submit(request, on_phase)
        self._refusal = ""
        self._log.info(f"{request.kind}: {excerpt(request.task) or ticket.id!s}")
        ticket.outcome.add_done_callback(self._log_outcome)
        return ticket

    def probe(self, timeout: float) -> bool:
        """Make sure that the models' servers answer. False if the node is closed meanwhile.

        Raises:
            UserError: one does not within `timeout` seconds, or something is wrong with it.
        """
        answered = self.engine.probe(timeout)
        for remark in self.engine.probes.remarks if self.engine.probes else ():
            self._log.warning(remark)
        return answered

    def end_task(self) -> None:
        """End the task under way, and wait for its results to be sent."""
        self.engine.end_task()
        self.actions.drain(1.0)

    def stop(self) -> None:
        """End the task under way, wait for its results to be sent, and release the models."""
        self.engine.stop()
        self.actions.drain(1.0)

    def destroy(self) -> None:
        """Remove every entity."""
        self._undo.close()

    # -- ~/progress, /diagnostics and the instruction topic

    def _live_frame(self, slot: CameraSlot) -> Frame | None:
        """The newest camera frame; None where it is too old or cannot be read."""
        try:
            frame = slot.newest()
        except ValueError:
            return None
        stale = frame is None or time.monotonic() - frame.received > self._settings.max_image_age
        return None if stale else frame

    def _subscribe(self, node: Node, undo: ExitStack) -> None:
        group = MutuallyExclusiveCallbackGroup()
        subscription = node.create_subscription(
            String,
            "~/instruction",
            self._on_instruction,
            QoSProfile(depth=10),
            callback_group=group,
            qos_overriding_options=OVERRIDABLE,
        )
        undo.callback(node.destroy_subscription, subscription)

    def _create_reports(self, node: Node, undo: ExitStack) -> None:
        self._progress = create_publisher(node, StoryboardProgress, "~/progress", QoSProfile(depth=10))
        undo.callback(node.destroy_publisher, self._progress)
        self._diagnostics = Diagnostics(node, self.now)
        undo.callback(self._diagnostics.destroy)
        # Simulated time may stand still, but the reports must go on.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        group = MutuallyExclusiveCallbackGroup()
        timers = [
            (1 / self._options.progress_rate, self._publish_progress),
            (DIAGNOSTICS_PERIOD, self.publish_diagnostics),
        ]
        for period, callback in timers:
            timer = node.create_timer(period, callback, callback_group=group, clock=steady)
            undo.callback(partial(node.destroy_timer, timer))

    def _on_instruction(self, message: String) -> None:
        try:
            ticket = self.submit(TaskRequest(task=message.data))
        except RequestRefusedError as e:
            self._refuse(str(e))
        else:
            if ticket.done:
                self._refuse(ticket.outcome.result().message)

    def _refuse(self, reason: str) -> None:
        self._refusal = reason
        self._log.warning(f"instruction refused: {reason}")

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

    def publish_diagnostics(self) -> None:
        """Publish the state of camera, models and task."""
        self.outputs.follow_camera()
        # Without a task nobody else reads the camera, and unreadable frames would be noticed too late.
        with suppress(ValueError):
            if (frame := self._camera.slot.newest()) is not None:
                self.outputs.set_camera_size(frame.size)
        camera = self._camera.diagnose(self._settings.max_image_age)
        self._diagnostics.publish(camera, self.engine, self._refusal)
