"""VIEScore (arXiv 2312.14867) on any chat model, in our own wording: it scores a picture from 0 to 10."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from goalreel.chat.ask import Question, ask
from goalreel.chat.conversation import Chat, Message, interleave, plain
from goalreel.chat.json_reply import Problem, clean, read_answer
from goalreel.chat.prompts import render
from goalreel.image import Image
from goalreel.types import Candidate, Failure, PictureScores, Score

_EDITED, _GENERATED, _QUALITY = ("success", "over_editing"), ("success",), ("naturalness", "artefacts")
_MARKS = TypeAdapter(dict[str, Score], config=ConfigDict(strict=True))


class VieScore:
    """Scores pictures with any chat model, with two questions on each: on the prompt, then on the look.

    Raises:
        ValueError: `replies` is less than 1.
    """

    def __init__(self, chat: Chat, *, replies: int = 3) -> None:
        if replies < 1:
            raise ValueError(f"replies must be at least 1, got {replies}")
        self._chat = chat
        self._replies = replies

    def score(self, candidates: Sequence[Candidate]) -> list[PictureScores | None]:
        """Score each candidate's picture by the plan's prompt; None where `replies` replies gave no score.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        semantics: list[_Mark | None] = [None] * len(candidates)
        for names in (_EDITED, _GENERATED):  # each has a schema of its own
            indices = [i for i, c in enumerate(candidates) if _names(c) == names]
            marks = self._ask([_semantics(candidates[i]) for i in indices], names)
            for i, mark in zip(indices, marks, strict=True):
                semantics[i] = mark
        indices = [i for i, mark in enumerate(semantics) if mark is not None]
        marks = self._ask([_quality(candidates[i]) for i in indices], _QUALITY)
        quality = dict(zip(indices, marks, strict=True))
        return [_scores(mark, quality.get(i)) for i, mark in enumerate(semantics)]

    def _ask(self, questions: Sequence[Question["_Mark"]], names: Sequence[str]) -> list["_Mark | None"]:
        answers = ask(self._chat, questions, stage="judge", replies=self._replies, schema=_schema(names))
        return [None if isinstance(answer, Failure) else answer for answer in answers]


@dataclass(frozen=True)
class _Mark:
    lowest: float
    reason: str


def _scores(semantics: _Mark | None, quality: _Mark | None) -> PictureScores | None:
    if semantics is None or quality is None:
        return None
    return PictureScores(semantics.lowest, quality.lowest, semantics.reason, quality.reason)


def _names(candidate: Candidate) -> Sequence[str]:
    return _GENERATED if candidate.source is None else _EDITED


def _semantics(candidate: Candidate) -> Question[_Mark]:
    images = [i for i in (candidate.source, candidate.image) if i is not None]
    values = {
        "has_source": candidate.source is not None,
        "prompt": plain(candidate.first_prompt or candidate.prompt),
    }
    return _question("semantics", values, images, _names(candidate))


def _quality(candidate: Candidate) -> Question[_Mark]:
    return _question("quality", {}, [candidate.image], _QUALITY)


def _question(
    turn: str, values: dict[str, Any], images: Sequence[Image], names: Sequence[str]
) -> Question[_Mark]:
    example = json.dumps(_form(names))
    again = f"with this JSON alone, each mark a number from 0 to 10: {example}"
    text = render(f"viescore/{turn}", {**values, "example": example})
    return Question((Message("user", interleave(text, images)),), partial(_read, names), again)


def _form(names: Sequence[str]) -> dict[str, Any]:
    """The form of an answer, as a model is shown it."""
    return {"reasoning": "...", **dict.fromkeys(names, 0)}


def _read(names: Sequence[str], reply: str) -> _Mark | Problem:
    answer = read_answer(reply, names[0], alone=True)
    if isinstance(answer, Problem):
        return answer
    if answer.value == _form(names):
        return Problem("it repeats the form")
    for name in sorted({"reasoning", *names} ^ {"reasoning", *answer.value}):
        return Problem(f'"{name}" is {"missing" if name in names else "not asked for"}')
    try:
        marks = _MARKS.validate_python({name: answer.value[name] for name in names})
    except ValidationError as e:
        fault = e.errors(include_input=False, include_url=False, include_context=False)[0]
        return Problem(f"{fault['loc'][0]}: {fault['msg']}")
    reason = answer.value.get("reasoning")
    return _Mark(min(marks.values()), clean(reason) if isinstance(reason, str) else answer.thinking)


def _schema(names: Sequence[str]) -> dict[str, Any]:
    mark = {"type": "number", "minimum": 0, "maximum": 10}
    properties = {"reasoning": {"type": "string"}, **dict.fromkeys(names, mark)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
