"""VIEScore (arXiv 2312.14867) on any chat model, in our own wording: it scores a picture from 0 to 10."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from goalreel.chat.conversation import Chat, Message, Question, ask, interleave, plain
from goalreel.chat.json_reply import OptionalText, Problem, ReplyModel, read_model
from goalreel.chat.prompts import render
from goalreel.image import Image
from goalreel.types import Candidate, Failure, PictureScores, Score


class _Marks(ReplyModel, extra="forbid"):
    reasoning: OptionalText = None

    @classmethod
    def names(cls) -> list[str]:
        return [name for name in cls.model_fields if name != "reasoning"]


class _Generated(_Marks):
    success: Score


class _Edited(_Generated):
    over_editing: Score


class _Look(_Marks):
    naturalness: Score
    artefacts: Score


class VieScore:
    """Scores pictures with any chat model, with two questions on each: on the prompt, then on the look."""

    def __init__(self, chat: Chat, *, replies: int = 3) -> None:
        self._chat, self._replies = chat, replies

    def score(self, candidates: Sequence[Candidate]) -> list[PictureScores | None]:
        """Score each candidate's picture by the plan's prompt; None where `replies` replies gave no score."""
        semantics: list[_Mark | None] = [None] * len(candidates)
        for kind in (_Edited, _Generated):  # each has a schema of its own
            indices = [i for i, c in enumerate(candidates) if (c.source is None) == (kind is _Generated)]
            marks = self._ask([_semantics(candidates[i], kind) for i in indices], kind)
            for i, mark in zip(indices, marks, strict=True):
                semantics[i] = mark
        scores: list[PictureScores | None] = [None] * len(candidates)
        looked = [(i, mark) for i, mark in enumerate(semantics) if mark is not None]
        questions = [_question("quality", {}, [candidates[i].image], _Look) for i, _ in looked]
        for (i, mark), quality in zip(looked, self._ask(questions, _Look), strict=True):
            if quality is not None:
                scores[i] = PictureScores(mark.lowest, quality.lowest, mark.reason, quality.reason)
        return scores

    def _ask(self, questions: Sequence[Question["_Mark"]], kind: type[_Marks]) -> list["_Mark | None"]:
        schema = kind.model_json_schema(mode="serialization")
        answers = ask(self._chat, questions, stage="judge", replies=self._replies, schema=schema)
        return [None if isinstance(answer, Failure) else answer for answer in answers]


class _Mark(NamedTuple):
    lowest: float
    reason: str


def _semantics(candidate: Candidate, kind: type[_Marks]) -> Question[_Mark]:
    images = [i for i in (candidate.source, candidate.image) if i is not None]
    prompt = plain(candidate.first_prompt or candidate.prompt)
    values = {"has_source": candidate.source is not None, "prompt": prompt}
    return _question("semantics", values, images, kind)


def _question(
    turn: str, values: dict[str, Any], images: Sequence[Image], kind: type[_Marks]
) -> Question[_Mark]:
    form = {"reasoning": "...", **dict.fromkeys(kind.names(), 0)}
    example = json.dumps(form)

    def read(reply: str) -> _Mark | Problem:
        answer = read_model(kind, reply, kind.names()[0], alone=True)
        if isinstance(answer, Problem):
            return answer
        marks, parsed = answer
        if parsed.value == form:
            return Problem("it repeats the form")
        return _Mark(min(getattr(marks, name) for name in kind.names()), marks.reasoning or parsed.thinking)

    again = f"with this JSON alone, each mark a number from 0 to 10: {example}"
    text = render(f"viescore/{turn}", {**values, "example": example})
    return Question((Message("user", interleave(text, images)),), read, again)
