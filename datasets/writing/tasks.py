"""Sub-tasks as lerobot tasks: `task_index` a frame, for policies that read no language column."""

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.writing.goals import Goals

TASKS = Path("meta") / "tasks.parquet"


def task_indices(known: Mapping[int, str], goals: Iterable[Goals]) -> dict[str, int]:
    """Text -> task index. IN's tasks keep theirs; the sub-tasks follow in the order of the episodes."""
    found = {text: index for index, text in sorted(known.items(), reverse=True)}
    following = max(known, default=-1) + 1
    for episode in sorted(goals, key=lambda g: g.episode):
        for text in episode.names:
            if text not in found:
                found[text] = following
                following += 1
    return found


def frame_tasks(goals: Goals, indices: Mapping[str, int], old: NDArray[np.int64]) -> NDArray[np.int64]:
    """The task index of each frame of an episode, (n,), in frame order like `old`.

    A frame without a sub-task that may be said has the instruction, or its own task where IN has no such.
    """
    instruction = indices.get(goals.instruction)
    new = old.copy() if instruction is None else np.full_like(old, instruction)
    for span in goals.spans:
        if span.name is not None:
            new[span.start : span.end] = indices[span.name]
    return new


def listed(goals: Goals, indices: Mapping[str, int], old: Sequence[str]) -> list[str]:
    """The tasks that meta/episodes lists of an episode, the instruction first, from those of IN (`old`)."""
    first = [goals.instruction] if goals.instruction in indices else []
    return list(dict.fromkeys([*first, *old, *goals.names]))


def tasks_file(known: Mapping[int, str], indices: Mapping[str, int]) -> bytes:
    """meta/tasks.parquet as lerobot writes it, with IN's tasks (`known`) and the new ones."""
    import pandas as pd

    texts = dict(known) | {index: text for text, index in indices.items() if index not in known}
    rows = sorted(texts.items())
    frame = pd.DataFrame(
        {"task_index": [index for index, _ in rows]}, index=pd.Index([text for _, text in rows], name="task")
    )
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()
