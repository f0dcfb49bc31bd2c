"""Which words go into OUT, and where."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextOptions:
    """Which words a build writes beside the picture of the goal."""

    language: bool = True
    """Write the language columns. Without, OUT has none, not even those of IN: plain loaders fail on them."""
    replace_rows: bool = False
    """Write our rows in the place of subtask rows that an episode of IN has; else it keeps its rows."""
    task_aug: bool = False
    """Add `task_aug` rows: the instruction in other words (`goalreel.planners.kinematic.wordings`)."""
    task_per_frame: bool = False
    """Let `task_index` tell each frame's sub-task: openpi and GR00T read no other words."""
