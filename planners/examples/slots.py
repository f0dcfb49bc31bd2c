"""Words that travel from one instruction to another, where they differ in a thing or a place."""

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from goalreel.types import Step

_SHARED = 0.5
"""Share of the words that two instructions have in common, if they ask for the same motion."""
_APART = 1
"""Words in common between two differences that are one."""
_LONGEST = 6
_WORDS = re.compile(r"\w+(?:['-]\w+)*")
LEFT = "the labelled episodes' words do not say what this instruction says"


def find_slots(example: str, instruction: str) -> Mapping[str, str] | None:
    """Map what differs between two instructions; empty if nothing does, None if they are not alike.

    >>> find_slots("put the pear on the plate", "put the meat on the plate")
    {'pear': 'meat'}
    >>> find_slots("put the pear on the plate", "open the door") is None
    True
    """
    old, new = words(example), words(instruction)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _SHARED:
        return None if old != new else {}
    spans: list[tuple[int, int, int, int]] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            continue
        if spans and a - spans[-1][1] <= _APART:
            spans[-1] = (spans[-1][0], b, spans[-1][2], d)
        else:
            spans.append((a, b, c, d))
    slots: dict[str, str] = {}
    for a, b, c, d in spans:
        if a == b or c == d:  # words that one of them has in addition: take a neighbour along
            a, c = max(0, a - 1), max(0, c - 1)
        if a == b or c == d or max(b - a, d - c) > _LONGEST:
            return None
        slots[" ".join(old[a:b])] = " ".join(new[c:d])
    return slots


def replaced(step: Step, slots: Mapping[str, str]) -> Step:
    """Replace the slots in a step's name, claim and prompt."""
    texts = {
        key: text
        for key in ("name", "instruction", "prompt", "auxiliary_text")
        if (text := getattr(step, key))
    }
    return step.model_copy(update={key: _replace(text, slots) for key, text in texts.items()})


def unsaid(labelled: Sequence[Step], steps: Sequence[Step], slots: Mapping[str, str]) -> bool:
    """Tell if `steps`, `labelled` after `replaced`, leave out what a slot says, or say what it replaced.

    Words that speak of no slot, such as "grasp it", leave nothing out.
    """
    before, after = _said(labelled), _said(steps)
    for old, new in slots.items():
        added, gone = set(words(new)) - set(words(old)), set(words(old)) - set(words(new))
        if gone & after or (added - after and (not gone or gone & before)):
            return True
    return False


def _said(steps: Sequence[Step]) -> set[str]:
    texts = (text for step in steps for text in (step.name, step.instruction, step.prompt or ""))
    return {word for text in texts for word in words(text)}


def words(text: str) -> list[str]:
    """List the words of a text, in small letters."""
    return _WORDS.findall(text.casefold())


def _replace(text: str, slots: Mapping[str, str]) -> str:
    for old, new in slots.items():
        pattern = r"\W+".join(map(re.escape, old.split()))
        text = re.sub(
            rf"(?<!\w){pattern}(?!\w)", lambda found, new=new: _like(found[0], new), text, flags=re.IGNORECASE
        )
    return text


def _like(old: str, new: str) -> str:
    return new[:1].upper() + new[1:] if old[:1].isupper() else new
