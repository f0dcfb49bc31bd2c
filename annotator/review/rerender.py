"""Another picture of a step, by the editor and the Critic that the dataset was annotated with."""

import threading

from pydantic import ValidationError

from goalreel.annotator.review.session import ReviewSession
from goalreel.boards.step import FRAME
from goalreel.datasets.corrections.state import Review
from goalreel.drivers import run_trajectory
from goalreel.errors import DatasetError, InputError
from goalreel.image import Image
from goalreel.loop import StepDrawing, attempt
from goalreel.models.load import load
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.types import Attempt


class Busy(Exception):
    """Another picture is being made."""


class Rerenderer:
    """Makes one picture at a time. The models are loaded when the first one is asked for."""

    def __init__(self, session: ReviewSession, models: ModelSet | None = None) -> None:
        """Take the models to ask; None takes those that the dataset was annotated with."""
        self._session = session
        self._models = models or _models_of(session)
        self._lock = threading.Lock()

    @property
    def can_render(self) -> bool:
        """There are models to ask."""
        return self._models is not None

    def render(self, index: int, step: str, prompt: str) -> Attempt:
        """Render a step once by a prompt, from the goal image before it, and judge it.

        What a model could not do is the attempt's failure.

        Raises:
            Busy: another picture is being made.
            InputError: no such step, or no models.
            UserError, OSError, ModuleNotFoundError: a model cannot be loaded or called.
        """
        if self._models is None:
            raise InputError("the models that this dataset was annotated with cannot be loaded here")
        if not self._lock.acquire(blocking=False):
            raise Busy
        try:
            review = self._session.look(index).review
            place = review.place(step)
            edited, source = review.steps[place], self._source(index, review, place)
            background = self._models.provenance.preset.background
            drawing = StepDrawing(
                review.task, place, edited.step, source, edited.segment, background=background
            )
            trajectory = attempt(drawing, prompt, len(edited.attempts))
            return run_trajectory(trajectory, self._models.ask)
        finally:
            self._lock.release()

    def _source(self, index: int, review: Review, place: int) -> Image | None:
        """The goal image of the last step before this one that has one, or else the task's picture."""
        goals = [step.goal for step in review.steps[:place] if step.goal is not None]
        image = review.task.image
        reference = goals[-1] if goals else image.frame if image else None
        if reference is None:
            return image
        if not reference.startswith(FRAME):
            return self._session.reviews.records.image(reference)
        camera, _, frame = reference.removeprefix(FRAME).rpartition("#")
        return self._session.episode(index).frames(camera, [int(frame)])[0]


def _models_of(session: ReviewSession) -> ModelSet | None:
    """The models of the dataset's settings, not loaded yet; None where these name none that can be."""
    settings = session.reviews.records.settings()
    values = {field: settings[field] for field in Preset.model_fields if settings.get(field) is not None}
    try:
        preset = Preset.model_validate(values)
        return load(preset, recordings=session.options.recorded(session.source), roles=())
    except (InputError, DatasetError, ValidationError):
        return None
