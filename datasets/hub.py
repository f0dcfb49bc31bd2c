"""Datasets by their names on the Hugging Face Hub: through huggingface_hub's cache, and back to the Hub.

That library resumes, shows progress, and reads HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE. It is imported when
a name is no folder.
"""

import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from goalreel.datasets.info_file import HUB_NAME, stored, written
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError, first_line
from goalreel.files import read_json

VERSION = "v3.0"
"""The tag by which lerobot's loader finds a dataset's revision."""
_META = ["meta/*", "*.md"]
_ABSENT = (
    "no such folder, and no dataset on the Hugging Face Hub that you may read (if private: hf auth login)"
)
_ON_HUB = re.compile(
    r"(?:https?://[^/]+/datasets/|hf://datasets/)(?P<name>[\w.-]+/[\w.-]+?)"
    r"(?:(?:/tree/|/blob/|@)(?P<revision>[^/]+).*)?/?"
)


def hub_name(path: Path) -> tuple[str, str | None] | None:
    """(OWNER/NAME, revision) of an address or a name on the Hub; None for a path.

    >>> hub_name(Path("https://huggingface.co/datasets/lerobot/pusht/tree/main"))
    ('lerobot/pusht', 'main')
    """
    if match := _ON_HUB.fullmatch(written(path)):
        return match["name"], match["revision"]
    # OWNER would be a folder where NAME is a folder that is not there.
    is_name = HUB_NAME.fullmatch(str(path)) and not path.exists() and not path.parent.is_dir()
    return (str(path), None) if is_name else None


def local_folder(
    path: Path, *, videos: bool = True, own: bool = False, episodes: Collection[int] | None = None
) -> Path:
    """Return `path`, or the folder of what it names on the Hub, in a cache; v2.1 is converted on the way.

    Args:
        path: a folder, OWNER/NAME or an address on the Hub.
        videos: also download the videos.
        own: make it a folder of its own, NAME in this one, for what is changed there.
        episodes: download the files of these alone (None: of all).

    Raises:
        DatasetError: it is not on the Hub, not to be read, or not to be reached.
    """
    if (named := hub_name(path)) is None:
        return path
    name, revision = named
    with _one_line(name):
        meta, revision = _snapshot(name, revision, _META)
        if _version(meta).startswith("v2"):
            return _converted(name, meta)
        if own:
            return _own(name, revision)
        if episodes is not None:
            return _snapshot(name, revision, [*_META, *_files(meta, episodes)])[0]
        return _snapshot(name, revision, None if videos else [*_META, "data/*"])[0]


def push(folder: Path, name: str) -> str:
    """Upload a dataset with its card, and tag it as lerobot's loader demands; return its address."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RevisionNotFoundError

    api = HfApi()
    with _one_line(name, "the Hugging Face Hub has no such owner, or you may not write there: hf auth login"):
        address = api.create_repo(name, repo_type="dataset", exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, repo_type="dataset")
        with suppress(RevisionNotFoundError):
            api.delete_tag(name, tag=VERSION, repo_type="dataset")
        api.create_tag(name, tag=VERSION, repo_type="dataset")
    return str(address)


def _snapshot(name: str, revision: str | None, patterns: list[str] | None) -> tuple[Path, str]:
    """A folder of the cache with these files, and its revision: the tag v3.0 goes before the branch main."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError, RevisionNotFoundError

    tried = revision or VERSION
    try:
        folder = snapshot_download(name, repo_type="dataset", revision=tried, allow_patterns=patterns)
    except (RevisionNotFoundError, LocalEntryNotFoundError):
        if revision:
            raise
        return _snapshot(name, "main", patterns)
    return Path(folder), tried


def _files(root: Path, episodes: Collection[int]) -> list[str]:
    """The data files and videos of episodes, from the dataset's metadata in `root`."""
    source = Source.open(root)
    template, chosen = source.info["video_path"], source.select(episodes)
    paths = {source.data_path(index) for index in chosen}
    for name in (name for name, feature in source.features.items() if feature["dtype"] == "video"):
        rows = map(source.rows.of, chosen)
        paths |= {stored(root, template, row, f"videos/{name}", video_key=name) for row in rows}
    return sorted(str(path.relative_to(root)) for path in paths)


def _own(name: str, revision: str) -> Path:
    """The dataset as a folder of its own; one that is there may be changed, and is taken as it is."""
    from huggingface_hub import snapshot_download

    folder = Path(name.partition("/")[2])
    if not folder.exists():
        part = folder.with_name(f"{folder.name}.part")
        snapshot_download(name, repo_type="dataset", revision=revision, local_dir=part)
        part.rename(folder)
    return folder


def _converted(name: str, meta: Path) -> Path:
    """The dataset in v3.0, converted by lerobot from v2.1, in the cache."""
    from huggingface_hub import constants, snapshot_download

    folder = Path(constants.HF_HOME) / "goalreel" / f"{name.replace('/', '--')}-{meta.name[:12]}"
    if folder.is_dir():
        return folder
    from lerobot.scripts.convert_dataset_v21_to_v30 import convert_dataset

    part = folder.with_name(f"{folder.name}.part")
    if part.is_dir() and _version(part).startswith("v3"):  # what a kill left: the last rename is missing
        return part.rename(folder)
    snapshot_download(name, repo_type="dataset", revision=meta.name, local_dir=part)
    convert_dataset(name, root=part, push_to_hub=False)
    shutil.rmtree(f"{part}_old", ignore_errors=True)
    return part.rename(folder)


def _version(root: Path) -> str:
    """The version in meta/info.json; empty where it has none, as is said where the dataset is read."""
    with suppress(OSError, ValueError, AttributeError):
        return str(read_json(root / "meta/info.json").get("codebase_version"))
    return ""


@contextmanager
def _one_line(name: str, absent: str = _ABSENT) -> Iterator[None]:
    """Turn what huggingface_hub raises into one line."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        HTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        yield
    except GatedRepoError as e:
        raise DatasetError(
            f"{name}: its owner asks for consent: accept the terms on its page, hf auth login"
        ) from e
    except RepositoryNotFoundError as e:
        raise DatasetError(f"{name}: {absent}") from e
    except LocalEntryNotFoundError as e:
        text = "no such folder, not in the cache of the Hugging Face Hub, and that is not reached"
        raise DatasetError(f"{name}: {text} (HF_HUB_OFFLINE?)") from e
    except (HFValidationError, HTTPError) as e:
        raise DatasetError(f"{name}: the Hugging Face Hub says: {first_line(e)}") from e
