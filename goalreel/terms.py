"""The words and defaults that settings share with the types: importing them loads no library."""

from collections.abc import Mapping
from typing import Literal

type Stage = Literal["plan", "edit", "judge"]
"""Task of a model; the name of its method."""
type Role = Literal["planner", "editor", "critic"]
"""Role of a model."""
ROLES: tuple[Role, ...] = ("planner", "editor", "critic")
STAGE_OF_ROLE: Mapping[Role, Stage] = {"planner": "plan", "editor": "edit", "critic": "judge"}
ROLE_OF_STAGE: Mapping[Stage, Role] = {stage: role for role, stage in STAGE_OF_ROLE.items()}

KEEP = "Keep everything else unchanged."
"""Ends a prompt that is derived from a step's words."""
_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}


def check_controls(text: str) -> str:
    r"""Return a text without control characters, which end lines, colour terminals or turn words round.

    >>> check_controls("pick up\nthe cup")
    'pick up\nthe cup'

    Raises:
        ValueError: it holds one that is no white space.
    """
    for sign in text:
        code = ord(sign)
        if (code < 32 or 127 <= code < 160 or code in _BIDI) and not sign.isspace():
            raise ValueError(f"it holds the control character U+{code:04X}: remove it")
    return text


type OnRejected = Literal["stop", "continue"]
"""Reaction of the loop: go on or stop after a step without an accepted picture."""
Keep = Literal["best", "last"]
"""Which attempt is chosen where none was accepted. `best`: by the Critic's scores, else by its probability
of success, else the last. `last`: always the last, as in the paper."""

Mode = Literal["strict", "fast"]
"""Which of its two prompts a Critic gets."""

Background = Literal["correct", "measure", "ignore"]
"""Reaction to an edit that moved the background. `correct`: a little is warped back, a lot rejected.
`measure`: it is measured and recorded. `ignore`: nothing."""

type ControlKind = Literal[
    "blank",
    "unchanged",
    "earlier_goal",
    "later_words",
    "opposite_words",
    "other_thing",
    "other_change",
    "damaged",
    "true",
]
"""Kinds of control questions, roughly the easiest first; the true answer is no, but for `true`."""

References = Literal["none", "first", "all"]
"""Which pictures an editor is shown beside the one that it edits: none, the first one, or all before it."""

type Granularity = Literal["event", "subtask", "phase"]
"""`event` cuts where the hand closes on an object and where it lets go; `subtask` at the clauses of the
instruction, and after the picking up where it is named; `phase` into reach, grasp, lift, move, place,
retreat."""

LabelForm = Literal["rows", "annotations", "subtask_index", "tasks"]
"""A form in which a dataset may have sub-task labels already (`goalreel.datasets.labels.LABEL_FORMS`)."""

SUBGOAL = "observation.images.subgoal"
"""The feature that the sub-goal camera is, unless it is given another name."""
SubGoalForm = Literal["plain", "bordered", "difference", "beside"]
"""Form in which the sub-goal camera shows a goal (`goalreel.subgoal_camera.in_form`)."""
DEFAULT_FORM: SubGoalForm = "bordered"
"""Among the forms that every policy can use, the one that needs no live frame."""
LIVE_FORMS: frozenset[SubGoalForm] = frozenset({"difference", "beside"})
"""The forms that change with every frame of the camera."""
