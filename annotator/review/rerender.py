"""Another picture of a step, by the editor and the Critic that the dataset was annotated with."""

import threading
from collections.abc import Mapping
from typing import Any

from goalreel.annotator.review.session import ReviewSession
from goalreel.boards.words import FRAME
from goalreel.datasets.corrections.state import Review
from goalreel.datasets.episode import Episode
from goalreel.drivers import run_trajectory
from goalreel.errors import DatasetError, InputError
from goalreel.image import Image
from goalreel.loop import attempt
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
            return self._attempt(
                self._models, review, review.place(step), prompt, self._session.episode(index)
            )
        finally:
            self._lock.release()

    def _attempt(self, models: ModelSet, review: Review, at: int, prompt: str, episode: Episode) -> Attempt:
        step, source = review.steps[at], self._source(review, at, episode)
        number = len(step.attempts)
        background = models.provenance.preset.background
        trajectory = attempt(
            review.task, at, step.step, step.segment, source, prompt, number, background=background
        )
        return run_trajectory(trajectory, models.ask)

    def _source(self, review: Review, at: int, episode: Episode) -> Image | None:
        """The goal image of the last step before this one that has one, or else the task's picture."""
        goals = [step.goal for step in review.steps[:at] if step.goal is not None]
        image = review.task.image
        reference = goals[-1] if goals else image.frame if image else None
        if reference is None:
            return image
        if not reference.startswith(FRAME):
            return self._session.reviews.records.image(reference)
        camera, _, frame = reference.removeprefix(FRAME).rpartition("#")
        return episode.frames(camera, [int(frame)])[0]


def _models_of(session: ReviewSession) -> ModelSet | None:
    """The models of the dataset's settings, not loaded yet; None where these name none that can be."""
    preset = _preset(session.reviews.records.settings())
    if preset is None:
        return None
    try:
        return load(preset, recordings=session.options.recorded(session.source), roles=())
    except (InputError, DatasetError):
        return None


def _preset(settings: Mapping[str, Any]) -> Preset | None:
    values = {field: settings[field] for field in Preset.model_fields if settings.get(field) is not None}
    try:
        return Preset.model_validate(values)
    except ValueError:
        return None
