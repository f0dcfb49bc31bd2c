"""The sub-goals that a goalreel node streamed while a bag was recorded: when each was shown, and as what.

Sub-goals and steps are the messages of goalreel_interfaces themselves (SubGoal, StoryboardStep).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from goalreel.claims import NOBODY, RECORDING, UNKNOWN, Claim, makers
from goalreel.datasets.bags.timeline import SECOND, Stamps, Track
from goalreel.image import decode_compressed
from goalreel.types import ROLES, Attempt, Failure, Segment, Step, Storyboard, StoryboardStep, Task, Verdict

IMAGE_ACCEPTED, IMAGE_TEXT, IMAGE_VERIFIED = 3, 6, 8
ACCEPTED, REJECTED = 1, 2
PENDING = 0
LEASE = 3 * SECOND // 2
"""Silence after which followers of a node take it for gone."""


@dataclass(frozen=True, slots=True)
class StreamedSpan:
    """The time from `start` to `end` (exclusive, ns) during which a SubGoal message held."""

    start: int
    end: int
    goal: Any

    @property
    def id(self) -> bytes:
        """The storyboard's."""
        return bytes(self.goal.storyboard_id.uuid)


def spans(track: Track, end: int, beats: Sequence[int] = ()) -> list[StreamedSpan]:
    """Find when each active sub-goal was shown, in order; gaps are pauses. The last ends by `end` (ns).

    A message that repeats its predecessor (a latched topic heard again) is no new span. Where the node gave
    `beats` of its heartbeat, a sub-goal ends `LEASE` after one that no other follows: the node was gone, or
    hung.
    """
    messages: list[tuple[int, Any]] = []
    for at, goal in zip(track.stamps.tolist(), track.payloads, strict=True):
        if not messages or _shown(messages[-1][1]) != _shown(goal):
            messages.append((at, goal))
    ends = [at for at, _ in messages[1:]] + [end]
    spans = [StreamedSpan(at, stop, m) for (at, m), stop in zip(messages, ends, strict=True) if m.active]
    for last, following in pairwise([*beats, end]):
        if following - last > LEASE:
            before = [replace(span, end=min(span.end, last + LEASE)) for span in spans]
            after = [replace(span, start=max(span.start, following)) for span in spans]
            parts = (part for pair in zip(before, after, strict=True) for part in pair)
            spans = [part for part in parts if part.start < part.end]
    return spans


def _shown(goal: Any) -> tuple[object, ...]:
    """All that a follower of the node is shown; claims and doubts are no part of it."""
    words = (goal.task, goal.name, goal.instruction, goal.auxiliary_text)
    picture = (bytes(goal.goal_image.data), _is_accepted(goal), _is_worded(goal))
    return bytes(goal.storyboard_id.uuid), goal.revision, goal.index, goal.active, *words, *picture


def _is_accepted(goal: Any) -> bool:
    return goal.image_status in (IMAGE_ACCEPTED, IMAGE_VERIFIED)


def _is_worded(goal: Any) -> bool:
    """Tell if a sub-goal was planned without a picture; one whose picture was lost was not."""
    is_bare = not len(goal.goal_image.data) and bool(goal.auxiliary_text.strip())
    return is_bare and goal.image_status in (IMAGE_ACCEPTED, IMAGE_TEXT)


def without_pictures(storyboard: Any) -> Any:
    """Take the pictures out of a Storyboard message: the sub-goals have those that count."""
    storyboard.source_image = None
    for step in storyboard.steps:
        step.goal_image = None
    return storyboard


class Storyboards:
    """The Storyboard messages of a bag, in which the step of a sub-goal can be looked up."""

    def __init__(self, messages: Iterable[Any]) -> None:
        self._last: dict[bytes, Any] = {}
        self._steps: dict[tuple[bytes, int, int], Any] = {}
        for message in messages:
            id = bytes(message.id.uuid)
            self._last[id] = message
            self._steps |= {(id, message.revision, step.index): step for step in message.steps}

    def step(self, span: StreamedSpan) -> Any:
        """The step in its last message of the sub-goal's own revision; None if there is none."""
        return self._steps.get((span.id, span.goal.revision, span.goal.index))

    def pending(self, span: StreamedSpan) -> list[Any]:
        """The steps after this one in the storyboard's last message that were never reached."""
        steps = self._last[span.id].steps if span.id in self._last else ()
        return [step for step in steps if step.status == PENDING and step.index > span.goal.index]

    def models(self, span: StreamedSpan) -> tuple[str, ...]:
        """The planner, editor and critic that made the sub-goal; empty if no Storyboard tells."""
        last = self._last.get(span.id)
        return (last.planner_model, last.editor_model, last.critic_model) if last else ()


