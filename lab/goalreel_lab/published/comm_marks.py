"""Read the marks in a reply of CoMM's judge: one JSON object, from the first brace to the last."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

MEASURES = ("sty", "enti", "tren", "comp", "imgq", "irs")
"""Style, entity and trend consistency, completeness, image quality, illustration relevance."""

MAX_REPLY = 100_000

_SCORES = {
    "sty": ("Image_Coherence", "overall_score", "style_consistency"),
    "enti": ("Image_Coherence", "overall_score", "entity_consistency"),
    "tren": ("Image_Coherence", "overall_score", "trend_consistency"),
    "comp": ("Completeness", "Score"),
    "imgq": ("Image_Quality", "Score"),
}
_ABSENT = ("NA", "N/A")


def read_document(reply: str) -> dict[str, float | None] | None:
    """Read the five scores of a document, 0-10, each None where it is no such number; None without any.

    What the judge calls not applicable, by null or "NA", is 0, as in their `cal_gpt4o_score.py`.
    """
    scores = _at(_json(reply), ("scores",))
    if not isinstance(scores, dict):
        return None
    read = {key: _score(scores, path) for key, path in _SCORES.items()}
    return read if any(value is not None for value in read.values()) else None


def read_descriptions(reply: str) -> list[str] | None:
    """Read what each hidden picture should show, in the order of the numbers; None for nothing."""
    tasks = _at(_json(reply), ("Tasks",))
    if not isinstance(tasks, dict):
        return None
    numbered = [
        (int(number[0]), text.strip())
        for contents in tasks.values()
        if isinstance(contents, dict)
        for key, text in contents.items()
        if isinstance(text, str) and (number := re.findall(r"\d{1,4}", key))
    ]
    return [text for _, text in sorted(numbered)] or None


def read_fidelity(reply: str) -> float | None:
    """Read how well pictures and descriptions agree, 0-10; None where it is no such number."""
    return _score(_json(reply), ("Consistency", "overall_score"))


def six(marks: Mapping[str, Any]) -> dict[str, float | None]:
    """Give the six measures of a sample, None where the judge gave none."""
    document = marks.get("document") or {}
    return {**{key: document.get(key) for key in _SCORES}, "irs": marks.get("irs")}


def _json(reply: str) -> Any:
    start, end = reply.find("{"), reply.rfind("}")
    if not 0 <= start < end or end - start > MAX_REPLY:
        return None
    try:
        return json.loads(reply[start : end + 1])
    except (ValueError, RecursionError):
        return None


def _at(value: Any, path: tuple[str, ...]) -> Any:
    """Look up the keys of `path`; an empty text where one of them is not there."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return ""
        value = value[key]
    return value


def _score(value: Any, path: tuple[str, ...]) -> float | None:
    score = _at(value, path)
    if score is None or score in _ABSENT:
        return 0.0
    if isinstance(score, str) and (number := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*10)?\s*", score)):
        score = float(number[1])
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    return float(score) if math.isfinite(score) and 0 <= score <= 10 else None
