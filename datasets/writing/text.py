"""Which words go into OUT, and where, and whether a number for the progress does."""

from goalreel.settings import settings


@settings
class TextOptions:
    """Which words and numbers a build writes beside the picture of the goal."""

    language: bool = True
    """Write the language columns. Without, OUT has none, not even those of IN: plain loaders fail on them."""
    replace_rows: bool = False
    """Write our subtask and plan rows in the place of those of an episode of IN that has subtask rows."""
    task_aug: bool = False
    """Add `task_aug` rows: the instruction in other words (`goalreel.planners.kinematic.paraphrases`)."""
    task_per_frame: bool = False
    """Let `task_index` tell each frame's sub-task: openpi and GR00T read no other words."""
    progress: bool = False
    """Add the feature `progress` and lerobot's file of it (`goalreel.datasets.writing.progress`)."""
