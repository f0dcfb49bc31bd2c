"""Files that are either whole or not there: atomic writing, linking, and one clear line for a full disk."""

import errno
import fcntl
import hashlib
import json
import logging
import os
import secrets
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from goalreel.errors import DatasetError, InputError

TMP = ".goalreel-tmp-"
_LOCK = TMP + "lock"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_OFFERED = {errno.ENOSYS, errno.ENOTSUP, errno.EINVAL, errno.ENOLCK, errno.EPERM, errno.EACCES}
"""Errors of file systems without locks, links, times or a way to wait for the disk, such as FUSE."""

log = logging.getLogger(__name__)


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Raise a DatasetError that names `path` where the disk is full, or fails, while it is written."""
    try:
        yield
    except OSError as e:
        if e.errno in _FULL:
            raise DatasetError(f"{path}: the disk is full: free some space and run the command again") from e
        if e.errno and e.filename is None and type(e) is OSError:
            raise DatasetError(f"{path}: cannot be written ({e.strerror}): see to the disk") from e
        raise


@contextmanager
def exclusive(folder: Path, out: Path) -> Iterator[None]:
    """Hold `folder`/lock alone, as `file_lock` does; `out` is what the message names."""
    busy = f"{out}: another goalreel run is writing there: wait, or choose another --out"
    with file_lock(folder / "lock", busy):
        yield


@contextmanager
def file_lock(lock: Path, busy: str, *, shared: bool = False, wait: bool = False) -> Iterator[None]:
    """Hold the file `lock`, made if need be; the kernel drops it with the process, however that ends.

    `shared` holds it together with others that do so. On NFS the lock holds between machines too. A file
    system without locks is warned of once.

    Raises:
        DatasetError: another process holds it (`busy` says so) and this one does not `wait`.
    """
    with disk(lock.parent):
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        try:
            fcntl.flock(handle, kind)
        except BlockingIOError as e:
            raise DatasetError(busy) from e
        except OSError as e:
            if e.errno not in _NOT_OFFERED:
                raise
            _warn_of_no_locks(lock.parent, e.strerror)
        yield
    finally:
        os.close(handle)


@cache
def _warn_of_no_locks(folder: Path, reason: str) -> None:
    log.warning("%s: its file system has no locks (%s): let no other run write there", folder, reason)


@contextmanager
def atomic(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on a clean exit it becomes `path`, durably and at once.

    The old file, if any, is replaced and never written into: it may be a hard link into another dataset. One
    that is not `durable` may be empty or gone after a power cut. An error leaves nothing behind.

    Raises:
        OSError: `path` is a folder, a pipe or a device.
    """
    folder = path.parent.absolute()  # pyarrow takes a relative path with a colon for an address
    # Two runs may write the same picture at once, on two machines.
    tmp = folder / f"{TMP}{secrets.token_hex(8)}-{path.name[-40:]}"
    with disk(path):
        if path.exists():
            check_file(path)  # else a device would be replaced
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield tmp
            if durable:
                _sync(tmp)
            tmp.replace(path)
            if durable:
                _sync(path.parent)
        finally:
            tmp.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on a clean exit it becomes `path` at once.

    The remains of a killed run are removed first. An error leaves nothing behind.

    Raises:
        InputError: `path` is a file, or a folder that holds something.
        DatasetError: another process makes the same folder.
    """
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        with suppress(OSError):
            (path / _LOCK).unlink()  # of a run that was killed at its very end
        raise InputError(f"{path}: is there already: name a new folder, or remove it")
    tmp = path.absolute().with_name(TMP + path.absolute().name)
    lock = tmp / _LOCK
    with file_lock(lock, f"{path}: another goalreel run is writing there: wait, or name another folder"):
        try:
            with disk(path):
                for left in set(tmp.iterdir()) - {lock}:
                    if left.is_dir():
                        shutil.rmtree(left)
                    else:
                        left.unlink()
                yield tmp
                _sync(tmp)
                tmp.replace(path)
        except BaseException:
            shutil.rmtree(tmp, ignore_errors=True)
            raise
        _sync(path.parent)
        (path / _LOCK).unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write as `atomic` does; a file that already holds `data` is not touched."""
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return
    with atomic(path, durable=durable) as tmp:
        tmp.write_bytes(data)


def copy(source: Path, target: Path, *, link: bool = False) -> None:
    """Copy with its times and rights; a copy of the same size and time is taken as done.

    With `link` it becomes a hard link, where the file system offers that. A symbolic link, as in a Hugging
    Face cache, is followed: the target never dangles.
    """
    real = source.resolve()
    stamps = [(s.st_size, s.st_mtime_ns) for s in (real.stat(), target.stat())] if target.is_file() else []
    if stamps and stamps[0] == stamps[1]:
        return
    with atomic(target) as tmp:
        if link:
            with suppress(OSError):
                os.link(real, tmp)
                return
        shutil.copyfile(real, tmp)
        with suppress(OSError):  # not every file system has times and rights
            shutil.copystat(real, tmp)


