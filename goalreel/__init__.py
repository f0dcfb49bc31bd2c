"""goalreel: storyboards of checked visual sub-goals for robot learning.

The words      Task, Plan, Step, Segment, Edit, Candidate, Verdict, Attempt, Storyboard, StoryboardStep,
               Failure, Image
The seams      Planner, Editor, Critic: three Protocols of one method each, batch first
The loop       storyboard (a generator without I/O), run (drives many at once, within Limits)
The product    open_dataset, load_models, annotate (with its Options), plan, Trio
On disk        save_storyboard and load_storyboard (a folder), read_storyboards (an annotated dataset)
The errors     UserError, and under it InputError, DatasetError, BackendError

`import goalreel` alone loads none of it: a name is imported when it is first used. See docs/api.md.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if not all((Path(__file__).parent / name).is_dir() for name in ("annotator", "datasets", "planners")):
    raise ImportError(
        "this checkout of goalreel has no symbolic links: git clone -c core.symlinks=true makes a good one "
        "(on Windows in developer mode); a zip has none"
    )

if TYPE_CHECKING:
    from goalreel.annotator.annotate import Options, annotate, open_dataset
    from goalreel.annotator.plan import plan
    from goalreel.annotator.show import read_storyboards
    from goalreel.batch import Limits, run
    from goalreel.errors import BackendError, DatasetError, InputError, UserError
    from goalreel.image import Image
    from goalreel.loop import storyboard
    from goalreel.models.load import load as load_models
    from goalreel.models.trio import Trio
    from goalreel.storyboard_io import load_storyboard, save_storyboard
    from goalreel.types import (
        Attempt,
        Candidate,
        Critic,
        Edit,
        Editor,
        Failure,
        Plan,
        Planner,
        Segment,
        Step,
        Storyboard,
        StoryboardStep,
        Task,
        Verdict,
    )

_WHERE = {
    "Attempt": "goalreel.types",
    "BackendError": "goalreel.errors",
    "Candidate": "goalreel.types",
    "Critic": "goalreel.types",
    "DatasetError": "goalreel.errors",
    "Edit": "goalreel.types",
    "Editor": "goalreel.types",
    "Failure": "goalreel.types",
    "Image": "goalreel.image",
    "InputError": "goalreel.errors",
    "Limits": "goalreel.batch",
    "Options": "goalreel.annotator.annotate",
    "Plan": "goalreel.types",
    "Planner": "goalreel.types",
    "Segment": "goalreel.types",
    "Step": "goalreel.types",
    "Storyboard": "goalreel.types",
    "StoryboardStep": "goalreel.types",
    "Task": "goalreel.types",
    "Trio": "goalreel.models.trio",
    "UserError": "goalreel.errors",
    "Verdict": "goalreel.types",
    "annotate": "goalreel.annotator.annotate",
    "load_models": "goalreel.models.load",
    "load_storyboard": "goalreel.storyboard_io",
    "open_dataset": "goalreel.annotator.annotate",
    "plan": "goalreel.annotator.plan",
    "read_storyboards": "goalreel.annotator.show",
    "run": "goalreel.batch",
    "save_storyboard": "goalreel.storyboard_io",
    "storyboard": "goalreel.loop",
}
"""Public name -> the module that holds it, imported when the name is first used."""

__all__ = [
    "Attempt",
    "BackendError",
    "Candidate",
    "Critic",
    "DatasetError",
    "Edit",
    "Editor",
    "Failure",
    "Image",
    "InputError",
    "Limits",
    "Options",
    "Plan",
    "Planner",
    "Segment",
    "Step",
    "Storyboard",
    "StoryboardStep",
    "Task",
    "Trio",
    "UserError",
    "Verdict",
    "annotate",
    "load_models",
    "load_storyboard",
    "open_dataset",
    "plan",
    "read_storyboards",
    "run",
    "save_storyboard",
    "storyboard",
]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), "load" if name == "load_models" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
