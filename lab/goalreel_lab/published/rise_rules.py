"""Ask RISE's judge about a row, and read its replies, by the rules of `gpt_eval.py`."""

import re
from collections.abc import Mapping
from typing import Any, Literal

type Dimension = Literal["consistency", "reasoning", "quality"]

_SCORE = re.compile(r"final scores?(?:\W{0,8}|\s+is\W{1,8})(\d+)", re.IGNORECASE)


def asked(row: Mapping[str, Any]) -> tuple[Dimension, ...]:
    """List the dimensions that a row is marked in."""
    if row["category"] == "logical_reasoning":
        return ("consistency", "reasoning")
    free = given(row.get("consistency_free"))
    return ("reasoning", "quality") if free else ("consistency", "reasoning", "quality")


def read_score(reply: str) -> int | None:
    """Read the first "Final Score: n", 1-5; None where there is none.

    >>> read_score("It fits. **Final Score:** **4**")
    4
    """
    match = _SCORE.search(reply)
    score = int(match[1]) if match and len(match[1]) < 3 else 0
    return score if 1 <= score <= 5 else None


def read_binary(reply: str) -> int | None:
    """Read the first "Final Score: 0" as 1, and any higher as 5: how RISE marks logical reasoning."""
    match = _SCORE.search(reply)
    return None if match is None else 5 if match[1].strip("0") else 1


def given(value: object) -> bool:
    """Tell whether pandas has a value there; NaN is none."""
    return value is not None and value == value


def has_reference(row: Mapping[str, Any]) -> bool:
    """Tell whether a reference picture stands in for the input before the judge."""
    match row["category"]:
        case "spatial_reasoning":
            return given(row.get("reference_img"))
        case "logical_reasoning":
            return not given(row.get("reference_txt"))
    return False


def sees_first(row: Mapping[str, Any]) -> bool:
    """Tell whether the judge of reasoning is shown the input, or the reference picture, too."""
    if has_reference(row):
        return True
    return row["category"] != "logical_reasoning" and given(row.get("reasoning_img"))


def prompt_name(dimension: Dimension, row: Mapping[str, Any]) -> str:
    """Name the judge's prompt in `utils.py`."""
    picture = has_reference(row)
    with_input = sees_first(row)
    match row["category"], dimension:
        case "logical_reasoning", "consistency":
            return "prompt_logical_cons" if picture else "prompt_logical_cons_ans"
        case "logical_reasoning", _:
            if not picture:
                return "prompt_logical_txt"
            return "prompt_logical_img_wo_q" if "reasoning_wo_ins" in row else "prompt_logical_img"
        case "spatial_reasoning", "consistency":
            return "prompt_spatial_cons"
        case "spatial_reasoning", "quality":
            return "prompt_spatial_qual"
        case "spatial_reasoning", _:
            if picture:
                return "prompt_spatial_ref_img"
            return "prompt_spatial_ref_w_input" if with_input else "prompt_spatial_ref"
        case _, "consistency":
            return "prompt_consist"
        case _, "quality":
            return "prompt_generation"
    return "prompt_reasoning_w_input" if with_input else "prompt_reasoning"
