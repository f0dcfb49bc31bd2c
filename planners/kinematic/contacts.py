"""Find the contact of the hand that carries out each clause of an instruction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from goalreel.planners.kinematic.align import ClauseSpan, align, align_contacts
from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.grasps import FailedGrasp, sort_grasps
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.resisted_touches import find_resisted_touch, find_tool_touch, guess_touch
from goalreel.planners.kinematic.scene_change import see_touch
from goalreel.planners.kinematic.signals import Cycle
from goalreel.planners.kinematic.touches import Touch, explain, find_touches, is_one_touch
from goalreel.types import Recording


@dataclass(frozen=True)
class HandContacts:
    """The hand's grasps of an episode, and the contacts that carry out the clauses."""

    grasps: list[Cycle]
    failed_grasps: list[FailedGrasp]
    contacts: Sequence[Cycle | Touch] | None
    """One for each clause; None where no contact can be told apart for each."""
    explained: bool
    """The motion or the camera shows these contacts; otherwise they are guesses."""
    tool_touch: Touch | None = None
    """Where the tool of the only clause meets its thing, if that is seen."""

    def align(self, clauses: Sequence[Clause], motion: ArmMotion) -> list[ClauseSpan]:
        """Cut the episode into the parts of the clauses."""
        if self.contacts:
            return align_contacts(clauses, self.contacts, motion)
        parts = align(clauses, self.grasps, motion)
        return [replace(part, touch=self.tool_touch) for part in parts] if self.tool_touch else parts


def find_contacts(
    clauses: Sequence[Clause], recording: Recording, motion: ArmMotion, camera: str | None
) -> HandContacts:
    """Find the contacts by the motion, or as `camera` shows them, or guess a single one.

    Raises:
        DatasetError: a picture of `camera` cannot be read.
    """
    grasps, failed_grasps = sort_grasps(clauses, motion)
    contacts = _explain(clauses, grasps, recording, motion, camera)
    explained = contacts is not None
    if not explained and is_one_touch(clauses, grasps):
        touch = guess_touch(clauses[0], motion)
        contacts = None if touch is None else [touch]
    if contacts is not None:
        grasps = [contact for contact in contacts if isinstance(contact, Cycle)]
    tool_touch = None if contacts else find_tool_touch(clauses, grasps, motion)
    return HandContacts(grasps, failed_grasps, contacts, explained, tool_touch)


def find_any_contacts(clause: Clause, motion: ArmMotion) -> HandContacts:
    """Find the contacts of a clause that no rule understands: its grasps, or the only touch."""
    grasps, failed_grasps = sort_grasps([clause], motion)
    touches = [] if grasps or failed_grasps else find_touches(motion, 0, len(motion))
    return HandContacts(grasps, failed_grasps, touches if len(touches) == 1 else None, False)


def _explain(
    clauses: Sequence[Clause],
    grasps: Sequence[Cycle],
    recording: Recording,
    motion: ArmMotion,
    camera: str | None,
) -> Sequence[Cycle | Touch] | None:
    """One contact for each clause, by the way, as the camera shows it, or by way and command together.

    None where nothing shows them.
    """
    contacts = explain(clauses, grasps, motion)
    if motion.drives or not is_one_touch(clauses, grasps) or _has_start(contacts):
        return contacts
    touch = None if camera is None else see_touch(recording, camera, motion)
    touch = touch or find_resisted_touch(clauses[0], motion)
    return contacts if touch is None else [touch]


def _has_start(contacts: Sequence[Cycle | Touch] | None) -> bool:
    """Whether it is seen from the motion when the hand is at the thing."""
    return contacts is not None and all(isinstance(c, Cycle) or c.start is not None for c in contacts)
