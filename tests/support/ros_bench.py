"""Helpers of the node's tests: scripted models behind a real server, the node's process, and a robot's side.

The models' world is a picture whose left third is the state. An instruction names colours, `#rrggbb`; the
planner makes one step of each, the editor paints the third, the critic accepts the right colour there. The
word `never` in an instruction makes the critic reject everything.
"""

import json
import re
import threading
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import cv2
import numpy as np
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.action.client import ActionClient
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image as RawImage
from std_msgs.msg import String

from goalreel.chat.conversation import Conversation
from goalreel.image import Image
from goalreel.serving.settings import Models
from goalreel.types import Edit
from goalreel_interfaces.msg import SubGoal
from goalreel_ros.spin import BackgroundNode
from support.ros import Other, other
from support.scripted import TextChat
from support.serving_models import serving
from support.wait import until

RED, GREEN, BLUE = "#fa1414", "#14fa14", "#1414fa"
COLOUR = re.compile(r"#[0-9a-f]{6}")
ANSWER = 20.0
"""Seconds after which a call or its answer counts as lost. It is made again, once, with a warning:
rmw_fastrtps drops the answer to a client that the server has not found within 0.1 s (pull request 467)."""
LATCHED = QoSProfile(
    depth=100, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)


class Gate:
    """Holds calls while it is shut, longer than a robot waits for an answer; counts who came to it."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        assert self.open.wait(120)

    @contextmanager
    def shut(self) -> Iterator[None]:
        self.open.clear()
        try:
            yield
        finally:
            self.open.set()


class Scripted:
    """Planner, critic and editor, each behind a gate."""

    def __init__(self) -> None:
        self.planner, self.critic, self.editor = Planner(), Critic(), Painter()


class Planner(TextChat):
    def __init__(self) -> None:
        self.gate = Gate()

    def replies(self, conversations: Sequence[Conversation], *, schema: object = None) -> list[str]:
        self.gate()
        return [self._plan(words(c)) for c in conversations]

    def _plan(self, text: str) -> str:
        if "nonsense" in text:
            return "I would rather not."
        more = " never" if "never" in text else ""
        rest = text.rpartition("The earlier plan for the rest")[2]
        steps = [
            {"step_name": c, "instruction": f"{c}{more}", "prompt": f"paint {c}{more}"}
            for c in COLOUR.findall(rest)
        ]
        return f"<think>.</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


class Critic(TextChat):
    def __init__(self) -> None:
        self.gate, self.whole = Gate(), Gate()

    def replies(self, conversations: Sequence[Conversation], *, schema: object = None) -> list[str]:
        self.gate()
        return [self._judge(c) for c in conversations]

    def _judge(self, conversation: Conversation) -> str:
        picture = [p for p in conversation[-1].parts if isinstance(p, Image)][-1]
        text = words(conversation)
        if "In all" in text:
            self.whole()
        wanted = COLOUR.findall(text)[-1]
        success = near(picture.pixels, wanted, 40) and "never" not in text
        refined = None if success else f"carefully paint {wanted}"
        return (
            "<think>I looked.</think><answer>"
            + json.dumps({"previous_step_success": success, "refine_prompt": refined})
            + "</answer>"
        )


class Painter:
    def __init__(self) -> None:
        self.gate = Gate()

    def edit(self, edits: Sequence[Edit]) -> list[Image]:
        self.gate()
        return [Image(painted(e.image.pixels, COLOUR.findall(e.prompt)[-1])) for e in edits]


def words(conversation: Conversation) -> str:
    """The text of the last turn."""
    return " ".join(p for p in conversation[-1].parts if isinstance(p, str))


def rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def scene(colour: str | None = None, size: tuple[int, int] = (64, 48)) -> np.ndarray:
    """(height, width, 3): grey and textured, with a coloured left third; `size` = (width, height)."""
    grey = np.random.default_rng(0).integers(90, 110, (size[1], size[0], 1), np.uint8)
    pixels = np.repeat(grey, 3, axis=2)
    return pixels if colour is None else painted(pixels, colour)


def painted(pixels: np.ndarray, colour: str) -> np.ndarray:
    pixels = pixels.copy()
    pixels[:, : pixels.shape[1] // 3] = rgb(colour)
    return pixels


def seen(pixels: np.ndarray) -> np.ndarray:
    """The colour of the left third."""
    return pixels[pixels.shape[0] // 2, pixels.shape[1] // 6]


def near(pixels: np.ndarray | None, colour: str, tolerance: int = 12) -> bool:
    """True if there is a picture whose left third has that colour, but for what the node's JPEG loses."""
    return pixels is not None and bool(np.abs(seen(pixels).astype(int) - rgb(colour)).max() < tolerance)


