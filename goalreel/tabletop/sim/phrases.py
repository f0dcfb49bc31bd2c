"""Ways to say one thing: paraphrases of every mission and ways to join several into an instruction."""

PARAPHRASES: dict[str, tuple[str, ...]] = {
    "inside": (
        "put the {object} in the {target}",
        "place the {object} into the {target}",
        "drop the {object} into the {target}",
        "move the {object} into the {target}",
    ),
    "on": (
        "stack the {object} on the {target}",
        "place the {object} on top of the {target}",
        "put the {object} on the {target}",
        "set the {object} on top of the {target}",
    ),
    "left_of": (
        "move the {object} to the left of the {target}",
        "place the {object} to the left of the {target}",
        "put the {object} on the left side of the {target}",
    ),
    "right_of": (
        "move the {object} to the right of the {target}",
        "place the {object} to the right of the {target}",
        "put the {object} on the right side of the {target}",
    ),
    "in_front_of": (
        "move the {object} in front of the {target}",
        "place the {object} in front of the {target}",
        "bring the {object} in front of the {target}",
    ),
    "behind": (
        "move the {object} behind the {target}",
        "place the {object} behind the {target}",
        "put the {object} behind the {target}",
    ),
    "out_of": (
        "take the {object} out of the {target}",
        "remove the {object} from the {target}",
        "clear the {target}",
        "empty the {target}",
    ),
    "sort": (
        "sort the blocks by colour",
        "put every block that has a bowl of its own colour into that bowl",
        "sort the {objects} into the bowls of their own colour",
    ),
    "tower": (
        "build a tower with the {base} at the bottom, the {middle} in the middle and the {top} on top",
        "stack the {middle} on the {base} and the {top} on the {middle}",
    ),
    "clear_all": ("clear all the bowls", "empty every bowl", "take the blocks out of the bowls"),
}
"""Mission -> templates; the first is the plainest. `objects` is a list in words."""


def listed(names: list[str]) -> str:
    """Write names as `a, the b and the c`, without the first `the`."""
    head = ", the ".join(names[:-1])
    return f"{head} and the {names[-1]}" if head else names[-1]


def join(clauses: list[str], style: int) -> str:
    """Join clauses into one instruction, in one of JOINS ways, without a full stop at the end."""
    if len(clauses) == 1:
        return clauses[0]
    if style == 0:
        return ", then ".join(clauses)
    if style == 1:
        last = ", and finally " if len(clauses) > 2 else ", then "
        return f"first {', then '.join(clauses[:-1])}{last}{clauses[-1]}"
    if style == 2:
        return "; then ".join(clauses)
    return ". Then ".join([clauses[0].capitalize(), *clauses[1:]])


JOINS = 4
