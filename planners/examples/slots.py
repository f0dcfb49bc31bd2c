"""Words that travel from one instruction to another, where they differ in a thing or a place."""

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from goalreel.types import Step

_SHARED = 0.5  # share of the words that two instructions have in common, if they ask for the same motion
_APART = 1  # words in common between two differences that are one
_LONGEST = 6
_LETTER = r"[\w\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0981-\u109d\u17b4-\u17d3\u200c\u200d]"
"""With accents and vowel signs, which are characters of their own in Hindi or Thai."""
_WORDS = re.compile(rf"(?:(?<!\S)[+-](?=\d))?{_LETTER}+(?:['-]{_LETTER}+)*")
LEFT = "the labelled episodes' words do not say what this instruction says"


def find_slots(example: str, instruction: str) -> Mapping[str, str] | None:
    """Map what differs between two instructions; empty if nothing does, None if they are not alike.

    None too where a word stands for two things: "put the cup in the cup" and "put the cup in the box".

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
    same = [a for a, (x, y) in enumerate(zip(old, new, strict=False)) if x == y]
    opcodes = [(a, b, c, d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    if len(old) == len(new) and len(same) >= sum(block.size for block in matcher.get_matching_blocks()):
        opcodes = [(a, a + 1, a, a + 1) for a in range(len(old)) if a not in same]
    for a, b, c, d in opcodes:
        if spans and a - spans[-1][1] <= _APART:
            spans[-1] = (spans[-1][0], b, spans[-1][2], d)
        else:
            spans.append((a, b, c, d))
    pairs: list[tuple[str, str]] = []
    for a, b, c, d in spans:
        if a == b or c == d:  # words that one of them has in addition: take their neighbours along
            if not a:  # "do not put it there" asks for something else
                return None
            after = 1 if max(b - len(old), d - len(new)) < 0 else 0
            a, b, c, d = a - 1, b + after, c - 1, d + after
        if max(b - a, d - c) > _LONGEST:
            return None
        pairs.append((" ".join(old[a:b]), " ".join(new[c:d])))
    slots = dict(pairs)
    said = f" {' '.join(old)} ".replace(" ", "  ")
    if any(said.count(f" {o.replace(' ', '  ')} ") != pairs.count((o, n)) for o, n in slots.items()):
        return None
    return slots


@lru_cache(8)
def join_alike(instructions: tuple[str, ...]) -> Mapping[str, str]:
    """Map each instruction to the first one with its verb that differs from it in a few words, or to itself.

    >>> join_alike(("put the pear away", "put the meat away", "take the pear away"))["put the meat away"]
    'put the pear away'
    """
    firsts = dict[str, str]()
    for text in instructions:
        same = (one for one in dict.fromkeys(firsts.values()) if words(one)[:1] == words(text)[:1])
        firsts[text] = next((one for one in same if find_slots(one, text) is not None), text)
    return firsts


def replaced(step: Step, slots: Mapping[str, str]) -> Step:
    """Replace the slots in a step's name, claim and prompt."""
    texts = {key: getattr(step, key) for key in ("name", "instruction", "prompt", "auxiliary_text")}
    return step.model_copy(update={key: _replace(text, slots) for key, text in texts.items() if text})


def unsaid(labelled: Sequence[Step], steps: Sequence[Step], slots: Mapping[str, str]) -> bool:
    """Tell if `steps`, `labelled` after `replaced`, leave out what a slot says, or say what it replaced.

    Words that speak of no slot, such as "grasp it", leave nothing out.
    """
    before, after = _said(labelled), _said(steps)
    for old, new in slots.items():
        added, gone = set(words(new)) - set(words(old)), set(words(old)) - set(words(new))
        if old in slots.values():  # things that change places
            gone = set[str]()
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
    """Replace all slots at once: two of them may change places."""
    if not slots:
        return text
    longest = sorted(slots, key=len, reverse=True)
    pattern = "|".join(r"\W+".join(map(re.escape, old.split())) for old in longest)

    def new(found: re.Match[str]) -> str:
        text = slots.get(" ".join(words(found[0])), found[0])
        return text[:1].upper() + text[1:] if found[0][:1].isupper() else text

    return re.sub(rf"(?<!{_LETTER})(?:{pattern})(?!{_LETTER})", new, text, flags=re.IGNORECASE)
