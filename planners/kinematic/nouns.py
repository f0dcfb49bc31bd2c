"""Whether words are a plain English noun, with at most an article and a few adjectives.

There is no dictionary. What may be a verb, a second clause or another language is no plain noun.
"""

import re

from goalreel.planners.kinematic.verbs import RELATIONS, VERBS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DETERMINERS = _words(
    "the a an one two three four five six all every each both any some my your its this that these those"
)
_ADJECTIVES = _words("open empty clean closed lower upper")
_OTHERS = _words(
    "and or but then to from until while so which who is are was be it them him her i you we not no if when "
    "where there here with without by for at as before after again once only also please using use up down "
    "back home away forward together apart "
    # of other languages
    "le la les un une des du der die das den dem ein eine el los las una lo il gli det dans et und y con"
)
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
    words = text.split()
    while words and words[0] in _DETERMINERS:
        words = words[1:]
    return 0 < len(words) <= _LONGEST and all(map(_is_plain, words))


def _is_plain(word: str) -> bool:
    if not word.isascii() or not word.replace("-", "").replace("'", "").isalnum():
        return False
    if word in _ADJECTIVES:
        return True
    return word not in _OTHERS | _VERB_WORDS | _RELATION_WORDS | _DETERMINERS
