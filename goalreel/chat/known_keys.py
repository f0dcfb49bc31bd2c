"""Read JSON whose texts hold quotes as they are, such as `'the robot's arm'`: the known keys show their ends.

A text lies between its key and the next one, so that its last quote ends it, whatever quotes are in it. What
could be read in two ways is not read at all: a key within a text, a comment, a text in pieces, or an object
that could end at two places. Every step is linear in the length of the text.
"""

import re
from collections.abc import Collection
from functools import cache

_CLOSING = {'"': '"', "'": "'", "“": "”“", "‘": "’‘"}
"""Opening quote -> what closes it."""
_MARKS = " \t\r\n,[]{}"
_PLAIN = re.compile(r"(?:-?\d{1,20}(?:\.\d{1,20})?|[Tt]rue|[Ff]alse|None|null)?", re.ASCII)
_NEAR, _NESTED = 200, re.compile(r"""(?:["'”’]\s*:|[\[{]|\}\s*,)\s*\Z""")
"""What stands before an object within another one, and how many characters are looked at."""
_ENDING = re.compile(r"[\s,\]}]*")
_SPECIAL = re.compile(r"""\\(?:u[\da-fA-F]{4}|x[\da-fA-F]{2}|[\\/"'bfnrt])|"|\\""")
_JSON = {r"\'": "'", r"\/": "/", '"': r"\""}
_UNCLEAR = re.compile(
    r"""["'”’](?:\s*,\s*(?://|\#|/\*|["'“‘]?\w++["'”’]?\s*:)|[^\S\n]*\n\s*["'“‘]|\s*\+\s*["'“‘])"""
)
"""In a text: a key that nobody knows, a comment, or another piece of the text."""


class UnclearError(ValueError):
    """The known keys do not tell where the texts end."""


def quote_texts(text: str, fields: Collection[str]) -> str:
    """Rewrite the one object of `text` with keys of `fields`, its texts as valid JSON strings.

    Commas too many, None and True stay as they are.

    Raises:
        UnclearError: there is no such object, or it could be read in another way.
    """
    names = "|".join(map(re.escape, sorted(fields)))
    keys = list(_pattern(rf"""(?<=[{{,])\s*((["'“‘])({names})["'”’“‘]\s*:)""").finditer(text))
    start = text.rfind("{", 0, keys[0].start(1)) if keys else -1
    prefix = text[max(start - _NEAR, 0) : max(start, 0)]
    if start < 0 or _NESTED.search(prefix) or text[start + 1 : keys[0].start(1)].strip():
        raise UnclearError("no object with a known key")
    mention = _pattern(rf"""["'“‘](?:{names})\\*["'”’“‘]\s*:""")
    pieces, depth = ["{"], 1
    ends = [*(key.start(1) for key in keys[1:]), len(text)]
    for key, end in zip(keys, ends, strict=True):
        region = text[key.end() : end].lstrip()
        value, marks = _value(region) if end < len(text) else _last_value(region, depth)
        if value[:1] in _CLOSING:
            value = _json_string(value[1:-1], mention)
        depth += marks.count("{") + marks.count("[") - marks.count("}") - marks.count("]")
        pieces.append(f'"{key[3]}": {value}{marks}')
    return "".join(pieces)


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _value(region: str) -> tuple[str, str]:
    """(the value, the marks after it) of what lies between two keys."""
    closing = _CLOSING.get(region[:1])
    match = _PLAIN.match(region)
    value = region.rstrip(_MARKS) if closing else match[0] if match else ""
    marks = region[len(value) :]
    if marks.strip(_MARKS) or (closing and (len(value) < 2 or value[-1] not in closing)):
        raise UnclearError("a value that does not end before the next key")
    return value, marks


def _last_value(region: str, depth: int) -> tuple[str, str]:
    """(the last value, the brackets that end the object); prose may follow."""
    closing = _CLOSING.get(region[:1])
    match = _PLAIN.match(region)
    ends = [at + 1 for at, c in enumerate(region) if at and c in closing] if closing else []
    if closing is None and match and match[0]:
        ends = [match.end()]
    matches: list[tuple[int, str]] = []
    for end in ends:
        ending = _ENDING.match(region, end)
        brackets = [c for c in (ending[0] if ending else "") if c in "]}"]
        if len(brackets) >= depth:
            matches.append((end, "".join(brackets[:depth])))
    if len(matches) != 1:
        raise UnclearError(f"the object could end at {len(matches)} places")
    end, brackets = matches[0]
    return region[:end], brackets


def _json_string(text: str, mention: re.Pattern[str]) -> str:
    if _UNCLEAR.search(text) or mention.search(text):
        raise UnclearError("a text that may hold more than one value")
    return f'"{_SPECIAL.sub(_as_json, text)}"'


def _as_json(match: re.Match[str]) -> str:
    special = match[0]
    if special == "\\":
        raise UnclearError("a backslash that escapes nothing")
    return rf"\u00{special[2:]}" if special[1:2] == "x" else _JSON.get(special, special)
