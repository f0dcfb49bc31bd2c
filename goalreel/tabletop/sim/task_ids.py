"""Ids of tabletop tasks: `tabletop-SEED`, or `tabletop-SEED-LOOK-CAMERA`."""

from pathlib import Path

from goalreel.errors import InputError
from goalreel.tabletop.sim.cameras import FIXED
from goalreel.tabletop.sim.splits import Split, split_of
from goalreel.tabletop.sim.truth import FILE, read_truth
from goalreel.tabletop.sim.variety import PLAIN, View


def task_id_of(seed: int, view: View = PLAIN) -> str:
    """Make the id of a tabletop task: `tabletop-SEED`, with `-LOOK-CAMERA` unless the view is plain."""
    return f"tabletop-{seed}" if view == PLAIN else f"tabletop-{seed}-{view.look}-{view.camera}"


def task_of(task_id: str) -> tuple[int, View]:
    """Read seed and view from the id of a tabletop task.

    Raises:
        InputError: the id is of another form.
    """
    name, *parts = task_id.split("-")
    if name != "tabletop" or len(parts) not in (1, 3) or not parts[0].isdecimal():
        raise InputError(f"{task_id!r} is no tabletop task: tabletop-SEED or tabletop-SEED-LOOK-CAMERA")
    look, camera = parts[1:] or (PLAIN.look, PLAIN.camera)
    if look not in ("plain", "varied", "unseen") or camera not in FIXED:
        raise InputError(f"{task_id!r}: no look {look!r}, or no camera {camera!r}")
    return int(parts[0]), View(look, camera)


def held_out_split(task_id: str) -> Split | None:
    """Find the split of a held-out tabletop task; None for a training task and for every other task."""
    try:
        split = split_of(task_of(task_id)[0])
    except InputError:
        return None
    return None if split == "train" else split


def recording_task_ids(root: Path) -> dict[int, str]:
    """Map episode numbers to task ids for a recording of the tabletop; empty for any other dataset.

    Raises:
        DatasetError: the recording's ground truth is damaged.
    """
    if not (root / FILE).is_file():
        return {}
    return {number: task_id_of(episode.seed) for number, episode in enumerate(read_truth(root).episodes)}
