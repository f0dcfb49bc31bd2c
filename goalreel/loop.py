"""The storyboard loop of InterleaveThinker (arXiv 2606.13679) as a generator without I/O.

It yields a Task (plan this), an Edit (render this) or a Candidate (judge this) and is sent the answer;
it never calls a model, a file or a clock. Drivers decide how requests become model calls.
"""

import hashlib
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Required, TypedDict, Unpack

from goalreel.image import Image, misshapen
from goalreel.terms import Background, Keep, OnRejected, References
from goalreel.types import (
    Answer,
    Attempt,
    Candidate,
    Edit,
    EndCheck,
    Failure,
    Plan,
    Request,
    Segment,
    Step,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
)

type Trajectory[Result] = Generator[Request, Answer, Result]


KEEP_STILL = "Keep the camera and the background exactly where they are."
"""Sentence added to a prompt after an edit that moved them too far."""
MAX_REFERENCES = 13
"""The most pictures that an edit carries beside its source: Gemini's image models take 14, OpenAI's 16."""
TASK = ". In all: "
"""Mark in the text of a whole task, between the states and the task's own words."""


class LoopArguments(TypedDict, total=False):
    """Settings of the loop: the keywords of `storyboard`, and of the drivers."""

    max_attempts: Required[int]
    on_rejected: OnRejected
    keep: Keep
    references: References
    background: Background
    confirms: Callable[[int], bool]


def storyboard(
    task: Task,
    *,
    max_attempts: int,
    on_rejected: OnRejected = "continue",
    keep: Keep = "best",
    references: References = "none",
    background: Background = "correct",
    confirms: Callable[[int], bool] = lambda steps: False,
) -> Trajectory[Storyboard]:
    """Plan a task once, then draw and judge each step, as a generator without I/O.

    It yields a request (a `Task`, an `Edit` or a `Candidate`) and is sent the answer; `goalreel.run` drives
    it. An accepted goal image is the source of the next step, in the editor's own size. A step in words alone
    changes no picture.

    Args:
        task: the instruction and the scene.
        max_attempts: pictures of a step, at most (the paper's T).
        on_rejected: what to do if the Critic accepts no picture of a step. `continue` goes on from the
            picture that `keep` chooses, or from the previous step's if there is none; `stop` skips the rest.
        keep: which picture stays if all were rejected: the `best` by scores or probability, or the `last`.
        references: which pictures an edit carries beside its source.
        background: what to do if an edit moved the camera's view.
        confirms: tells whether the Critic is asked about the whole task of so many steps, once all have come
            off. It is not asked about a recording, or where rules alone judge.

    Returns:
        The storyboard, as the generator's return value.

    Raises:
        ValueError: `max_attempts` is less than 1.
        TypeError: a driver sent an answer of the wrong kind.
    """
    if max_attempts < 1:
        raise ValueError(f"max_attempts must be at least 1, got {max_attempts}")
    plan = _expect(Plan, (yield task))
    if isinstance(plan, Failure):
        return Storyboard(task=task, failure=plan)
    done: list[StoryboardStep] = []
    image = task.image
    pictures = [*task.images, *([image] if image else [])]
    for index, step in enumerate(plan.steps):
        segment = plan.segments[index] if plan.segments else None
        if on_rejected == "stop" and done and not done[-1].usable:
            done.append(StoryboardStep(step=step, segment=segment))
            continue
        shown = choose_references(references, pictures, image)
        drawing = StepDrawing(task, index, step, image, segment, shown, background)
        result = yield from render_step(drawing, max_attempts, keep)
        done.append(result)
        if result.goal_image:
            image = result.goal_image
            pictures.append(image)
    told: dict[str, Any] = {name: getattr(plan, name) for name in ("phases", "reasoning", "missing")}
    board = Storyboard(task=task, steps=tuple(done), **told)
    question = None if plan.segments else end_question(task, done)
    if question is None or not confirms(len(task.done) + len(done)):
        return board
    answer = _expect(Verdict, (yield question))
    if isinstance(answer, Verdict) and answer.pictures_only:
        return board
    return board.model_copy(update={"end": EndCheck(answer=answer)})


