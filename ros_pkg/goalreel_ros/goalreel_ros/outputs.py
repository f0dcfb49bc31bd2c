# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The latched topics, which show a storyboard under way. A BoardListener of the engine."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CompressedImage, Image as RawImage
from std_msgs.msg import Header, String

from goalreel.image import Image
from goalreel.streaming.board import Board, Frame, Goal
from goalreel.subgoal_camera import LIVE_FORMS, SubGoalForm, in_form
from goalreel_interfaces.msg import Storyboard, SubGoal
from goalreel_ros import convert
from goalreel_ros.convert import header
from goalreel_ros.overview import Overview
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import Jpegs, black, raw
from goalreel_ros.qos import GOAL, LATCHED, create_publisher


class Worker:
    """Calls functions one after the other in one thread. An exception is reported and does not stop it."""

    def __init__(self, name: str, report: Callable[[str], object]) -> None:
        self._report, self._pool = report, ThreadPoolExecutor(1, name)

    def submit(self, function: Callable[[], None]) -> None:
        """Queue a call. After `close` it is dropped."""
        with suppress(RuntimeError):
            self._pool.submit(function).add_done_callback(self._check)

    def close(self) -> None:
        """Finish the queued calls."""
        self._pool.shutdown()

    def _check(self, future: Future[None]) -> None:
        if (error := future.exception()) is not None:
            self._report(f"{type(error).__name__}: {error}")


type Create = Callable[[type[Any], str, QoSProfile], Publisher]


class GoalPictures:
    """Publishes the pictures of a policy's sub-goal camera. Use it from one thread.

    They are black, as in annotated datasets, without a goal's picture, and in a form that follows the camera
    also while `live_frame` gives None.
    """

    def __init__(
        self, create: Create, jpegs: Jpegs, form: SubGoalForm, live_frame: Callable[[], Frame | None]
    ) -> None:
        self.follows = form in LIVE_FORMS
        self._form: SubGoalForm = form
        self._live_frame, self._jpegs = live_frame, jpegs
        self._raw = create(RawImage, "~/subgoal/image", GOAL)
        self._compressed = create(CompressedImage, "~/subgoal/image/compressed", GOAL)
        self._size: tuple[int, int] | None = None
        self._goal: Image | None = None

    def publish_black(self, size: tuple[int, int], at: Header) -> None:
        """Publish black in the camera's size, unless its size was known before."""
        if self._size is None:
            self._size = size
            self._publish(at)

    def publish_goal(self, goal: Goal, at: Header) -> None:
        """Publish a goal, or black where it has none: a new node takes a previous one's goal away so."""
        self._goal = goal.image
        if self._goal is not None:
            self._size = self._goal.size
        elif self._size is None and goal.board.source is not None:
            self._size = goal.board.source.size
        self._publish(at)

    def follow(self, at: Header) -> None:
        """Publish the goal again: the camera's frame is new, or no longer fresh."""
        if self.follows and self._goal is not None:
            self._publish(at)

    def _publish(self, at: Header) -> None:
        frame = self._live_frame() if self.follows and self._goal is not None else None
        if frame is not None:
            at = header(frame.stamp, frame.frame_id)
        image = self._picture(frame)
        self._raw.publish(raw(image, at))
        encode = self._jpegs.message if image is self._goal else self._jpegs.message_once
        self._compressed.publish(encode(image, at))

    def _picture(self, frame: Frame | None) -> Image:
        goal = self._goal
        if goal is None or (self.follows and frame is None):
            return black(self._size or (16, 16))  # before the camera's first frame, one block of a JPEG
        live = None if frame is None else frame.image.resized(goal.size).pixels
        pixels = in_form(self._form, goal.pixels, live)
        return goal if pixels is goal.pixels else Image(pixels)


