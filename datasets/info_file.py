"""meta/info.json of a LeRobot v3.0 dataset, refused where lerobot could not load the dataset for it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any

from goalreel.datasets.stored_files import DATA_PATH, VIDEO_PATH, check_template
from goalreel.errors import DatasetError, InputError

CONVERTERS = {
    "v2.0": "first lerobot 0.3's lerobot/datasets/v21/convert_dataset_v20_to_v21.py, then "
    "python -m lerobot.scripts.convert_dataset_v21_to_v30",
    "v2.1": "python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=local/NAME --root=DIR "
    "--push-to-hub=false",
}
_SIZES = {"chunks_size": 1000, "data_files_size_in_mb": 100, "video_files_size_in_mb": 200}
"""Sizes of folders and files with lerobot's own values; it refuses any that is not positive."""
_PICTURES = ("image", "video")
_NUMBERS = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_NUMBERS += ("float16", "float32", "float64")
_TEXTS = ("string", "large_string", "binary", "large_binary", "null", "date32", "date64")
_WITH_UNIT = ("timestamp[", "time32[", "time64[", "duration[", "decimal128(", "decimal256(")
_DIMS = 5
"""Dimensions of a feature at most, as in Hugging Face's `Array5D`."""

type Features = Mapping[str, Mapping[str, Any]]
_ALIASES = {
    "state": ("observation.state", "state", "states", "observation.states", "qpos", "observation.qpos"),
    "action": ("action", "actions"),
}
"""Names by which a feature is found, the best first."""
_GROUPS = {
    "state": ("observation.state.", "observation.states.", "state.", "states."),
    "action": ("action.", "actions."),
}
"""Beginnings of the names of features that hold the parts."""
_RATE = re.compile(r"vel|force|torque|effort|current", re.IGNORECASE)
_OWN = ("timestamp", "frame_index", "episode_index", "index", "task_index")


def read_info(root: Path) -> dict[str, Any]:
    """Read meta/info.json.

    Raises:
        DatasetError: it is missing or damaged, or of a version or a form that goalreel does not read.
    """
    path = root / "meta" / "info.json"
    if root.is_file():
        raise DatasetError(f"{root}: is a file, and a LeRobot dataset is a folder with meta/info.json")
    if not path.is_file():
        raise DatasetError(f"{root}: no meta/info.json there, so it is not a LeRobot dataset")
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
        version, fps, features = str(info["codebase_version"]), float(info["fps"]), dict(info["features"])
    except (ValueError, KeyError, TypeError) as e:
        raise DatasetError(f"{path}: damaged ({e!r}): copy the dataset again") from e
    if not version.removeprefix("v").startswith("3."):
        advice = CONVERTERS.get(version, "a newer goalreel may read it")
        raise DatasetError(f"{path}: codebase version {version}, but goalreel reads v3.0: {advice}")
    if info.get("storage_format") == "lance":
        raise DatasetError(
            f"{path}: stored as lance, which lerobot 0.6 does not read either: convert it to parquet and mp4"
        )
    if isinstance(info["fps"], bool | str) or not 0 < fps < float("inf") or not features:
        raise DatasetError(f"{path}: fps {info['fps']!r} and {len(features)} features make no dataset")
    _check_sizes(path, info)
    for name, feature in features.items():
        _check_feature(path, name, feature)
    _check_paths(root, info)
    return info


def _check_paths(root: Path, info: dict[str, Any]) -> None:
    """Refuse names and paths that lead to files outside of a dataset made from this one.

    Raises:
        DatasetError: the name of a feature is no name of a folder; or see `check_template`.
    """
    for name in info["features"]:
        if "/" in name or "\\" in name or "\0" in name or name in ("", ".", ".."):
            raise DatasetError(f"{root}: meta/info.json has a feature {name!r}, which is no name of a folder")
    check_template(root, "data_path", info.setdefault("data_path", DATA_PATH), DATA_PATH)
    if info.setdefault("video_path", VIDEO_PATH) is not None:
        check_template(root, "video_path", info["video_path"], VIDEO_PATH)


