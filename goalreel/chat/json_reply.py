"""Find the one JSON object in a model's reply, or the reason why there is none.

What is neither JSON nor a Python literal is a Problem: the model is asked again, with a schema.
"""

import ast
import io
import json
import re
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError

from goalreel.types import Text

MAX_REPLY = 100_000
"""Characters; about a hundred times a usual reply."""
_JSON_NAMES = {"true": True, "false": False, "null": None}


class RepeatedKeyError(Exception):
    """An object has a key twice."""


def make_dict(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary, as `object_pairs_hook` of `json.loads`; RepeatedKeyError names a repeated key."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise RepeatedKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=make_dict, strict=False)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_OPENING = re.compile(r"\s*[<\[◁](think|thinking|thought|reasoning)[>\]▷]", re.IGNORECASE)
_LEFT_OVER = re.compile(r'"\s*[}\]]')  # the end of a text that contains a bracket, after an answer
_AFTER_STRING = re.compile(r"\s*(?:[,:}\]]|\Z)")
_BEFORE = re.compile(
    r"([^<>\[\]{}|]{0,200}?)\s*(?:<answer>\s*)?(?:<\|begin_of_box\|>\s*)?(?:```\s*(?i:json)?\s*)?"
)
_AFTER = re.compile(
    r"(?:[\s`*.]|</answer>|</s>|<\|?(?:im_end|end|eot_id|end_of_turn|end_of_box|endoftext)\|?>)*"
)
"""The text before and after an answer that has to be alone."""
_ESCAPED = 'write quotes within a text as \\"'


@dataclass(frozen=True)
class Problem:
    """The reason for which a reply is rejected, in words for the model that wrote it."""

    message: str


@dataclass(frozen=True)
class ParsedReply:
    """A reply's JSON object, the thinking before it, and the words between the two."""

    value: dict[str, Any]
    thinking: str
    before: str


def valid(text: str) -> str:
    """Make a text valid Unicode: join surrogate pairs and replace lone surrogates."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean(text: str) -> str:
    """Make a text valid Unicode, with a space for each control character except tabs and line ends."""
    return _CONTROLS.sub(" ", valid(text))


def _text(value: object) -> object:
    """Clean a text; a placeholder such as "..." or "-" becomes empty."""
    if not isinstance(value, str):
        return value
    text = clean(value).strip()
    return text if text.strip(" .…-–—_?") else ""


def _nullable(value: object) -> object:
    """Clean a text; None for a word such as "none" or "n/a"."""
    value = _text(value)
    is_nothing = isinstance(value, str) and value.casefold().rstrip(".") in ("none", "null", "n/a")
    return None if is_nothing else value


def optional(value: object) -> object:
    """Clean a text; None for an empty one, too."""
    return _nullable(value) or None if isinstance(value, str) else value


WrittenText = Annotated[Text, BeforeValidator(_text)]
NullableText = Annotated[Text | None, BeforeValidator(_nullable)]
OptionalText = Annotated[Text | None, BeforeValidator(optional)]


def _closed(schema: dict[str, Any]) -> None:
    """Adapt a schema to endpoints that enforce one: every key is required, no other, no default."""
    schema["additionalProperties"] = False
    for value in schema["properties"].values():
        value.pop("default", None)


class ReplyModel(
    BaseModel, strict=True, json_schema_extra=_closed, json_schema_serialization_defaults_required=True
):
    """The object of a reply."""


def read_answer(reply: str, key: str, *, alone: bool = False) -> ParsedReply | Problem:
    """Read the only JSON object in `reply` with `key` at its top level.

    With `alone` it is the only object behind the thinking, after a few words at most, and ends the reply.
    """
    if len(reply) > MAX_REPLY:
        return Problem(f"it is longer than {MAX_REPLY:,} characters")
    split = _split(clean(reply), key, alone=alone)
    if isinstance(split, Problem):
        return split
    thinking, text = split
    blocks = list(_blocks(text))
    answers, last = [], 0
    for block, end in blocks:
        if key not in block:
            continue
        value = _read(block) if end else Problem("it was cut off before its JSON ended: be shorter")
        if isinstance(value, Problem):
            return value
        last = end
        if key in value and value not in answers:
            answers.append(value)
    if len(answers) > 1:
        return Problem(f"it holds {len(answers)} answers that differ")
    if not answers:
        return Problem(f'it holds no JSON object with "{key}"')
    if _LEFT_OVER.search(text, last):
        return Problem(f"its JSON ends within a text: {_ESCAPED}")
    before = _BEFORE.fullmatch(text, 0, text.find("{"))
    if alone and (len(blocks) > 1 or not before or not _AFTER.fullmatch(text, last)):
        return Problem("the answer is not alone: write thoughts in <think></think>, and nothing after it")
    return ParsedReply(answers[0], thinking, before[1].strip("`* \n") if before else "")


def read_model[M: BaseModel](
    kind: type[M], reply: str, key: str, *, faults: int = 1, alone: bool = False
) -> tuple[M, ParsedReply] | Problem:
    """Read a reply's object, as `read_answer` does, as a `kind`; a Problem names `faults` faults at most."""
    answer = read_answer(reply, key, alone=alone)
    if isinstance(answer, Problem):
        return answer
    try:
        return kind.model_validate(answer.value), answer
    except ValidationError as e:
        first = e.errors(include_input=False, include_url=False, include_context=False)[:faults]
        return Problem("; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in first))


def _split(text: str, key: str, *, alone: bool) -> tuple[str, str] | Problem:
    """Split off the thinking. The opening tag may be missing: some chat templates write it themselves."""
    if opening := _OPENING.match(text):
        closing = re.compile(rf"[<\[◁]/{opening[1]}[>\]▷]", re.IGNORECASE)
        text = f"<think>{closing.sub('</think>', text[opening.end() :], count=1)}"
    thinking, closing_tag, rest = text.partition("</think>")
    is_answer = re.compile(rf"{key}\W{{0,4}}:")  # a mention of the key alone is none
    if closing_tag and not opening and any(is_answer.search(block) for block, _ in _blocks(thinking)):
        return Problem("it answers before the thinking ends")
    if not closing_tag:
        thinking, answer_tag, rest = text.partition("<answer>")
        if opening and (alone or not answer_tag):
            return Problem("it ended before the thinking did")
        if alone or not answer_tag:
            return "", text
    return thinking.strip().removeprefix("<think>").strip(), rest


def _blocks(text: str) -> Iterator[tuple[str, int]]:
    """Yield every outermost {...} and its end; 0 is the end of one that is cut off."""
    at = text.find("{")
    while at >= 0:
        end = _end(text, at)
        yield text[at : end or len(text)], end
        at = text.find("{", end) if end else -1


def _end(text: str, start: int) -> int:
    """Find the end of the bracket at `start`; 0 where it is open."""
    depth, quote, previous, at = 0, "", "", start
    while at < len(text):
        c = text[at]
        if quote:
            if c == "\\":
                at += 1
            elif c == quote and _AFTER_STRING.match(text, at + 1):
                quote = ""
        elif c in "\"'" and previous in ("{", "[", ",", ":"):
            quote = c
        elif c in "{[":
            depth += 1
        elif c in "}]" and (depth > 1 or c == "}"):  # otherwise it belongs to a text with quotes
            depth -= 1
            if depth == 0:
                return at + 1
        previous = previous if c.isspace() else c
        at += 1
    return 0


def _read(text: str) -> dict[str, Any] | Problem:
    """Read a whole block."""
    try:
        try:
            value = _DECODER.decode(text)
        except ValueError:
            value = _literal(text)
    except RepeatedKeyError as e:
        return Problem(f"its JSON has the key {str(e)[:40]!r} twice in one object")
    except RecursionError:
        return Problem("its JSON is nested too deeply")
    except (ValueError, SyntaxError, MemoryError, TypeError, tokenize.TokenError):
        return Problem(f"its JSON is not valid: {_ESCAPED}")
    return value if isinstance(value, dict) else Problem("its JSON is not an object")


class _JsonNames(ast.NodeTransformer):
    """Reads `true`, `false` and `null` in a Python literal, and refuses a key that is there twice."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(_JSON_NAMES[node.id]) if node.id in _JSON_NAMES else node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        make_dict([(str(key.value), None) for key in node.keys if isinstance(key, ast.Constant)])
        return self.generic_visit(node)


def _literal(text: str) -> object:
    """Read a Python literal, as InterleaveThinker's checkpoints write it; a comment may take it back."""
    with warnings.catch_warnings(action="ignore"):  # of odd escapes
        value = ast.literal_eval(_JsonNames().visit(ast.parse(text, mode="eval")))
    if any(t.type == tokenize.COMMENT for t in tokenize.generate_tokens(io.StringIO(text).readline)):
        raise ValueError("a comment")
    return value


def tagged_reply(thinking: str, answer: Mapping[str, object]) -> str:
    """Write a reply as `read_answer` reads it back: an agent is trained on such texts."""
    return f"<think>{thinking}</think>\n<answer>{json.dumps(answer, ensure_ascii=False)}</answer>"
