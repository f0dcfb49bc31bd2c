"""Compare what written names claim of a recording with what a simulator knows of it.

A benchmark turns its names into `NameClaim`s and its simulator's contacts into `Contact`s. What counts as
untrue is the same for all benchmarks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from goalreel.datasets.episode import Episode
from goalreel.types import Segment

type Untruth = Literal[
    "nothing touched", "another object", "not held", "relation", "touched", "no such object"
]
"""Reason why a name is untrue.

- `nothing touched`: its verb needs a contact, and there is none.
- `another object`: what is touched is not what it names.
- `not held`: it says that the object is in the hand at the end.
- `relation`: it states one that does not hold at the end.
- `touched`: it says that nothing is taken, and something is.
- `no such object`: it speaks of what is not there.
"""


@dataclass(frozen=True, slots=True)
class Contact:
    """Frames [start, end) in which the hand touches an object."""

    object: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NameClaim:
    """Claim of a name about what the hand does in its segment."""

    objects: frozenset[str] | None
    """Objects any of which the name may mean; None: it leaves that open. Empty: there is no such object."""
    contact: bool = True
    """Its verb needs a contact; False says that nothing is taken ("go home")."""
    held: bool = False
    """It says that the object is in the hand at the segment's end."""
    holds: Callable[[int], bool] | None = None
    """True if the relation that it states holds at a frame; None: it states none.

    It may be asked about frames beyond the episode's end, which are like the last one.
    """


@dataclass(frozen=True, slots=True)
class WrittenName:
    """A name as it is written for the frames of a segment, and what it claims; a bare instruction is none."""

    text: str
    segment: Segment
    claim: NameClaim


def written_names(episode: Episode) -> list[tuple[str, Segment]]:
    """Read the sub-task names that are written for an annotated episode, each with its frames.

    A row holds until the next one. The bare instruction is no name: it is written where there is none.

    Raises:
        DatasetError: the file cannot be read.
    """
    labels = episode.subtasks("rows")
    starts = np.searchsorted(episode.timestamps, [time - 1e-4 for time, _ in labels]).tolist()
    ends = [*starts, len(episode)][1:]
    return [
        (text, Segment(start=start, end=end))
        for (_, text), start, end in zip(labels, starts, ends, strict=True)
        if text and text != episode.instruction and end > start
    ]


def untruth(name: WrittenName, contacts: Sequence[Contact], slack: int) -> Untruth | None:
    """Tell why a name is untrue; None where the simulator does not contradict it.

    Args:
        name: with its segment.
        contacts: all of the episode.
        slack: frames by which a segment's ends may be off.
    """
    claim, start, end = name.claim, name.segment.start, name.segment.end
    if claim.objects is not None and not claim.objects:
        return "no such object"
    if not claim.contact:
        is_taken = any(start + slack <= c.start < end - slack for c in contacts)
        return "touched" if is_taken else None
    near = [c for c in contacts if c.start < end + slack and c.end > start - slack]
    if not near:
        return "nothing touched"
    candidates = [c for c in near if claim.objects is None or c.object in claim.objects]
    if not candidates:
        return "another object"
    if claim.held and not any(c.start < end + slack and c.end > end - 1 - slack for c in candidates):
        return "not held"
    around_end = range(max(start, end - 1 - slack), end + slack)
    if claim.holds is not None and not any(map(claim.holds, around_end)):
        return "relation"
    return None


def covered(names: Sequence[WrittenName], contacts: Sequence[Contact], slack: int) -> list[bool]:
    """Tell for each contact whether a true name during it speaks of its object, or leaves that open."""
    true = [n for n in names if n.claim.contact and untruth(n, contacts, slack) is None]
    return [
        any(
            n.segment.start < c.end
            and n.segment.end > c.start
            and (n.claim.objects is None or c.object in n.claim.objects)
            for n in true
        )
        for c in contacts
    ]


@dataclass(frozen=True, slots=True)
class ClaimCounts:
    """The names of an episode and the contacts of its simulator."""

    written: int
    untrue: int
    contacts: int
    covered: int


def claim_counts(names: Sequence[WrittenName], contacts: Sequence[Contact], slack: int) -> ClaimCounts:
    """Count the names that are untrue, and the contacts that a true name covers."""
    untrue = sum(untruth(name, contacts, slack) is not None for name in names)
    return ClaimCounts(len(names), untrue, len(contacts), sum(covered(names, contacts, slack)))