def board(shown: Sequence[StreamedSpan], moments: Stamps, storyboards: Storyboards, task: Task) -> Storyboard:
    """Make a storyboard of the sub-goals shown, each with its frames, and of the steps that never began.

    A sub-goal whose picture changed while it stood appears once for each picture. One that stood between
    two frames keeps its place without a segment. `moments` are the times of the frames (ns).

    Raises:
        ValueError: a goal image that cannot be read.
    """
    if not shown:
        failure = Failure(stage="plan", message="no sub-goal was shown in this episode")
        return Storyboard(task=task, failure=failure)
    steps = [_shown_step(span, moments, storyboards, task) for span in shown]
    for step in storyboards.pending(shown[-1]):
        is_worded = not step.prompt.strip() and bool(step.auxiliary_text.strip())
        steps.append(StoryboardStep(step=_step(step, None if is_worded else step.prompt.strip(), task)))
    return Storyboard(task=task, steps=tuple(steps))


def _shown_step(span: StreamedSpan, moments: Stamps, storyboards: Storyboards, task: Task) -> StoryboardStep:
    goal, planned, models = span.goal, storyboards.step(span), storyboards.models(span)
    # As `goalreel.types.failure_lines` begins those on the planner.
    doubts = tuple(line for line in goal.degraded if line.startswith("the planner failed"))
    prompt = None if _is_worded(goal) else planned.prompt.strip() if planned else ""
    step = _step(goal, prompt, task).model_copy(update={"doubts": doubts})
    start, end = (int(i) for i in np.searchsorted(moments, (span.start, span.end)))
    segment = Segment(start=start, end=end) if end > start else None
    made: dict[str, Any] = {"status": "text"}
    if step.prompt is not None:
        attempt = _attempt(goal, planned, step.prompt)
        chosen = None if attempt.image is None else 0
        made = {"attempts": (attempt,), "status": attempt.status, "chosen": chosen}
    shown = StoryboardStep(step=step, segment=segment, **made)
    # The bag holds when a sub-goal was shown, and not whether it came off.
    when = None if segment is None else Claim(by=RECORDING)
    new: dict[str, Claim | None] = {"when": when, "came_off": None}
    claims = shown.claims.named(makers(dict(zip(ROLES, models, strict=False)).get))
    own = dict(claims.items())
    for m in goal.claims:
        if m.claim in ("what", "looks") and m.claim in own:
            doubts = tuple(dict.fromkeys((*own[m.claim].doubts, *m.doubts)))
            new[m.claim] = Claim(by=m.by or UNKNOWN, checked=m.checked or NOBODY, doubts=doubts)
    return shown.model_copy(update={"claims": claims.model_copy(update=new)})


def _step(message: Any, prompt: str | None, task: Task) -> Step:
    """Make a step from a message's texts; a text that the node left empty is taken from another."""
    name = message.name.strip()
    instruction = message.instruction.strip() or name or task.instruction
    return Step(
        name=name or instruction,
        instruction=instruction,
        prompt=None if prompt is None else prompt or instruction,
        auxiliary_text=message.auxiliary_text or None,
    )


def _attempt(goal: Any, planned: Any, prompt: str) -> Attempt:
    """Make the one attempt from the picture that was shown; bags hold neither seeds nor rejected pictures."""
    if not len(goal.goal_image.data):
        failure = Failure(stage="edit", message="shown in words only")
        return Attempt(prompt=prompt, seed=0, failure=failure)
    image, verdict = decode_compressed(bytes(goal.goal_image.data)), _verdict(goal, planned)
    missing = Failure(stage="judge", message="the recording holds no verdict on this picture")
    return Attempt(prompt=prompt, seed=0, image=image, verdict=verdict, failure=None if verdict else missing)


def _verdict(goal: Any, planned: Any) -> Verdict | None:
    """Take the Critic's verdict where it fits the sub-goal; the step may tell of a later picture."""
    is_accepted = _is_accepted(goal)
    if planned is None or planned.critic.verdict != (ACCEPTED if is_accepted else REJECTED):
        return Verdict(success=True) if is_accepted else None
    critic, probability = planned.critic, float(planned.critic.probability)
    scores = {s.criterion: float(s.score) for s in critic.scores if math.isfinite(s.score)}
    return Verdict(
        success=is_accepted,
        reasoning=critic.reasoning,
        refined_prompt=critic.refined_prompt.strip() or None,
        probability=probability if 0 <= probability <= 1 else None,
        semantics=scores.get("semantics"),
        quality=scores.get("quality"),
    )
