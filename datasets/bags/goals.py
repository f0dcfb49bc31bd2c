"""The sub-goals that a node streamed, written into the recorded dataset as `annotate` writes its own."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from goalreel import __version__
from goalreel.datasets.bags.boards import board
from goalreel.datasets.bags.convert import cameras_of
from goalreel.datasets.bags.excerpts import Cut, Excerpt
from goalreel.datasets.bags.streamed_goals import Storyboards
from goalreel.datasets.bags.topics import TopicRequest
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import build
from goalreel.errors import DatasetError
from goalreel.subgoal_camera import DEFAULT_FORM, SubGoalForm
from goalreel.types import Storyboard, Task


def has_goals(cuts: dict[Path, Cut]) -> bool:
    """Whether a node showed any sub-goal while the bags were recorded."""
    return any(excerpt.spans for each in cuts.values() for excerpt in each.excerpts)


def write_goals(
    recorded: Path,
    out: Path,
    cuts: dict[Path, Cut],
    request: TopicRequest,
    *,
    use_unverified: bool = False,
    form: SubGoalForm = DEFAULT_FORM,
    progress: Callable[[int, int], None] | None = None,
) -> list[Storyboard]:
    """Make `out` from the dataset `recorded`, which `convert` made from the same `cuts`. Resumes.

    Its sub-goal camera shows the goals in `form`, whatever the node showed.

    Raises:
        DatasetError: as `build`; a goal image that cannot be read.
    """
    camera = cameras_of(cuts)[0]
    source = Source.open(recorded)
    provenance = {"use_unverified": use_unverified, "subgoal_form": form, "goalreel": __version__}
    settings = {**asdict(request), **provenance}
    boards = []
    with Records.open(out, settings, source.fingerprint()) as records:
        done = records.done()
        for index, (path, excerpt, storyboards) in enumerate(_all(cuts)):
            first = source.episode(index).frames(camera, [0])[0]
            task = Task(id=f"episode_{index:06d}", instruction=excerpt.task, image=first)
            try:
                boards.append(board(excerpt, storyboards, task))
            except ValueError as e:
                raise DatasetError(f"{path}: a goal image of episode {index}: {e}") from e
            if index not in done:
                records.commit(index, boards[-1])
        build(
            source, out, records, camera=camera, use_unverified=use_unverified, form=form, progress=progress
        )
    return boards


def _all(cuts: dict[Path, Cut]) -> list[tuple[Path, Excerpt, Storyboards]]:
    return [(path, excerpt, each.storyboards) for path, each in cuts.items() for excerpt in each.excerpts]
