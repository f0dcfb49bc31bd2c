"""The scores of editor and Critic, each on pictures whose truth the simulator knows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from goalreel.annotator.statistics import Measurement, with_interval
from goalreel.image import Image
from goalreel.loop import attempt_seed
from goalreel.progress import OnProgress
from goalreel.tabletop.grammar import state_of
from goalreel.tabletop.scene import KINDS, SceneLayout, SubGoal
from goalreel.types import Candidate, Critic, Edit, Editor, Failure, Verdict
from goalreel_lab.bench.plan import REGISTERS, in_batches, prompt_of
from goalreel_lab.bench.scenes import GoalOutcome, Walk, look_rendered, outcome
from goalreel_lab.corpora.composition import held_out_step
from goalreel_lab.corpora.rows import Register, VerdictRow
from goalreel_lab.statistics import balanced_accuracy_with_interval, roc_area, share_with_interval


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
            task_id=task.id, step=self.index, attempt=attempt, image=self.source, prompt=prompt, seed=seed
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


MADE, REAL = "made", "editor"
FLAT = 5.0
"""The score of an answer without a verdict, which is neither for nor against."""


@dataclass(frozen=True)
class Judged:
    """One candidate with the truth about it and the Critic's answer. `source`: MADE or REAL."""

    seed: int
    source: str
    mistake: str | None
    good: bool
    answer: Verdict | Failure
    edited: Edited | None = None

    @property
    def right(self) -> bool:
        """Tell whether the verdict agrees with the truth; an answer without a verdict never does."""
        return isinstance(self.answer, Verdict) and self.answer.success == self.good

    @property
    def score(self) -> float:
        """Give a score from 0 to 10, higher for better: the Critic's own where it gives one."""
        if isinstance(self.answer, Failure):
            return FLAT
        score = self.answer.score
        return score if score is not None else 10.0 * self.answer.success


def judge_all(
    rows: Sequence[VerdictRow], edited: Sequence[Edited], critic: Critic, progress: OnProgress
) -> list[Judged]:
    """Ask the Critic about made candidates, and about every picture that the editor gave."""
    real = [e for e in edited if isinstance(e.answer, Image)]
    questions = [_made(i, row) for i, row in enumerate(rows)] + [_real(e) for e in real]
    answers = in_batches(critic.judge, questions, "judge", progress)
    judged = [
        Judged(row.origin.seed, MADE, row.mistake, row.mistake is None, answer)
        for row, answer in zip(rows, answers, strict=False)
    ]
    return judged + [
        Judged(e.case.walk.seed, REAL, None, e.outcome.right, answer, e)
        for e, answer in zip(real, answers[len(rows) :], strict=True)
    ]


def _made(number: int, row: VerdictRow) -> Candidate:
    return Candidate(
        task_id=f"made-{row.origin.seed}-{number}",
        step=row.origin.done,
        source=row.source,
        image=row.candidate,
        instruction=row.instruction,
        prompt=row.prompt,
    )


def _real(edited: Edited) -> Candidate:
    assert isinstance(edited.answer, Image)
    return Candidate(
        task_id=edited.request.task_id,
        step=edited.case.index,
        source=edited.case.source,
        image=edited.answer,
        instruction=state_of(edited.case.goal),
        prompt=edited.request.prompt,
    )


def measure_critic(judged: Sequence[Judged]) -> dict[str, Measurement]:
    """Measure `accuracy`, `balanced_accuracy` and `auc`, and how many mistakes of every kind were rejected.

    The first three are of all candidates, of made ones (`_made`) and of the editor's (`_editor`).
    """
    result: dict[str, Measurement] = {}
    for end, rows in (
        ("", judged),
        *((f"_{source}", [j for j in judged if j.source == source]) for source in (MADE, REAL)),
    ):
        result[f"accuracy{end}"] = share_with_interval((j.seed, j.right) for j in rows)
        result[f"balanced_accuracy{end}"] = balanced_accuracy_with_interval(
            (j.seed, j.good, j.right) for j in rows
        )
        result[f"auc{end}"] = with_interval(_histograms(rows), roc_area)
    for mistake in sorted({j.mistake for j in judged if j.mistake}):
        result[f"rejected_{mistake}"] = share_with_interval(
            (j.seed, j.right) for j in judged if j.mistake == mistake
        )
    return result


def _histograms(rows: Sequence[Judged]) -> list[list[int]]:
    """Make a row an episode: how many good ones had each score, then how many bad ones."""
    scores = sorted({j.score for j in rows})
    counts: dict[int, list[int]] = {}
    for j in rows:
        row = counts.setdefault(j.seed, [0] * 2 * len(scores))
        row[scores.index(j.score) + (0 if j.good else len(scores))] += 1
    return list(counts.values())


def measure_rewriting(
    judged: Sequence[Judged], editor: Editor, progress: OnProgress
) -> dict[str, Measurement]:
    """Measure how often a new prompt mends a failure of the editor that the Critic rejected.

    `rewrite` has the Critic's prompt, `reseed` the old one with the same new seed.
    """
    rejected = [
        (j.edited, j.answer)
        for j in judged
        if j.edited and not j.good and isinstance(j.answer, Verdict) and not j.answer.success
    ]
    new = [e.case.edit(verdict.refined_prompt or e.request.prompt, attempt=1) for e, verdict in rejected]
    old = [e.case.edit(e.request.prompt, attempt=1) for e, _ in rejected]
    answers = in_batches(editor.edit, [*new, *old], "rewrite", progress)
    hits = [
        (e.case.walk.seed, e.case.judge(answer).right)
        for (e, _), answer in zip(rejected * 2, answers, strict=True)
    ]
    count = len(rejected)
    return {"rewrite": share_with_interval(hits[:count]), "reseed": share_with_interval(hits[count:])}
