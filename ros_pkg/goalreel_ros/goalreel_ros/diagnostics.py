"""/diagnostics: one status each for camera, models and task."""

from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from goalreel.streaming.board import Progress
from goalreel.streaming.engine import Engine, Loading
from goalreel.streaming.frames import Counts
from goalreel_ros.convert import header

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR

type Status = tuple[bytes, str, dict[str, object]]


class Diagnostics:
    """Publishes what `publish` is given."""

    def __init__(self, node: Node, now: Callable[[], int]) -> None:
        self._node, self._now = node, now
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)

    def publish(self, counts: Counts, max_age: float, engine: Engine, refused: str) -> None:
        """`refused` is why the last instruction was not taken, or empty."""
        statuses = {
            "camera": camera(counts, max_age),
            "models": models(*engine.loading),
            "task": task(engine.progress(), refused),
        }
        message = DiagnosticArray(header=header(self._now(), ""))
        for name, (level, text, values) in statuses.items():
            message.status.append(
                DiagnosticStatus(
                    level=level,
                    name=f"{self._node.get_name()}: {name}",
                    message=text,
                    hardware_id=self._node.get_fully_qualified_name(),
                    values=[KeyValue(key=k, value=str(v)) for k, v in values.items()],
                )
            )
        self._publisher.publish(message)

    def destroy(self) -> None:
        """Take the topic away."""
        self._node.destroy_publisher(self._publisher)


def camera(counts: Counts, max_age: float) -> Status:
    """`max_age` in seconds: when the newest frame counts as too old."""
    values = {
        "received": counts.received,
        "read": counts.read,
        "dropped": counts.dropped,
        "unreadable": counts.unreadable,
        "stamps going backwards": counts.backwards,
        "age of newest frame [s]": "" if counts.age is None else f"{counts.age:.3f}",
        "problem": counts.problem,
    }
    if counts.age is None:
        return WARN, "no frame has arrived", values
    if counts.problem:
        return ERROR, counts.problem, values
    if counts.age > max_age:
        return WARN, f"the newest frame is {counts.age:.1f} s old", values
    return OK, "frames arrive", values


def models(loading: Loading, reason: str) -> Status:
    """Whether they are there."""
    if loading == "failed":
        return ERROR, f"cannot be loaded: {reason}", {"state": loading}
    return OK, loading, {"state": loading}


def task(progress: Progress, refused: str) -> Status:
    """How the task under way is doing."""
    board = progress.board
    values = {
        "state": board.state,
        "task": board.task,
        "steps": len(board.steps),
        "completion": f"{progress.task_completion:.2f}",
        "re-plans": progress.replans,
        "refused instruction": refused,
    }
    if board.state == "failed":
        return WARN, progress.message or board.state, values
    if refused:
        return WARN, f"instruction refused: {refused}", values
    return OK, progress.message or board.state, values
