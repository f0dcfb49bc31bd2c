"""Storyboards told in a few words: attempts as (prompt, accepted), with a picture of their own each."""

import itertools

import numpy as np

from goalreel.image import Image
from goalreel.types import Attempt, Failure, Step, Storyboard, StoryboardStep, Task, Verdict

_SHADES = itertools.count()


def shade() -> Image:
    """A picture unlike all others."""
    number = next(_SHADES)
    return Image(np.full((8, 10, 3), (number % 256, number // 256, 7), np.uint8))


def picture(width: int = 8, height: int = 6, value: int = 0) -> Image:
    return Image(np.full((height, width, 3), value, np.uint8))


def attempt(prompt: str, success: bool, scores: tuple[float, float] | None = None) -> Attempt:
    semantics, quality = scores or (None, None)
    verdict = Verdict(
        success=success,
        reasoning=f"I see that it is {'well' if success else 'amiss'}.",
        refined_prompt=None if success else f"{prompt}, really",
        semantics=semantics,
        quality=quality,
    )
    return Attempt(prompt=prompt, seed=0, image=shade(), verdict=verdict)


def failed(prompt: str) -> Attempt:
    return Attempt(prompt=prompt, seed=0, failure=Failure(stage="edit", message="no picture"))


def step(name: str, *attempts: Attempt) -> StoryboardStep:
    """A step with these attempts: the last accepted is chosen, else the last with a picture."""
    plan = Step(name=name, instruction=f"{name} is done", prompt=f"do {name}")
    if not attempts:
        return StoryboardStep(step=plan)
    pictured = [i for i, a in enumerate(attempts) if a.image is not None]
    good = [i for i in pictured if (v := attempts[i].verdict) is not None and v.success]
    chosen = good[-1] if good else pictured[-1] if pictured else None
    status = "accepted" if good else "rejected" if pictured else "failed"
    return StoryboardStep(step=plan, attempts=attempts, status=status, chosen=chosen)


def words(name: str) -> StoryboardStep:
    plan = Step(name=name, instruction=f"{name} is said", prompt=None, auxiliary_text="Mind the gap.")
    return StoryboardStep(step=plan, status="text")


def board(*steps: StoryboardStep, image: bool = True, instruction: str = "tidy up") -> Storyboard:
    return Storyboard(
        task=Task(id="task", instruction=instruction, image=shade() if image else None), steps=steps
    )


def unplanned() -> Storyboard:
    return Storyboard(
        task=Task(id="task", instruction="tidy up"), failure=Failure(stage="plan", message="no plan")
    )
