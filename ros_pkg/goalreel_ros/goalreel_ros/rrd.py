"""Records what a node streams for Rerun, or shows it live: `ros2 run goalreel_ros rerun --out run.rrd`.

The executable's name is `goalreel_ros_rerun` where pip installed it. It subscribes as any viewer does, so the
node and its machine need no Rerun. A file can be opened while it is written; a truncated one lacks its index
but no data.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

import numpy as np
import rerun as rr
import rerun.blueprint as rrb
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.subscription import MessageInfo
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as RawImage

from goalreel.annotator.report.cards import claim_lines
from goalreel.annotator.rrd import CURVES, LANES, LOG, blueprint, log, log_subgoal, log_verdict, picture
from goalreel.wording import reader_text
from goalreel_interfaces.msg import CriticVerdict, Storyboard, StoryboardProgress, SubGoal
from goalreel_ros.convert import IMAGES, STATES, from_claims
from goalreel_ros.liveliness import LiveSubscription
from goalreel_ros.pictures import decode
from goalreel_ros.qos import latched
from goalreel_ros.spin import POLL_SECONDS, rclpy_until_signal

APPLICATION = "goalreel_node"
"""Differs from that for datasets: their time begins at 0, and the viewer has one layout per application."""
VIEWER = "rerun+http://127.0.0.1:9876/proxy"
TIME, CAMERA, STATE, MESSAGE = "time", "camera/live", f"{LANES}/state", f"{LOG}/node"
GONE = "the node is gone or hangs"
DEPTH = 100
OUTCOMES = {
    CriticVerdict.ACCEPTED: "accepted",
    CriticVerdict.REJECTED: "rejected",
    CriticVerdict.ERROR: "failed",
}


def main(args: Sequence[str] | None = None) -> None:
    """Record, or show live, until a signal comes. The exit status is 1 if the file cannot be written."""
    parser = argparse.ArgumentParser(prog="goalreel_ros_rerun", description="What a node streams, for Rerun.")
    output = parser.add_mutually_exclusive_group(required=True)
    output.add_argument("--out", type=Path, help="the new .rrd file")
    output.add_argument("--connect", nargs="?", const=VIEWER, metavar="URL", help="a viewer that runs")
    parser.add_argument("--node", default="/goalreel", help="full name of the node, with its namespace")
    parser.add_argument("--camera", default="image", help="its topic; compressed where it ends so")
    command = [sys.argv[0], *(sys.argv[1:] if args is None else args)]
    options = parser.parse_args(remove_ros_args(command)[1:])
    stream, file = rr.RecordingStream(APPLICATION), None
    layout = blueprint([CAMERA], TIME)
    if options.out is None:
        stream.connect_grpc(options.connect, default_blueprint=layout)
    else:
        try:
            file = RrdFile(options.out.open("xb", buffering=0))
        except OSError as e:
            sys.exit(f"{parser.prog}: {options.out}: {e.strerror}: name a new file in a folder that is there")
        file.record(stream, layout)
    _listen(stream, options.node.rstrip("/"), options.camera, command, file)
    if file is not None and (error := file.close()):
        sys.exit(f"{parser.prog}: {options.out}: {error.strerror}: what was written before can be read")


class RrdFile:
    """Writes what a stream records to an unbuffered file, and notices where that fails.

    Rerun's own writer logs such an error, records nothing from then on, and waits for ever in `disconnect`.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._source, self._sink = os.pipe()
        self.error: OSError | None = None
        """The reason why nothing is written any more."""
        self._thread = threading.Thread(target=self._copy, name="rrd", daemon=True)
        self._thread.start()

    def record(self, stream: rr.RecordingStream, layout: rrb.Blueprint) -> None:
        """Take what is logged to `stream` from now on, until that is disconnected."""
        stream.save(f"/dev/fd/{self._sink}", layout)
        os.close(self._sink)

    def close(self) -> OSError | None:
        """Write the rest, and give the error if there was one."""
        self._thread.join()
        return self.error

    def _copy(self) -> None:
        with os.fdopen(self._source, "rb", buffering=0) as source, self._file:
            while data := source.read(1 << 16):
                try:
                    while data and self.error is None:
                        data = data[self._file.write(data) :]
                except OSError as e:
                    self.error = e


def _listen(
    stream: rr.RecordingStream, name: str, camera: str, command: list[str], file: RrdFile | None
) -> None:
    with rclpy_until_signal(command) as stop:
        node, executor = Node("goalreel_rerun"), SingleThreadedExecutor()
        executor.add_node(node)
        Listener(node, stream, name, camera)
        while not stop.is_set() and (file is None or file.error is None):
            executor.spin_once(POLL_SECONDS)
    stream.disconnect()


