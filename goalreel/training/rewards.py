"""The reward of a Critic's reply: its form, its verdict, and what its prompt did to the picture.

R = 1/2 format + 1/2 (0.2 accuracy + 0.8 step) (InterleaveThinker, arXiv 2606.13679, section 3.3). It depends
on no trainer: rows and replies go in, marks come out. A reply whose marks depend on a service that failed has
none. Two forms are published, which are different objectives, not two notations of one:

`paper` (section 3.3): accuracy is -|verdict - J|, and step is the change of the overall score, 0-10. One
point more is worth 0.4, a right verdict 0.1, the form 0.5. `repository` (its `interleave_thinker_reward.py`):
accuracy is 0 or 1, step is 0.6 semantics + 0.2 quality, each change brought to 0-1. One point of semantics is
worth 0.015, a right verdict 0.1. It is the default, since the published weights presumably came from it.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from transformers import ProcessorMixin

from goalreel.chat.json_reply import Problem
from goalreel.chat.verdict import parse_verdict
from goalreel.datasets.corpora.critic_rows import CritiqueRow, candidate_of
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.errors import BackendError
from goalreel.files import digest
from goalreel.image import Image
from goalreel.training.config import FormName, RewardSettings
from goalreel.types import Candidate, Edit, Editor, Failure, PictureScores, Scorer, Verdict

log = logging.getLogger(__name__)

_SEMANTICS = 0.75
"""The share in the step, 0.6 of 0.8; the rest is quality's."""
KEPT = 8192
"""Scores of re-edits that are remembered."""
_OUT = Failure(stage="edit", message="the editor failed")
_STRICT = re.compile(r"\s*(?:<think>)?.+?</think>\s*<answer>.*</answer>\s*", re.DOTALL)
_PROMPT = re.compile(r"""["']refine_prompt["']\s*:\s*["']""")


@dataclass(frozen=True)
class RewardForm:
    """Marks of a verdict and a step. `unchanged`: nothing was edited, or nothing came of it."""

    right: float
    wrong: float
    unchanged: float
    worst: float
    """The lowest step there is: no change to a score, however bad, earns less."""
    step: Callable[[PictureScores, PictureScores], float]
    """(scores of the candidate, scores of the new picture) -> what the change earns."""


def _normalised(old: PictureScores, new: PictureScores) -> float:
    semantics, quality = new.semantics - old.semantics, new.quality - old.quality
    return _SEMANTICS * (semantics / 10 + 1) / 2 + (1 - _SEMANTICS) * (quality / 10 + 1) / 2


FORMS: Mapping[FormName, RewardForm] = {
    "repository": RewardForm(right=1.0, wrong=0.0, unchanged=0.5, worst=0.0, step=_normalised),
    "paper": RewardForm(
        right=0.0, wrong=-1.0, unchanged=0.0, worst=-10.0, step=lambda old, new: new.overall - old.overall
    ),
}


@dataclass(frozen=True)
class Marks:
    """Marks of one reply. `success` is its verdict, None where it cannot be read."""

    format: float
    accuracy: float
    step: float
    success: bool | None
    edited: bool = False
    """Its prompt was drawn and the picture scored."""
    refused: bool = False
    """Its prompt was not drawn: too long, or the editor will not."""

    def total(self, weights: RewardSettings) -> float:
        rest = weights.accuracy * self.accuracy + weights.step * self.step
        return weights.format * self.format + (1 - weights.format) * rest


@dataclass(frozen=True)
class _Key:
    """Decides a re-edit's picture and so its scores: the row (source, goal and seed), and the prompt."""

    row: str
    prompt: str

    @property
    def seed(self) -> int:
        # Of the row alone: completions of a group differ by their prompt, and no seed serves all rows.
        return int(self.row[:8], 16)


type _Found = Mapping[_Key, PictureScores | None]
"""None: the editor refused. A key that is missing: a service failed."""