@contextmanager
def models() -> Iterator[tuple[Scripted, str]]:
    """The models, and the URL of the server they are behind."""
    scripted = Scripted()
    with serving(
        Models(planner=scripted.planner, critic=scripted.critic, editor=scripted.editor), batch_wait_ms=1
    ) as url:
        yield scripted, url


def command(
    *arguments: str, url: str = "", module: Sequence[str] = ("goalreel_ros.main",), **parameters: object
) -> tuple[str, ...]:
    """Give the command that starts the node. `arguments` follow --ros-args, `module` is what runs it."""
    if url:
        models = dict.fromkeys(("planner", "editor", "critic"), f"server:{url}")
        parameters = {**models, "server_timeout": 60.0, **parameters}  # the machine may be busy
    values = {"preset": "server", "critic_period": 0.1, "track_rate": 20.0, "controls": 0.0} | parameters
    given = [x for k, v in values.items() for x in ("-p", f"{k}:={json.dumps(v)}")]
    return "-m", *module, "--ros-args", *given, *arguments


def node(
    *arguments: str,
    url: str = "",
    ready: str = "active; ",
    module: Sequence[str] = ("goalreel_ros.main",),
    **parameters: object,
) -> AbstractContextManager[Other]:
    """The real node in a process of its own."""
    return other(*command(*arguments, url=url, module=module, **parameters), ready=ready)