def files_below(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Every file below `folder` in order; none where there is no such folder.

    Linked folders are entered, for large ones often lie on another disk, but not those `above` again.
    """
    real = folder.resolve()
    if real in above or not real.is_dir():
        return
    for path in find(folder):
        if path.is_dir():
            yield from files_below(path, (*above, real))
        elif path.is_file():
            yield path


def find(folder: Path, pattern: str = "*") -> list[Path]:
    """All that matches a pattern below `folder`, in order; what is being written is not there yet.

    Raises:
        OSError: the pattern is "*", and the folder cannot be read; other patterns find nothing there.
    """
    found = folder.iterdir() if pattern == "*" else folder.glob(pattern)
    paths = (path.relative_to(folder) for path in found)
    return [folder / p for p in sorted(paths) if not any(part.startswith(TMP) for part in p.parts)]


def is_linked(path: Path, folder: Path) -> bool:
    """Return whether a link leads from `folder` to a path below it."""
    return path.resolve() != folder.resolve() / path.relative_to(folder)


def check_file(path: Path) -> Path:
    """Return the path of a file that may be opened: a pipe waits for ever, and a device has no end.

    Raises:
        OSError: it is something else, or there is nothing.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is no file, but a folder, a pipe or a device", str(path))
    return path


def check_folder(folder: Path) -> Path:
    """Return the path of a folder for a library to read; raise InputError if it holds a pipe or a device."""
    for path in (*folder.glob("*"), *folder.glob("*/*")):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path}: is a pipe or a device, and no file: remove it")
    return folder


def read_file(path: Path, most: int = 2**31) -> bytes:
    """Read a file that somebody else may have named or written.

    Raises:
        OSError: it is a pipe or a device, has more than `most` bytes, or cannot be read.
    """
    if check_file(path).stat().st_size > most:
        raise OSError(errno.EINVAL, f"is larger than {most // 1024} KiB", str(path))
    return path.read_bytes()


def read_json(path: Path) -> Any:
    """Read a file of JSON that somebody else may have written.

    Raises:
        ValueError: it is damaged, nested too deeply, or has a number that no computer holds.
        OSError: as `read_file`.
    """

    def whole(digits: str) -> int:
        if len(digits) > 20:  # the longest of 64 bits, with and without a sign
            raise ValueError(f"a number of {len(digits)} digits")
        return int(digits)

    try:
        return json.loads(read_file(path).decode(), parse_int=whole)
    except RecursionError as e:
        raise ValueError("nested too deeply") from e


def sweep(folder: Path) -> None:
    """Remove the half-written files of a killed run below `folder`."""
    for path in folder.rglob(TMP + "*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def cache_folder(name: str) -> Path:
    """The user's cache folder of one kind of files; it need not be there."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "goalreel" / name


def digest(*parts: str | bytes) -> str:
    """SHA-256 of the parts in order, each with its length, as hex."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "big") + data)
    return sha.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, as hex, without holding them all."""
    with check_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _if_offered() -> Iterator[None]:
    """Go on where the file system does not offer what is asked of it."""
    try:
        yield
    except OSError as e:
        if e.errno not in _NOT_OFFERED:
            raise


def _sync(path: Path) -> None:
    with _if_offered():
        handle = os.open(path, os.O_RDONLY)  # a folder's may be refused
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def append_lines(path: Path, data: bytes, size: int) -> None:
    """Write lines at once behind the `size` bytes of whole lines of a file, and onto the disk.

    The file and its folder are made if need be. A write that fails leaves the file as it was.
    """
    with disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new, end = not path.exists(), size
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(handle, size)
            try:
                while size_written := os.pwrite(handle, data, end):
                    data, end = data[size_written:], end + size_written
                with _if_offered():
                    os.fsync(handle)
            except OSError:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)
        if new:
            _sync(path.parent)


MAX_BYTES = 64 * 1024


def read_mapping(path: Path, form: str) -> dict[Any, Any]:
    """Read a file of keys and values; `form` says how one is written.

    Raises:
        InputError: the file cannot be read, is too large, or holds something else, or a key twice.
    """
    import yaml

    try:
        data = read_file(path, MAX_BYTES)
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    try:
        values = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        mark = getattr(e, "problem_mark", None)
        reason = getattr(e, "problem", None) or type(e).__name__
        raise InputError(f"{path}: {f'line {mark.line + 1}: ' if mark else ''}no YAML ({reason})") from e
    if not isinstance(values, dict):
        raise InputError(f"{path}: {form}")
    keys = Counter(key.value for key, _ in yaml.compose(data, yaml.SafeLoader).value)
    if twice := next((key for key, count in keys.items() if count > 1), None):
        raise InputError(f"{path}: {twice!r} is there twice: write it once")
    return values
