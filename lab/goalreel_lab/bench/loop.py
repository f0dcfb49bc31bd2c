"""Worth of the loop: right steps and storyboards after T attempts, between no Critic and a perfect one.

All arms get the true sub-goals, so that only editor and Critic count, with orders of one register:
- ours: the Critic under test accepts, or rewrites the prompt;
- oracle, the ceiling: a Critic that reads pictures back, and rewrites into the explicit prompt with a warning
  of what went wrong, as the corpora do;
- reseed: the Critic under test accepts or rejects, the prompt stays;
- control: another seed and no Critic, so the picture of the T-th seed is taken as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from goalreel.annotator.statistics import Measurement, with_interval
from goalreel.drivers import run
from goalreel.image import Image
from goalreel.loop import Keep, LoopArguments, attempt_seed
from goalreel.progress import OnProgress
from goalreel.tabletop.scene import SceneLayout
from goalreel.types import Candidate, Critic, Edit, Editor, Failure, Plan, Planner, Storyboard, Task, Verdict
from goalreel_lab.bench.plan import step_of
from goalreel_lab.bench.scenes import Walk, look_rendered, outcome
from goalreel_lab.corpora.grounding import advice, compare
from goalreel_lab.corpora.prompts import explicit
from goalreel_lab.corpora.rows import Register
from goalreel_lab.statistics import gap_share, points, share_with_interval
from goalreel_lab.variety import task_of

ATTEMPTS = (1, 2, 3, 5)
type LoopArm = Literal["ours", "oracle", "reseed", "control"]
ARMS: tuple[LoopArm, ...] = get_args(LoopArm.__value__)


def right_steps(walk: Walk, board: Storyboard) -> list[bool]:
    """Tell whether the goal image of every true sub-goal is right, judged from the picture it was made of."""
    layout = walk.moments[0].layout
    hits = []
    for goal, step in zip(walk.goals, board.steps, strict=True):
        drawn_layout = look_rendered(step.goal_image, walk.episode.scene, layout, goal.object)
        hits.append(outcome(drawn_layout, layout, goal).right)
        layout = layout if drawn_layout is None else drawn_layout
    return hits


@dataclass(frozen=True)
class TruePlanner:
    """A Planner that knows the sub-goals, and says them in one register."""

    walks: Mapping[str, Walk]
    register: Register = "explicit"

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        walks = [self.walks[task.id] for task in tasks]
        return [Plan(steps=tuple(step_of(w, i, self.register) for i in range(len(w.goals)))) for w in walks]


@dataclass(frozen=True)
class OracleCritic:
    """A Critic that reads source and picture back, and answers a wrong one with an explicit order."""

    walks: Mapping[str, Walk]

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict | Failure]:
        return [self._judge(candidate) for candidate in candidates]

    def _judge(self, candidate: Candidate) -> Verdict:
        walk, index = self.walks[candidate.task_id], candidate.step
        scene, goal = walk.episode.scene, walk.goals[index]
        true = walk.moments[index].layout
        first = index == 0 or candidate.source == walk.task.image
        source_layout = (
            None if first else look_rendered(candidate.source, scene, true, walk.goals[index - 1].object)
        )
        layout = walk.moments[0].layout if source_layout is None else source_layout
        drawn_layout = look_rendered(candidate.image, scene, layout, goal.object)
        good = outcome(drawn_layout, layout, goal).right
        refined = None if good else _mended(walk, index, layout, drawn_layout)
        return Verdict(success=good, reasoning="read back", refined_prompt=refined)


def _mended(walk: Walk, index: int, layout: SceneLayout, drawn_layout: SceneLayout | None) -> str:
    """Write the explicit order, with a warning of what a layout read off a picture has wrong."""
    goal, goal_layout = walk.goals[index], walk.moments[index + 1].layout
    warning = ""
    if drawn_layout is not None:
        warning = advice(drawn_layout, goal_layout, goal, compare(layout, drawn_layout, goal))
    return explicit(goal, walk.moments[index].layout, goal_layout, warning)


@dataclass(frozen=True)
class PlainCritic:
    """A Critic whose rewriting is not heard."""

    critic: Critic

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict | Failure]:
        answers = self.critic.judge(candidates)
        return [
            a if isinstance(a, Failure) else a.model_copy(update={"refined_prompt": None}) for a in answers
        ]


class NoCritic:
    """A Critic that accepts every picture."""

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict | Failure]:
        return [Verdict(success=True, reasoning="not judged")] * len(candidates)


@dataclass(frozen=True)
class Reseeded:
    """An editor that draws what would be attempt `attempt`."""

    editor: Editor
    attempt: int

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        seeds = (attempt_seed(task_of(edit.task_id)[0], edit.step, self.attempt) for edit in edits)
        updates = ({"attempt": self.attempt, "seed": seed} for seed in seeds)
        return self.editor.edit([e.model_copy(update=u) for e, u in zip(edits, updates, strict=True)])


def boards(
    walks: Sequence[Walk],
    planner: Planner,
    editor: Editor,
    critic: Critic,
    attempts: int,
    keep: Keep = "best",
    num_draws: int = 1,
    confirms: Callable[[int], bool] = lambda steps: False,
) -> list[Storyboard]:
    """Run the loop for one storyboard an episode, in order."""
    tasks = [walk.task for walk in walks]
    loop: LoopArguments = {"max_attempts": attempts, "keep": keep, "confirms": confirms}
    drawn = run(tasks, planner, editor, critic, num_draws=num_draws, **loop)
    storyboards = {board.task.id: board for board in drawn}
    return [storyboards[task.id] for task in tasks]


type Hits = dict[tuple[LoopArm, int], list[list[bool]]]
"""Maps (arm, T) to the right steps of every episode."""


def run_loops(
    walks: Sequence[Walk],
    editor: Editor,
    critic: Critic,
    progress: OnProgress,
    keep: Keep = "best",
    register: Register = "explicit",
    arms: Sequence[LoopArm] = ARMS,
    attempts: Sequence[int] = ATTEMPTS,
) -> Hits:
    """Run arms with every T, the first orders of the steps in one register.

    With T = 1 a Critic changes nothing, so all arms are one.
    """
    walk_by_task = {walk.task.id: walk for walk in walks}
    planner = TruePlanner(walk_by_task, register)
    judges: Mapping[LoopArm, Critic] = {
        "ours": critic,
        "oracle": OracleCritic(walk_by_task),
        "reseed": PlainCritic(critic),
        "control": NoCritic(),
    }
    runs: list[tuple[LoopArm, int]] = [("ours", 1)]
    runs.extend((arm, limit) for limit in attempts if limit > 1 for arm in arms)
    hits: Hits = {}
    for number, (arm, limit) in enumerate(runs, start=1):
        control = arm == "control"
        painter = Reseeded(editor, limit - 1) if control else editor
        judge = judges[arm] if limit > 1 else NoCritic()
        storyboards = boards(walks, planner, painter, judge, 1 if control else limit, keep)
        hits[arm, limit] = [right_steps(w, b) for w, b in zip(walks, storyboards, strict=True)]
        progress(f"loop, {register} orders", number, len(runs))
    for arm in arms:
        hits[arm, 1] = hits["ours", 1]
    return hits


def measure_loops(walks: Sequence[Walk], hits: Hits) -> dict[str, Measurement]:
    """Measure `steps_T` and `boards_T` of ours, and of the others with `_ARM`.

    Beside an oracle there is `gap_closed_T` of right steps, beside a control `over_control_T` in points.
    Without `_T` both are of the largest T.
    """
    result: dict[str, Measurement] = {}
    for (arm, attempts), rows in hits.items():
        end = f"_{attempts}" if arm == "ours" else f"_{attempts}_{arm}"
        if arm != "ours" and attempts == 1:
            continue
        pairs = list(zip(walks, rows, strict=True))
        result[f"steps{end}"] = share_with_interval((w.seed, hit) for w, row in pairs for hit in row)
        result[f"boards{end}"] = share_with_interval((w.seed, all(row)) for w, row in pairs)
    first, steps = _sums(hits["ours", 1]), [len(walk.goals) for walk in walks]
    last = max(limit for _, limit in hits)
    for attempts in sorted({limit for _, limit in hits} - {1}):
        ours, compared = _sums(hits["ours", attempts]), {}
        if oracle := hits.get(("oracle", attempts)):
            pairs = zip(ours, first, _sums(oracle), strict=True)
            compared["gap_closed"] = with_interval(list(pairs), gap_share)
        if control := hits.get(("control", attempts)):
            pairs = zip(ours, _sums(control), steps, strict=True)
            compared["over_control"] = with_interval(list(pairs), points)
        result |= {f"{name}_{attempts}": value for name, value in compared.items()}
        result |= compared if attempts == last else {}
    return result


def _sums(rows: Sequence[Sequence[bool]]) -> list[int]:
    return [sum(row) for row in rows]
