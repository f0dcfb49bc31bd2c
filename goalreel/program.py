"""Settings of a program of goalreel for its whole process, before it imports more."""

import gc
import os


def prepare_process() -> None:
    """Keep two things from slowing down imports, which take most of the time of a short command."""
    # Else pydantic looks through every installed distribution for plugins, at its first model.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.set_threshold(10_000, 50)  # Python's own, 700 and 10, take a seventh of the time of imports
