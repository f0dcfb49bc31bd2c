"""The record of what a node showed, as the storyboard of the episode that was recorded meanwhile."""

import math

import numpy as np

from goalreel.datasets.bags.excerpts import Excerpt
from goalreel.datasets.bags.streamed_goals import (
    ACCEPTED,
    REJECTED,
    RecordedPanel,
    Shown,
    ShownSpan,
    Storyboards,
)
from goalreel.pixels import decode_compressed
from goalreel.types import (
    Attempt,
    Failure,
    Segment,
    Status,
    Step,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
)

NOT_JUDGED = "the recording holds no verdict on this picture"
WORDS_ONLY = "shown in words only"


def board(excerpt: Excerpt, storyboards: Storyboards, task: Task) -> Storyboard:
    """Every sub-goal that was shown, in order, with the frames at which it stood; then the steps never begun.

    A sub-goal whose picture changed while it stood appears once for each picture. One that stood between
    two frames keeps its place without a segment.

    Raises:
        ValueError: a goal image that cannot be read.
    """
    steps = [_shown(span, storyboards.panel(span.shown), excerpt) for span in excerpt.spans]
    if not steps:
        message = "no sub-goal was shown in this episode"
        return Storyboard(task=task, failure=Failure(stage="plan", message=message))
    for panel in storyboards.pending(excerpt.spans[-1].shown):
        steps.append(StoryboardStep(step=_step(panel, panel, excerpt.task)))
    return Storyboard(task=task, steps=tuple(steps))


def _shown(span: ShownSpan, panel: RecordedPanel | None, excerpt: Excerpt) -> StoryboardStep:
    shown = span.shown
    step = _step(shown, panel, excerpt.task)
    start, end = (int(i) for i in np.searchsorted(excerpt.moments, (span.start, span.end)))
    segment = Segment(start=start, end=end) if end > start else None
    if step.prompt is None:
        return StoryboardStep(step=step, segment=segment, status="text")
    attempt = _attempt(shown, panel, step.prompt)
    status: Status = "failed" if attempt.image is None else "verified" if shown.verified else "unverified"
    chosen = None if attempt.image is None else 0
    return StoryboardStep(step=step, segment=segment, attempts=(attempt,), status=status, chosen=chosen)


def _step(words: Shown | RecordedPanel, panel: RecordedPanel | None, task: str) -> Step:
    """The sub-goal in words; what the node left empty is filled from what it did say."""
    instruction = words.instruction or words.name or task
    return Step(
        name=words.name or instruction,
        instruction=instruction,
        prompt=None if words.in_words else (panel.prompt if panel else "") or instruction,
        auxiliary_text=words.auxiliary or None,
    )


def _attempt(shown: Shown, panel: RecordedPanel | None, prompt: str) -> Attempt:
    """What was shown as the one attempt; seeds and rejected pictures are not recorded."""
    if not shown.jpeg:
        return Attempt(prompt=prompt, seed=0, failure=Failure(stage="edit", message=WORDS_ONLY))
    image = decode_compressed(shown.jpeg)
    verdict = _verdict(shown, panel)
    if verdict is None:
        failure = Failure(stage="judge", message=NOT_JUDGED)
        return Attempt(prompt=prompt, seed=0, image=image, failure=failure)
    return Attempt(prompt=prompt, seed=0, image=image, verdict=verdict)


def _verdict(shown: Shown, panel: RecordedPanel | None) -> Verdict | None:
    """The Critic's, where it fits what was shown: the panel may tell of a later picture."""
    if panel is None or panel.verdict != (ACCEPTED if shown.verified else REJECTED):
        return Verdict(success=True) if shown.verified else None
    scores = {k: v for k, v in panel.scores if k in ("semantics", "quality") and math.isfinite(v)}
    return Verdict(
        success=shown.verified,
        reasoning=panel.reasoning,
        refined_prompt=panel.refined_prompt or None,
        probability=panel.probability if 0 <= panel.probability <= 1 else None,
        semantics=scores.get("semantics"),
        quality=scores.get("quality"),
    )
