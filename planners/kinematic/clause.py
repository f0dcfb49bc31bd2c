"""One request of an instruction, and how it is written."""

from dataclasses import dataclass
from typing import Literal

from goalreel.planners.kinematic.verbs import Means, VerbKind

KEEP = "Keep everything else unchanged."


def sentence(text: str) -> str:
    """`text` with a capital in front, but for a name that has a capital of its own.

    >>> sentence("put it down"), sentence("iPad: put it down")
    ('Put it down', 'iPad: put it down')
    """
    first, _, _ = text.partition(" ")
    return f"{text[0].upper()}{text[1:]}" if first.islower() else text


@dataclass(frozen=True, slots=True)
class Clause:
    """One request. `name` is its label, `state` what a camera sees when it is done."""

    name: str
    state: str
    kind: VerbKind
    object: str = ""
    several: bool = False
    """It is about more than one object, so it takes more than one grasp."""
    picked: bool = False
    """The instruction names the picking up as a separate step ("pick X and place it").

    With `tool` it names what the hand takes for it ("wipe the table with the sponge"): that is the `object`.
    """
    means: Means = "grasp"
    """What the hand does to the object: "wipe the table" needs a tool, "open the door" only a push."""
    way: Literal["", "up", "down", "sideways"] = ""
    """Where the words say that the hand takes the object to."""
    understood: bool = True
    """A rule has read every word of it."""
    unordered: bool = False
    """It is one of several that the instruction names in one breath ("put A and B in C")."""

    @property
    def grasps(self) -> bool:
        """Whether the hand must close on the object."""
        return self.kind != "act" or self.means == "grasp" or self.picked

    @property
    def takes_tool(self) -> bool:
        """Whether it names what the hand takes to do it."""
        return self.picked and self.means == "tool"

    @property
    def pulls(self) -> bool:
        """Whether the hand may as well hook on the object."""
        return self.means in ("pull", "lift")

    @property
    def prompt(self) -> str:
        """The clause as an edit of a picture.

        >>> Clause("put the blue cube in the bowl", "the blue cube is in the bowl", "put").prompt
        'Put the blue cube in the bowl. Keep everything else unchanged.'
        """
        return f"{sentence(self.name)}. {KEEP}"
