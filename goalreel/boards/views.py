"""Parts of a storyboard that all pages show alike."""

from collections.abc import Callable
from typing import Any

from goalreel.boards.replay import Line, Replay


def history[E: Line, S](
    replay: Replay[E, S], line: Callable[[E], dict[str, Any]], *, offset: int = 0, limit: int | None = None
) -> list[dict[str, Any]]:
    """List the changes but undo and redo, in order; those that were taken back are marked.

    The `offset` newest are left out, and all before the last `limit` of the others.
    """
    changes, standing = replay.changes, {change.number for change in replay.done}
    end = max(0, len(changes) - offset)
    start = 0 if limit is None else max(0, end - limit)
    return [line(change) | {"undone": change.number not in standing} for change in changes[start:end]]