class CriticReward:
    """Draws what replies ask for, from the original source, and scores it by the plan's own order.

    `local`: the editor runs in this process, so that whatever it fails at is the prompt's fault. A remote one
    refuses where it says so; else it is taken to be out. `repeats`: an acceptance has to repeat the prompt
    (`Dialect.repeats`). `fits` tells whether the editor reads all of a prompt.
    """

    def __init__(
        self,
        editor: Editor,
        scorer: Scorer,
        *,
        form: FormName = "repository",
        local: bool = False,
        repeats: bool = False,
        fits: Callable[[str], bool] = lambda prompt: True,
    ) -> None:
        self._editor, self._scorer, self._form = editor, scorer, FORMS[form]
        self._local, self._repeats, self._fits = local, repeats, fits
        self._known: dict[_Key, PictureScores | None] = {}

    async def marks(self, rows: Sequence[CritiqueRow], replies: Sequence[str]) -> list[Marks | None]:
        """Marks i are what reply i about row i earns; None where editor or scorer could not tell."""
        read = [parse_verdict(reply, row.drawn_by) for row, reply in zip(rows, replies, strict=True)]
        keys = [_key(row, verdict) for row, verdict in zip(rows, read, strict=True)]
        drawn = [None if key is None or not self._fits(key.prompt) else key for key in keys]
        rows_by_key = {key: row for key, row in zip(drawn, rows, strict=True) if key is not None}
        scores = await asyncio.to_thread(self._find, rows_by_key)
        return [
            self._marks(row, reply, verdict, key, scores, fits=key == drawable)
            for row, reply, verdict, key, drawable in zip(rows, replies, read, keys, drawn, strict=True)
        ]

    def _marks(
        self,
        row: CritiqueRow,
        reply: str,
        verdict: Verdict | Problem,
        key: _Key | None,
        scores: _Found,
        *,
        fits: bool,
    ) -> Marks | None:
        form = self._form
        if isinstance(verdict, Problem):
            return Marks(0.0, form.wrong, form.worst, None)
        accuracy = form.right if verdict.success == row.success else form.wrong
        marks = Marks(float(self._strict(reply, verdict)), accuracy, form.unchanged, verdict.success)
        if key is None:
            return marks
        if not fits:
            return replace(marks, step=form.worst, refused=True)
        if key not in scores:
            return None
        new = scores[key]
        if new is None:
            return replace(marks, step=form.worst, refused=True)
        return replace(marks, step=form.step(PictureScores(row.semantics, row.quality), new), edited=True)

    def _strict(self, reply: str, verdict: Verdict) -> bool:
        """Tell whether a readable reply has the form asked for: thinking first, nothing around it, a prompt.

        A rejection without a prompt would earn a certain step.
        """
        if not verdict.success and verdict.refined_prompt is None:
            return False
        if verdict.success and self._repeats and not _PROMPT.search(reply):
            return False
        return bool(verdict.reasoning.strip()) and _STRICT.fullmatch(reply) is not None

    def _find(self, rows_by_key: Mapping[_Key, CritiqueRow]) -> _Found:
        """Draw and score the re-edits; those of earlier calls are known."""
        new = [(key, row) for key, row in rows_by_key.items() if key not in self._known]
        pictures = self._draw(new) if new else []
        found: dict[_Key, PictureScores | None] = {
            key: None for (key, _), picture in zip(new, pictures, strict=True) if self._refused(picture)
        }
        drawn = [(*a, p) for a, p in zip(new, pictures, strict=True) if isinstance(p, Image)]
        scores = self._score([_candidate(row, picture) for _, row, picture in drawn])
        scored = zip(drawn, scores, strict=True)
        found |= {key: score for (key, _, _), score in scored if score is not None}
        found |= {key: self._known[key] for key in rows_by_key if key in self._known}
        self._known |= found
        for key in list(self._known)[:-KEPT]:
            del self._known[key]
        return found

    def _refused(self, answer: Image | Failure) -> bool:
        return isinstance(answer, Failure) and answer is not _OUT and (answer.refused or self._local)

    def _draw(self, drawings: Sequence[tuple[_Key, CritiqueRow]]) -> Sequence[Image | Failure]:
        try:
            answers = self._editor.edit([_edit(key, row) for key, row in drawings])
        except BackendError as e:
            log.warning("the editor failed: %s", e)
            return [_OUT] * len(drawings)
        for failure in {a.message for a in answers if isinstance(a, Failure)}:
            log.info("the editor gave no picture: %s", failure)
        return answers

    def _score(self, candidates: Sequence[Candidate]) -> Sequence[PictureScores | None]:
        if not candidates:
            return []
        try:
            return self._scorer.score(candidates)
        except BackendError as e:
            log.warning("the scorer failed: %s", e)
            return [None] * len(candidates)


