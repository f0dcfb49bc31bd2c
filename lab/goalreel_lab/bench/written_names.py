"""Claims of the names of tabletop sub-tasks, and the simulator's truth of the same episode."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.episode import Episode
from goalreel.tabletop.grammar import read_goals, sample_episode
from goalreel.tabletop.scene import SubGoal
from goalreel.tabletop.truth import TrueEpisode
from goalreel.types import Segment
from goalreel_lab.written_names import (
    Contact,
    NameClaim,
    WrittenName,
    written_names,
)

_GRASPED = -2
"""The column of `predicates` (`sim/record.py`) that says that both fingers touch the block."""
_NUMBER = re.compile(r" \(\d+ of \d+\)$")
_NO_CONTACT = re.compile(r"(look|go|return|reach|wait|home)\b")
_TAKES = re.compile(r"(pick up|grasp|close the hand)\b")
_MANY = re.compile(r"(clear|empty|sort|build|arrange)\b")
_HELD = re.compile(r"is (held )?in the (gripper|hand)\b")
_THING = re.compile(r"\b[a-z]+ (?:block|bowl)\b")
_OPEN = re.compile(r"\b(blocks?|bowls?|something|objects?|it|hand)\b")
_NO_COLOUR = re.compile(r"^(the|a|an|one|every|all|each|that|own|block|first|second|last) ")


@dataclass(frozen=True)
class EpisodeTruth:
    """An episode as the simulator has it."""

    objects: frozenset[str]
    """Blocks and bowls on the table."""
    goals: tuple[SubGoal, ...]
    holds: NDArray[np.bool_]
    """True for each sub-goal that holds at a frame, (n, goals)."""
    contacts: tuple[Contact, ...]
    """Grasps: both fingers on a block."""

    @classmethod
    def read(cls, data_path: Path, index: int, true: TrueEpisode) -> Self:
        """Read it from the columns of truth of a recording, or of what was annotated from it."""
        columns = ["episode_index", "frame_index", "subgoal", "predicates"]
        table = pq.read_table(data_path, columns=columns)
        table = table.filter(pc.field("episode_index") == index).sort_by("frame_index")
        predicates = np.array(table["predicates"].to_pylist(), np.float64) > 0
        owners = np.array(table["subgoal"].to_pylist()).reshape(-1)
        grasped = np.where(predicates[:, _GRASPED], owners, -1)
        edges = [0, *(np.flatnonzero(np.diff(grasped)) + 1).tolist(), len(grasped)]
        scene = sample_episode(true.seed).scene
        return cls(
            objects=frozenset(o.name for o in (*scene.blocks, *scene.bowls)),
            goals=tuple(SubGoal(s.kind, s.object, s.target) for s in true.segments),
            holds=predicates[:, : len(true.segments)],
            contacts=tuple(
                Contact(true.segments[grasped[start]].object, start, end)
                for start, end in itertools.pairwise(edges)
                if grasped[start] >= 0
            ),
        )

    def claim(self, text: str) -> NameClaim:
        """Read what a sub-task's name, or the state that shows it done, says.

        A relation that is none of the episode's sub-goals counts as one that does not hold.
        """
        text = _NUMBER.sub("", text.lower().strip())
        if _NO_CONTACT.match(text):
            return NameClaim(None, contact=False)
        says_held = bool(_TAKES.match(text) or _HELD.search(text))
        things = [t for t in _THING.findall(text) if not _NO_COLOUR.match(t)]
        if any(thing not in self.objects for thing in things) or not (things or _OPEN.search(text)):
            return NameClaim(frozenset(), held=says_held)
        if goals := read_goals(text):
            objects = frozenset(goal.object for goal in goals)
            return NameClaim(objects, held=says_held, holds=lambda frame: self._hold(goals, frame))
        is_open = not things or _MANY.match(text)
        return NameClaim(None if is_open else frozenset(things[:1]), held=says_held)

    def _hold(self, goals: Sequence[SubGoal], frame: int) -> bool:
        values = self.holds[min(frame, len(self.holds) - 1)]
        return all(goal in self.goals and values[self.goals.index(goal)] for goal in goals)


def names_of(episode: Episode, truth: EpisodeTruth) -> list[WrittenName]:
    """Read the names that are written for an annotated episode, with what they claim."""
    return [WrittenName(text, segment, truth.claim(text)) for text, segment in written_names(episode)]


def grasp_events(truth: EpisodeTruth) -> list[Segment]:
    """Cut where a grasp begins and ends, the last end excepted: its retreat belongs to what it follows."""
    cuts = [frame for contact in truth.contacts for frame in (contact.start, contact.end)]
    edges = [0, *cuts[:-1], len(truth.holds)]
    return [Segment(start=start, end=end) for start, end in itertools.pairwise(edges)]
