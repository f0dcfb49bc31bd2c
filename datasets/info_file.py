"""meta/info.json of a LeRobot v3.0 dataset, refused where lerobot could not load the dataset for it.

Its templates give the places of files. Links that lead out of the dataset are refused too: what is written
from it would publish what they lead to.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from math import prod
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from goalreel.errors import DatasetError, InputError
from goalreel.files import read_json

ADDRESS = re.compile(r"^(\w+):/+(.+)$")
"""An address; a `Path` keeps one of its two slashes."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_GUIDE = "huggingface.co/docs/lerobot/porting_datasets_v3"
_WRITE = f"write it with lerobot's LeRobotDataset.create and add_frame ({_GUIDE})"
_PICTURES = r"\.(mp4|avi|mkv|mov|webm|png|jpe?g|webp|bmp)"
_KINDS = {
    r"\.(mcap|db3|bag)": "ROS bags: goalreel bag2lerobot converts those of ROS 2",
    r"\.(hdf5|h5)": f"HDF5: any4lerobot converts LIBERO's, AgiBot's and RoboMIND's; others: {_WRITE}",
    r"\.(tfrecord|array_record)": (
        f"RLDS: any4lerobot's openx2lerobot or lerobot's examples/port_datasets convert it ({_GUIDE})"
    ),
    r"\.(zarr|zarray|zgroup)": f"Zarr: {_WRITE}",
    r"\.(parquet|arrow)": "tables: there is no meta/info.json: copy the dataset again, with its folder meta",
    _PICTURES: f"videos or pictures: states and actions are needed beside them: {_WRITE}",
}
"""Endings of files -> their kind, and what to do; the first that is found counts."""


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
        return (
            f"{name}: an address of no dataset on the Hub: download it to a folder "
            "(hf download NAME --repo-type dataset --local-dir DIR)"
        )
    if not root.exists():
        if HUB_NAME.fullmatch(name):
            return (
                f"{name}: no such folder; if it is a dataset on the Hugging Face Hub: "
                f"hf download {name} --repo-type dataset --local-dir {root.name}"
            )
        return f"{name}: no such folder"
    if (root / "storyboard.json").is_file():
        return f"{name}: a storyboard of goalreel plan, not a dataset: look at {root / 'index.html'}"
    files = [root] if root.is_file() else list(islice(root.rglob("*"), 2000))
    if not files:
        return f"{name}: the folder is empty"
    if found := sorted(f.parent.parent for f in files if f.parts[-2:] == ("meta", "info.json")):
        return f"{name}: holds datasets, and is none itself: name one, such as {found[0]}"
    names = " ".join(file.name.lower() for file in files)
    known = next((advice for endings, advice in _KINDS.items() if re.search(endings, names)), None)
    if root.is_file():
        told = f"; it is one of {known}" if known else ""
        return f"{name}: is a file, and a LeRobot dataset is a folder with meta/info.json{told}"
    if known:
        return f"{name}: no LeRobot dataset, but a folder of {known}"
    return f"{name}: no meta/info.json there, so it is not a LeRobot dataset"


DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
"""lerobot's own, for an info.json that has none."""

log = logging.getLogger(__name__)


def leads_out(path: str) -> bool:
    """Tell if a relative path leads out of its folder as it is written; links are not followed."""
    return Path(path).is_absolute() or ".." in Path(path).parts


def stored(root: Path, template: str | None, row: Mapping[str, Any], prefix: str, **keys: str) -> Path:
    """Path of an episode's file by its row of meta/episodes; raises DatasetError outside the dataset."""
    if template is None:
        raise DatasetError(f"{root}: meta/info.json has no video_path: write lerobot's, {VIDEO_PATH}")
    place = {name: row[f"{prefix}/{name}"] for name in ("chunk_index", "file_index")}
    relative = template.format(**place, **keys)
    if leads_out(relative):
        raise DatasetError(f"{root}: meta/info.json points outside the dataset: {template}")
    return root / relative


LINK_ADVICE = "put a copy in its place, or annotate with --follow-links if all of that may be published"


def check_links(root: Path, *, follow: bool = False) -> None:
    """Refuse links out of the folder `root`; with `follow` a warning names the first instead.

    `root` may be reached by a link itself, and files may be links into the Hub's cache, as it stores them.

    Raises:
        DatasetError: a link leads elsewhere.
    """
    outside = list(links_out(root))
    if not outside:
        return
    link, target = outside[0][0].relative_to(root), outside[0][1]
    others = f" (and {len(outside) - 1} more)" if len(outside) > 1 else ""
    if not follow:
        raise DatasetError(f"{root}: {link} is a link out of the dataset, to {target}{others}: {LINK_ADVICE}")
    log.warning("%s: %s is a link to %s%s: what lies there is copied", root, link, target, others)


def links_out(root: Path, folder: Path | None = None) -> Iterator[tuple[Path, Path]]:
    """Yield each link below `root`, or a `folder` of it, that leads out of it, and where to, in order.

    All folders are entered, for a link inside the dataset may lead to one that is never passed on.
    """
    for path in sorted((folder or root).iterdir()):
        if path.is_symlink() and path.exists():
            if is_outside(path, root):
                yield path, path.resolve()
        elif path.is_dir() and not path.is_symlink():
            yield from links_out(root, path)


def is_outside(path: Path, root: Path) -> bool:
    """Tell if a link leads from a path of a dataset out of it, and not to a blob in the Hub's cache."""
    target = path.resolve()
    is_blob = target.match("datasets--*/blobs/*") and target.is_file()
    is_cached = is_blob and (target.parents[1] / "snapshots").is_dir()
    return not is_cached and not target.is_relative_to(root.resolve())


