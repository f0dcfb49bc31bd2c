"""Read strings from the Python source of others as data: nothing of it is imported or run."""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from goalreel.errors import InputError

MAX_BYTES = 4_000_000


def string_constants(path: Path | str) -> dict[str, str]:
    """Map every name that a Python file assigns a string to, at any depth, to its first such string.

    An f-string keeps its expressions in braces, as they are written: `f"a {b[0]}"` is `"a {b[0]}"`.

    Raises:
        InputError: there is no such file, or it is no Python source.
    """
    constants: dict[str, str] = {}
    for name, text in _read(Path(path), _assignments):
        constants.setdefault(name, text)
    return constants


def strings_under(path: Path | str, key: str) -> list[str]:
    """List the strings under `key` in the dictionaries of a Python file, in the order of the file.

    F-strings are as in `string_constants`.

    Raises:
        InputError: there is no such file, or it is no Python source.
    """
    return [text for _, text in _read(Path(path), lambda tree: _under(tree, key))]


def _read(
    path: Path, values: Callable[[ast.Module], Iterable[tuple[str, ast.expr]]]
) -> list[tuple[str, str]]:
    """(name, string) of those of the file's values that are strings."""
    try:
        source = path.read_bytes() if path.stat().st_size <= MAX_BYTES else None
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    if source is None:
        raise InputError(f"{path}: larger than {MAX_BYTES // 10**6} MB: not the file that is meant")
    try:
        texts = [(name, _text(value)) for name, value in values(ast.parse(source))]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise InputError(f"{path}: is no Python source ({type(e).__name__})") from e
    return [(name, text) for name, text in texts if text is not None]


def _under(tree: ast.Module, key: str) -> list[tuple[str, ast.expr]]:
    """(key, value) of every dictionary that has the key, in the order of the file."""
    values = [
        value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for name, value in zip(node.keys, node.values, strict=True)
        if isinstance(name, ast.Constant) and name.value == key
    ]
    return [(key, value) for value in sorted(values, key=lambda value: value.lineno)]


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
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
