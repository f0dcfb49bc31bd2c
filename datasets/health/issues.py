"""Issues of a dataset, in one line each."""

from collections.abc import Collection, Iterable
from functools import partial
from itertools import groupby
from typing import Literal

from pydantic import BaseModel, computed_field

type Level = Literal["broken", "warning", "note"]
"""Broken: lerobot could not read an annotated copy, or there is nothing to annotate."""
LEVELS: tuple[Level, ...] = ("broken", "warning", "note")
type Group = Literal["Dataset", "Episodes", "Instructions", "Policy"]
_OF_GROUP: dict[Group, str] = {
    "Policy": "policy",
    "Episodes": "episode episode_rows row_order row_count episode_span frame_index stale_file not_finite "
    "time_order time_span gaps drift jitter starts_closed",
    "Instructions": "tasks task_order no_instruction empty_task labels subgoal_camera silent identifier",
}
"""The kinds of issues in each group; all others are of the dataset."""
_SHOWN = 5


class HealthIssue(BaseModel, frozen=True):
    """One thing to know about a dataset."""

    kind: str
    """Its name for scripts: docs/reference/dataset-checks.md lists them."""
    level: Level
    text: str
    """One line that says what there is, and what to do."""
    episodes: tuple[int, ...] = ()
    """The episodes concerned; none where it is the dataset as a whole."""

    @computed_field
    @property
    def group(self) -> Group:
        """Heading under which it is told."""
        return next((group for group, kinds in _OF_GROUP.items() if self.kind in kinds.split()), "Dataset")


def issue(level: Level, kind: str, text: str, episodes: Collection[int] = ()) -> HealthIssue:
    """Make an issue; the episodes are sorted."""
    return HealthIssue(kind=kind, level=level, text=text, episodes=tuple(sorted(episodes)))


broken, warning, note = (partial(issue, level) for level in LEVELS)


def by_level(issues: Iterable[HealthIssue]) -> list[HealthIssue]:
    """The worst first."""
    return sorted(issues, key=lambda issue: LEVELS.index(issue.level))


def spell(episodes: Collection[int]) -> str:
    """Name episodes in a sentence.

    >>> spell([0, 1, 2, 7])
    'episodes 0-2 and 7'
    """
    return f"episode{'s' if len(episodes) > 1 else ''} {spell_numbers(episodes)}"


def spell_numbers(numbers: Collection[int]) -> str:
    """Name numbers in a sentence, such as `0-2, 5 and 7`, and how many more there are after a few spans."""
    ranked = enumerate(sorted(numbers))
    runs = [[n for _, n in run] for _, run in groupby(ranked, key=lambda pair: pair[1] - pair[0])]
    ranges = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[:_SHOWN]]
    rest = sum(map(len, runs[_SHOWN:]))
    *others, last = [*ranges, *([f"{rest} more"] if rest else [])]
    return f"{', '.join(others)}{' and ' if others else ''}{last}"
