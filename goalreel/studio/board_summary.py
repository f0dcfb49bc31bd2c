"""A storyboard in the history: what its line there shows, and what a search looks at."""

from dataclasses import dataclass
from datetime import datetime

from goalreel.studio.board import StudioBoard
from goalreel.studio.events import BoardStatus
from goalreel.studio.trust import storyboard_of


@dataclass(frozen=True)
class BoardSummary:
    """A storyboard in the history."""

    id: str
    instruction: str
    status: BoardStatus
    created: datetime
    names: tuple[str, ...]
    """Of its steps."""
    words: str
    """All that a search looks at, in lower case."""
    pictures: tuple[str, ...]
    """The scene and the goal images, in order."""
    verified: int
    """The number of steps with a verified picture."""
    complete: bool
    degraded: str

    @classmethod
    def of(cls, board: StudioBoard) -> "BoardSummary":
        """The summary of a storyboard as it stands."""
        state = board.state
        names = tuple(step.step.name for step in state.steps)
        texts = [state.task.instruction, *names, *(step.step.instruction for step in state.steps)]
        goals = [state.image, *(step.goal for step in state.steps)]
        pictures = tuple(name for name in goals if name is not None)
        words = "\n".join(texts).casefold()
        record = storyboard_of(state)
        steps = () if record is None else record.steps
        return cls(
            id=board.id,
            instruction=state.task.instruction,
            status=board.status,
            created=state.created,
            names=names,
            words=words,
            pictures=pictures,
            verified=sum(step.status == "verified" for step in steps),
            complete=record is not None and record.complete,
            degraded=board.said_trouble or ("" if record is None else record.degraded),
        )
