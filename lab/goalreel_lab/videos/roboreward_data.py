"""RoboRewardBench as published: the folder `test` of huggingface.co/datasets/teetone/RoboReward, CC-BY-4.0.

`test/metadata.jsonl` has a row for each of 2,831 rollouts: `file_name` (SUBSET/....mp4, below `test`), `task`
and `reward`, a whole number from 1 to 5. Read from the dataset's card and from another project's loader
(aliang8/reward_fm, roboreward_loader.py), not from the file itself.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalreel.errors import InputError
from goalreel_lab.published.pictures import find_picture
from goalreel_lab.videos.recording import VideoRecording

FILE = "metadata.jsonl"
WHERE = "hf download teetone/RoboReward --repo-type dataset --include 'test/*' --local-dir DIR"
LOWEST, HIGHEST = 1, 5


@dataclass(frozen=True)
class RewardRollout:
    """A rollout with the reward, 1-5, that people gave it for how it ended."""

    recording: VideoRecording
    subset: str
    """The dataset that it is from."""
    reward: int


def read_roboreward(data: Path, limit: int | None = None) -> list[RewardRollout]:
    """Read the rollouts.

    Args:
        data: the folder of the download, or its folder `test`.
        limit: only so many, evenly spread over all.

    Raises:
        InputError: they are not there, or not in the published shape.
    """
    folder = next((f for f in (data / "test", data) if (f / FILE).is_file()), None)
    if folder is None:
        raise InputError(f"{data}: no test/{FILE}: {WHERE}")
    rows = [_rollout(row, number, folder) for number, row in _rows(folder / FILE)]
    if not rows:
        raise InputError(f"{folder / FILE}: holds no rollout: {WHERE}")
    if limit is None or limit >= len(rows):
        return rows
    return [rows[i * len(rows) // limit] for i in range(limit)]


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if line.strip():
                yield number, json.loads(line)
    except (OSError, ValueError) as e:
        raise InputError(f"{path}: cannot be read as lines of JSON ({e}): {WHERE}") from e


def _rollout(row: Mapping[str, Any], number: int, folder: Path) -> RewardRollout:
    where = f"{folder / FILE}: line {number}"
    name, task, reward = (
        row.get(k) if isinstance(row, dict) else None for k in ("file_name", "task", "reward")
    )
    if not isinstance(name, str) or not isinstance(task, str) or not task.strip():
        raise InputError(f"{where} has no file_name or no task: {WHERE}")
    if not isinstance(reward, int) or isinstance(reward, bool) or not LOWEST <= reward <= HIGHEST:
        raise InputError(f"{where}: its reward is {reward!r}, and not a whole number from 1 to 5: {WHERE}")
    path = find_picture(name, (folder,))
    if path is None:
        raise InputError(f"{where}: no video {name} in {folder}: {WHERE}")
    subset = name.split("/")[0] if "/" in name else ""
    return RewardRollout(VideoRecording(f"{number}", path, task), subset, reward)
