"""Goal images from exact sources: is the sub-goal reached, and everything else untouched?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from goalreel.datasets.tabletop.lessons.composition import held_out_step
from goalreel.datasets.tabletop.lessons.rows import Register
from goalreel.datasets.tabletop.predicates import KINDS, SubGoal
from goalreel.evaluation.measured import Measured
from goalreel.evaluation.tabletop.asking import in_batches
from goalreel.evaluation.tabletop.bootstrap import measured_share
from goalreel.evaluation.tabletop.scenes import Outcome, Progress, Walk, look, outcome
from goalreel.evaluation.tabletop.words import REGISTERS, prompt_of
from goalreel.image import Image
from goalreel.loop import attempt_seed
from goalreel.types import Edit, Editor, Failure


@dataclass(frozen=True)
class Place:
    """Sub-goal `index` of an episode, to be reached from the true picture before it."""

    walk: Walk
    index: int

    @property
    def goal(self) -> SubGoal:
        return self.walk.goals[self.index]

    @property
    def held_out(self) -> bool:
        """Training never shows this sub-goal, or never right after the one before."""
        return bool(held_out_step(self.walk.goals, self.index))

    @property
    def source(self) -> Image:
        return self.walk.moments[self.index].picture

    @property
    def target(self) -> Image:
        return self.walk.moments[self.index + 1].picture

    def judge(self, picture: Image | Failure | None) -> Outcome:
        """What a goal image from this source shows."""
        found = look(picture, self.walk.episode.scene)
        return outcome(found, self.walk.moments[self.index].layout, self.goal)

    def edit(self, prompt: str, attempt: int = 0) -> Edit:
        """The request to an editor."""
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


def places(walks: Iterable[Walk]) -> list[Place]:
    """Every sub-goal of every episode."""
    return [Place(walk, index) for walk in walks for index in range(len(walk.goals))]


@dataclass(frozen=True)
class Edited:
    """One edit with what came of it."""

    place: Place
    register: Register
    request: Edit
    answer: Image | Failure
    outcome: Outcome


def edit_all(walks: Sequence[Walk], editor: Editor, progress: Progress) -> list[Edited]:
    """Every sub-goal in both registers, once."""
    rows = [(place, register) for place in places(walks) for register in REGISTERS]
    requests = [place.edit(prompt_of(place.walk, place.index, register)) for place, register in rows]
    answers = in_batches(editor.edit, requests, "edit", progress)
    return [
        Edited(place, register, request, answer, place.judge(answer))
        for (place, register), request, answer in zip(rows, requests, answers, strict=True)
    ]


def measure_edits(walks: Sequence[Walk], edited: Sequence[Edited]) -> dict[str, Measured]:
    """`score`, `reached` and `untouched` of explicit prompts, the terse ones' as `_terse`; scores by kind and
    composition. `readable`: the score of the true goal images, which no editor can be expected to pass."""
    result: dict[str, Measured] = {}
    for register in REGISTERS:
        end = "" if register == "explicit" else f"_{register}"
        rows = [e for e in edited if e.register == register]
        result[f"score{end}"] = _scores(rows)
        result[f"reached{end}"] = measured_share((e.place.walk.seed, e.outcome.reached) for e in rows)
        result[f"untouched{end}"] = measured_share((e.place.walk.seed, e.outcome.untouched) for e in rows)
        result[f"score{end}_held_out"] = _scores(e for e in rows if e.place.held_out)
        result[f"score{end}_seen"] = _scores(e for e in rows if not e.place.held_out)
        for kind in KINDS:
            result[f"score{end}_{kind}"] = _scores(e for e in rows if e.place.goal.kind == kind)
    truth = ((place.walk.seed, place.judge(place.target).right) for place in places(walks))
    return result | {"readable": measured_share(truth)}


def _scores(rows: Iterable[Edited]) -> Measured:
    return measured_share((e.place.walk.seed, e.outcome.right) for e in rows)
