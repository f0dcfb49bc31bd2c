"""Goal images from exact sources: is the sub-goal reached, and everything else untouched?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from goalreel.annotator.statistics import Measurement, share_with_interval
from goalreel.image import Image
from goalreel.loop import attempt_seed
from goalreel.progress import OnProgress
from goalreel.tabletop.scene import KINDS, SceneLayout, SubGoal
from goalreel.types import Edit, Editor, Failure
from goalreel_lab.bench.plan import REGISTERS, in_batches, prompt_of
from goalreel_lab.bench.scenes import GoalOutcome, Walk, look_rendered, outcome
from goalreel_lab.corpora.composition import held_out_step
from goalreel_lab.corpora.rows import Register


@dataclass(frozen=True)
class EditCase:
    """Sub-goal `index` of an episode, to be reached from the true picture before it."""

    walk: Walk
    index: int

    @property
    def goal(self) -> SubGoal:
        return self.walk.goals[self.index]

    @property
    def held_out(self) -> bool:
        """Tell whether training never shows this sub-goal, or never right after the one before."""
        return bool(held_out_step(self.walk.goals, self.index))

    @property
    def source(self) -> Image:
        return self.walk.moments[self.index].picture

    @property
    def target(self) -> Image:
        return self.walk.moments[self.index + 1].picture

    def judge(self, picture: Image | Failure | None) -> GoalOutcome:
        """Compare what a goal image from this source shows with the sub-goal."""
        return outcome(self.read(picture), self.walk.moments[self.index].layout, self.goal)

    def read(self, picture: Image | Failure | None) -> SceneLayout | None:
        """Read what a goal image from this source shows."""
        layout = self.walk.moments[self.index].layout
        return look_rendered(picture, self.walk.episode.scene, layout, self.goal.object)

    def edit(self, prompt: str, attempt: int = 0) -> Edit:
        """Make the request to an editor, its seed that of the attempt."""
        task = self.walk.task
        seed = attempt_seed(task.seed, self.index, attempt)
        return Edit(
            task_id=task.id,
            step=self.index,
            attempt=attempt,
            image=self.source,
            prompt=prompt,
            seed=seed,
        )


def edit_cases(walks: Iterable[Walk]) -> list[EditCase]:
    """List every sub-goal of every episode."""
    return [EditCase(walk, index) for walk in walks for index in range(len(walk.goals))]


@dataclass(frozen=True)
class Edited:
    """One edit with what came of it."""

    case: EditCase
    register: Register
    request: Edit
    answer: Image | Failure
    outcome: GoalOutcome


def edit_all(walks: Sequence[Walk], editor: Editor, progress: OnProgress) -> list[Edited]:
    """Ask for every sub-goal in both registers, once."""
    rows: list[tuple[EditCase, Register]] = [
        (c, register) for c in edit_cases(walks) for register in REGISTERS
    ]
    requests = [case.edit(prompt_of(case.walk, case.index, register)) for case, register in rows]
    answers = in_batches(editor.edit, requests, "edit", progress)
    return [
        Edited(case, register, request, answer, case.judge(answer))
        for (case, register), request, answer in zip(rows, requests, answers, strict=True)
    ]


def measure_edits(walks: Sequence[Walk], edited: Sequence[Edited]) -> dict[str, Measurement]:
    """Measure `score`, `reached` and `untouched` of explicit prompts, and of terse ones with `_terse`.

    Scores are also by kind and composition. `readable` is the score of the true goal images, which no editor
    can be expected to pass.
    """
    result: dict[str, Measurement] = {}
    for register in REGISTERS:
        end = "" if register == "explicit" else f"_{register}"
        rows = [e for e in edited if e.register == register]
        result[f"score{end}"] = _scores(rows)
        result[f"reached{end}"] = share_with_interval((e.case.walk.seed, e.outcome.reached) for e in rows)
        result[f"untouched{end}"] = share_with_interval((e.case.walk.seed, e.outcome.untouched) for e in rows)
        result[f"score{end}_held_out"] = _scores(e for e in rows if e.case.held_out)
        result[f"score{end}_seen"] = _scores(e for e in rows if not e.case.held_out)
        for kind in KINDS:
            result[f"score{end}_{kind}"] = _scores(e for e in rows if e.case.goal.kind == kind)
    truth = ((case.walk.seed, case.judge(case.target).right) for case in edit_cases(walks))
    return result | {"readable": share_with_interval(truth)}


def _scores(rows: Iterable[Edited]) -> Measurement:
    return share_with_interval((e.case.walk.seed, e.outcome.right) for e in rows)