class Robot:
    """The other side: a camera, subscribers, clients."""

    def __init__(self, node: str = "goalreel", args: list[str] | None = None, image: str = "image") -> None:
        self.beside = BackgroundNode("robot", args=args or [])
        self.node, self.name = self.beside.node, node
        self.colour: str | None = None
        self.received: dict[str, list[Any]] = {}
        self._raw = self.node.create_publisher(RawImage, image, qos_profile_sensor_data)
        self._compressed = self.node.create_publisher(
            CompressedImage, f"{image}/compressed", qos_profile_sensor_data
        )
        self._instruct = self.node.create_publisher(String, f"{node}/instruction", 10)
        self._clients: dict[str, Any] = {}
        self._timer: Any = None
        self.beside.start()

    def close(self) -> None:
        self.beside.close()

    # -- camera

    def film(self, make: Callable[[], Any] | None = None, period: float = 0.05) -> None:
        """Keep publishing what `make` gives, a raw scene of the present colour by default."""
        self.stop_filming()
        make = make or self.frame
        self._timer = self.beside.run(lambda: self.node.create_timer(period, lambda: self.show(make())))

    def stop_filming(self) -> None:
        if self._timer is not None:
            timer, self._timer = self._timer, None
            self.beside.run(lambda: self.node.destroy_timer(timer))

    def frame(self, encoding: str = "rgb8", size: tuple[int, int] = (64, 48), **fields: Any) -> RawImage:
        """The present scene as a message; `fields` replace what is right."""
        pixels = scene(self.colour, size)
        data = {"bgr8": pixels[:, :, ::-1], "mono8": pixels[:, :, 0]}.get(encoding, pixels)
        message = RawImage(
            height=size[1], width=size[0], encoding=encoding, step=data.strides[0] and data.size // size[1],
            data=array("B", np.ascontiguousarray(data).tobytes()),
        )  # fmt: skip
        message.header.stamp = self.node.get_clock().now().to_msg()
        message.header.frame_id = "camera_optical"
        for name, value in fields.items():
            setattr(message, name, value)
        return message

    def jpeg(self) -> CompressedImage:
        frame = self.frame()
        _, data = cv2.imencode(".jpg", scene(self.colour)[:, :, ::-1])
        return CompressedImage(
            header=frame.header, format="rgb8; jpeg compressed bgr8", data=array("B", data)
        )

    def show(self, message: RawImage | CompressedImage) -> None:
        (self._raw if isinstance(message, RawImage) else self._compressed).publish(message)

    @contextmanager
    def obeying(self) -> Iterator[list[SubGoal]]:
        """Make the scene match every sub-goal, as a policy would; yields the sub-goals."""
        goals = self.listen(SubGoal, f"{self.name}/subgoal")
        until(lambda: goals)
        goals.clear()

        def act() -> None:
            if goals and goals[-1].active:
                self.colour = goals[-1].instruction

        timer = self.beside.run(lambda: self.node.create_timer(0.02, act))
        try:
            yield goals
        finally:
            self.beside.run(lambda: self.node.destroy_timer(timer))

    # -- topics

    def listen(self, kind: type, topic: str, qos: QoSProfile = LATCHED) -> list[Any]:
        """Everything received on a topic from now on, and what was latched."""
        got: list[Any] = []
        self.beside.run(lambda: self.node.create_subscription(kind, topic, got.append, qos))
        return got

    def say(self, text: str) -> None:
        until(self._instruct.get_subscription_count)
        self._instruct.publish(String(data=text))

    # -- services and actions

    def call(self, kind: type, name: str, **fields: Any) -> Any:
        """The response of a service; `name` as in `~/name`, or absolute."""
        full = name if name.startswith("/") else f"{self.name}/{name}"
        client = self._client(full, lambda: self.node.create_client(kind, full))
        return self._done(full, lambda: client.call_async(kind.Request(**fields)))

    def change(self, transition: str) -> bool:
        """True if the node makes a transition."""
        made = Transition(id=getattr(Transition, f"TRANSITION_{transition.upper()}"))
        return self.call(ChangeState, "change_state", transition=made).success

    def send(self, kind: type, name: str, feedback: list[Any] | None = None, **fields: Any) -> Any:
        """The handle of an accepted goal."""
        full = f"{self.name}/{name}"
        action = self._client(full, lambda: ActionClient(self.node, kind, full))
        heard = [] if feedback is None else feedback
        goal = kind.Goal(**fields)
        handle = self._done(full, lambda: action.send_goal_async(goal, lambda m: heard.append(m.feedback)))
        assert handle.accepted
        return handle

    def result(self, handle: Any) -> tuple[int, Any]:
        """(status, result) of a goal, once it has ended."""
        answer = self._done("the result", handle.get_result_async)
        return answer.status, answer.result

    def cancel(self, handle: Any) -> None:
        """Ask to cancel, once; returns when that is acknowledged."""
        answer = self._done("cancel", handle.cancel_goal_async, again=False)
        assert len(answer.goals_canceling) == 1

    def _client(self, name: str, make: Callable[[], Any]) -> Any:
        """The client of that name, made at first, once there is a server."""
        if name not in self._clients:
            self._clients[name] = self.beside.run(make)
        client = self._clients[name]
        there = client.wait_for_server if isinstance(client, ActionClient) else client.wait_for_service
        assert there(20), f"nobody offers {name}"
        return client

    def _done(self, what: str, start: Callable[[], Any], again: bool = True) -> Any:
        """Give the answer of `start`, called once more if need be."""
        finished = threading.Event()
        future = self.beside.run(start)
        future.add_done_callback(lambda _: finished.set())
        if finished.wait(ANSWER if again else 60):
            return future.result()
        assert again, f"no answer: {what}"
        warnings.warn(f"no answer within {ANSWER:g} s, asked again: {what}", stacklevel=3)
        return self._done(what, start, again=False)
