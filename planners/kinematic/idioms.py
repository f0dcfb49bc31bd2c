"""Expand instructions that name several steps at once into plain clauses."""

import re

from goalreel.planners.kinematic.nouns import is_noun, singular

_TOWER = re.compile(
    r"\bbuild a tower with (?P<base>.+?) at the bottom, (?P<middle>.+?) in the middle,?"
    r" and (?P<top>.+?) on top\b",
    re.IGNORECASE,
)
_OWN_COLOUR = re.compile(
    r"\bsort (?P<things>the .+?) into the (?P<places>\w+s) of their own colou?r\b", re.IGNORECASE
)
_HOLD = re.compile(
    r"\b(?P<pick>(?:pick|grasp|grab|lift) [^,.;]+?),? and (?:then )?hold (?:it|them)(?= *(?:$|[,.;]))",
    re.IGNORECASE,
)
"""Holding adds nothing to picking up."""
_REACH = re.compile(
    r"\breach (?:out )?(?:over|around|behind|into|in|inside|under|through|across|between|towards?) "
    r"(?P<place>[^,.;]+?),? (?:and then|and|then) (?!it\b)",
    re.IGNORECASE,
)
"""Reaching is part of what the hand does then."""
_RETURN = re.compile(
    r"(?:[,.;]? *\b(?:and then|then|and|finally|after that)\b,?|[,.;]) +(?:please )?"
    r"(?:go|come|move|return|drive)(?: back)?(?: to)?(?: the| its| your)?"
    r" (?:home|start|starting|initial|rest|resting|neutral)(?: (?:position|pose))?[.!]? *$",
    re.IGNORECASE,
)


def expand_idioms(instruction: str) -> str:
    """Rewrite every known idiom; other text stays as it is.

    >>> expand_idioms("sort the red cup and the blue cup into the bowls of their own colour")
    'put the red cup in the red bowl, then put the blue cup in the blue bowl'
    """
    text = _HOLD.sub(r"\g<pick>", _REACH.sub(_drop_reach, instruction))
    text = _TOWER.sub(r"stack \g<middle> on \g<base>, then stack \g<top> on \g<middle>", text)
    return _OWN_COLOUR.sub(_sort_clauses, text)


def split_return(instruction: str) -> tuple[str, bool]:
    """Take off a last request to go home, which needs no contact; say whether there was one.

    >>> split_return("put the cup in the box and return to the home position.")
    ('put the cup in the box', True)
    >>> split_return("take the cup home")
    ('take the cup home', False)
    """
    text = _RETURN.sub("", instruction)
    return (text, True) if text.strip() and text != instruction else (instruction, False)


def _drop_reach(match: re.Match[str]) -> str:
    """Nothing, where only a place is named: "reach into the box twice" says more."""
    return "" if is_noun(match["place"]) else match[0]


def _sort_clauses(match: re.Match[str]) -> str:
    """Expand only where every object has a colour of its own: "the red block", not "the blocks"."""
    things = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", match["things"])
    word_lists = [thing.split() for thing in things]
    if any(len(w) != 3 or w[0].lower() != "the" for w in word_lists):
        return match[0]
    place = singular(match["places"])
    return ", then ".join(f"put the {w[1]} {w[2]} in the {w[1]} {place}" for w in word_lists)
