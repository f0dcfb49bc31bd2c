"""Planners, editors and critics for TabletopBench that know the truth, and err as often as they are told."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from goalreel.image import Image
from goalreel.tabletop.env import Tabletop, TabletopState, teleport
from goalreel.tabletop.scene import SubGoal, TabletopScene, is_bowl
from goalreel.types import Failure, Plan, Step, Verdict
from goalreel_lab.bench.loop import OracleCritic
from goalreel_lab.bench.plan import step_of
from goalreel_lab.bench.scenes import SIZE, Walk
from goalreel_lab.corpora.prompts import explicit
from goalreel_lab.corpora.rows import VerdictRow


def quiet(stage, done, total):
    """Tell nobody how far the work is."""


def values(found):
    """The numbers alone of what was measured."""
    return {key: m.value for key, m in found.items()}


def by_task(walks: Sequence[Walk]) -> dict[str, Walk]:
    return {walk.task.id: walk for walk in walks}


@dataclass
class Planner:
    """`how`: true, drop (the last step), reverse, wrong (the first step's block), astray (where to), mute."""

    walks: Sequence[Walk]
    how: str = "true"

    def plan(self, tasks):
        return [self._plan(by_task(self.walks)[task.id]) for task in tasks]

    def _plan(self, walk: Walk) -> Plan | Failure:
        steps = [step_of(walk, i) for i in range(len(walk.goals))]
        if self.how == "drop":
            steps = steps[:-1]
        elif self.how == "reverse":
            steps.reverse()
        elif self.how == "wrong":
            goal = walk.goals[0]
            blocks = [n for n in walk.names if not is_bowl(n) and n not in (goal.object, goal.target)]
            steps[0] = said(SubGoal(goal.kind, blocks[0], goal.target))
        elif self.how == "astray":
            steps = [s.model_copy(update={"prompt": "It goes to the moon. Leave it there."}) for s in steps]
        elif self.how == "mute":
            steps = [
                s.model_copy(update={"instruction": "tidy", "prompt": "tidy", "name": "tidy"}) for s in steps
            ]
        return Plan(steps=tuple(steps)) if steps else Failure(stage="plan", message="no steps")


def said(goal: SubGoal) -> Step:
    """A step that says no more than a sub-goal's canonical sentence."""
    return Step(name="step", instruction=goal.text, prompt=f"{goal.text}.")


@dataclass
class Editor:
    """Teleports, and takes the picture. With its probability, drawn from the request's seed, an edit goes
    wrong: the source comes back (`copy`), another block is moved too (`also`), or there is none (`fail`)."""

    walks: Sequence[Walk]
    terse: float = 0.0
    explicit: float = 0.0
    how: str = "copy"
    asked: int = 0

    def __post_init__(self):
        _STATES.update({m.picture: m.state for walk in self.walks for m in walk.moments})

    def edit(self, edits):
        self.asked += len(edits)
        return [self._edit(edit) for edit in edits]

    def _edit(self, edit) -> Image | Failure:
        walk = by_task(self.walks)[edit.task_id]
        chance = self.explicit if "Leave the" in edit.prompt else self.terse
        wrong = np.random.default_rng(edit.seed).random() < chance
        if wrong and self.how == "copy":
            grainy = edit.image.pixels.copy()
            grainy[0, 0] ^= 1  # its source to the bit would be rejected unasked
            _STATES[image := Image(grainy)] = _STATES[edit.image]
            return image
        if wrong and self.how == "fail":
            return Failure(stage="edit", message="nothing came")
        goal = walk.goals[edit.step]
        others = [n for n in walk.names if not is_bowl(n) and n not in (goal.object, goal.target)]
        return _imagine(walk.episode.scene, edit.image, goal, others[0] if wrong else None)


_STATES: dict[Image, TabletopState] = {}
"""What every picture shows."""


_TABLES: dict[TabletopScene, Tabletop] = {}


def _table(scene: TabletopScene) -> Tabletop:
    if scene not in _TABLES:
        _TABLES[scene] = Tabletop(scene)
    return _TABLES[scene]


def close() -> None:
    """Free the renderers while EGL is still there."""
    while _TABLES:
        _TABLES.popitem()[1].close()


@cache
def _imagine(scene: TabletopScene, source: Image, goal: SubGoal, other: str | None) -> Image:
    """The picture after a sub-goal, and with `other` in a corner of the table."""
    table = _table(scene)
    table.set_state(_STATES[source])
    if not table.holds(goal):
        teleport(table, goal)
    if other:
        table.place(other, np.array([0.37, 0.26, 0.025]))
    picture = Image(table.render(scene.camera, SIZE).copy())
    _STATES[picture] = table.get_state()
    return picture


@dataclass
class Critic:
    """`how`: true, accept, reject, random (by the picture), fail; `rewrites`: into the explicit prompt."""

    walks: Sequence[Walk]
    made: Sequence[VerdictRow] = ()
    how: str = "true"
    rewrites: bool = True
    asked: int = 0

    def judge(self, candidates):
        self.asked += len(candidates)
        return [self._judge(candidate) for candidate in candidates]

    def _judge(self, candidate) -> Verdict | Failure:
        if self.how == "fail":
            return Failure(stage="judge", message="no verdict")
        good = {"accept": True, "reject": False}.get(self.how)
        if self.how == "random":
            good = bool(np.random.default_rng(candidate.image.pixels.ravel()[::7].astype(int)).random() < 0.5)
        if good is None:
            good = self._truth(candidate)
        walk = by_task(self.walks).get(candidate.task_id)
        prompt = None
        if not good and self.rewrites and walk is not None:
            before, after = (walk.moments[candidate.step + i].layout for i in (0, 1))
            prompt = explicit(walk.goals[candidate.step], before, after)
        return Verdict(success=good, refined_prompt=prompt)

    def _truth(self, candidate) -> bool:
        for row in self.made:
            if row.candidate == candidate.image and row.source == candidate.source:
                return row.mistake is None
        return OracleCritic(by_task(self.walks)).judge([candidate])[0].success
