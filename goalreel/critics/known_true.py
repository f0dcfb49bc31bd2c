"""Candidates whose picture is known to show what they say: control questions whose true answer is yes."""

from collections.abc import Callable, Iterable, Iterator

from goalreel.claims import PERSON
from goalreel.image import Image
from goalreel.types import Candidate, Edit, Plan, Recordings, Storyboard, opener

type KnownTrue = Callable[[Candidate, Plan | None], Iterable[Candidate]]
"""Gives such candidates for a candidate of the run and the plan of its task, if somebody saw it."""


def accepted_by_people(board: Storyboard) -> Iterator[Candidate]:
    """Yield the steps of a storyboard whose goal image a person accepted."""
    before = board.task.image
    for number, (step, goal) in enumerate(zip(board.steps, board.goal_images(), strict=True)):
        looks = step.claims.looks
        is_accepted = looks is not None and looks.checked == PERSON and step.status == "accepted"
        if is_accepted and goal is not None and step.chosen is not None and not step.in_doubt:
            yield Candidate(
                task_id=board.task.id,
                step=number,
                source=before,
                image=goal,
                instruction=step.step.instruction,
                prompt=step.attempts[step.chosen].prompt,
            )
        before = goal or before


def observed(recordings: Recordings, camera: str) -> KnownTrue:
    """Offer the real frames of the step that a candidate is about, at its start and at its end.

    The plan must have been read off the recording, without a doubt about the step.
    """
    from goalreel.editors.hindsight import HindsightEditor

    frames = HindsightEditor(recordings, camera)
    open_recording = opener(recordings)

    def known_true(candidate: Candidate, plan: Plan | None) -> Iterator[Candidate]:
        if plan is None or plan.segments is None or candidate.image.recorded:
            return
        step, segment = plan.steps[candidate.step], plan.segments[candidate.step]
        if step.doubts or step.outcome != "done":
            return
        prompt = candidate.first_prompt or candidate.prompt
        task, number = candidate.task_id, candidate.step
        edit = Edit(task_id=task, step=number, attempt=0, image=None, prompt=prompt, seed=0, segment=segment)
        (goal,) = frames.edit([edit])
        if isinstance(goal, Image):
            (start,) = open_recording(task).frames(camera, [segment.start])
            size = candidate.image.size
            pictures = {"source": start.resized(size), "image": goal.resized(size)}
            yield candidate.model_copy(update={**pictures, "prompt": prompt, "first_prompt": None})

    return known_true