class Outputs:
    """Publishes every Board and every Goal, in order, in a thread of its own; the overview in another.

    `on_board`, `on_goal` and `follow_camera` return at once and may be called from any thread. `live_frame`
    gives the camera's frame if it has a fresh one.
    """

    def __init__(
        self, node: Node, options: NodeOptions, now: Callable[[], int], live_frame: Callable[[], Frame | None]
    ) -> None:
        self.jpegs = Jpegs(options.jpeg_quality)
        self._node, self._now = node, now
        self.frame_id = ""
        """Optical frame of the newest storyboard. Read it only in functions given to `call`."""
        self._publishers: list[Publisher] = []
        self._storyboard = self._create(Storyboard, "~/storyboard")
        self._subgoal = self._create(SubGoal, "~/subgoal", GOAL)
        self._name = self._create(String, "~/subgoal/name", GOAL)
        self._instruction = self._create(String, "~/subgoal/instruction", GOAL)
        self._pictures = GoalPictures(self._create, self.jpegs, options.subgoal_form, live_frame)
        self._follow_pending = False
        self._overview = Overview(options, self._create, node.get_logger().warning, now)
        self._newest_board: Board | None = None
        self._drawn_board: Board | None = None
        report = node.get_logger().error
        self._overview_worker = Worker("goalreel-overview", report)
        self._worker = Worker("goalreel-outputs", report)

    def on_board(self, board: Board) -> None:
        """Publish a storyboard."""
        self._worker.submit(partial(self._publish_board, board))
        self._newest_board = board
        self._overview_worker.submit(self._draw_newest)

    def on_goal(self, goal: Goal) -> None:
        """Publish a sub-goal, or that there is none."""
        self._worker.submit(partial(self._publish_goal, goal))

    def follow_camera(self) -> None:
        """Publish the pictures that follow the camera again: its frame is new, or no longer fresh."""
        if self._pictures.follows and not self._follow_pending:
            self._follow_pending = True
            self._worker.submit(self._follow)

    def set_camera_size(self, size: tuple[int, int]) -> None:
        """Publish black goal pictures in the camera's size until there is a goal. Later calls do nothing."""
        self._worker.submit(lambda: self._pictures.publish_black(size, header(self._now(), self.frame_id)))

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the publishing thread, after what is queued there."""
        self._worker.submit(function)

    def configure(self, options: NodeOptions) -> None:
        """Use new options from the next message on."""
        self.jpegs.quality = options.jpeg_quality
        self._overview.options = options

    def finish(self) -> None:
        """Publish what is queued, and nothing after it."""
        self._worker.close()
        self._overview_worker.close()

    def destroy(self) -> None:
        """Remove the topics, with their latched messages."""
        self.finish()
        for publisher in self._publishers:
            self._node.destroy_publisher(publisher)

    def wait_for_delivery(self, seconds: float) -> None:
        """Wait until the subscribers have the last sub-goal, at most `seconds`."""
        self._subgoal.wait_for_all_acked(Duration(seconds=seconds))

    def _create(self, kind: type[Any], topic: str, qos: QoSProfile = LATCHED) -> Publisher:
        self._publishers.append(create_publisher(self._node, kind, topic, qos))
        return self._publishers[-1]

    def _draw_newest(self) -> None:
        """Draw the newest board. Those that came meanwhile are skipped."""
        if (board := self._newest_board) is not None and board is not self._drawn_board:
            self._drawn_board = board
            self._overview.draw(board)

    def _publish_board(self, board: Board) -> None:
        self.frame_id = board.frame_id
        self._storyboard.publish(convert.storyboard(board, self.jpegs, self._now()))
        self.jpegs.drop_others(board)

    def _publish_goal(self, goal: Goal) -> None:
        message = convert.subgoal(goal, self.jpegs, self._now())
        self._subgoal.publish(message)
        self._name.publish(String(data=message.name if goal.active else ""))
        self._instruction.publish(String(data=message.instruction if goal.active else ""))
        self._pictures.publish_goal(goal, message.header)

    def _follow(self) -> None:
        self._follow_pending = False
        self._pictures.follow(header(self._now(), self.frame_id))
