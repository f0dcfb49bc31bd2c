"""The sub-goals and storyboards that a goalreel node streamed while the bag was recorded."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from uuid import UUID

from goalreel.claims import NOBODY, UNKNOWN, Claim
from goalreel.datasets.bags.timeline import SECOND, Track

IMAGE_ACCEPTED, IMAGE_TEXT, IMAGE_VERIFIED = 3, 6, 8
ACCEPTED, REJECTED = 1, 2
PENDING = 0
PLANNER_FAILED = "the planner failed"
"""Beginning of a line of `degraded` on the planner (`goalreel.types.failure_lines`)."""
LEASE = 3 * SECOND // 2
"""Silence after which followers of a node take it for gone."""


@dataclass(frozen=True, slots=True)
class StreamedGoal:
    """The content of a SubGoal message: the sub-goal that a node showed from then on."""

    id: UUID
    revision: int
    index: int
    active: bool
    task: str
    name: str
    instruction: str
    auxiliary: str
    accepted: bool
    jpeg: bytes
    """Empty: words only."""
    in_words: bool
    """It was planned without a picture."""
    claims: Mapping[str, Claim] = field(compare=False)
    """By what they claim; empty in a recording that is older than the field."""
    doubts: tuple[str, ...] = field(compare=False)
    """Reasons to doubt its words: the planner failed, and the instruction or an old plan stands in."""

    @classmethod
    def read(cls, m: Any) -> "StreamedGoal":
        """Take over the fields of a goalreel_interfaces/msg/SubGoal.

        Nodes before IMAGE_TEXT called a step without a picture accepted where it was planned so.
        """
        jpeg = bytes(m.goal_image.data)
        worded = not jpeg and bool(m.auxiliary_text.strip())
        return cls(
            id=UUID(bytes=bytes(m.storyboard_id.uuid)),
            revision=m.revision,
            index=m.index,
            active=m.active,
            task=m.task.strip(),
            name=m.name.strip(),
            instruction=m.instruction.strip(),
            auxiliary=m.auxiliary_text,
            accepted=m.image_status in (IMAGE_ACCEPTED, IMAGE_VERIFIED),
            jpeg=jpeg,
            in_words=worded and m.image_status in (IMAGE_ACCEPTED, IMAGE_TEXT),
            claims={c.claim: _claim(c) for c in getattr(m, "claims", ())},
            doubts=tuple(line for line in getattr(m, "degraded", ()) if line.startswith(PLANNER_FAILED)),
        )


def _claim(m: Any) -> Claim:
    return Claim(by=m.by or UNKNOWN, checked=m.checked or NOBODY, doubts=tuple(m.doubts))


@dataclass(frozen=True, slots=True)
class RecordedPanel:
    """The content of a StoryboardStep message, without its picture."""

    index: int
    name: str
    instruction: str
    auxiliary: str
    prompt: str
    pending: bool
    verdict: int
    scores: dict[str, float]
    probability: float
    """NaN where the Critic does not tell, or the recording is older than the field."""
    reasoning: str
    refined_prompt: str

    @classmethod
    def read(cls, m: Any) -> "RecordedPanel":
        """Take over the fields of a goalreel_interfaces/msg/StoryboardStep."""
        return cls(
            index=m.index,
            name=m.name.strip(),
            instruction=m.instruction.strip(),
            auxiliary=m.auxiliary_text,
            prompt=m.prompt.strip(),
            pending=m.status == PENDING,
            verdict=m.critic.verdict,
            scores={s.criterion: float(s.score) for s in m.critic.scores},
            probability=float(getattr(m.critic, "probability", math.nan)),
            reasoning=m.critic.reasoning,
            refined_prompt=m.critic.refined_prompt.strip(),
        )

    @property
    def in_words(self) -> bool:
        """It was planned without a picture."""
        return not self.prompt and bool(self.auxiliary.strip())


@dataclass(frozen=True, slots=True)
class Sheet:
    """The content of a Storyboard message, without its pictures."""

    id: UUID
    revision: int
    models: tuple[str, str, str]
    panels: tuple[RecordedPanel, ...]

    @classmethod
    def read(cls, m: Any) -> "Sheet":
        """Take over the fields of a goalreel_interfaces/msg/Storyboard."""
        models = (m.planner_model, m.editor_model, m.critic_model)
        return cls(UUID(bytes=bytes(m.id.uuid)), m.revision, models, tuple(map(RecordedPanel.read, m.steps)))


@dataclass(frozen=True)
class StreamedSpan:
    """The time from `start` to `end` (exclusive, ns) during which a sub-goal was shown."""

    start: int
    end: int
    goal: StreamedGoal


def spans(track: Track, end: int, beats: Sequence[int] = ()) -> list[StreamedSpan]:
    """Find when each active sub-goal was shown, in order; gaps are pauses. The last ends by `end` (ns).

    A message that repeats its predecessor (a latched topic heard again) is no new span. Where the node gave
    `beats` of its heartbeat, a sub-goal ends `LEASE` after one that no other follows: the node was gone, or
    hung.
    """
    messages: list[tuple[int, StreamedGoal]] = []
    for at, goal in zip(track.stamps.tolist(), track.payloads, strict=True):
        if not messages or messages[-1][1] != goal:
            messages.append((at, goal))
    ends = [at for at, _ in messages[1:]] + [end]
    spans = [StreamedSpan(at, stop, s) for (at, s), stop in zip(messages, ends, strict=True) if s.active]
    for last, following in pairwise([*beats, end]):
        if following - last > LEASE:
            spans = [part for span in spans for part in _without(span, last + LEASE, following)]
    return spans


def _without(span: StreamedSpan, start: int, end: int) -> list[StreamedSpan]:
    """Cut from a span the time from `start` to `end`."""
    if end <= span.start or start >= span.end:
        return [span]
    before, after = replace(span, end=max(start, span.start)), replace(span, start=min(end, span.end))
    return [part for part in (before, after) if part.start < part.end]


class Storyboards:
    """The Storyboard messages of a bag, in which the step of a sub-goal can be looked up."""

    def __init__(self, sheets: Iterable[Sheet]) -> None:
        self._last: dict[UUID, Sheet] = {}
        self._panels: dict[tuple[UUID, int, int], RecordedPanel] = {}
        for sheet in sheets:
            self._last[sheet.id] = sheet
            self._panels |= {(sheet.id, sheet.revision, panel.index): panel for panel in sheet.panels}

    def panel(self, goal: StreamedGoal) -> RecordedPanel | None:
        """The step in its last message of the sub-goal's own revision."""
        return self._panels.get((goal.id, goal.revision, goal.index))

    def pending(self, goal: StreamedGoal) -> tuple[RecordedPanel, ...]:
        """The steps after this one in the storyboard's last message that were never reached."""
        last = self._last.get(goal.id)
        return () if last is None else tuple(p for p in last.panels if p.pending and p.index > goal.index)

    def models(self, goal: StreamedGoal) -> tuple[str, str, str] | None:
        """The planner, editor and critic that made the sub-goal; None if no Storyboard tells."""
        last = self._last.get(goal.id)
        return None if last is None else last.models
