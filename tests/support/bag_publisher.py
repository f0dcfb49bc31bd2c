"""A robot and a goalreel node in one process, for the recorder: `python bag_publisher.py FRAMES`.

Sub-goal 0 is latched before READY; on a line of standard input it publishes FRAMES pictures (best effort)
with joint states and commands at 10 Hz, sub-goal 1 after half of them and the inactive one after the last.
"""

import signal
import sys
import time
from array import array

import rclpy
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray

from goalreel_interfaces.msg import SubGoal
from support.bags import STORYBOARD_ID, jpeg, moving


def main() -> None:
    frames = int(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with rclpy.init(signal_handler_options=SignalHandlerOptions.NO):
        node = rclpy.create_node("goalreel")
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        goals = node.create_publisher(SubGoal, "~/subgoal", latched)
        images = node.create_publisher(Image, "/image", qos_profile_sensor_data)
        joints = node.create_publisher(JointState, "/joint_states", 10)
        commands = node.create_publisher(Float64MultiArray, "/target", 10)

        def goal(index: int, *, active: bool = True) -> None:
            data = array("B", jpeg(moving(20 + index))["data"].tobytes())
            message = SubGoal(index=index, num_steps=2, active=active, task="tidy the table", image_status=3)
            message.name = message.instruction = ("pick", "place")[index]
            message.storyboard_id.uuid = STORYBOARD_ID
            message.goal_image = CompressedImage(format="jpeg", data=data)
            message.header.stamp = node.get_clock().now().to_msg()
            goals.publish(message)

        goal(0)
        print("READY", flush=True)  # noqa: T201
        sys.stdin.readline()
        while not all(p.get_subscription_count() for p in (goals, images, joints, commands)):
            time.sleep(0.01)
        goals.wait_for_all_acked()  # what is latched travels on its own, and may come after what is sent now
        for i in range(frames):
            if i == frames // 2:
                goal(1)
                time.sleep(0.02)
            stamp = node.get_clock().now().to_msg()
            joint = JointState(name=["a", "b"], position=[float(i), 0.5 * i])
            joint.header.stamp = stamp
            joints.publish(joint)
            time.sleep(0.02)
            image = Image(
                height=48, width=48, encoding="rgb8", step=144, data=array("B", moving(i).tobytes())
            )
            image.header.stamp = stamp
            images.publish(image)
            time.sleep(0.02)
            commands.publish(Float64MultiArray(data=[float(i)]))
            time.sleep(0.06)
        goal(1, active=False)
        time.sleep(1.0)
        print("DONE", flush=True)  # noqa: T201
        sys.stdin.readline()


if __name__ == "__main__":
    main()
