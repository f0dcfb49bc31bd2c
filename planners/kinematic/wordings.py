"""Rewrite everyday wordings of an instruction to the plain ones that `clauses.read` knows.

What is left out is said by the motion (which hand, the way to a thing), or says only which thing is meant.
"""

import re

from goalreel.planners.kinematic.words import COLOURS, DETERMINER, RELATIONS, VERBS, is_noun, singular

_JOINS = r"(?:[,;.] (?:and )?(?:then )?| and then | and | then )"
_START = r"(?:^|(?<=[,;.] )|(?<=\band )|(?<=\bthen ))"
_HAND = r"(?:the |your |its )?(?:(?:left|right|robot|robotic) )*(?:arm|hand|gripper|end[ -]effector)"
_THINGS_VERBS = "place|put|drop|move|stack|set|insert|lay|hang|transfer"

LEAD = re.compile(
    r"^(?:(?:please|kindly|ok(?:ay)?|first(?:ly)?|second(?:ly)?|third(?:ly)?|next|now|then|finally|lastly|last"
    r"|also|and|just|let's|let us|go ahead and|try to|make sure to|help me(?: to)?|(?:start|begin) by"
    r"|after(?= \w+ing\b)|(?:task|instruction|goal)(?=:)"
    r"|(?:you|(?:the )?robot(?: arm)?)(?: should| must| will| is to| (?:need|needs|have|has) to)?"
    r"|(?:can|could|would|will) you(?: please)?|(?:i|we)(?: would|'d)? (?:want|need|like)(?: you)? to"
    r"|(?:your|the) (?:task|goal|job) is to)\b[,:]?\s*)+",
    re.IGNORECASE,
)
"""Words before a verb that ask for nothing."""
_LEFT_OUT = re.compile(
    rf" *\b(?:with|using) {_HAND}(?: only)?(?=$|[,.;]| (?:and|then|the|a|{'|'.join((*VERBS, *RELATIONS))})\b)"
    rf"|\buse {_HAND} (?:to|and) "
    r"| *\b(?:very )?(?:carefully|gently|slowly|quickly|softly|safely|precisely|smoothly|firmly)(?=[ ,.;]|$)"
    r"|,? *\b(?:for me|thanks|thank you)(?=$|[.!,])"
    rf"|\b(?:pick|grasp|grab|lift)(?: up)?(?: and |-and-| & )(?=(?:{_THINGS_VERBS})\s+(?!it\b|them\b))"
    rf"|{_START}(?:open|close) (?:the |your |its )?(?:gripper|hand|fingers)(?: around it)?{_JOINS}(?=\w)",
    re.IGNORECASE,
)
"""A hand (`Step.auxiliary_text` has it), a manner, "pick and" before "place X", and the opening of a hand."""
_REACH = re.compile(
    rf"{_START}(?P<way>reach (?:out )?(?:for|to|over|around|behind|into|in|inside|under|through|across"
    r"|between|towards?)|approach|(?:go|move|come|get|drive|navigate)(?: over)? (?:to|towards?|near|above)"
    rf"|(?:move|bring|slide|lower|extend) {_HAND} (?:down )?(?:to|towards?|near|above|over)) "
    rf"(?P<place>[^,.;]+?){_JOINS}(?=(?P<verb>\w+))(?P<it>\w+(?: up)? it\b)?",
    re.IGNORECASE,
)
"""Reaching is part of what the hand does then."""
_LET_GO = re.compile(r"\blet (it|them) go\b|\blet go(?! of\b)|\brelease(?= *(?:$|[,.;]))", re.IGNORECASE)
_WHERE_IT_IS = re.compile(
    rf"^((?:{_THINGS_VERBS}|pick up|pick|grab|grasp|lift) (?:the |a )?[\w ]+?) (?:that|which)(?: is|'s)"
    r"(?: lying| sitting| standing)? (?:in|on|near|next to|inside) (?:the |a )[\w ]+?"
    r"(?= (?:in|into|on|onto|inside|next to|out of|to)\b| and\b|[,.;]|$)",
    re.IGNORECASE,
)
"""A place that says which thing is meant; no name needs it."""
_TOWER = re.compile(
    r"\bbuild a tower with (.+?) at the bottom, (.+?) in the middle,? and (.+?) on top\b", re.IGNORECASE
)
_OWN_COLOUR = re.compile(r"\bsort (the .+?) into the (\w+s) of their own colou?r\b", re.IGNORECASE)
_COLOURS = "|".join(sorted(COLOURS))
_ONE = re.compile(
    rf"(?P<before>\b(?:{_COLOURS}) (?P<noun>\w+)\b[^.;]*?\b(?:the|a) (?:{_COLOURS})) one(?=$|[ ,.;])",
    re.IGNORECASE,
)
_STEMS = {verb.split()[0] for verb in VERBS} | {"reach", "approach", "go"}
_FORMS = {f"{stem}{ending}": stem for stem in _STEMS for ending in ("s", "es", "ing", f"{stem[-1]}ing")}
_FORMS |= {f"{stem.removesuffix('e')}ing": stem for stem in _STEMS}
"""Another form of a verb -> the verb."""
_OBJECT = re.compile(rf"(?:up|down|over|to|for)\b|{DETERMINER.pattern}", re.IGNORECASE)
"""The words behind a verb, and not behind "cutting" in "cutting board in the sink"."""
_FIRST = re.compile(rf"{_START}\w+", re.IGNORECASE)
_FROM = re.compile(
    rf"^(?P<thing>.+?) (?:from|out of|off) (?P<source>(?:the |a )?[\w -]+?) "
    rf"(?P<place>(?P<to>{'|'.join(sorted(RELATIONS, key=len, reverse=True))}) .*)$",
    re.IGNORECASE,
)


