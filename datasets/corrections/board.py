"""What a reviewed episode is to the dataset, to a corpus, and to the models that are asked again."""

from collections.abc import Iterator, Mapping

from goalreel.datasets.corrections.events import Issue
from goalreel.datasets.corrections.state import Review, ReviewStep
from goalreel.types import Alignment, Attempt, Failure, Plan, Status, Storyboard, StoryboardStep, Verdict

WORDS: Mapping[Issue, str] = {
    "wrong_object": "wrong object",
    "wrong_time": "wrong time",
    "missing": "something is missing",
    "extra": "an extra step",
    "wrong_picture": "wrong picture",
}
"""An issue as a reader has it."""
ACCEPTED = "A person accepted it."
REJECTED = "A person rejected it."


def corrected(review: Review) -> Storyboard:
    """The storyboard as the person has it.

    What is flagged as wrong and not mended, and every step of a rejected episode, is unaligned: it is no
    training data, whatever else is used. With the episode, its goal images are accepted; so is one that a
    person chose. A step that was left without a goal image is one in words alone.
    """
    phases = review.phases if review.failure is None else ()
    if not review.steps:
        failure = review.failure or Failure(stage="plan", message="a person removed every step")
        return Storyboard(task=review.task, failure=failure)
    return Storyboard(task=review.task, steps=tuple(_step(review, s) for s in review.steps), phases=phases)


def said(review: Review) -> dict[tuple[int, int], Verdict]:
    """What a person said of the pictures, by (step, attempt) of the corrected storyboard.

    The goal images of an accepted episode and those that they chose are right; one flagged as wrong is not.
    """
    return dict(_said(review))


def plan(review: Review) -> Plan | None:
    """The person's steps as a plan, for models that are asked again; None where nobody corrected anything."""
    if not (review.corrected and review.steps):
        return None
    segments = [step.segment for step in review.steps]
    return Plan(
        steps=tuple(step.step for step in review.steps),
        segments=None if None in segments else tuple(s for s in segments if s is not None),
        phases=review.phases,
    )


def _step(review: Review, step: ReviewStep) -> StoryboardStep:
    words, attempts = step.step, _attempts(review, step)
    status, chosen = _status(step, attempts), step.chosen
    accepted = review.verdict == "accept" and step.segment is not None
    if words.prompt is not None and chosen is None and ("goal" in step.edited or accepted):
        caption = words.auxiliary_text if (words.auxiliary_text or "").strip() else words.instruction
        words = words.model_copy(update={"prompt": None, "auxiliary_text": caption})
        status, attempts = "text", ()
    reason = _reason(review, step)
    return StoryboardStep(
        step=words,
        segment=None if reason else step.segment,
        attempts=attempts,
        status=status,
        chosen=chosen,
        alignment=Alignment(reason=reason) if reason else step.alignment,
    )


def _reason(review: Review, step: ReviewStep) -> str | None:
    """Why a person keeps the step from the dataset."""
    if step.issues:
        return f"a person: {', '.join(WORDS[issue] for issue in step.issues)}"
    return "a person rejected the episode" if review.verdict == "reject" else None


def _status(step: ReviewStep, attempts: tuple[Attempt, ...]) -> Status:
    if step.chosen is not None:
        verdict = attempts[step.chosen].verdict
        return "verified" if verdict is not None and verdict.success else "unverified"
    if attempts:
        return "failed"
    return "text" if step.step.prompt is None else "skipped"


def _attempts(review: Review, step: ReviewStep) -> tuple[Attempt, ...]:
    """The attempts, with a person's word over the Critic's."""
    attempts = list(step.attempts)
    for number, verdict in _of_step(review, step):
        there = attempts[number].verdict
        if there is None or there.success != verdict.success:
            attempts[number] = attempts[number].model_copy(update={"verdict": verdict, "failure": None})
    return tuple(attempts)


def _said(review: Review) -> Iterator[tuple[tuple[int, int], Verdict]]:
    for place, step in enumerate(review.steps):
        for number, verdict in _of_step(review, step):
            yield (place, number), verdict


def _of_step(review: Review, step: ReviewStep) -> Iterator[tuple[int, Verdict]]:
    chosen = step.chosen
    if chosen is None or step.attempts[chosen].image is None:
        return
    if "wrong_picture" in step.issues:
        yield chosen, Verdict(success=False, reasoning="A person: wrong picture.")
    elif review.verdict == "accept" or "goal" in step.edited:
        yield chosen, Verdict(success=True, reasoning=ACCEPTED)
