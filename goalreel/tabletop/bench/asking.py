"""Asks a model for many answers, a batch at a time."""

from collections.abc import Callable, Sequence

from goalreel.progress import OnProgress

BATCH = 16


def in_batches[Q, A](
    model: Callable[[Sequence[Q]], Sequence[A]], asked: Sequence[Q], stage: str, progress: OnProgress
) -> list[A]:
    """Answer i belongs to question i.

    Raises:
        ValueError: the model did not give one answer a question.
        goalreel.errors.BackendError: it cannot be called at all.
    """
    answers: list[A] = []
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        got = model(batch)
        if len(got) != len(batch):
            raise ValueError(f"{stage}: {len(batch)} requests but {len(got)} answers")
        answers += got
        progress(stage, len(answers), len(asked))
    return answers
