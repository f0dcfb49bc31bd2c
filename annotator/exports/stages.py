"""Sub-tasks as the stages of lerobot's reward model SARM: their place, order and length."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from goalreel.datasets.writing.goals import Goals


@dataclass(frozen=True, slots=True)
class SarmStage:
    """A stage of an episode, in frames from its first."""

    name: str
    start: int
    end: int
    """The first frame after it."""


def stages(goals: Goals, length: int) -> tuple[SarmStage, ...]:
    """List the stages of an episode of `length` frames: its spans with a name.

    lerobot's reader (`find_stage_and_tau`) takes a span's `end` as its last frame, on which the stage is
    complete: the same target as the next stage's beginning. On frames between two spans the stage before
    stays complete. On frames after the last span it would take the whole task for complete, a failed attempt
    too, so a span without length ends the episode: then they are frames between two spans.
    """
    sequence = tuple(
        SarmStage(span.name, span.start, span.end) for span in goals.spans if span.name is not None
    )
    if sequence and sequence[-1].end < length - 1:
        sequence += (SarmStage(sequence[-1].name, length - 1, length - 1),)
    return sequence


def proportions(episodes: Iterable[Sequence[SarmStage]]) -> dict[str, float]:
    """Map each name to its share of an episode, in the order of the stages; they add up to 1.

    As lerobot's `compute_temporal_proportions`: the mean share of a stage in the episodes that have it, then
    scaled. The times are exact, and a stage that an episode has twice counts with both.
    """
    shares, having = defaultdict[str, float](float), Counter[str]()
    plans = Counter[tuple[str, ...]]()
    for episode in episodes:
        frames = Counter[str]()
        for stage in episode:
            frames[stage.name] += stage.end - stage.start
        for name, count in frames.items():
            shares[name] += count / frames.total()
            having[name] += 1
        plans[tuple(stage.name for stage in episode)] += 1
    mean = {name: share / having[name] for name, share in shares.items()}
    total = sum(mean.values())
    return {name: mean[name] / total for name in in_order(plans.elements())}


def in_order(episodes: Iterable[Sequence[str]]) -> list[str]:
    """List the names of all episodes, each once, in the order of most episodes.

    >>> in_order([["reach", "grasp", "place"], ["grasp", "lift", "place"]])
    ['reach', 'grasp', 'lift', 'place']
    """
    plans = Counter(tuple(dict.fromkeys(names)) for names in episodes)
    pair_counts = Counter[tuple[str, str]]()
    for plan, number in plans.items():
        for pair in combinations(plan, 2):
            pair_counts[pair] += number
    after: defaultdict[str, list[str]] = defaultdict(list)
    waiting = {name: 0 for plan in plans for name in plan}
    for (first, second), count in pair_counts.items():
        if count > pair_counts[second, first]:
            after[first].append(second)
            waiting[second] += 1
    ordered = []
    while waiting:
        # Where the episodes contradict one another, the one that fewest are to come before.
        name = min(waiting, key=waiting.__getitem__)
        del waiting[name]
        ordered.append(name)
        for follower in after[name]:
            if follower in waiting:
                waiting[follower] -= 1
    return ordered
