"""Find the one JSON object in a model's reply, or the reason why there is none.

The standard library reads valid JSON and Python literals (`agents.python_literals`). The known keys show
where a text ends that has quotes in it (`agents.known_keys`). json-repair reads the rest, but it guesses: it
takes `true or false` for true, keeps the last of two equal keys, drops the text after a stray quote and takes
`", "` within a text for its end. So its result must hold every word of the text under known keys, and a yes
or no must be the whole value of its key.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pydantic import BaseModel, ValidationError

from goalreel.chat.json_blocks import JsonBlock, find_blocks
from goalreel.chat.known_keys import quote_texts
from goalreel.chat.python_literals import read_literal
from goalreel.json_object import RepeatedKeyError, make_dict

MAX_REPLY = 100_000
"""Characters; about a hundred times a usual reply."""
MAX_REPAIR = 12_000
MAX_BRACKETS = 150
MAX_DEPTH = 6
"""The limits of json-repair's input, with brackets in strings: tens of thousands of nested brackets and stray
quotes take it minutes. Within these limits the slowest known text takes some seconds."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ENDS = r"""(?:,?\s*\}|,\s*["']?\w+["']?\s*:|\Z)"""
_COMMENT = re.compile(r'(?<=[{}\[\],])(?:\s*(?:(?://|#)[^\n"]{0,200}\n|/\*[^*"]{0,200}\*/))+')
_ESCAPE = re.compile(r"\\(?:u([\da-fA-F]{4})|x([\da-fA-F]{2})|[\\/\"'bfnrt])")
_WORD = re.compile(r"[^\W_]+|[^\x00-\x7f\s“”‘’]")
"""A word, or a sign such as an emoji; curly quotes are JSON's own to json-repair."""
_QUOTE, _QUOTED = re.compile("[\"'“”‘’]"), re.compile(r"""\\(["'])""")
_OPENING = re.compile(r"\s*[<\[◁](think|thinking|thought|reasoning)[>\]▷]", re.IGNORECASE)
"""Of thoughts, in the forms of various models."""
_LEFT_OVER = re.compile(r'"\s*[}\]]')
"""After an answer: the end of a text that contains a bracket."""
_ESCAPED = 'write quotes within a text as \\"'


@dataclass(frozen=True)
class Problem:
    """Why a reply is rejected, in words for the model that wrote it."""

    message: str


@dataclass(frozen=True)
class ParsedReply:
    """A reply's JSON object and the thinking before it."""

    value: dict[str, Any]
    thinking: str


def valid(text: str) -> str:
    """Make a text valid Unicode: join surrogate pairs and replace lone surrogates."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean(text: str) -> str:
    """Make a text valid Unicode, with a space for each control character except tabs and line ends."""
    return _CONTROLS.sub(" ", valid(text))


def read_answer(reply: str, key: str, fields: Collection[str]) -> ParsedReply | Problem:
    """Read the only JSON object in `reply` with `key` at its top level; `fields` are all keys of interest."""
    if len(reply) > MAX_REPLY:
        return Problem(f"it is longer than {MAX_REPLY:,} characters")
    split = _split(clean(reply), key)
    if isinstance(split, Problem):
        return split
    thinking, text = split
    answers, last = [], 0
    for block in find_blocks(text):
        if key not in block.text:
            continue
        value = _parse(block)
        if value is None and not last and (whole := _read_by_keys(text, key, fields)) is not None:
            return ParsedReply(whole, thinking)
        if value is None:
            value = _repair(block, text[block.end :], key, fields)
        last = block.end
        if isinstance(value, Problem):
            return value
        if key in value and value not in answers:
            answers.append(value)
    if len(answers) > 1:
        return Problem(f"it holds {len(answers)} answers that differ")
    if not answers:
        return Problem(f'it holds no JSON object with "{key}"')
    if _LEFT_OVER.search(text, last):
        return Problem(f"its JSON ends within a text: {_ESCAPED}")
    return ParsedReply(answers[0], thinking)


def read_model[M: BaseModel](
    kind: type[M], reply: str, key: str, fields: Collection[str], *, faults: int = 1
) -> tuple[M, str] | Problem:
    """Read a reply's object as a `kind`, and its thinking; a Problem names `faults` faults at most.

    `key` and `fields` are those of `read_answer`.
    """
    answer = read_answer(reply, key, fields)
    if isinstance(answer, Problem):
        return answer
    try:
        return kind.model_validate(answer.value), answer.thinking
    except ValidationError as e:
        first = e.errors(include_input=False, include_url=False, include_context=False)[:faults]
        return Problem("; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in first))


def _split(text: str, key: str) -> tuple[str, str] | Problem:
    """(thinking, the rest). The opening tag may be missing: some chat templates write it themselves."""
    if opening := _OPENING.match(text):
        closing = re.compile(rf"[<\[◁]/{opening[1]}[>\]▷]", re.IGNORECASE)
        text = f"<think>{closing.sub('</think>', text[opening.end() :], count=1)}"
    thinking, closing_tag, rest = text.partition("</think>")
    if closing_tag and not opening and _has_answer(thinking, key):
        return Problem("it answers before the thinking ends")
    if not closing_tag:
        thinking, answer_tag, rest = text.partition("<answer>")
        if opening and not answer_tag:
            return Problem("it ended before the thinking did")
        if not answer_tag:
            thinking, rest = "", text
    return thinking.strip().removeprefix("<think>").strip(), rest


def _has_answer(thinking: str, key: str) -> bool:
    """Whether there is an object with `key`, whole or cut off; a mention of the key alone is none."""
    return any(re.search(rf"{key}\W{{0,4}}:", block.text) for block in find_blocks(thinking))


_DECODER = json.JSONDecoder(object_pairs_hook=make_dict, strict=False)


def _parse(block: JsonBlock) -> dict[str, Any] | Problem | None:
    """Read a block that is valid JSON or a Python literal; None where it is neither."""
    if not block.whole:
        return None
    try:
        value = _strictly(block.text)
    except RepeatedKeyError as e:
        return Problem(f"its JSON has the key {str(e)[:40]!r} twice in one object")
    except RecursionError:
        return Problem("its JSON is nested too deeply")
    except ValueError:
        return None
    return value if isinstance(value, dict) else Problem("its JSON is not an object")


def _read_by_keys(text: str, key: str, fields: Collection[str]) -> dict[str, Any] | None:
    """Read the only object of the whole text by its known keys, or nothing."""
    try:
        value = _strictly(quote_texts(text, fields))
    except (ValueError, RepeatedKeyError, RecursionError):
        return None
    return value if isinstance(value, dict) and key in value else None


def _strictly(text: str) -> object:
    try:
        return _DECODER.decode(text)
    except ValueError:
        return read_literal(text)


def _repair(block: JsonBlock, rest: str, key: str, fields: Collection[str]) -> dict[str, Any] | Problem:
    """Read a block that is not valid, unless its `rest` may lie behind it."""
    text = block.text
    if not block.whole:
        return Problem("it was cut off before its JSON ended: be shorter")
    if len(text) > MAX_REPAIR or not _flat(text):
        return Problem("its JSON is not valid, and too long or too nested to be repaired")
    import json_repair  # comes with the extras that bring chat models

    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return Problem("its JSON is not valid")
    hidden = (
        [n for n, v in value.items() if not _is_whole_value(text, n, v)] if isinstance(value, dict) else []
    )
    if hidden:
        return Problem(f'its JSON is not valid near "{hidden[0][:40]}"')
    read = Counter(_keys(value))
    for name in fields:
        if len(re.findall(rf"{_QUOTE.pattern}{name}\\*{_QUOTE.pattern}\s*:", text + rest)) > read[name]:
            return Problem(f'its JSON is not valid, and "{name}" is lost or repeated')
    if not isinstance(value, dict):
        return Problem("its JSON is not an object")
    if key not in value:
        return value  # it is no answer, so no answer is lost
    if unknown := [name for name in read if name not in fields]:
        return Problem(f'its JSON is not valid near "{unknown[0][:40]}": {_ESCAPED}')
    plain = _QUOTED.sub(r"\1", text)
    for inner in filter(_QUOTE.search, _texts(value)):  # its first or last quote may be the text's own end
        if not re.search(rf"{_QUOTE.pattern}{re.escape(inner)}{_QUOTE.pattern}", plain):
            return Problem(f'its JSON is not valid near "{inner[:40]}": {_ESCAPED}')
    if missing := _words(_COMMENT.sub(" ", text)) - _words(json.dumps(value, ensure_ascii=False)):
        return Problem(f'its JSON is not valid, and "{next(iter(missing))[:40]}" is lost: {_ESCAPED}')
    return value


def _words(text: str) -> Counter[str]:
    """Count the words and signs of JSON, whatever their case and spelling."""
    plain = valid(_ESCAPE.sub(_unescaped, text)).casefold()
    return Counter("null" if word == "none" else word for word in _WORD.findall(plain))


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else " "


def _is_whole_value(text: str, name: str, value: object) -> bool:
    """Whether a yes or no, in any wording, is the whole value of its key in the text. Longer values pass."""
    word = str(value).strip()
    if not isinstance(value, bool | str) or len(word) > len("false"):
        return True
    pattern = rf"""{re.escape(name)}\W{{0,3}}:\s*["']?\s*{re.escape(word)}\s*["']?\s*{_ENDS}"""
    return re.search(pattern, text, re.IGNORECASE) is not None


def _flat(text: str) -> bool:
    depths = list(accumulate({"{": 1, "[": 1, "}": -1, "]": -1}.get(c, 0) for c in text))
    return max(depths) <= MAX_DEPTH and text.count("{") + text.count("[") <= MAX_BRACKETS


def _keys(value: object) -> Iterator[str]:
    """Every key at any depth."""
    for inner in _parts(value):
        if isinstance(inner, dict):
            yield from inner


def _texts(value: object) -> Iterator[str]:
    """Every text at any depth, without keys."""
    return (inner for inner in _parts(value) if isinstance(inner, str))


def _parts(value: object) -> Iterator[object]:
    """The value, and what is in it."""
    pending = [value]
    while pending:
        inner = pending.pop()
        yield inner
        if isinstance(inner, dict):
            pending += inner.values()
        elif isinstance(inner, list):
            pending += inner
