"""A path that is no LeRobot dataset: what it is, and the step that makes a dataset of it, in one line."""

import itertools
import re
from pathlib import Path

ADDRESS = re.compile(r"^(\w+):/+(.+)$")
"""An address; a `Path` keeps one of its two slashes."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_LOOKED_AT = 2000
_GUIDE = "huggingface.co/docs/lerobot/porting_datasets_v3"
_WRITE = f"write it with lerobot's LeRobotDataset.create and add_frame ({_GUIDE})"
_KINDS = (
    ((".mcap", ".db3", ".bag"), "of ROS bags", "goalreel bag2lerobot converts those of ROS 2"),
    (
        (".hdf5", ".h5"),
        "of HDF5",
        f"any4lerobot converts LIBERO's, AgiBot's and RoboMIND's; others: {_WRITE}",
    ),
    (
        (".tfrecord", ".array_record"),
        "of RLDS",
        f"any4lerobot's openx2lerobot or lerobot's examples/port_datasets convert it ({_GUIDE})",
    ),
    ((".zarr", ".zarray", ".zgroup"), "of Zarr", _WRITE),
    (
        (".parquet", ".arrow"),
        "of tables",
        "there is no meta/info.json: copy the dataset again, with its folder meta",
    ),
    (
        (".mp4", ".avi", ".mkv", ".mov", ".webm"),
        "of videos",
        f"states and actions are needed beside them: {_WRITE}",
    ),
    (
        (".png", ".jpg", ".jpeg", ".webp", ".bmp"),
        "of pictures",
        f"states and actions are needed beside them: {_WRITE}",
    ),
)
"""Endings, what has them, and what to do; the first that is found counts."""


def written(root: Path) -> str:
    """A path as the person wrote it: with both slashes of an address.

    >>> written(Path("https://huggingface.co/datasets/lerobot/pusht"))
    'https://huggingface.co/datasets/lerobot/pusht'
    """
    return ADDRESS.sub(r"\1://\2", str(root))


def no_dataset(root: Path) -> str:
    """One line that says what is in the place of a dataset, and what to do."""
    name = written(root)
    if ADDRESS.match(name):
        download = "hf download NAME --repo-type dataset --local-dir DIR"
        return f"{name}: an address of no dataset on the Hub: download it to a folder ({download})"
    if not root.exists():
        if HUB_NAME.fullmatch(name):
            download = f"hf download {name} --repo-type dataset --local-dir {root.name}"
            return f"{name}: no such folder; if it is a dataset on the Hugging Face Hub: {download}"
        return f"{name}: no such folder"
    files = [root] if root.is_file() else list(itertools.islice(root.rglob("*"), _LOOKED_AT))
    if not files:
        return f"{name}: the folder is empty"
    if found := sorted(f.parent.parent for f in files if f.parts[-2:] == ("meta", "info.json")):
        return f"{name}: holds datasets, and is none itself: name one, such as {found[0]}"
    names = {file.name.lower() for file in files}
    kinds = (kind for kind in _KINDS if any(ending in name for ending in kind[0] for name in names))
    known = next(((what, then) for _, what, then in kinds), None)
    if root.is_file():
        told = f"; it is one {known[0]}: {known[1]}" if known else ""
        return f"{name}: is a file, and a LeRobot dataset is a folder with meta/info.json{told}"
    if known:
        return f"{name}: a folder {known[0]}, not a LeRobot dataset: {known[1]}"
    return f"{name}: no meta/info.json there, so it is not a LeRobot dataset"