def rewrite(instruction: str) -> str:
    """Rewrite an instruction that says more, or several steps at once.

    >>> rewrite("please reach for the potato, grasp it and put it gently on the plate")
    'grasp the potato and put it on the plate'
    >>> rewrite("The robot is picking up the cup with the left hand, and placing it on the shelf")
    'pick up the cup, and place it on the shelf'
    """
    text = _LEFT_OUT.sub("", _imperative(LEAD.sub("", instruction))).strip(" ,")
    text = _LET_GO.sub(lambda match: f"release {match[1] or 'it'}", text)
    for _ in range(2):  # after one way there may be another
        text = _REACH.sub(_reach, LEAD.sub("", text))
    text = _WHERE_IT_IS.sub(r"\1", _ONE.sub(_same_kind, text))
    text = _TOWER.sub(r"stack \2 on \1, then stack \3 on \2", text)
    return _OWN_COLOUR.sub(_sort, text) or instruction


def without_source(thing_and_places: str, verb: str) -> str:
    """Leave out where a thing comes from, of "the cup from the shelf to the table", if it is put elsewhere.

    >>> without_source("the cup from the shelf on the table", "put")
    'the cup on the table'
    >>> without_source("the cup from the shelf next to the sink", "take")  # the shelf is there
    'the cup from the shelf next to the sink'
    """
    match = _FROM.match(thing_and_places)
    if not match or not is_noun(match["source"]):
        return thing_and_places
    is_side = re.fullmatch(r"to (?:the )?(?:left|right)", match["place"], re.IGNORECASE)
    is_sure = verb == "put" or (match["to"].lower() in ("to", "into", "onto") and not is_side)
    return f"{match['thing']} {match['place']}" if is_sure else thing_and_places


def _imperative(text: str) -> str:
    """Turn "picks up" or "picking up", and what goes on in the same form, to the imperative."""
    text = re.sub(r"^is (?=\w+ing\b)", "", text, flags=re.IGNORECASE)
    first, _, others = text.partition(" ")
    first = first.lower()
    if first not in _FORMS or first in VERBS or not _OBJECT.match(others):
        return text

    def change(match: re.Match[str]) -> str:
        form = match[0].lower()
        return _FORMS.get(form, match[0]) if form[-1] == first[-1] else match[0]

    return _FIRST.sub(change, text)


def _reach(match: re.Match[str]) -> str:
    """Leave out the way to a thing, and name the thing where "it" is taken then."""
    verb, place, way = match["verb"].lower(), match["place"], match["way"].lower()
    if not is_noun(place):
        return match[0]
    if not match["it"]:
        return ""
    if match.start() and verb in ("release", "drop") and way.startswith(_GOES):
        return f"move it to {place}"
    is_taken = verb in VERBS and (VERBS[verb].kind == "pick" or verb == "take")
    is_named = (is_taken and not way.startswith("reach")) or way.endswith((" for", "approach"))
    if verb not in _OPENS and is_named and (is_taken or not match.start()):
        return f"{match['it'].removesuffix('it')}{place}"
    return match["it"] if match.start() and not is_taken else match[0]


_GOES = ("go to", "move to", "come to", "get to", "go over to", "move over to")
_OPENS = ("open", "close", "shut", "lock", "unlock")  # verbs of a door with a handle: "it" may be either


def _same_kind(match: re.Match[str]) -> str:
    """Say "the green cube" for "the green one" behind "the red cube", where no other thing has a colour."""
    things = re.findall(rf"\b(?:{_COLOURS}) (\w+)", match["before"], re.IGNORECASE)
    is_sure = things == [match["noun"]] and is_noun(f"the {match['noun']}")
    return f"{match['before']} {match['noun']}" if is_sure else match[0]


def _sort(match: re.Match[str]) -> str:
    things = [thing.split() for thing in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", match[1])]
    if any(len(thing) != 3 or thing[0].lower() != "the" for thing in things):
        return match[0]  # "the blocks" have no colour of their own
    place = singular(match[2])
    return ", then ".join(f"put the {hue} {noun} in the {hue} {place}" for _, hue, noun in things)
