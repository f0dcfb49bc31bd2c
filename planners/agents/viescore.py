"""VIEScore (arXiv 2312.14867) on any chat model: what a picture is worth, 0-10, in wording of our own."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from goalreel.image import Image
from goalreel.planners.agents.ask import Question, ask
from goalreel.planners.agents.json_reply import Problem, clean, read_answer
from goalreel.planners.agents.prompts import render
from goalreel.planners.chat.conversation import Chat, Message
from goalreel.planners.chat.interleave import interleave, plain
from goalreel.scoring import PictureScores
from goalreel.types import Candidate, Failure, Score

_EDITED, _MADE, _QUALITY = ("success", "over_editing"), ("success",), ("naturalness", "artefacts")
_MARKS = TypeAdapter(dict[str, Score], config=ConfigDict(strict=True))


class VieScore:
    """Scores pictures with any chat model, asking twice about each: about the order, then about the look.

    Raises:
        ValueError: `replies` is less than 1.
    """

    def __init__(self, chat: Chat, *, replies: int = 3) -> None:
        if replies < 1:
            raise ValueError(f"replies must be at least 1, got {replies}")
        self._chat = chat
        self._replies = replies

    def score(self, candidates: Sequence[Candidate]) -> list[PictureScores | None]:
        """Score each candidate's picture by its `prompt`; None where `replies` replies gave no score.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        semantics: list[_Marked | None] = [None] * len(candidates)
        for names in (_EDITED, _MADE):  # each has a schema of its own
            asked = [i for i, c in enumerate(candidates) if _names(c) == names]
            found = self._ask([_semantics(candidates[i]) for i in asked], names)
            for i, marked in zip(asked, found, strict=True):
                semantics[i] = marked
        worth = [i for i, marked in enumerate(semantics) if marked is not None]
        found = self._ask([_quality(candidates[i]) for i in worth], _QUALITY)
        quality = dict(zip(worth, found, strict=True))
        return [_scores(marked, quality.get(i)) for i, marked in enumerate(semantics)]

    def _ask(self, questions: Sequence[Question["_Marked"]], names: Sequence[str]) -> list["_Marked | None"]:
        answers = ask(self._chat, questions, stage="judge", replies=self._replies, schema=_schema(names))
        return [None if isinstance(answer, Failure) else answer for answer in answers]


@dataclass(frozen=True)
class _Marked:
    lowest: float
    reason: str


def _scores(semantics: _Marked | None, quality: _Marked | None) -> PictureScores | None:
    if semantics is None or quality is None:
        return None
    return PictureScores(semantics.lowest, quality.lowest, semantics.reason, quality.reason)


def _names(candidate: Candidate) -> Sequence[str]:
    return _MADE if candidate.source is None else _EDITED


def _semantics(candidate: Candidate) -> Question[_Marked]:
    images = [i for i in (candidate.source, candidate.image) if i is not None]
    told = {"has_source": candidate.source is not None, "prompt": plain(candidate.prompt)}
    return _question("semantics", told, images, _names(candidate))


def _quality(candidate: Candidate) -> Question[_Marked]:
    return _question("quality", {}, [candidate.image], _QUALITY)


def _question(
    turn: str, told: dict[str, Any], images: Sequence[Image], names: Sequence[str]
) -> Question[_Marked]:
    example = json.dumps({"reasoning": "...", **dict.fromkeys(names, 0)})

    def again(problem: Problem) -> str:
        return plain(render("viescore/again", {"problem": problem.message, "example": example}))

    text = render(f"viescore/{turn}", {**told, "example": example})
    return Question((Message("user", interleave(text, images)),), partial(_read, names), again)


def _read(names: Sequence[str], reply: str) -> _Marked | Problem:
    answer = read_answer(reply, names[0], ("reasoning", *names))
    if isinstance(answer, Problem):
        return answer
    missing = [name for name in names if name not in answer.value]
    if missing:
        return Problem(f'"{missing[0]}" is missing')
    try:
        marks = _MARKS.validate_python({name: answer.value[name] for name in names})
    except ValidationError as e:
        fault = e.errors(include_input=False, include_url=False, include_context=False)[0]
        return Problem(f"{fault['loc'][0]}: {fault['msg']}")
    reason = answer.value.get("reasoning")
    return _Marked(min(marks.values()), clean(reason) if isinstance(reason, str) else answer.thinking)


def _schema(names: Sequence[str]) -> dict[str, Any]:
    mark = {"type": "number", "minimum": 0, "maximum": 10}
    properties = {"reasoning": {"type": "string"}, **dict.fromkeys(names, mark)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
