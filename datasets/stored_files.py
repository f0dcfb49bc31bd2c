"""Where the files of an episode lie, by the templates of meta/info.json. None leads out of the dataset."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from goalreel.errors import DatasetError

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
"""lerobot's own, for an info.json that has none."""


def check_template(root: Path, name: str, template: object, default: str) -> None:
    """Check the path `name` of meta/info.json; lerobot's `default` has the fields that it may have.

    Raises:
        DatasetError: it does not say where a file is, or leads out of the dataset.
    """
    keys = {"chunk_index": 0, "file_index": 0} | ({"video_key": "x"} if name == "video_path" else {})
    path = ""
    if isinstance(template, str):
        _check_inside(root, template, template)
        with suppress(AttributeError, LookupError, TypeError, ValueError):
            path = template.format(**keys)
    # Where cameras share a file, the sub-goal camera would overwrite the others.
    if not path or "\0" in path or ("video_key" in keys and "{video_key" not in str(template)):
        raise DatasetError(f"{root}: meta/info.json has the {name} {template!r}: write lerobot's, {default}")


def _check_inside(root: Path, template: str, relative: str) -> None:
    # Not `resolve()`: in a Hugging Face cache every file is a link to a blob elsewhere.
    if Path(relative).is_absolute() or ".." in Path(relative).parts:
        raise DatasetError(f"{root}: meta/info.json points outside the dataset: {template}")


def stored(root: Path, template: str | None, row: Mapping[str, Any], prefix: str, **keys: str) -> Path:
    """Where the row of meta/episodes says that a file of the episode is.

    Raises:
        DatasetError: outside the dataset, or nowhere.
    """
    if template is None:
        raise DatasetError(f"{root}: meta/info.json has no video_path: write lerobot's, {VIDEO_PATH}")
    relative = template.format(
        chunk_index=row[f"{prefix}/chunk_index"], file_index=row[f"{prefix}/file_index"], **keys
    )
    _check_inside(root, template, relative)
    return root / relative
