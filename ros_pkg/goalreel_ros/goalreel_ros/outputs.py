"""Everything latched: what a storyboard under way looks like on topics. A Listener of the engine."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from std_msgs.msg import String

from goalreel.streaming.board import Board, Frame, Goal
from goalreel_interfaces.msg import Storyboard, SubGoal
from goalreel_ros import convert
from goalreel_ros.goal_pictures import GoalPictures
from goalreel_ros.overview import Overview
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import Jpegs
from goalreel_ros.qos import GOAL, LATCHED
from goalreel_ros.worker import Newest, Worker


class Outputs:
    """Publishes every Board and every Goal, in order, in a thread of its own; the overview in another.

    `board`, `goal` and `look` return at once and may be called from any thread. `live` is the camera's frame
    where it has a fresh one.
    """

    def __init__(
        self, node: Node, options: NodeOptions, now: Callable[[], int], live: Callable[[], Frame | None]
    ) -> None:
        self.jpegs = Jpegs(options.jpeg_quality)
        self._node, self._now = node, now
        self.frame_id = ""
        """Of the storyboard published last; for what is called through `do`."""
        self._publishers: list[Publisher] = []
        self._storyboard = self._create(Storyboard, "~/storyboard")
        self._subgoal = self._create(SubGoal, "~/subgoal", GOAL)
        self._name = self._create(String, "~/subgoal/name", GOAL)
        self._instruction = self._create(String, "~/subgoal/instruction", GOAL)
        self._pictures = GoalPictures(self._create, self.jpegs, options.subgoal_form, live)
        self._looking = self._sized = False
        self._overview = Overview(options, self._create, node.get_logger(), now)
        report = node.get_logger().error
        self._drawn = Newest("goalreel-overview", self._overview.draw, report)
        self._worker = Worker("goalreel-outputs", report)

    def board(self, board: Board) -> None:
        """Publish a storyboard."""
        self._worker.do(partial(self._publish_board, board))
        self._drawn.put(board)

    def goal(self, goal: Goal) -> None:
        """Publish a sub-goal, or that there is none."""
        self._worker.do(partial(self._publish_goal, goal))

    def look(self) -> None:
        """Publish what follows the camera anew: it has another frame, or none any more."""
        if self._pictures.follows and not self._looking:
            self._looking = True
            self._worker.do(self._look)

    def camera(self, size: tuple[int, int]) -> None:
        """Tell the camera's size: the goal's pictures are black from then on, until there is one."""
        if not self._sized:
            self._sized = True
            self._worker.do(partial(self._begin, size))

    def do(self, function: Callable[[], None]) -> None:
        """Call something in the publishing thread, after what was told before."""
        self._worker.do(function)

    def configure(self, options: NodeOptions) -> None:
        """Take new options, from the next message on."""
        self.jpegs.set_quality(options.jpeg_quality)
        self._overview.configure(options)

    def finish(self) -> None:
        """Publish what is still queued and stop; nothing may come after."""
        self._worker.close()
        self._drawn.close()

    def destroy(self) -> None:
        """Take the topics away; what was latched goes with them."""
        for publisher in self._publishers:
            self._node.destroy_publisher(publisher)

    def delivered(self, seconds: float) -> None:
        """Wait until the subscribers have the last sub-goal, so long at most."""
        self._subgoal.wait_for_all_acked(Duration(seconds=seconds))

    def _create(self, kind: type[Any], topic: str, qos: QoSProfile = LATCHED) -> Publisher:
        self._publishers.append(self._node.create_publisher(kind, topic, qos))
        return self._publishers[-1]

    def _publish_board(self, board: Board) -> None:
        self.frame_id = board.frame_id
        self._storyboard.publish(convert.storyboard(board, self.jpegs, self._now()))
        self.jpegs.keep(board)

    def _publish_goal(self, goal: Goal) -> None:
        message = convert.subgoal(goal, self.jpegs, self._now())
        self._subgoal.publish(message)
        self._name.publish(String(data=message.name if goal.active else ""))
        self._instruction.publish(String(data=message.instruction if goal.active else ""))
        self._pictures.show(goal, message.header)

    def _begin(self, size: tuple[int, int]) -> None:
        self._pictures.begin(size, convert.header(self._now(), self.frame_id))

    def _look(self) -> None:
        self._looking = False
        self._pictures.follow(convert.header(self._now(), self.frame_id))