def _check_sizes(path: Path, info: dict[str, Any]) -> None:
    for name, usual in _SIZES.items():
        size = info.get(name, usual)
        if isinstance(size, bool) or not isinstance(size, int | float) or size <= 0:
            raise DatasetError(f"{path}: {name} is {size!r}, which lerobot refuses: write {usual}")


def _check_feature(path: Path, name: str, feature: Any) -> None:
    """See that lerobot can describe a feature; of cameras it looks at the pictures alone."""
    dtype = feature.get("dtype") if isinstance(feature, dict) else None
    if not isinstance(dtype, str):
        raise DatasetError(f"{path}: the feature {name} has no dtype: write it, or remove the feature")
    if not isinstance(feature.get("names"), list | dict):
        feature["names"] = None
    if dtype in (*_PICTURES, "language"):
        return
    if dtype not in (*_NUMBERS, *_TEXTS) and not dtype.startswith(_WITH_UNIT):
        raise DatasetError(
            f"{path}: the feature {name} has the dtype {dtype!r}, which lerobot 0.6 does not know: "
            "write the type of its column, or remove both"
        )
    shape = feature.get("shape")
    if not isinstance(shape, list) or len(shape) not in range(1, _DIMS + 1) or not all(map(_is_size, shape)):
        raise DatasetError(
            f"{path}: the feature {name} has the shape {shape!r}, which lerobot refuses: "
            "write its sizes, such as [7], or remove the feature and its column"
        )


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


@dataclass(frozen=True)
class NumberFeatures:
    """Names of features, whose dimensions are joined in this order; empty where there is none."""

    state: tuple[str, ...]
    action: tuple[str, ...]


def find_numbers(features: Features, state: Sequence[str] = (), action: Sequence[str] = ()) -> NumberFeatures:
    """Find the features of the state and the action; those that a person names are taken.

    Raises:
        InputError: the dataset has no such feature of numbers.
    """
    return NumberFeatures(_find(features, "state", tuple(state)), _find(features, "action", tuple(action)))


def number_features(features: Features) -> list[str]:
    """The names of all features of numbers, but for those that count frames and tell times."""
    return [n for n, f in features.items() if n not in _OWN and re.match(r"float|u?int", str(f.get("dtype")))]


def dimension_names(features: Features, chosen: Sequence[str]) -> tuple[str, ...]:
    """A name for each dimension of the joined features; empty where a lone feature has none.

    Of joined features it has what tells them apart, where their own names do not: `left_gripper` for the
    `gripper` of `observation.state.left`.
    """
    parts = [feature.split(".") for feature in chosen]
    levels = zip(*(part[:-1] for part in parts), strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len({*level}) == 1, levels))
    own_names = [_names(features[feature]) for feature in chosen]
    names: list[str] = []
    for feature, part, dims_names in zip(chosen, parts, own_names, strict=True):
        owner, dims = "_".join(part[shared:]), prod(features[feature]["shape"])
        if len(chosen) > 1 and len(dims_names) != dims:
            dims_names = (owner,) if dims == 1 else tuple(f"{owner}_{i}" for i in range(dims))
        elif sum(bool({*dims_names} & {*others}) for others in own_names) > 1:
            dims_names = tuple(f"{owner}_{name}" for name in dims_names)
        names += dims_names
    return tuple(names)


def _find(features: Features, role: str, chosen: tuple[str, ...]) -> tuple[str, ...]:
    numeric = number_features(features)
    if missing := [name for name in chosen if name not in numeric]:
        raise InputError(
            f"layout: {role}={missing[0]} is no feature of numbers: the dataset has {', '.join(numeric)}"
        )
    if chosen:
        return chosen
    for name in _ALIASES[role]:
        if name in numeric:
            return (name,)
    for prefix in _GROUPS[role]:
        if parts := tuple(n for n in numeric if n.startswith(prefix) and not _RATE.search(n)):
            return parts
    return ()


def _names(feature: Mapping[str, Any]) -> tuple[str, ...]:
    """Dimension names; lerobot datasets hold a list, a list in a list, or a dictionary of lists."""
    names = feature.get("names")
    if isinstance(names, dict):
        names = [n for group in names.values() for n in (group if isinstance(group, list) else [group])]
    flat = [n for group in names or [] for n in (group if isinstance(group, list) else [group])]
    return tuple(str(n) for n in flat)
