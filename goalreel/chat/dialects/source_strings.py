"""Read strings from the Python source of others as data: nothing of it is imported or run."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from goalreel.errors import InputError

MAX_BYTES = 4_000_000


def string_constants(path: Path | str) -> dict[str, str]:
    """Map every name that a Python file assigns a string to, at any depth, to its first such string.

    An f-string keeps its expressions in braces, as they are written: `f"a {b[0]}"` is `"a {b[0]}"`.

    Raises:
        InputError: there is no such file, or it is no Python source.
    """
    return dict(reversed(_strings(Path(path), _assignments)))


def strings_under(path: Path | str, key: str) -> list[str]:
    """List the strings under `key` in the dictionaries of a Python file, in the order of the file.

    F-strings are as in `string_constants`.

    Raises:
        InputError: there is no such file, or it is no Python source.
    """
    return [text for name, text in _strings(Path(path), _entries) if name == key]


type _Named = Iterator[tuple[object, ast.expr]]


def _strings(path: Path, find: Callable[[ast.AST], _Named]) -> list[tuple[str, str]]:
    """List (name, string) in the order of the file."""
    try:
        size, source = path.stat().st_size, b""
        if size <= MAX_BYTES:
            source = path.read_bytes()
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    if size > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES // 10**6} MB: not the file that is meant")
    try:
        named = [pair for node in ast.walk(ast.parse(source)) for pair in find(node)]
        texts = [(name, _text(value)) for name, value in sorted(named, key=lambda pair: pair[1].lineno)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise InputError(f"{path}: is no Python source ({type(e).__name__})") from e
    return [(name, text) for name, text in texts if isinstance(name, str) and text is not None]


def _assignments(node: ast.AST) -> _Named:
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield getattr(target, "id", None), node.value


def _entries(node: ast.AST) -> _Named:
    if isinstance(node, ast.Dict):
        yield from ((getattr(k, "value", None), v) for k, v in zip(node.keys, node.values, strict=True))


def _text(value: ast.expr) -> str | None:
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                "{" + ast.unparse(p.value) + "}" if isinstance(p, ast.FormattedValue) else _text(p) or ""
                for p in parts
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            a, b = _text(left), _text(right)
            return None if a is None or b is None else a + b
        case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[], keywords=[]):
            return None if (a := _text(inner)) is None else a.strip()
    return None
