"""Read JSON as Python writes it (single quotes, None, a trailing comma) as data: no code is ever run."""

import ast
import re
from collections.abc import Iterator

from goalreel.json_object import make_dict

MAX_NESTING = 20

_ESCAPE = r"\\(?:[\\'\"abfnrtv]|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8})"
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<string>'[^'\\]*(?:{_ESCAPE}[^'\\]*)*'|"[^"\\]*(?:{_ESCAPE}[^"\\]*)*")
        |(?P<word>True|False|None|true|false|null)\b
        |(?P<number>-?\d{{1,20}}(?:\.\d{{1,20}})?(?:[eE][+-]?\d{{1,3}})?(?![\w.]))
        |(?P<mark>[\[\]{{}}:,])
    )""",
    re.VERBOSE | re.ASCII,
)
_PYTHON = {"true": "True", "false": "False", "null": "None"}
_DATA = ast.Expression | ast.Dict | ast.List | ast.Constant | ast.UnaryOp | ast.USub | ast.Load


def read_literal(text: str) -> object:
    """Read dictionaries with string keys, lists, strings, numbers, booleans and None.

    A line may end within a string, as in a model's reply. Python's parser sees only known tokens, nested at
    most `MAX_NESTING` deep.

    Raises:
        ValueError: the text is anything else.
        RepeatedKeyError: a dictionary has a key twice.
    """
    try:
        tree = ast.parse(" ".join(_tokens(text)), mode="eval")
    except SyntaxError as e:
        raise ValueError("no literal") from e
    for node in ast.walk(tree):
        if not isinstance(node, _DATA):
            raise ValueError("more than data")
        if isinstance(node, ast.Dict):
            make_dict([(_key(key), None) for key in node.keys])
    return ast.literal_eval(tree)


def _tokens(text: str) -> Iterator[str]:
    at, end, depth, previous = 0, len(text.rstrip()), 0, ","
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None or match.lastgroup is None:
            raise ValueError("no literal")
        kind, token, at = match.lastgroup, match[match.lastgroup], match.end()
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token, 0)
        # Python joins two values in a row: to a longer string, a difference, or an item of the first.
        if depth > MAX_NESTING or (token[0] not in "]}:," and previous not in "[{:,"):
            raise ValueError("nested too deeply, or a stray quote")
        previous = token[-1]
        if kind == "string":
            token = token.replace("\n", r"\n").replace("\r", r"\r")
        yield _PYTHON.get(token, token)


def _key(node: ast.expr | None) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise ValueError("a key that is no text")
    return node.value
