"""All checks of a dataset in their order."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from goalreel.datasets.health import numbers, videos
from goalreel.datasets.health.issues import HealthIssue, broken, by_level, note
from goalreel.datasets.health.tables import (
    FrameRows,
    file_issues,
    label_issues,
    link_issues,
    row_issues,
    task_issues,
)
from goalreel.datasets.info_file import is_without_videos
from goalreel.datasets.source import Source
from goalreel.datasets.writing.files import data_files
from goalreel.errors import DatasetError
from goalreel.progress import OnProgress

log = logging.getLogger(__name__)


def inspect(
    source: Source,
    episodes: Sequence[int],
    *,
    thorough: bool = True,
    progress: OnProgress = lambda stage, done, total: None,
) -> list[HealthIssue]:
    """Look for what is wrong with a dataset; the worst comes first.

    Args:
        source: the dataset.
        episodes: those that matter; of others only what keeps lerobot from the dataset as a whole.
        thorough: also read states, actions and labels. Without, it is what `annotate` looks at
            before it begins: metadata, rows, clocks and the frames in video files.
        progress: is called with the stage `check`.
    """
    issues = list(file_issues(source, episodes))
    if not source.cameras:
        issues.append(broken("no_camera", "the dataset has no camera, so there is nothing to show as a goal"))
    if any(issue.kind in ("data_file", "columns") and issue.level == "broken" for issue in issues):
        return by_level(issues)
    try:
        rows = FrameRows.read(data_files(source.root))
    except DatasetError as e:
        return by_level([*issues, broken("data_file", str(e))])
    checks = [row_issues, task_issues, numbers.clock_issues, videos.video_issues]
    if is_without_videos(source.root) and any(f["dtype"] == "video" for f in source.features.values()):
        checks.remove(videos.video_issues)
        issues.append(note("video_file", "the videos were not downloaded from the Hub, and not looked at"))
    steps: list[Callable[[], Iterable[HealthIssue]]] = [partial(c, source, rows, episodes) for c in checks]
    steps += [partial(videos.image_issues, source), partial(numbers.stats_issues, source)]
    if thorough:
        steps += [partial(link_issues, source), partial(numbers.number_issues, source, rows, episodes)]
        steps.append(partial(label_issues, source, episodes))
    for done, step in enumerate(steps):
        progress("check", done, len(steps))
        issues += (i for i in step() if thorough or i.kind != "stats" or i.level == "broken")
    progress("check", len(steps), len(steps))
    return by_level(issues)


def refuse_broken(source: Source, episodes: Sequence[int]) -> None:
    """Raise DatasetError where lerobot could not read an annotated copy; warn of what deserves a look."""
    issues = inspect(source, episodes, thorough=False)
    levels = Counter(issue.level for issue in issues)
    see = f"goalreel check {source.root}"
    if levels["broken"]:
        more = f" ({levels['broken'] - 1} more: {see})" if levels["broken"] > 1 else ""
        raise DatasetError(f"{issues[0].text}{more}")
    if levels["warning"]:
        number = "a warning" if levels["warning"] == 1 else f"{levels['warning']} warnings, such as"
        log.warning("%s: %s. All that there is to say: %s", number, issues[0].text, see)
