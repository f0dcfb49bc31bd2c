"""The one running storyboard, behind a thread-safe face: what a ROS node (or any other robot loop) talks to."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from goalreel.annotator.image import Image
from goalreel.streaming.board import Board, ErrorCode, Frame, Goal, Phase, Progress
from goalreel.streaming.settings import Settings

type Command = Literal["pause", "resume", "replan", "cancel"]
type Loading = Literal["unloaded", "loading", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class Request:
    """A task. Zero values mean the engine's settings; `timeout` in seconds."""

    task: str
    kind: Literal["generate", "annotate"] = "annotate"
    image: Image | None = None
    storyboard_id: UUID | None = None
    """Execute this storyboard, made before, instead of planning (annotate only)."""
    auxiliary_text: str = ""
    max_steps: int = 0
    max_attempts: int = 0
    max_replans: int = 0
    timeout: float = 0.0
    text_only: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended. Times in seconds."""

    board: Board
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    replans: int = 0
    planning_time: float = 0.0
    elapsed: float = 0.0


class Listener(Protocol):
    """Told of every change, in order, on the engine's own thread; must not block."""

    def board(self, board: Board) -> None: ...
    def goal(self, goal: Goal) -> None: ...


class Job(Protocol):
    """A submitted request."""

    id: UUID
    """Of the storyboard it makes or executes."""
    outcome: Future[Outcome]
    """Never holds an exception that a model or a camera caused; those are Outcomes."""

    def cancel(self) -> None:
        """Ask it to stop; the outcome (CANCELED) follows at once, the models are idle within one call."""


class Engine(Protocol):
    """One task at a time; the newest request wins and the one under way ends as PREEMPTED."""

    def start(self) -> None:
        """Load the models in the background."""

    def stop(self) -> None:
        """End the task under way as PREEMPTED and let the models go. Returns within a second."""

    @property
    def loading(self) -> tuple[Loading, str]:
        """Whether the models are there, and if not why not."""

    @property
    def board(self) -> Board: ...

    def progress(self) -> Progress: ...

    def submit(self, request: Request, on_phase: Callable[[Phase], None] | None = None) -> Job:
        """Start a request. A request that cannot be carried out ends with an Outcome that says so."""

    def command(self, command: Command, reason: str = "") -> tuple[ErrorCode, str]:
        """Pause, resume, re-plan or cancel the task under way."""

    def set_step(self, index: int, status: str) -> tuple[ErrorCode, str]:
        """The override of SetActiveStep.srv."""

    def configure(self, settings: Settings) -> None:
        """Settings that are not read-only, from the next request on."""


def make_engine(
    settings: Settings, newest: Callable[[], Frame | None], listener: Listener, now: Callable[[], int]
) -> Engine:
    """`newest` gives the newest camera frame (raising ValueError when it cannot be read), `now` the clock in ns."""
    raise NotImplementedError
