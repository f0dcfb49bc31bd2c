"""Issues of a dataset, in one line each, and those that keep lerobot from merging two datasets."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, computed_field

from goalreel.datasets.labels import SUB_TASKS
from goalreel.datasets.source import Source
from goalreel.datasets.writing.plan import FORM

type Level = Literal["broken", "warning", "note"]
"""Broken: lerobot could not read an annotated copy, or there is nothing to annotate."""
LEVELS: tuple[Level, ...] = ("broken", "warning", "note")
type Group = Literal["Dataset", "Episodes", "Instructions", "Policy"]
_OF_EPISODES = (
    "episode",
    "episode_rows",
    "row_order",
    "row_count",
    "episode_span",
    "frame_index",
    "stale_file",
)
_OF_EPISODES += ("not_finite", "time_order", "time_span", "gaps", "drift", "jitter", "starts_closed")
_OF_WORDS = ("tasks", "task_order", "no_instruction", "empty_task", "subtask_rows", "annotations")
_OF_WORDS += ("subtask_index", "task_per_frame", "stages", "subgoal_camera", "silent", "identifier")
_SHOWN = 5
_ENCODER = frozenset(
    f"video.{name}" for name in ("g", "crf", "preset", "fast_decode", "extra_options", "video_backend")
)
"""Keys that lerobot's `features_equal_for_merge` leaves out (`VIDEO_ENCODER_INFO_KEYS`)."""


class HealthIssue(BaseModel):
    """One thing to know about a dataset."""

    model_config = ConfigDict(frozen=True)

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
        if self.kind == "policy":
            return "Policy"
        if self.kind in _OF_WORDS:
            return "Instructions"
        return "Episodes" if self.kind in _OF_EPISODES else "Dataset"


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


def merge_issues(source: Source, other: Source) -> Iterator[HealthIssue]:
    """Each difference for which lerobot (`validate_all_metadata`) refuses to merge `other` with `source`."""
    for key in ("fps", "robot_type"):
        if source.info.get(key) != other.info.get(key):
            yield _merge_issue(f"{key} is {source.info.get(key)} and {other.info.get(key)}: they stay apart")
    features, others = source.features, other.features
    for name in sorted(set(features) ^ set(others)):
        place = source.root if name in features else other.root
        yield _merge_issue(f"only {place} has {name}: {_remedy(name, features | others)}")
    for name in sorted(set(features) & set(others)):
        first, second = _compared(features[name]), _compared(others[name])
        for key in sorted(key for key in first | second if first.get(key) != second.get(key)):
            text = f"{key} of {name} is {first.get(key)} and {second.get(key)}"
            option = {FORM: "--subgoal-form", SUB_TASKS: "--task-per-frame"}.get(key)
            remedy = f"annotate both with the same {option}" if option else "they stay apart"
            yield _merge_issue(f"{text}: {remedy}")


def _compared(feature: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a feature to what lerobot compares."""
    if feature["dtype"] != "video":
        return dict(feature)
    info = {key: value for key, value in (feature.get("info") or {}).items() if key not in _ENCODER}
    return {key: value for key, value in feature.items() if key != "info"} | info


def _remedy(name: str, features: Mapping[str, Mapping[str, Any]]) -> str:
    if features[name]["dtype"] == "language":
        return "annotate both with --no-language, or both without"
    if name == "progress":
        return "annotate both with --details progress, or both without"
    camera = f"observation.images.{name.removesuffix('_is_pad')}" if name.endswith("_is_pad") else name
    if FORM in ((features.get(camera) or {}).get("info") or {}):
        return "annotate both, with the same --subgoal-key"
    return "lerobot-edit-dataset --operation.type remove_feature takes it away"


def _merge_issue(text: str) -> HealthIssue:
    return warning("merge", f"lerobot cannot merge them: {text}")
