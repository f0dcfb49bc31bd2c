"""Texts out of somebody's Python source, read as data: nothing of it is imported or run."""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from goalreel.errors import InputError

MAX_BYTES = 4_000_000


def string_constants(path: Path | str) -> dict[str, str]:
    """Read every name that a Python file assigns a text to, wherever it stands -> the first such text.

    An f-string comes with its expressions in braces, as they are written: `f"a {b[0]}"` is `"a {b[0]}"`.

    Raises:
        InputError: there is no such file, or it is no Python source.
    """
    found: dict[str, str] = {}
    for name, text in _read(Path(path), _assigned):
        found.setdefault(name, text)
    return found


def strings_under(path: Path | str, key: str) -> list[str]:
    """Read every text that a dictionary written in a Python file has under `key`, in the order of the file.

    An f-string comes as from `string_constants`.

    Raises:
        InputError: there is no such file, or it is no Python source.
    """
    return [text for _, text in _read(Path(path), lambda tree: _under(tree, key))]


def _read(
    path: Path, values: Callable[[ast.Module], Iterable[tuple[str, ast.expr]]]
) -> list[tuple[str, str]]:
    """(name, text) of those of the file's values that are texts."""
    try:
        source = path.read_bytes() if path.stat().st_size <= MAX_BYTES else None
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    if source is None:
        raise InputError(f"{path}: larger than {MAX_BYTES // 10**6} MB: not the file that is meant")
    try:
        found = [(name, _text(value)) for name, value in values(ast.parse(source))]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise InputError(f"{path}: is no Python source ({type(e).__name__})") from e
    return [(name, text) for name, text in found if text is not None]


def _under(tree: ast.Module, key: str) -> list[tuple[str, ast.expr]]:
    """(key, value) of every dictionary that has the key, in the order of the file."""
    found = [
        value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for name, value in zip(node.keys, node.values, strict=True)
        if isinstance(name, ast.Constant) and name.value == key
    ]
    return [(key, value) for value in sorted(found, key=lambda value: value.lineno)]


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """(name, value), in the order of the file."""
    nodes = (n for n in ast.walk(tree) if isinstance(n, ast.Assign | ast.AnnAssign))
    for node in sorted(nodes, key=lambda n: n.lineno):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and node.value is not None:
                yield target.id, node.value


def _text(value: ast.expr) -> str | None:
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_piece(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            a, b = _text(left), _text(right)
            return None if a is None or b is None else a + b
        case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[], keywords=[]):
            return None if (a := _text(inner)) is None else a.strip()
    return None


def _piece(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return "{" + ast.unparse(part.value) + "}"
    return _text(part) or ""
