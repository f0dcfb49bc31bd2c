"""What exists between configure and cleanup: the engine, and every topic, service and action around it."""

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

from goalreel.models.load import Trio
from goalreel.models.presets import Preset
from goalreel.streaming.board import Frame, Goal
from goalreel.streaming.engine import Engine, OnPhase
from goalreel.streaming.request import TaskOutcome, TaskRequest, excerpt
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.ticket import Ticket
from goalreel_interfaces.msg import StoryboardProgress
from goalreel_ros import convert
from goalreel_ros.actions import Actions
from goalreel_ros.cameras import CameraInputs, CameraSlot
from goalreel_ros.diagnostics import Diagnostics
from goalreel_ros.outputs import Outputs
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.requests import Refused
from goalreel_ros.services import Services

DIAGNOSTICS_PERIOD = 1.0


class Parts:
    """Made when the node is configured, destroyed when it is cleaned up.

    `active` gives the engine, or raises Refused while the node is not active. `build` makes the models of the
    preset that the settings name, `slot` holds the newest camera frame.

    Raises:
        InputError: the settings name no preset that can be used.
    """

    def __init__(
        self,
        node: Node,
        settings: EngineSettings,
        options: NodeOptions,
        active: Callable[[], Engine],
        *,
        build: Callable[[Preset], Trio],
        slot: CameraSlot,
    ) -> None:
        self._log, self._active = node.get_logger(), active
        self._clock = node.get_clock()
        self._settings, self._options = settings, options
        slot.longest = settings.max_image_side
        self._refused = ""
        with ExitStack() as undo:
            self.outputs = Outputs(node, options, self.now, partial(self._live, slot))
            undo.callback(self.outputs.destroy)
            undo.callback(self.outputs.finish)
            self._camera = CameraInputs(node, lambda: self._options, slot, self.outputs.look)
            undo.callback(self._camera.destroy)
            self.engine = Engine(settings, slot.newest, self.outputs, self.now, build)
            undo.callback(self.engine.stop)
            self.actions = Actions(node, self.submit, self.outputs, self.now)
            undo.callback(self.actions.destroy)
            services = Services(node, active, self.submit, self.outputs.jpegs, self.now)
            undo.callback(services.destroy)
            self._listen(node, undo)
            self._report(node, undo)
            self._undo = undo.pop_all()
        self.outputs.board(self.engine.board)
        self.outputs.goal(Goal(self.engine.board, None, False, self.now()))

    def now(self) -> int:
        """The node's clock in ns. Never 0, which consumers drop: 1 until simulated time begins."""
        return max(1, self._clock.now().nanoseconds)

    def configure(self, settings: EngineSettings, options: NodeOptions) -> None:
        """Take what may change while running, from the next request or message on."""
        self._settings, self._options = settings, options
        self._camera.slot.longest = settings.max_image_side
        self.engine.configure(settings)
        self.outputs.configure(options)

    def submit(self, request: TaskRequest, on_phase: OnPhase | None = None) -> Ticket:
        """Hand a request to the engine.

        Raises:
            Refused: the node is not active.
        """
        ticket = self._active().submit(request, on_phase)
        self._refused = ""
        self._log.info(f"{request.kind}: {excerpt(request.task) or ticket.id!s}")
        ticket.outcome.add_done_callback(self._ended)
        return ticket

    def stop(self) -> None:
        """End the task under way, tell everybody, let the models go."""
        self.engine.stop()
        self.actions.drain(1.0)

    def destroy(self) -> None:
        """Take everything away."""
        self._undo.close()

    # -- the topics in and out that are nobody else's

    def _live(self, slot: CameraSlot) -> Frame | None:
        """What the camera sees; None where that is not the scene any more, or cannot be read."""
        try:
            frame = slot.newest()
        except ValueError:
            return None
        stale = frame is None or time.monotonic() - frame.received > self._settings.max_image_age
        return None if stale else frame

    def _listen(self, node: Node, undo: ExitStack) -> None:
        group = MutuallyExclusiveCallbackGroup()
        subscription = node.create_subscription(
            String, "instruction", self._instruction, QoSProfile(depth=10), callback_group=group
        )
        undo.callback(node.destroy_subscription, subscription)

    def _report(self, node: Node, undo: ExitStack) -> None:
        self._progress = node.create_publisher(StoryboardProgress, "~/progress", 10)
        undo.callback(node.destroy_publisher, self._progress)
        self._diagnostics = Diagnostics(node, self.now)
        undo.callback(self._diagnostics.destroy)
        # Simulated time may stand still; what is reported then must not.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        group = MutuallyExclusiveCallbackGroup()
        ticks = [(1 / self._options.progress_rate, self._tell), (DIAGNOSTICS_PERIOD, self._diagnose)]
        for period, callback in ticks:
            timer = node.create_timer(period, callback, callback_group=group, clock=steady)
            undo.callback(partial(node.destroy_timer, timer))

    def _instruction(self, message: String) -> None:
        try:
            ticket = self.submit(TaskRequest(task=message.data))
        except Refused as e:
            self._refuse(str(e))
        else:
            if ticket.done:
                self._refuse(ticket.outcome.result().message)

    def _refuse(self, why: str) -> None:
        self._refused = why
        self._log.warning(f"instruction refused: {why}")

    def _ended(self, done: Future[TaskOutcome]) -> None:
        outcome = done.result()
        if outcome.error:
            self._log.warning(f"{outcome.error.name}: {outcome.message}")
        else:
            self._log.info(f"{outcome.board.state} after {outcome.elapsed:.1f} s")

    def _tell(self) -> None:
        progress = self.engine.progress()
        self._progress.publish(convert.progress(progress, self.now()))
        self.actions.progress(progress)

    def _diagnose(self) -> None:
        self.outputs.look()
        # Without a task nobody else reads the camera: whether its frames can be read would be known too late.
        with suppress(ValueError):
            if (frame := self._camera.slot.newest()) is not None:
                self.outputs.camera(frame.size)
        counts = self._camera.slot.counts()
        self._diagnostics.publish(counts, self._settings.max_image_age, self.engine, self._refused)