def best_storyboard(task: Task, num_draws: int, **loop: Unpack[LoopArguments]) -> Trajectory[Storyboard]:
    """Draw storyboards until one is complete, at most `num_draws`; if none is, keep the Critic's likeliest.

    Each draw asks the Planner again, and has a seed of its own, which is that of its `Storyboard.task`.
    Storyboards that a model failed at are the last ones.
    """
    if num_draws < 1:
        raise ValueError(f"num_draws must be at least 1, got {num_draws}")
    boards: list[Storyboard] = []
    for number in range(num_draws):
        seed = attempt_seed(task.seed, 0, -number) if number else task.seed
        boards.append((yield from storyboard(task.model_copy(update={"seed": seed}), **loop)))
        if boards[-1].complete or boards[-1].degraded:
            break
    kept = max(range(len(boards)), key=lambda i: (boards[i].complete, likelihood(boards[i])))
    return boards[kept].model_copy(update={"kept": kept + 1, "drawn": len(boards)} if num_draws > 1 else {})


def likelihood(board: Storyboard) -> float:
    """Sum the logarithms of the Critic's probabilities of the goal images and of the end.

    What has no answer has a probability of 10^-6, and so has a no without one.
    """
    chosen = [None if s.chosen is None else s.attempts[s.chosen].verdict for s in board.steps if s.attempts]
    answers = [*chosen, board.end.answer if board.end else None]
    verdicts = [answer if isinstance(answer, Verdict) else Verdict(success=False) for answer in answers]
    chances = [float(v.success) if v.probability is None else v.probability for v in verdicts]
    return sum(math.log(max(chance, 1e-6)) for chance in chances)


def choose_references(
    references: References, pictures: Sequence[Image], source: Image | None
) -> tuple[Image, ...]:
    """Choose the pictures that an edit of `source` carries, from the `pictures` so far, the oldest first.

    At most `MAX_REFERENCES`: the first, and the newest of the others. An edit without a source carries none.
    """
    if references == "none" or source is None:
        return ()
    others = tuple(dict.fromkeys(image for image in pictures if image != source))
    return others[:1] if references == "first" else others[:1] + others[1:][-MAX_REFERENCES + 1 :]


@dataclass(frozen=True)
class StepDrawing:
    """All that is drawn from in every attempt at step `index` of a task."""

    task: Task
    index: int
    step: Step
    source: Image | None
    segment: Segment | None = None
    references: tuple[Image, ...] = ()
    background: Background = "correct"


def render_step(
    drawing: StepDrawing,
    max_attempts: int,
    keep: Keep = "best",
    *,
    on_attempt: Callable[[Attempt], object] = lambda attempt: None,
) -> Trajectory[StoryboardStep]:
    """Draw and judge one step, at most `max_attempts` times (1 or more); tell `on_attempt` each attempt."""
    step, segment, prompt = drawing.step, drawing.segment, drawing.step.prompt
    if prompt is None:
        return StoryboardStep(step=step, segment=segment, status="text")
    attempts: list[Attempt] = []
    for number in range(max_attempts):
        result = yield from attempt(drawing, prompt, number)
        attempts.append(result)
        on_attempt(result)
        if result.accepted:
            break
        prompt = (result.verdict and result.verdict.refined_prompt) or prompt
    chosen = _choose(attempts, keep)
    return StoryboardStep(
        step=step,
        segment=segment,
        attempts=tuple(attempts),
        status="failed" if chosen is None else attempts[chosen].status,
        chosen=chosen,
    )


