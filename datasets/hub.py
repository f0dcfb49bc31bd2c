"""Datasets by their names on the Hugging Face Hub: through huggingface_hub's cache, and back to the Hub.

That library resumes, shows progress, and reads HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE. It is imported when
a name is no folder.
"""

import logging
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from goalreel.datasets.episode import EpisodeRows
from goalreel.datasets.info_file import HUB_NAME, read_info, stored, written
from goalreel.errors import DatasetError, first_line
from goalreel.files import read_json

log = logging.getLogger(__name__)

VERSION = "v3.0"
"""The tag by which lerobot's loader finds a dataset's revision."""
_META = ["meta/*", "*.md"]
_INFO = "meta/info.json"
_ABSENT = "no such folder, and nothing on the Hugging Face Hub that you may read (if private: hf auth login)"
_OFFLINE = "no such folder, not in the cache of the Hugging Face Hub, which is not reached (HF_HUB_OFFLINE?)"
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


def folder_name(path: Path) -> str:
    """The name of a dataset's folder, also on the Hub."""
    named = hub_name(path)
    return named[0].partition("/")[2] if named else path.resolve().name


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
        revision, is_cached = _revision(name, [revision] if revision else [VERSION, "main"])
        download = partial(_download, name, revision=revision, local_files_only=is_cached)
        meta = download(allow_patterns=_META)
        if _version(meta).startswith("v2"):
            return _converted(name, meta)
        if own:
            folder = Path(name.partition("/")[2])
            # One that is there may be changed, and is taken as it is.
            return folder if folder.exists() else download(local_dir=f"{folder}.part").rename(folder)
        if episodes is not None:
            return download(allow_patterns=[*_META, *_files(meta, episodes)])
        return download(allow_patterns=None if videos else [*_META, "data/*"])


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


def _revision(name: str, wanted: Sequence[str]) -> tuple[str, bool]:
    """The first of the revisions that there is, and False; True where only the cache is left to read it."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled, RevisionNotFoundError

    for revision in wanted:
        try:
            _ask(name, revision)
            return revision, False
        except RevisionNotFoundError:
            if revision == wanted[-1]:
                raise
        except (HTTPError, OfflineModeIsEnabled) as e:
            cached = (
                r for r in wanted if isinstance(try_to_load_from_cache(name, _INFO, None, r, "dataset"), str)
            )
            if (known := next(cached, None)) is None:
                raise
            if not isinstance(e, OfflineModeIsEnabled):  # which the user asked for
                log.warning("%s: the copy in the cache is used (the Hub: %s)", name, first_line(e))
            return known, True
    raise AssertionError("no revision is wanted")


def _ask(name: str, revision: str) -> None:
    """Ask the Hub for a revision, in a thread: without a network, DNS alone takes half a minute to say so."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError

    seconds, answer = float(os.environ.get("HF_HUB_ETAG_TIMEOUT", "5")), Future[object]()

    def ask() -> None:
        try:
            answer.set_result(HfApi().dataset_info(name, revision=revision, expand=["sha"]))
        except BaseException as e:  # noqa: BLE001  (`result` raises it)
            answer.set_exception(e)

    Thread(target=ask, name="goalreel-hub", daemon=True).start()
    try:
        answer.result(seconds)
    except TimeoutError as e:
        raise HTTPError(f"no answer within {seconds:g} s") from e


def _download(name: str, **options: Any) -> Path:
    """A folder with the files of a dataset."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, repo_type="dataset", **options))
    except RuntimeError as e:  # hf_xet raises no other
        text = "the Hub's storage of large files, Xet, fails: set HF_HUB_DISABLE_XET=1"
        raise DatasetError(f"{name}: {text} ({first_line(e)})") from e


def _files(root: Path, episodes: Collection[int]) -> list[str]:
    """The data files and videos of episodes, from the dataset's metadata in `root`."""
    info, rows = read_info(root), EpisodeRows.read(root)
    paths = set[Path]()
    for row in (rows.of(index) for index in episodes if index in rows):
        paths.add(stored(root, info["data_path"], row, "data"))
        for name in (name for name, feature in info["features"].items() if feature["dtype"] == "video"):
            paths.add(stored(root, info["video_path"], row, f"videos/{name}", video_key=name))
    return sorted(str(path.relative_to(root)) for path in paths)


def _converted(name: str, meta: Path) -> Path:
    """The dataset in v3.0, converted by lerobot from v2.1, in the cache."""
    from huggingface_hub import constants

    folder = Path(constants.HF_HOME) / "goalreel" / f"{name.replace('/', '--')}-{meta.name[:12]}"
    if folder.is_dir():
        return folder
    from lerobot.scripts.convert_dataset_v21_to_v30 import convert_dataset

    part = folder.with_name(f"{folder.name}.part")
    if part.is_dir() and _version(part).startswith("v3"):  # what a kill left: the last rename is missing
        return part.rename(folder)
    _download(name, revision=meta.name, local_dir=part)
    convert_dataset(name, root=part, push_to_hub=False)
    shutil.rmtree(f"{part}_old", ignore_errors=True)
    return part.rename(folder)


def _version(root: Path) -> str:
    """The version in meta/info.json; empty where it has none, as is said where the dataset is read."""
    with suppress(OSError, ValueError, AttributeError):
        return str(read_json(root / _INFO).get("codebase_version"))
    return ""


@contextmanager
def _one_line(name: str, absent: str = _ABSENT) -> Iterator[None]:
    """Turn what huggingface_hub raises into one line."""
    from huggingface_hub import errors as hub

    try:
        yield
    except hub.GatedRepoError as e:
        text = "its owner asks for consent: accept the terms on its page, hf auth login"
        raise DatasetError(f"{name}: {text}") from e
    except hub.RepositoryNotFoundError as e:
        raise DatasetError(f"{name}: {absent}") from e
    except (hub.HFValidationError, hub.HTTPError, hub.LocalEntryNotFoundError, hub.OfflineModeIsEnabled) as e:
        told = e.__cause__ if isinstance(e, hub.LocalEntryNotFoundError) and e.__cause__ else e
        is_answer = isinstance(told, hub.HFValidationError | hub.HfHubHTTPError | hub.FileMetadataError)
        text = f"the Hugging Face Hub says: {first_line(told)}" if is_answer else _OFFLINE
        raise DatasetError(f"{name}: {text}") from e