def summary(rows: Sequence[CritiqueRow], marks: Sequence[Marks | None]) -> dict[str, float]:
    """Compute what to watch of a rollout, by name; what is a share of nothing is left out.

    `true_rate` and the accuracies are of the replies that can be read, `edited_step` of those drawn.
    """
    known_marks = [m for m in marks if m is not None]
    verdicts = [(r, m) for r, m in zip(rows, marks, strict=True) if m is not None and m.success is not None]
    right = {j: [m.success == j for r, m in verdicts if r.success is j] for j in (True, False)}
    shares: dict[str, list[float]] = {
        "unknown": [m is None for m in marks],
        "unread": [m.success is None for m in known_marks],
        "edited": [m.edited for m in known_marks],
        "refused": [m.refused for m in known_marks],
        "format": [m.format for m in known_marks],
        "accuracy": [m.accuracy for m in known_marks],
        "step": [m.step for m in known_marks],
        "edited_step": [m.step for m in known_marks if m.edited],
        "true_rate": [m.success is True for _, m in verdicts],
    }
    means = {name: fmean(values) for name, values in shares.items() if values}
    if all(right.values()):
        means["balanced_accuracy"] = fmean(map(fmean, right.values()))
    return means


def _key(row: CritiqueRow, verdict: Verdict | Problem) -> _Key | None:
    """Make the re-edit that a reply asks for; None unless it rejects a wrong picture and says how to mend it.

    A prompt beside an acceptance is never used, and what mends a right picture has nothing to gain.
    """
    if isinstance(verdict, Problem) or verdict.success or row.success or verdict.refined_prompt is None:
        return None
    pictures = (row.source.pixels.tobytes(), row.candidate.pixels.tobytes())
    place = f"{row.step} {row.attempt} {row.drawn}"
    decision = (row.task_id, place, row.instruction, row.first_prompt, row.prompt)
    return _Key(digest(*decision, *pictures), verdict.refined_prompt)


def _edit(key: _Key, row: CritiqueRow) -> Edit:
    return Edit(
        task_id=row.task_id,
        step=row.step,
        attempt=row.attempt + 1,
        image=None if row.drawn else row.source,
        prompt=key.prompt,
        seed=key.seed,
    )


def _candidate(row: CritiqueRow, picture: Image) -> Candidate:
    """Make the scorer's question. It never sees the reply's prompt, which could speak to it."""
    question = candidate_of(replace(row, candidate=picture, prompt=row.first_prompt))
    return question.model_copy(update={"source": None}) if row.drawn else question


def fits_in(editor: Editor, processor: ProcessorMixin, tokens: int) -> Callable[[str], bool]:
    """Make a function that tells whether the editor reads all of a prompt.

    An editor in this process counts with its own tokenizer and limit. Of any other, `tokens` is the limit,
    and the Critic's tokenizer counts.
    """
    if not isinstance(editor, DiffusersEditor):
        return lambda prompt: len(processor.tokenizer(prompt)["input_ids"]) <= tokens
    tokenizer = getattr(editor.pipeline, "tokenizer", None)
    parameter = inspect.signature(type(editor.pipeline).__call__).parameters.get("max_sequence_length")
    limit = editor.entry.arguments.get("max_sequence_length", parameter and parameter.default)
    if tokenizer is None or not isinstance(limit, int):
        return lambda prompt: True

    def fits(prompt: str) -> bool:
        if tokenizer.chat_template:  # of a chat model that encodes the text
            options = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}
            prompt = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], **options)
        return len(tokenizer(prompt)["input_ids"]) <= limit

    return fits
