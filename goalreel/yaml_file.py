"""Small YAML files that people write: presets, and options of commands."""

from pathlib import Path
from typing import Any

from goalreel.errors import InputError

MAX_BYTES = 64 * 1024


def read_mapping(path: Path, form: str) -> dict[Any, Any]:
    """Read a file of keys and values; `form` says how one is written.

    Raises:
        InputError: the file cannot be read, is too large, or holds something else.
    """
    import yaml

    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES // 1024} KiB")
    try:
        values = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        mark = getattr(e, "problem_mark", None)
        reason = getattr(e, "problem", None) or type(e).__name__
        raise InputError(f"{path}: {f'line {mark.line + 1}: ' if mark else ''}no YAML ({reason})") from e
    if not isinstance(values, dict):
        raise InputError(f"{path}: {form}")
    return values
