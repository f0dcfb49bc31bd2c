"""The sub-goals that a node streamed, written into the recorded dataset as `annotate` writes its own."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from goalreel import __version__
from goalreel.claims import RECORDING, Claim, makers
from goalreel.datasets.bags.convert import cameras_of
from goalreel.datasets.bags.excerpts import (
    ACCEPTED,
    REJECTED,
    Cut,
    Excerpt,
    RecordedPanel,
    Storyboards,
    StreamedGoal,
    StreamedSpan,
)
from goalreel.datasets.bags.topics import TopicRequest
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import build
from goalreel.errors import DatasetError
from goalreel.image import decode_compressed
from goalreel.subgoal_camera import DEFAULT_FORM, SubGoalForm
from goalreel.types import (
    ROLES,
    Attempt,
    Failure,
    Segment,
    Step,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
)

NOT_JUDGED = "the recording holds no verdict on this picture"
WORDS_ONLY = "shown in words only"


def board(excerpt: Excerpt, storyboards: Storyboards, task: Task) -> Storyboard:
    """Make a storyboard of the sub-goals shown, each with its frames, and of the steps that never began.

    A sub-goal whose picture changed while it stood appears once for each picture. One that stood between
    two frames keeps its place without a segment.

    Raises:
        ValueError: a goal image that cannot be read.
    """
    steps = [_streamed_step(span, storyboards, excerpt) for span in excerpt.spans]
    if not steps:
        message = "no sub-goal was shown in this episode"
        return Storyboard(task=task, failure=Failure(stage="plan", message=message))
    for panel in storyboards.pending(excerpt.spans[-1].goal):
        steps.append(StoryboardStep(step=_step(panel, panel, excerpt.task)))
    return Storyboard(task=task, steps=tuple(steps))


def _streamed_step(span: StreamedSpan, storyboards: Storyboards, excerpt: Excerpt) -> StoryboardStep:
    goal, panel, models = span.goal, storyboards.panel(span.goal), storyboards.models(span.goal)
    step = _step(goal, panel, excerpt.task).model_copy(update={"doubts": goal.doubts})
    start, end = (int(i) for i in np.searchsorted(excerpt.moments, (span.start, span.end)))
    segment = Segment(start=start, end=end) if end > start else None
    made: dict[str, Any] = {"status": "text"}
    if step.prompt is not None:
        attempt = _attempt(goal, panel, step.prompt)
        chosen = None if attempt.image is None else 0
        made = {"attempts": (attempt,), "status": attempt.status, "chosen": chosen}
    shown = StoryboardStep(step=step, segment=segment, **made)
    # The bag holds when a sub-goal was shown, and not whether it came off.
    claims = shown.claims.named(makers(dict(zip(ROLES, models or (), strict=False)).get)).model_copy(
        update={"when": None if segment is None else Claim(by=RECORDING), "came_off": None}
    )
    for name, claim in claims.items():
        if name in ("what", "looks") and (message_claim := goal.claims.get(name)) is not None:
            doubts = tuple(dict.fromkeys((*claim.doubts, *message_claim.doubts)))
            claims = claims.model_copy(update={name: message_claim.model_copy(update={"doubts": doubts})})
    return shown.model_copy(update={"claims": claims})


def _step(goal: StreamedGoal | RecordedPanel, panel: RecordedPanel | None, task: str) -> Step:
    """Make a step from a sub-goal's texts; a text that the node left empty is taken from another."""
    instruction = goal.instruction or goal.name or task
    return Step(
        name=goal.name or instruction,
        instruction=instruction,
        prompt=None if goal.in_words else (panel.prompt if panel else "") or instruction,
        auxiliary_text=goal.auxiliary or None,
    )


def _attempt(goal: StreamedGoal, panel: RecordedPanel | None, prompt: str) -> Attempt:
    """Make the one attempt from the picture that was shown; bags hold neither seeds nor rejected pictures."""
    if not goal.jpeg:
        return Attempt(prompt=prompt, seed=0, failure=Failure(stage="edit", message=WORDS_ONLY))
    image, verdict = decode_compressed(goal.jpeg), _verdict(goal, panel)
    failure = None if verdict else Failure(stage="judge", message=NOT_JUDGED)
    return Attempt(prompt=prompt, seed=0, image=image, verdict=verdict, failure=failure)


def _verdict(goal: StreamedGoal, panel: RecordedPanel | None) -> Verdict | None:
    """Take the Critic's verdict where it fits the sub-goal; the panel may belong to a later picture."""
    if panel is None or panel.verdict != (ACCEPTED if goal.accepted else REJECTED):
        return Verdict(success=True) if goal.accepted else None
    scores = {k: v for k, v in panel.scores.items() if math.isfinite(v)}
    return Verdict(
        success=goal.accepted,
        reasoning=panel.reasoning,
        refined_prompt=panel.refined_prompt or None,
        probability=panel.probability if 0 <= panel.probability <= 1 else None,
        semantics=scores.get("semantics"),
        quality=scores.get("quality"),
    )


def has_goals(cuts: dict[Path, Cut]) -> bool:
    """Tell if a node showed any sub-goal while the bags were recorded."""
    return any(excerpt.spans for each in cuts.values() for excerpt in each.excerpts)


def write_goals(
    recorded: Path,
    out: Path,
    cuts: dict[Path, Cut],
    request: TopicRequest,
    *,
    use_rejected: bool = False,
    form: SubGoalForm = DEFAULT_FORM,
    progress: Callable[[int, int], None] | None = None,
) -> list[Storyboard]:
    """Make `out` from the dataset `recorded`, which `convert` made from the same `cuts`. Resumes.

    Its sub-goal camera shows the goals in `form`, whatever the node showed.

    Raises:
        DatasetError: as `build`; a goal image that cannot be read.
    """
    camera = cameras_of(cuts)[0]
    source = Source.open(recorded)
    provenance = {"use_rejected": use_rejected, "subgoal_form": form, "goalreel": __version__}
    settings = {**request.model_dump(), **provenance}
    boards = []
    with Records.open(out, settings, source.fingerprint()) as records:
        done = records.done()
        everything = ((path, e, each.storyboards) for path, each in cuts.items() for e in each.excerpts)
        for index, (path, excerpt, storyboards) in enumerate(everything):
            first = source.episode(index).frames(camera, [0])[0]
            task = Task(id=f"episode_{index:06d}", instruction=excerpt.task, image=first)
            try:
                boards.append(board(excerpt, storyboards, task))
            except ValueError as e:
                raise DatasetError(f"{path}: a goal image of episode {index}: {e}") from e
            if index not in done:
                records.commit(index, boards[-1])
        build(source, out, records, camera=camera, use_rejected=use_rejected, form=form, progress=progress)
    return boards
