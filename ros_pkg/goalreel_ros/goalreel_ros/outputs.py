"""The latched topics, which show a storyboard under way. A BoardListener of the engine."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import String

from goalreel.streaming.board import Board, Frame, Goal
from goalreel_interfaces.msg import Storyboard, SubGoal
from goalreel_ros import convert
from goalreel_ros.goal_pictures import GoalPictures
from goalreel_ros.overview import Overview
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import Jpegs
from goalreel_ros.qos import GOAL, LATCHED, create_publisher
from goalreel_ros.worker import NewestItemWorker, Worker


class Outputs:
    """Publishes every Board and every Goal, in order, in a thread of its own; the overview in another.

    `on_board`, `on_goal` and `follow_camera` return at once and may be called from any thread. `live_frame`
    gives the camera's frame if it has a fresh one, and `camera_info` its calibration if that is known.
    """

    def __init__(
        self,
        node: Node,
        options: NodeOptions,
        now: Callable[[], int],
        live_frame: Callable[[], Frame | None],
        camera_info: Callable[[], CameraInfo | None],
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
        self._pictures = GoalPictures(self._create, self.jpegs, options.subgoal_form, live_frame, camera_info)
        self._follow_pending = self._size_known = False
        self._overview = Overview(options, self._create, node.get_logger(), now)
        report = node.get_logger().error
        self._overview_worker = NewestItemWorker("goalreel-overview", self._overview.draw, report)
        self._worker = Worker("goalreel-outputs", report)

    def on_board(self, board: Board) -> None:
        """Publish a storyboard."""
        self._worker.submit(partial(self._publish_board, board))
        self._overview_worker.put(board)

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
        if not self._size_known:
            self._size_known = True
            self._worker.submit(partial(self._publish_black, size))

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the publishing thread, after what is queued there."""
        self._worker.submit(function)

    def configure(self, options: NodeOptions) -> None:
        """Use new options from the next message on."""
        self.jpegs.set_quality(options.jpeg_quality)
        self._overview.configure(options)

    def finish(self) -> None:
        """Publish what is queued, and nothing after it."""
        self._worker.close()
        self._overview_worker.close()

    def destroy(self) -> None:
        """Remove the topics, with their latched messages."""
        for publisher in self._publishers:
            self._node.destroy_publisher(publisher)

    def wait_for_delivery(self, seconds: float) -> None:
        """Wait until the subscribers have the last sub-goal, at most `seconds`."""
        self._subgoal.wait_for_all_acked(Duration(seconds=seconds))

    def _create(self, kind: type[Any], topic: str, qos: QoSProfile = LATCHED) -> Publisher:
        self._publishers.append(create_publisher(self._node, kind, topic, qos))
        return self._publishers[-1]

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

    def _publish_black(self, size: tuple[int, int]) -> None:
        self._pictures.publish_black(size, convert.header(self._now(), self.frame_id))

    def _follow(self) -> None:
        self._follow_pending = False
        self._pictures.follow(convert.header(self._now(), self.frame_id))
