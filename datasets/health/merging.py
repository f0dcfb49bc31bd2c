"""What keeps lerobot from merging two datasets, and the option of `annotate` that makes them alike."""

from collections.abc import Iterator, Mapping
from typing import Any

from goalreel.datasets.health.issues import HealthIssue
from goalreel.datasets.labels import SUB_TASKS
from goalreel.datasets.source import Source
from goalreel.datasets.writing.plan import FORM

_ENCODER = frozenset(
    f"video.{name}" for name in ("g", "crf", "preset", "fast_decode", "extra_options", "video_backend")
)
"""What lerobot's `features_equal_for_merge` leaves out (`VIDEO_ENCODER_INFO_KEYS`)."""


def merge_issues(source: Source, other: Source) -> Iterator[HealthIssue]:
    """Each difference for which lerobot (`validate_all_metadata`) refuses to merge `other` with `source`."""
    for key in ("fps", "robot_type"):
        if source.info.get(key) != other.info.get(key):
            yield _issue(f"{key} is {source.info.get(key)} and {other.info.get(key)}: they stay apart")
    features, others = source.features, other.features
    for name in sorted(set(features) ^ set(others)):
        place = source.root if name in features else other.root
        yield _issue(f"only {place} has {name}: {_remedy(name, features | others)}")
    for name in sorted(set(features) & set(others)):
        first, second = _compared(features[name]), _compared(others[name])
        for key in sorted(key for key in first | second if first.get(key) != second.get(key)):
            text = f"{key} of {name} is {first.get(key)} and {second.get(key)}"
            option = {FORM: "--subgoal-form", SUB_TASKS: "--task-per-frame"}.get(key)
            remedy = f"annotate both with the same {option}" if option else "they stay apart"
            yield _issue(f"{text}: {remedy}")


def _compared(feature: Mapping[str, Any]) -> dict[str, Any]:
    """What lerobot compares of a feature."""
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


def _issue(text: str) -> HealthIssue:
    return HealthIssue(kind="merge", level="warning", text=f"lerobot cannot merge them: {text}")
