"""Questions that a run asks the owner of a dataset about its robot, and the answers to choose from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from goalreel.planners.kinematic.layout import Finding
from goalreel.planners.kinematic.robot import Robot

_LETTERS = "ABCDEF"


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to a question."""

    letter: str
    answer: str
    """One of `Finding.answers`."""
    words: str
    """The case in which it is right, such as `it is closed in row A`."""
    option: str
    """The option of `goalreel annotate` that gives it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the robot that the data leave open."""

    finding: Finding
    about: str
    """Such as `which end of the gripper is closed`."""
    look: str
    """The same as asked of someone who looks at the picture."""
    choices: tuple[Choice, ...]
    rows: Mapping[str, str]
    """The rows of the picture by their labels, each as the answer that it alone would be."""
    picture: Path | None = None

    def __str__(self) -> str:
        """One line with the options that answer it."""
        line = f"{self.about} is not known ({self.finding.reason})"
        if self.picture:
            options = ", or ".join(f"{choice.option} if {choice.words}" for choice in self.choices)
            return f"{line}: look at {self.picture}, and say {options}"
        options = " or ".join(choice.option for choice in self.choices)
        return f"{line}: say {options}" if options else line


def find_question(robot: Robot, layout: str | None = None) -> Question | None:
    """Find the first thing that a run needs and the data do not tell; None where all is known.

    The options of the answers repeat `layout`, which a person has said before.
    """
    if not robot.unknown:
        return None
    finding = robot.unknown[0]
    about, look, words = _words(finding)
    said = "--camera " if finding.field == "camera" else f"--layout {layout}," if layout else "--layout "
    shown = list(dict.fromkeys(hand for answer in finding.answers for hand in _hands(answer)))
    labels = _LETTERS if shown == list(finding.answers) else "123456789"
    rows: dict[str, str] = dict(zip(labels, shown, strict=False))
    choices: list[Choice] = []
    for letter, answer in zip(_LETTERS, finding.answers, strict=False):
        own = [label for label, row in rows.items() if row in _hands(answer)]
        where = f"row{'s' if own[1:] else ''} {' and '.join(own)}" if own else "no row"
        where += " alone" if labels != _LETTERS and len(own) == 1 else ""
        choices.append(Choice(letter, answer, words.format(where), said + answer))
    return Question(finding, about, look, tuple(choices), rows)


def _hands(answer: str) -> list[str]:
    """The answer for each hand alone: `gripper=5` and `gripper=11` for `gripper=5/11`."""
    first, *more = answer.split(",")
    if not first.startswith("gripper="):
        return [answer]
    hands = first.removeprefix("gripper=").split("/")
    return [",".join([f"gripper={hand}", *more]) for hand in hands if hand != "none"]


def _words(finding: Finding) -> tuple[str, str, str]:
    """Say what is asked, what to look for in the picture, and when an answer is right."""
    *label, field = finding.field.split()
    hand = f"gripper {label[0]}" if label and label[0][0].isdigit() else " ".join(["the", *label, "gripper"])
    match field:
        case "closed":
            about = f"which end of {hand} is closed"
            return about, f"In which row is {hand} closed, or holds something?", "it is closed in {}"
        case "gripper":
            look = "In which rows does a gripper open or close from picture to picture?"
            return "the gripper", look, "it opens and closes in {}"
        case "camera":
            look = "Which row shows the work best, and stands still?"
            return "the camera of the goal images", look, "{} is best"
        case "state":
            return "the robot's state", "Which curve follows the robot?", "that of {} does"
        case _:
            return f"the robot's {finding.field}", f"Which {field} is right?", "{} is right"
