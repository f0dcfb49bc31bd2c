"""Whether words are a plain English noun, with at most an article and a few adjectives.

There is no dictionary. What may be a verb, a second clause or another language is no plain noun.
"""

import itertools
import re

from goalreel.planners.kinematic.verbs import RELATIONS, VERBS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DETERMINERS = _words(
    "the a an one two three four five six all every each both any some my your its this that these those"
)
_ARTICLES = frozenset(("the", "a", "my", "your"))
_THINGS = _words("cover hammer plug screw lock switch tap brush roll hook spray paint press stack load touch")
"""Verbs that are things behind an article: "the lock", "the red switch"."""
_ADJECTIVES = _words("open empty clean closed lower upper")
_OTHERS = _words(
    "and or but then to from until while so which who is are was be it them him her i you we not no if when "
    "where there here with without by for at as before after again once only also please using use up down "
    "back home away forward backward sideways together apart "
    "everything something anything nothing one ones me us itself himself herself yourself themselves "
    "most half few several many much more less neither either none nor never also very too so just "
    "twice thrice times now soon later today tomorrow first last ok okay ready instead "
    "being been held having "
    "near past along across around upon within below beneath beyond per via than like because unless while "
    "um uh er hmm oops teh hte tha "
    # of the robot itself, and of what no hand takes
    "arm arms hand hands gripper grippers robot wrist finger fingers joint elbow effector "
    "care turn turns look picture photo order break seat step steps action task "
    # of those who record
    "test demo trial attempt try success successful successfully failed failure fail done episode version "
    # of other languages
    "le la les un une des du der die das den dem ein eine el los las una lo il gli det dans et und y con "
    "o os um uma il i"
)
_COLOURS = _words("red green blue yellow black white grey gray brown purple pink")
"""No nouns, unlike orange."""
_MEASURE = re.compile(r"\d+(?!st$|nd$|rd$|th$)[a-z]+|v\d+")
"""Such as 10cm, or v2."""
_LY = _words("jelly belly lily fly supply family")
"""Words in -ly that are no adverbs."""
_VERB_WORDS = frozenset(word for verb in VERBS for word in verb.split()) | _words(
    "go return reach look hold release let keep make wait hammer cut screw plug unplug hit kick throw"
)
_RELATION_WORDS = frozenset(word for relation in RELATIONS for word in relation.split()) - {
    "left",
    "right",
    "top",
}
_OWN_COLOUR = re.compile(r" that (?:has|have) an? \w+ of (?:its|their) own colou?r$")
_LONGEST = 4
"""Adjectives and noun together."""


def is_noun(text: str) -> bool:
    """Whether the text is one plain noun, or two joined by "of".

    >>> is_noun("the small red block"), is_noun("a cup of tea"), is_noun("the nail and go home")
    (True, True, False)
    >>> is_noun("the hammer"), is_noun("hammer"), is_noun("the hammer hit")
    (True, False, False)
    """
    first, joined, second = _OWN_COLOUR.sub("", text.lower()).partition(" of ")
    return _is_simple(first) and (not joined or _is_simple(second))


def is_place(text: str) -> bool:
    """Whether the text is one preposition and plain nouns: "in the bowl", "between the cup and the plate".

    >>> is_place("in the yellow bowl"), is_place("from the counter to the plate")
    (True, False)
    """
    for relation in sorted(set(RELATIONS.values()), key=len, reverse=True):
        if text.startswith(f"{relation} "):
            nouns = (
                text.removeprefix(relation).split(" and ")
                if relation == "between"
                else [text[len(relation) :]]
            )
            return all(is_noun(noun.strip()) for noun in nouns)
    return False


def _is_simple(text: str) -> bool:
    tokens = text.split()
    if len(tokens) > 1 and tokens[0] in _ARTICLES and tokens[-1] in _THINGS:
        return len(tokens) == 2 or _is_simple(f"{' '.join(tokens[:-1])} thing")
    while tokens and (tokens[0] in _DETERMINERS or tokens[0].isdecimal()):
        tokens = tokens[1:]
    if not 0 < len(tokens) <= _LONGEST or tokens[-1] in _COLOURS | _ADJECTIVES:
        return False
    # A number or a letter is the name of the last of several: "block 2", "box A".
    are_words = all(len(word) > 1 and not word.isdecimal() for word in tokens[:-1])
    repeated = any(a == b for a, b in itertools.pairwise(tokens))
    lettered = len(tokens) > 1 and len(tokens[-1]) == 1 and tokens[-1].isascii()
    return are_words and not repeated and all(map(_is_plain, tokens[:-1] if lettered else tokens))


def _is_plain(word: str) -> bool:
    if not word.isascii() or not word.replace("-", "").replace("'", "").isalnum():
        return False
    if word in _ADJECTIVES:
        return True
    if _MEASURE.fullmatch(word) or (word.endswith("ly") and word not in _LY):
        return False
    return word not in _OTHERS | _VERB_WORDS | _RELATION_WORDS | _DETERMINERS
