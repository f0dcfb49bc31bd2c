"""What the node's cheap visual test says of a view that reaches a drawn goal image, and of one that does not.

    python benchmarks/drawn_goals.py
    python benchmarks/drawn_goals.py --episodes 60

The nano editor draws each sub-goal of validation episodes from its true source, at the camera's 256 px as
the node has it. Where the picture shows the sub-goal, the block is set down where it shows it (`reached`),
and the expert carries the sub-goal out badly (`failed`): drops the block, takes another, or another place.

One JSON line. By the least pixels over which a difference counts (THIN in streaming/closeness.py; 1 is none):
[median, 10th percentile] of `closeness` to the goal image; `asked`, the share of views at or above the usual
`gate`; `changed`, the median share of the picture that differs from the goal image; `rerendered`, the share
of views above the usual `rerender`, from which the next goal would be drawn anew.
"""

import json
import os
from collections.abc import Iterator
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import typer

from goalreel.checkpoints import NANO
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.image import Image
from goalreel.streaming import closeness
from goalreel.streaming.closeness import Closeness, changed
from goalreel.streaming.settings import EngineSettings
from goalreel.tabletop.lessons.executions import FAULTS, failed, frame_of
from goalreel.tabletop.lessons.steps import Done, walk
from goalreel.tabletop.lessons.verdicts import prompt_for
from goalreel.tabletop.sim.predicates import shows
from goalreel.tabletop.sim.readback import read_back
from goalreel.tabletop.sim.splits import seeds
from goalreel.types import Edit

CAMERA = 256
STREAM = 12
USUAL = EngineSettings()

type View = tuple[str, Image, Image, Image]
"""What became of it, source, goal image, view."""


def views(editor: DiffusersEditor, done: Done) -> Iterator[View]:
    edit = Edit(task_id="t", step=0, attempt=0, image=done.source, prompt=prompt_for(done), seed=1)
    (drawn,) = editor.edit([edit])
    if not isinstance(drawn, Image):
        return
    seen, block = read_back(drawn.pixels, done.env.scene), done.goal.object
    if not done.layout.keys() <= seen.keys() or not shows(seen, done.goal):
        return
    goal = drawn.resized((CAMERA, CAMERA))
    tries = (failed(done, FAULTS[i]) for i in done.rng.permutation(len(FAULTS)))
    if badly := next(filter(None, tries), None):
        yield "failed", done.source, goal, frame_of(done, badly[-1]).image
    done.env.set_state(done.before)
    done.env.place(block, seen[block])
    done.env.settle(0.3)
    yield "reached", done.source, goal, done.studio.look(done.env)


def scores(found: list[View], thin: int) -> dict[str, dict[str, object]]:
    closeness.THIN = thin
    scored = {}
    for what in ("reached", "failed"):
        some = [(source, goal, view) for became, source, goal, view in found if became == what]
        near = [Closeness(source, goal).of(view) for source, goal, view in some]
        differs = [changed(goal, view) for _, goal, view in some]
        scored[what] = {
            "views": len(some),
            "closeness": [round(float(p), 2) for p in np.nanpercentile(near, (50, 10))],
            "asked": round(float(np.mean([not c < USUAL.gate for c in near])), 3),
            "changed": round(float(np.median(differs)), 4),
            "rerendered": round(float(np.mean([d > USUAL.rerender for d in differs])), 3),
        }
    return scored


def main(episodes: Annotated[int, typer.Option(min=1)] = 30) -> None:
    editor = DiffusersEditor.load(NANO / "editor", device="cpu")
    chosen = seeds("validation", episodes, first=800)
    found = [view for done in walk(chosen, CAMERA, STREAM) for view in views(editor, done)]
    usual = closeness.THIN
    print(json.dumps({f"thin {thin}": scores(found, thin) for thin in (1, usual)}))


if __name__ == "__main__":
    typer.run(main)