def is_without_videos(root: Path) -> bool:
    """Tell if a dataset in huggingface_hub's cache was downloaded without its videos."""
    cached = root.parent.name == "snapshots" and root.parent.parent.name.startswith("datasets--")
    return cached and not (root / "videos").exists()


CONVERTERS = {
    "v2.0": "first lerobot 0.3's lerobot/datasets/v21/convert_dataset_v20_to_v21.py, then "
    "python -m lerobot.scripts.convert_dataset_v21_to_v30",
    "v2.1": "python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=local/NAME --root=DIR "
    "--push-to-hub=false",
}
_DTYPE = re.compile(
    r"image|video|language|bool|u?int(8|16|32|64)|float(16|32|64)|(large_)?(string|binary)|null|date(32|64)"
    r"|(timestamp|time32|time64|duration)\[.*|decimal(128|256)\(.*"
)
"""Types of features that lerobot 0.6 knows."""
_NUMBERS = 10_000_000
"""Numbers of a feature in one frame at most: ten times those of a large depth map."""
_FIELD = re.compile(r"\{(chunk_index|file_index|video_key)(?::0?[0-9]?d?)?\}")
"""A field in the template of a path; a width of many digits would fill the memory."""

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


class _Feature(BaseModel, strict=True):
    """A feature that lerobot can describe; of cameras and words it looks at the type alone."""

    dtype: str
    shape: Any = None
    info: dict[str, Any] | None = None
    video_info: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if not _DTYPE.fullmatch(self.dtype):
            raise ValueError(f"lerobot 0.6 does not know the dtype {self.dtype!r}: write that of its column")
        shape = self.shape
        sizes = [s for s in shape if type(s) is int and s > 0] if isinstance(shape, list) else []
        # Hugging Face's arrays have five dimensions at most.
        is_loaded = sizes == shape and 0 < len(sizes) <= 5 and prod(sizes) <= _NUMBERS
        if not is_loaded and self.dtype not in ("image", "video", "language"):
            raise ValueError(f"lerobot refuses the shape {shape!r}: write its sizes, such as [7]")
        return self


def _folder(name: str) -> str:
    if re.search(r"[/\\\0]", name) or name in ("", ".", ".."):
        raise ValueError("no name of a folder, and so none of a feature")
    return name


def _template(text: str, default: str) -> str:
    """Check a path with the fields of lerobot's `default`, and with all cameras in files of their own."""
    if leads_out(text):
        raise ValueError("points outside the dataset")
    plain = _FIELD.sub(lambda field: "x" if field[1] in default else "{", text)
    # Where cameras share a file, the sub-goal camera would overwrite the others.
    shares = "{video_key" in default and "{video_key" not in text
    if shares or not re.fullmatch(r"[^{}\0-\x1f]{1,999}", plain):
        raise ValueError(f"write lerobot's, {default}")
    return text


type _Size = Annotated[int | float, Field(gt=0, le=2**31)]


class InfoFile(BaseModel, strict=True):
    """The part of info.json that goalreel and lerobot rely on."""

    fps: Annotated[float, Field(ge=1e-3, le=1e6)]
    features: Annotated[dict[Annotated[str, AfterValidator(_folder)], _Feature], Field(min_length=1)]
    chunks_size: _Size = 1000
    data_files_size_in_mb: _Size = 100
    video_files_size_in_mb: _Size = 200
    data_path: Annotated[str, AfterValidator(lambda text: _template(text, DATA_PATH))] = DATA_PATH
    video_path: Annotated[str, AfterValidator(lambda text: _template(text, VIDEO_PATH))] | None = VIDEO_PATH


def read_info(root: Path) -> dict[str, Any]:
    """Read meta/info.json, as it is there; paths that it leaves out are lerobot's.

    Raises:
        DatasetError: it is missing or damaged, or of a version or a form that goalreel does not read.
    """
    path = root / "meta" / "info.json"
    if not path.is_file():
        raise DatasetError(no_dataset(root))
    try:
        info: dict[str, Any] = dict(read_json(path))
    except (OSError, ValueError, TypeError) as e:
        raise DatasetError(f"{path}: damaged ({e}): copy the dataset again") from e
    version = str(info.get("codebase_version"))
    if not version.removeprefix("v").startswith("3."):
        advice = CONVERTERS.get(version, "a newer goalreel may read it")
        raise DatasetError(f"{path}: codebase version {version}, but goalreel reads v3.0: {advice}")
    if info.get("storage_format") == "lance":
        raise DatasetError(
            f"{path}: stored as lance, which lerobot 0.6 does not read either: convert it to parquet and mp4"
        )
    try:
        paths = InfoFile.model_validate(info)
    except ValidationError as e:
        error = e.errors()[0]
        place = ".".join(str(part) for part in error["loc"] if part != "[key]")
        value = "" if isinstance(error["input"], dict) else f" is {error['input']!r}"
        reason = error["msg"].removeprefix("Value error, ")
        raise DatasetError(f"{path}: {place}{value}: {reason}") from e
    info |= {"data_path": paths.data_path, "video_path": paths.video_path}
    for feature in info["features"].values():
        if not isinstance(feature.get("names"), list | dict):
            feature["names"] = None
    return info


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
    if name := next((name for name in _ALIASES[role] if name in numeric), None):
        return (name,)
    groups = ([n for n in numeric if n.startswith(p) and not _RATE.search(n)] for p in _GROUPS[role])
    return tuple(next(filter(None, groups), ()))


def _names(feature: Mapping[str, Any]) -> tuple[str, ...]:
    """Dimension names; lerobot datasets hold a list, a list in a list, or a dictionary of lists."""
    names = feature.get("names") or ()
    groups = names.values() if isinstance(names, dict) else names
    return tuple(str(n) for group in groups for n in (group if isinstance(group, list) else [group]))
