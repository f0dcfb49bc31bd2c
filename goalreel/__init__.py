"""goalreel: storyboards of checked visual sub-goals for robot learning.

The words      Task, Plan, Step, Segment, Edit, Candidate, Verdict, Attempt, Storyboard, StoryboardStep,
               Failure, Image
The seams      Planner, Editor, Critic: three Protocols of one method each, batch first
The loop       storyboard (a generator without I/O), run (drives many at once, within Limits)
The product    open_dataset, load_models, annotate (with its Options), plan, Trio
On disk        save_storyboard, load_storyboard
The errors     UserError, and under it InputError, DatasetError, BackendError

`import goalreel` loads no torch, and what the product needs only when it is used. See docs/api.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

from goalreel.batch import Limits, run
from goalreel.errors import BackendError, DatasetError, InputError, UserError
from goalreel.folder import load_storyboard, save_storyboard
from goalreel.image import Image
from goalreel.loop import storyboard
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

if TYPE_CHECKING:
    from goalreel.annotator.annotate import Options, annotate, open_dataset
    from goalreel.annotator.plan import plan
    from goalreel.models.load import load as load_models
    from goalreel.models.trio import Trio

_LATER = {
    "Options": ("goalreel.annotator.annotate", "Options"),
    "Trio": ("goalreel.models.trio", "Trio"),
    "annotate": ("goalreel.annotator.annotate", "annotate"),
    "load_models": ("goalreel.models.load", "load"),
    "open_dataset": ("goalreel.annotator.annotate", "open_dataset"),
    "plan": ("goalreel.annotator.plan", "plan"),
}
"""Public name -> module and name there; imported when it is first used."""

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
    "run",
    "save_storyboard",
    "storyboard",
]


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LATER[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
