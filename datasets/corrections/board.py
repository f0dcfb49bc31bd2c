"""A reviewed episode as the dataset, a corpus, and models that are asked again have it."""

from collections.abc import Mapping
from typing import Literal

from goalreel.boards.step import judged_by_person, status_of
from goalreel.claims import CLAIM_NAMES, NOBODY, PERSON, ClaimName, Claims
from goalreel.datasets.corrections.events import WORDS
from goalreel.datasets.corrections.state import CARRIED_END, FOLLOWED, TOOK, Review, ReviewPart, ReviewStep
from goalreel.types import Alignment, Attempt, Failure, Plan, Step, Storyboard, StoryboardStep, Verdict

type Why = Literal["accepted", "chosen", "wrong_picture", "kept_out"]
"""The reason why a goal image is right (the first two), or is not used."""
_TOLD: Mapping[Why, str] = {
    "accepted": "A person accepted it.",
    "chosen": "A person chose it.",
    "wrong_picture": "A person: wrong picture.",
    "kept_out": "A person keeps the step from the dataset.",
}
_BY_PEOPLE = {TOOK, *_TOLD.values()}
_CLAIMS: Mapping[ReviewPart, ClaimName] = {"time": "when", "words": "what", "outcome": "came_off"}
"""The claim that a person makes who sets a part; a goal image stays the recording's or the editor's."""


def corrected(review: Review) -> Storyboard:
    """The storyboard as the person has it.

    What is flagged as wrong and not mended, and every step of a rejected episode, is unaligned: it is no
    training data, whatever else is used. With the episode, its goal images are accepted; so is one that a
    person chose. A step that was left without a goal image is one in words alone, and one in words alone that
    was given a goal image is a step with a picture, whose prompt is what must become true.
    """
    phases = review.phases if review.failure is None else ()
    if not review.steps:
        failure = review.failure or Failure(stage="plan", message="a person removed every step")
        return Storyboard(task=review.task, failure=failure)
    return Storyboard(task=review.task, steps=tuple(_step(review, s) for s in review.steps), phases=phases)


def opinion(review: Review, step: ReviewStep) -> Why | None:
    """Say what a person thinks of a step's goal image; None where there is none, or they did not say."""
    if step.goal is None:
        return None
    if "wrong_picture" in step.issues:
        return "wrong_picture"
    if step.issues or review.verdict == "reject":
        return "kept_out"
    if "goal" in step.edited:
        return "chosen"
    return "accepted" if review.accepts(step) else None


def critic_words(verdict: Verdict) -> str:
    """The Critic's reasoning; empty where a person's verdict stands in its place."""
    return "" if verdict.reasoning in _BY_PEOPLE else verdict.reasoning


def plan(review: Review) -> Plan | None:
    """The person's steps as a plan, for models that are asked again; None where nobody corrected anything."""
    if not (review.corrected and review.steps):
        return None
    segments = [step.segment for step in review.steps]
    return Plan(
        steps=tuple(_wording(step) for step in review.steps),
        segments=None if None in segments else tuple(s for s in segments if s is not None),
        phases=review.phases,
    )


def has_followed(attempt: Attempt) -> bool:
    """Tell a frame that a step ended with at some time, and nobody chose, from others."""
    return attempt.verdict is not None and attempt.verdict.reasoning in (FOLLOWED, CARRIED_END)


def _step(review: Review, step: ReviewStep) -> StoryboardStep:
    kept = [n for n, attempt in enumerate(step.attempts) if n == step.chosen or not has_followed(attempt)]
    chosen = None if step.chosen is None else kept.index(step.chosen)
    step = step.updated(attempts=tuple(step.attempts[n] for n in kept), chosen=chosen)
    wording, attempts = _wording(step), _attempts(review, step)
    if review.accepts(step):
        wording = wording.model_copy(update={"doubts": ()})
    accepted = review.accepts(step) and step.segment is not None
    if chosen is None and ("goal" in step.edited or accepted):
        caption = wording.auxiliary_text if (wording.auxiliary_text or "").strip() else wording.instruction
        wording = wording.model_copy(update={"prompt": None, "auxiliary_text": caption})
    if wording.prompt is None:
        attempts = ()
    reason = None
    if step.issues:
        reason = f"a person: {', '.join(WORDS[issue] for issue in step.issues)}"
    elif review.verdict == "reject":
        reason = "a person rejected the episode"
    made = StoryboardStep(
        step=wording,
        segment=None if reason else step.segment,
        attempts=attempts,
        status=status_of(wording, attempts, chosen),
        chosen=chosen,
        alignment=Alignment(reason=reason) if reason else step.alignment,
    )
    return made.model_copy(update={"claims": _claims(review, step, made)})


def _claims(review: Review, step: ReviewStep, made: StoryboardStep) -> Claims:
    """The step's claims: people made what they set, and checked what they accepted and saw."""
    claims = made.claims
    goal = None if made.chosen is None else made.attempts[made.chosen]
    if goal is not None and goal.verdict is not None and goal.verdict.reasoning in _BY_PEOPLE:
        claims = claims.named({"critic": PERSON})
    if goal is not None and has_followed(goal) and claims.looks is not None:
        claims = claims.model_copy(update={"looks": claims.looks.model_copy(update={"checked": NOBODY})})
    checked: set[ClaimName] = set(CLAIM_NAMES) if review.accepts(step) else set()
    if "goal" in step.edited and not step.issues:
        checked.add("looks")
    return claims.by_person({_CLAIMS[part] for part in step.edited if part in _CLAIMS}, checked)


def _wording(step: ReviewStep) -> Step:
    """Its words, with a prompt where it has a goal image; those that a person wrote are in no doubt."""
    wording = step.step.model_copy(update={"doubts": step.doubts})
    if wording.prompt is not None or step.chosen is None:
        return wording
    return wording.model_copy(update={"prompt": wording.instruction})


def _attempts(review: Review, step: ReviewStep) -> tuple[Attempt, ...]:
    """Put a person's word over the Critic's."""
    why = opinion(review, step)
    if why is None or step.chosen is None:
        return step.attempts
    judged = judged_by_person(step.attempts[step.chosen], why in ("accepted", "chosen"), _TOLD[why])
    return (*step.attempts[: step.chosen], judged, *step.attempts[step.chosen + 1 :])
