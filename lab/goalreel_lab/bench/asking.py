"""Asks a model for many answers, a batch at a time."""

from collections.abc import Callable, Sequence

from goalreel.progress import OnProgress

BATCH = 16


def in_batches[Q, A](
    model: Callable[[Sequence[Q]], Sequence[A]], requests: Sequence[Q], stage: str, progress: OnProgress
) -> list[A]:
    """Ask for all answers, a batch at a time; answer i belongs to question i.

    Raises:
        ValueError: the model did not give one answer a question.
        goalreel.errors.BackendError: it cannot be called at all.
    """
    answers: list[A] = []
    for start in range(0, len(requests), BATCH):
        batch = requests[start : start + BATCH]
        replies = model(batch)
        if len(replies) != len(batch):
            raise ValueError(f"{stage}: {len(batch)} requests but {len(replies)} answers")
        answers += replies
        progress(stage, len(answers), len(requests))
    return answers
