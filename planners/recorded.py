"""Read the recordings of tasks; what cannot be read or cut is a Failure."""

from collections.abc import Callable, Sequence

from goalreel.concurrency import map_threaded
from goalreel.errors import DatasetError
from goalreel.planners.kinematic.layout import Unsegmentable
from goalreel.types import Failure, Recording, Recordings, Task, opener

THREADS = 2  # recordings read at once: decoding and measuring pictures leave Python's lock to others


def read_each[Made](
    recordings: Recordings, tasks: Sequence[Task], make: Callable[[Task, Recording], Made | Failure]
) -> list[Made | Failure]:
    """Answer i is what `make` makes of task i and its recording, or why there is none."""
    opened = opener(recordings)

    def answer(task: Task) -> Made | Failure:
        try:
            recording = opened(task.id)
        except KeyError:
            return Failure(stage="plan", message=f"no recording {task.id!r}")
        except DatasetError as e:
            return Failure(stage="plan", message=str(e))
        try:
            return make(task, recording)
        except (Unsegmentable, DatasetError) as e:
            return Failure(stage="plan", message=f"{task.id}: {e}")

    return map_threaded(answer, tasks, THREADS)