class Listener:
    """Logs what a node and its camera publish to a stream, at the times of arrival."""

    def __init__(self, node: Node, stream: rr.RecordingStream, name: str, camera: str) -> None:
        self._node, self._stream = node, stream
        self._logged_attempts: dict[tuple[bytes, int, int], int] = {}
        self._last_texts: dict[str, str] = {}
        self._silent_topics = {SubGoal, Storyboard}
        subscribe = node.create_subscription
        frame_type = CompressedImage if camera.endswith("/compressed") else RawImage
        subscribe(frame_type, camera, self._on_frame, qos_profile_sensor_data)
        self._goal = LiveSubscription(
            node, SubGoal, f"{name}/subgoal", self._on_subgoal, self._on_loss, depth=DEPTH
        )
        subscribe(Storyboard, f"{name}/storyboard", self._on_storyboard, latched(DEPTH))
        subscribe(StoryboardProgress, f"{name}/progress", self._on_progress, qos_profile_sensor_data)
        node.get_logger().info(f"listening to {name} and {node.resolve_topic_name(camera)}")

    def _on_frame(self, message: RawImage | CompressedImage, info: MessageInfo) -> None:
        self._set_time(info)
        if isinstance(message, CompressedImage):
            log(self._stream, CAMERA, rr.EncodedImage(contents=bytes(message.data)))
            return
        try:
            log(self._stream, CAMERA, picture(decode(message)))
        except ValueError as e:
            self._node.get_logger().warning(f"left out: {e}", throttle_duration_sec=5.0)

    def _on_loss(self) -> None:
        self._set_time()
        self._node.get_logger().warning(GONE)
        log_subgoal(self._stream, "", GONE, None)
        self._last_texts.clear()
        log(self._stream, STATE, rr.StateChange(state="gone"))
        log(self._stream, MESSAGE, rr.TextLog(GONE, level="WARN"))

    def _on_subgoal(self, message: SubGoal) -> None:
        self._set_time()
        self._note_topic(SubGoal)
        self._node.get_logger().info(f"sub-goal: {message.name if message.active else 'none'}")
        if not message.active:
            log_subgoal(self._stream, "", message.task, None)
            return
        name = f"{message.index + 1}. {message.name}"
        status = IMAGES[message.image_status]
        claims = "\n".join(claim_lines(from_claims(message.claims)))
        lines = (name, message.instruction, message.auxiliary_text, status, claims, *message.degraded)
        texts = filter(None, lines)
        data = bytes(message.goal_image.data)
        goal = rr.EncodedImage(contents=data, media_type="image/jpeg") if data else None
        log_subgoal(self._stream, name, "\n\n".join(texts), goal)

    def _on_storyboard(self, message: Storyboard, info: MessageInfo) -> None:
        self._set_time(info)
        self._note_topic(Storyboard)
        for step in message.steps:
            key = (bytes(message.id.uuid), message.revision, step.index)
            outcome, last = OUTCOMES.get(step.critic.verdict), self._logged_attempts.get(key, 0)
            if outcome is None or step.attempts == last:
                self._logged_attempts[key] = min(last, step.attempts)  # fewer when it is rendered again
                continue
            self._logged_attempts[key] = step.attempts
            label = f"{step.index + 1}. {step.name}, attempt {step.attempts}: {outcome}"
            self._node.get_logger().info(label)
            log_verdict(
                self._stream, f"{label}\n{reader_text(step.critic.reasoning)}\nPrompt: {step.prompt}", outcome
            )

    def _on_progress(self, message: StoryboardProgress, info: MessageInfo) -> None:
        self._set_time(info)
        for name in ("step_completion", "task_completion"):
            log(self._stream, f"{CURVES}/{name}", rr.Scalars(getattr(message, name)))
        if self._is_new(STATE, STATES[message.state]):
            log(self._stream, STATE, rr.StateChange(state=self._last_texts[STATE]))
        if self._is_new(MESSAGE, message.message) and message.message:
            log(self._stream, MESSAGE, rr.TextLog(message.message, level="INFO"))

    def _note_topic(self, kind: type) -> None:
        """Log once that the node is there, when both of its latched topics have published."""
        if kind in self._silent_topics:
            self._silent_topics.remove(kind)
            if not self._silent_topics:
                self._node.get_logger().info("the node is there")

    def _is_new(self, entity: str, text: str) -> bool:
        previous = self._last_texts.get(entity)
        self._last_texts[entity] = text
        return text != previous

    def _set_time(self, info: MessageInfo | None = None) -> None:
        arrival = time.time_ns() if info is None else info["received_timestamp"]
        self._stream.set_time(TIME, timestamp=np.datetime64(arrival, "ns"))


if __name__ == "__main__":
    main()
