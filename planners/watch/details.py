"""Ask a watching model for the details of each step of a plan: one question a segment, with its frames."""

import json
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from goalreel.chat.ask import Question, ask
from goalreel.chat.conversation import Chat, Message
from goalreel.chat.interleave import interleave, plain
from goalreel.chat.json_reply import Problem, read_model
from goalreel.chat.prompts import render
from goalreel.details import Detail, DetailName, Details, FailureDetail
from goalreel.errors import BackendError, DatasetError
from goalreel.planners.watch.contact_sheet import contact_sheet
from goalreel.planners.watch.parsing import nullable
from goalreel.types import Failure, Plan, Recording, Segment, Step

log = logging.getLogger(__name__)
FRAMES = 10
"""Frames of a segment that are shown, of each camera."""

_Text = Annotated[str | None, Field(max_length=2000), BeforeValidator(nullable)]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    scene: _Text = None
    reasoning: _Text = None
    error_cause: _Text = None
    restorable: bool | None = None


@dataclass(frozen=True)
class PlannedRecording:
    """A plan and the recording that it was read off."""

    recording: Recording
    instruction: str
    plan: Plan


def describe(
    chat: Chat,
    watched: Sequence[PlannedRecording],
    cameras: Sequence[str],
    names: Collection[DetailName],
    replies: int,
) -> list[Plan]:
    """The plans with the details `names` of their steps, as far as the model tells them.

    A step about which it gives no usable answer stays without, and the log says so: no plan is lost.
    """
    places = [
        (number, at, keys)
        for number, episode in enumerate(watched)
        for at, step in enumerate(episode.plan.steps)
        if (keys := tuple(_keys(step, names)))
    ]
    questions = [_question(watched[number], at, keys, cameras) for number, at, keys in places]
    steps = [list(episode.plan.steps) for episode in watched]
    for (number, at, _), answer in zip(places, _ask(chat, questions, replies), strict=True):
        if isinstance(answer, Failure):
            where = f"{watched[number].recording.id}, step {at + 1}"
            log.warning("%s: the model gave no details: %s", where, answer.line)
        elif answer != Details():
            steps[number][at] = steps[number][at].model_copy(update={"details": answer})
    return [
        episode.plan.model_copy(update={"steps": tuple(new)})
        for episode, new in zip(watched, steps, strict=True)
    ]


def _keys(step: Step, names: Collection[DetailName]) -> Iterator[str]:
    """The keys of the answer about a step."""
    yield from (name for name in ("scene", "reasoning") if name in names)
    if "failure" in names and step.outcome == "failed":
        yield from ("error_cause", "restorable")


def _ask(
    chat: Chat, questions: Sequence[Question[Details] | Failure], replies: int
) -> list[Details | Failure]:
    if not questions:
        return []
    try:
        return ask(chat, questions, stage="plan", replies=replies, schema=_schema())
    except BackendError as e:
        return [Failure(stage="plan", message=str(e))] * len(questions)


def _schema() -> dict[str, Any]:
    """The JSON schema of an answer, for back ends that can enforce one."""
    schema = _Reply.model_json_schema()
    for value in schema["properties"].values():
        value.pop("default", None)
    return schema | {"additionalProperties": False, "required": list(schema["properties"])}


def _question(
    watched: PlannedRecording, at: int, keys: Sequence[str], cameras: Sequence[str]
) -> Question[Details] | Failure:
    step, segment = watched.plan.steps[at], (watched.plan.segments or ())[at]
    try:
        sheet = contact_sheet(watched.recording, cameras, _frames(segment))
    except DatasetError as e:
        return Failure(stage="plan", message=str(e))
    form = json.dumps({key: True if key == "restorable" else "..." for key in keys})
    values = {
        "keys": keys,
        "instruction": plain(watched.instruction),
        "name": plain(step.name),
        "start": segment.start,
        "end": segment.end,
        "fps": f"{watched.recording.fps:g}",
        "cameras": [camera.removeprefix("observation.images.") for camera in cameras],
        "form": form,
    }
    message = Message("user", interleave(render("watcher/details", values), [sheet]))

    def correction(problem: Problem) -> str:
        return plain(render("watcher/details_again", {"problem": problem.message, "form": form}))

    return Question((message,), lambda reply: parse_details_reply(reply, keys), correction)


def _frames(segment: Segment) -> list[int]:
    """The first frame, the last, and some evenly between."""
    return np.unique(np.linspace(segment.start, segment.end - 1, FRAMES).round().astype(int)).tolist()


def parse_details_reply(reply: str, keys: Sequence[str]) -> Details | Problem:
    """Read the details from a reply that has these `keys`; only the cause of a failure may be null."""
    answer = read_model(_Reply, reply, keys[0], _Reply.model_fields)
    if isinstance(answer, Problem):
        return answer
    values = answer[0]
    texts = {name: getattr(values, name) for name in ("scene", "reasoning") if name in keys}
    if missing := [name for name, text in texts.items() if text is None]:
        return Problem(f'"{missing[0]}" holds no words')
    cause = values.error_cause if "error_cause" in keys else None
    failure = FailureDetail(text=cause, restorable=values.restorable) if cause else None
    return Details(**{name: Detail(text=text) for name, text in texts.items()}, failure=failure)
