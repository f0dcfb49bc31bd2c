"""goalreel: storyboards of checked visual sub-goals for robot learning.

In one call    check and annotate (a recorded dataset), plan (a task from a picture)
Terms          Task, Plan, Step, Segment, Edit, Candidate, Verdict, Attempt, Storyboard, StoryboardStep,
               Failure, Image
Models         Planner, Editor, Critic: three Protocols of one method each, batch first; ModelSet holds one of
               each, and load_models makes it from a preset
The loop       storyboard (a generator without I/O), run (drives many at once, within Limits)
Datasets       open_dataset, Options (of annotate), read_storyboards (of an annotated dataset)
Folders        save_storyboard, load_storyboard
Errors         UserError, and under it InputError, DatasetError, BackendError

`import goalreel` loads none of it: a name is imported when it is first used. `__init__.pyi` lists the names.
See docs/how-to/use-from-python.md.
"""

import re
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"

if not all((Path(__file__).parent / name).is_dir() for name in ("annotator", "datasets", "planners")):
    raise ImportError(
        "this checkout of goalreel has no symbolic links: git clone -c core.symlinks=true makes a good one "
        "(on Windows in developer mode); a zip has none"
    )

_IMPORT = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)
_MODULES = {
    name: module
    for module, name in _IMPORT.findall(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
}
"""Public name -> the module that holds it."""

__all__ = sorted(_MODULES)  # pyrefly: ignore[unresolvable-dunder-all]  (type checkers read the stub)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