def attempt(drawing: StepDrawing, prompt: str, number: int) -> Trajectory[Attempt]:
    """Draw a step once by `prompt`, and judge the picture; attempts are numbered from 0.

    A picture that is its own source, or whose background moved too far, is rejected before the Critic sees
    it. A recorded frame is not measured: a real camera may move. A picture of another shape than its source's
    is a failure.
    """
    source, background = drawing.source, drawing.background
    place = {"task_id": drawing.task.id, "step": drawing.index}
    seed = attempt_seed(drawing.task.seed, drawing.index, number)
    edit = Edit(
        **place,
        attempt=number,
        image=source,
        prompt=prompt,
        seed=seed,
        segment=drawing.segment,
        references=drawing.references,
    )
    image = _expect(Image, (yield edit))
    made: dict[str, Any] = {"prompt": prompt, "seed": seed}
    if isinstance(image, Failure):
        return Attempt(**made, failure=image)
    edited = source is not None and not image.recorded
    if edited and (problem := misshapen(image.size, source.size)):
        return Attempt(**made, failure=Failure(stage="edit", message=problem))
    if edited and image == source.resized(image.size):
        same = Verdict(success=False, reasoning="Nothing was changed.", pictures_only=True)
        return Attempt(**made, image=image, verdict=same)
    if edited and background != "ignore":
        from goalreel.registration import register  # OpenCV, which few commands need

        measured, image = register(source, image, background)
        made["registration"] = measured
        if measured.outcome == "rejected":
            still = prompt if KEEP_STILL in prompt else f"{prompt} {KEEP_STILL}"
            moved = Verdict(success=False, reasoning=measured.line, refined_prompt=still, pictures_only=True)
            return Attempt(**made, image=image, verdict=moved)
    candidate = Candidate(
        **place,
        source=source,
        image=image,
        instruction=drawing.step.instruction,
        prompt=prompt,
        first_prompt=drawing.step.prompt,
    )
    verdict = _expect(Verdict, (yield candidate))
    if isinstance(verdict, Failure):
        return Attempt(**made, image=image, failure=verdict)
    return Attempt(**made, image=image, verdict=verdict)


def attempt_seed(task_seed: int, step: int, attempt: int) -> int:
    """Compute the seed of one attempt, in [0, 2**32). It differs for each attempt, in any order of calls."""
    digest = hashlib.blake2b(f"{task_seed}/{step}/{attempt}".encode(), digest_size=4)
    return int.from_bytes(digest.digest())


def _choose(attempts: list[Attempt], keep: Keep) -> int | None:
    """Choose the accepted attempt, else the one that `keep` names; None if no attempt has a picture."""

    def rank(number: int) -> tuple[bool, bool, float, float, int]:
        verdict, measured = attempts[number].verdict, attempts[number].registration
        if verdict is None or keep == "last":
            return (attempts[number].accepted, True, -1.0, -1.0, number)
        still = measured is None or measured.outcome != "rejected"
        score, probability = (-1.0 if v is None else v for v in (verdict.score, verdict.probability))
        return (verdict.success, still, score, probability, number)

    return max((n for n, a in enumerate(attempts) if a.image is not None), key=rank, default=None)


def _expect[T](kind: type[T], answer: Answer) -> T | Failure:
    if not isinstance(answer, (kind, Failure)):
        raise TypeError(f"expected {kind.__name__} or Failure, got {type(answer).__name__}")
    return answer


def whole_state(task: str, states: Sequence[str]) -> str:
    """The final state of a task: the state of each sub-goal, and the task in its own words.

    A planner may misread the task, and the task may omit something: the Critic reads both.
    """
    return f"{'; '.join(state.strip().rstrip('.') for state in states)}{TASK}{task.strip()}"


def is_whole(candidate: Candidate) -> bool:
    """Tell whether a candidate is a question about a whole task (`end_question`)."""
    return candidate.instruction.endswith(f"{TASK}{candidate.prompt.strip()}")


def states_in(whole: str) -> str:
    """The part of a `whole_state` that lists the states."""
    return whole.rpartition(TASK)[0] or whole


def end_question(task: Task, steps: Sequence[StoryboardStep]) -> Candidate | None:
    """Ask whether the last goal image shows the whole task; None where a step has not come off.

    It comes after the steps: `Candidate.step` is their number.
    """
    goals = [step.goal_image for step in steps if step.goal_image is not None]
    if not goals or not all(step.usable for step in steps):
        return None
    states = [done.instruction for done in task.done] + [step.step.instruction for step in steps]
    return Candidate(
        task_id=task.id,
        step=len(steps),
        source=task.image,
        image=goals[-1],
        instruction=whole_state(task.instruction, states),
        prompt=task.instruction,
    )
