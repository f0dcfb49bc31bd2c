"""A node with goalreel's interfaces and a script in place of models; tasks choose what happens.

`fail` ends as PLANNER_FAILED, `slow` lasts until canceled, `stuck` until the next step is ordered and it is
canceled, `late` gives feedback after its result; anything else has two steps, a red goal and a green one, of
64x48 pixels.
"""

import threading
from array import array

import cv2
import numpy as np
import rclpy
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor
from rclpy.lifecycle import LifecycleNode, State, TransitionCallbackReturn
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Header

from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import ErrorCode, Storyboard, StoryboardProgress, StoryboardStep, SubGoal
from goalreel_interfaces.srv import Command, SetActiveStep
from goalreel_ros.qos import GOAL, LATCHED
from goalreel_ros.spin import rclpy_until_signal

COLOURS = ((250, 20, 20), (20, 250, 20))


def jpeg(colour: tuple[int, int, int]) -> array:
    picture = np.full((48, 64, 3), colour, np.uint8)
    return array("B", cv2.imencode(".jpg", picture[:, :, ::-1])[1].tobytes())


class ScriptedNode(LifecycleNode):
    def __init__(self) -> None:
        super().__init__("goalreel")
        group = ReentrantCallbackGroup()
        self.active = False
        self.step = -1
        self.moved = threading.Event()
        self.board = self.create_publisher(Storyboard, "~/storyboard", LATCHED)
        self.subgoal = self.create_publisher(SubGoal, "~/subgoal", GOAL)
        self.progress = self.create_publisher(StoryboardProgress, "~/progress", LATCHED)
        self.image = self.create_publisher(CompressedImage, "~/subgoal/image/compressed", GOAL)
        for kind, name, run in (
            (GenerateStoryboard, "~/generate_storyboard", self.generate),
            (ExecuteTask, "~/execute_task", self.annotate),
        ):
            ActionServer(
                self, kind, name, run, callback_group=group,
                goal_callback=lambda _: GoalResponse.ACCEPT if self.active else GoalResponse.REJECT,
                cancel_callback=lambda _: CancelResponse.ACCEPT,
            )  # fmt: skip
        self.create_service(SetActiveStep, "~/set_active_step", self.on_step, callback_group=group)
        for name in ("pause", "resume", "replan", "cancel"):
            self.create_service(Command, f"~/{name}", self.on_command, callback_group=group)

    def on_activate(self, state: State) -> TransitionCallbackReturn:
        self.active = True
        self.tell(None)
        return super().on_activate(state)

    def on_deactivate(self, state: State) -> TransitionCallbackReturn:
        self.active = False
        return super().on_deactivate(state)

    def tell(self, step: int | None) -> None:
        header = Header(stamp=self.get_clock().now().to_msg(), frame_id="camera")
        picture = CompressedImage(
            header=header, format="jpeg", data=jpeg((0, 0, 0) if step is None else COLOURS[step])
        )
        self.image.publish(picture)
        goal = SubGoal(header=header, active=step is not None, num_steps=2)
        if step is not None:
            goal.index, goal.goal_image = step, picture
            goal.name, goal.instruction = f"block {step}", f"step {step}"
        self.subgoal.publish(goal)

    def storyboard(self, task: str, state: int, steps: int) -> Storyboard:
        made = [
            StoryboardStep(index=i, name=f"block {i}", instruction=f"step {i}", image_status=3)
            for i in range(steps)
        ]
        board = Storyboard(task=task, state=state, steps=made)
        board.header.stamp = self.get_clock().now().to_msg()
        self.board.publish(board)
        return board

    def generate(self, handle) -> GenerateStoryboard.Result:
        task = handle.request.task
        if task == "fail":
            handle.abort()
            return GenerateStoryboard.Result(error_code=ErrorCode.PLANNER_FAILED, error_msg="no\nplan")
        if task == "slow" and self.canceled(handle):
            return GenerateStoryboard.Result(error_code=ErrorCode.CANCELED, error_msg="canceled")
        for done in (1, 2):
            board = self.storyboard(task, Storyboard.STATE_RENDERING, done)
            feedback = GenerateStoryboard.Feedback(num_steps=2, completion=done / 2, step=board.steps[-1:])
            if task == "late":
                threading.Timer(0.05 * done, handle.publish_feedback, [feedback]).start()
            else:
                handle.publish_feedback(feedback)
        board = self.storyboard(task, Storyboard.STATE_READY, 2)
        if handle.request.image:
            board.source_image = handle.request.image[0]
        handle.succeed()
        return GenerateStoryboard.Result(storyboard=board)

    def annotate(self, handle) -> ExecuteTask.Result:
        task = handle.request.task
        self.storyboard(task, Storyboard.STATE_EXECUTING, 2)
        if task == "stuck":
            self.moved.clear()
            self.step = 0
            self.progress.publish(StoryboardProgress(message="waiting for the editor for 12 s"))
            while rclpy.ok() and not self.moved.wait(0.02):
                pass
        if task in ("slow", "stuck") and self.canceled(handle):
            self.step = -1
            self.tell(None)
            return ExecuteTask.Result(error_code=ErrorCode.CANCELED, error_msg="canceled")
        for self.step in (0, 1):
            self.moved.clear()
            self.tell(self.step)
            handle.publish_feedback(ExecuteTask.Feedback(progress=StoryboardProgress(active_step=self.step)))
            while not self.moved.wait(0.02):
                if not rclpy.ok():
                    return ExecuteTask.Result()
                if handle.is_cancel_requested:
                    self.step = -1
                    self.tell(None)
                    handle.canceled()
                    return ExecuteTask.Result(error_code=ErrorCode.CANCELED, error_msg="canceled")
        self.step = -1
        self.tell(None)
        handle.succeed()
        return ExecuteTask.Result(storyboard=self.storyboard(task, Storyboard.STATE_SUCCEEDED, 2))

    def canceled(self, handle) -> bool:
        while rclpy.ok() and not handle.is_cancel_requested:
            self.moved.wait(0.02)
        if rclpy.ok():
            handle.canceled()
        return True

    def on_step(self, request, response):
        if self.step < 0:
            response.error_code, response.error_msg = ErrorCode.NO_TASK, "no task under way"
        elif request.index > 1:
            response.error_code, response.error_msg = ErrorCode.INVALID_REQUEST, "no such step"
        else:
            self.moved.set()
        return response

    def on_command(self, request, response):
        if self.step < 0:
            response.error_code, response.error_msg = ErrorCode.NO_TASK, "no task under way"
        return response


def main() -> None:
    with rclpy_until_signal(None) as stop:
        executor = MultiThreadedExecutor(4)
        executor.add_node(ScriptedNode())
        print("READY", flush=True)  # noqa: T201
        while not stop.is_set():
            executor.spin_once(0.05)


if __name__ == "__main__":
    main()
