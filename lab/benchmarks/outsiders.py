"""Episodes that labelled examples refuse: true ones, cut ones, and such as fail.

    python lab/benchmarks/outsiders.py --half report --data recordings --json

The sets are those of lab/benchmarks/audit.py without the tabletop. In each of `--draws` draws of a task some
episodes are the examples, first those that `goalreel check` names; up to four others are changed in each way.
Thresholds were chosen on `choose`. An outsider is reversed, keeps its hand open, or lacks more than half of
the way of a labelled step. `right` have all boundaries that are left within 0.5 s; `wrong` are `sure` ones
that are not. `found` of their `boundaries`, those of refused ones too; of `true` ones there is a row a set.
"""

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

sys.path.append(str(Path(__file__).parent))
from audit import argument_parser, parse, report, sets

from goalreel.planners.examples.carry import TOLERANCE_S, Example, TaskExamples, boundaries, choose
from goalreel.planners.examples.slots import find_slots
from goalreel.planners.examples.warp import Scale
from goalreel.types import Recording

HANDS = {"Meta-World": [3, 7], "cr5_banana": [12], "gr1_sim": [*range(29, 35), *range(73, 79)]}
"""Which of the state's and action's dimensions are the hand; else six fingers at the end of both."""


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--half", choices=("choose", "report", "again"), default="choose")
    parser.add_argument("--data", type=Path, default=Path("recordings"), help="Meta-World's recordings")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--examples", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=10, help="of Meta-World")
    options = parse(parser, argv, draws=1, tasks=0)
    counts = defaultdict[str, Counter[str]](Counter)
    all_sets = sets(options.half, options.data, 0, options.tasks)
    for name, episodes in ((name, own) for name, labelled, _ in all_sets for own in by_task(labelled)):
        every = range(len(episodes))
        for draw in range(options.draws if len(every) > options.examples else 0):
            rng = random.Random(f"{episodes[0].instruction} {draw}")
            recordings = [cast("Recording", e) for e in episodes]
            known = rng.sample(every, options.examples) if draw else choose(recordings, options.examples)
            task, others = TaskExamples([episodes[i] for i in known]), sorted({*every} - {*known})
            for other in rng.sample(others, min(4, len(others))):
                for kind, episode, true, is_outsider in changed(episodes[other], name, task):
                    scores = score(task, episode, true, is_outsider)
                    counts[kind].update(scores)
                    if kind == "true":
                        counts[f"true, {name}"].update(scores)
    rows = [{"kind": kind, **its} for kind, its in counts.items()]
    report({"half": options.half, "examples": options.examples, "rows": rows}, options.json)


def by_task(episodes: Sequence[Example]) -> list[list[Example]]:
    """Group episodes whose instructions differ in a thing or a place at most: those that serve each other."""
    groups = dict[str, list[Example]]()
    for e in episodes:
        alike = (text for text in groups if find_slots(text, e.instruction) is not None)
        groups.setdefault(next(alike, e.instruction), []).append(e)
    return [*groups.values()]


def score(task: TaskExamples, e: Example, true: list[int], is_outsider: bool) -> dict[str, int]:
    """Carry over to an episode, and count."""
    carried, near = task.carry(cast("Recording", e)), TOLERANCE_S * e.fps
    refused, frames = bool(carried.refusal), () if carried.refusal else carried.frames
    hits = [any(abs(f - t) <= near for t in true) for f in frames]
    sure = [h for h, d in zip(hits, carried.doubts, strict=False) if d is None]
    found = sum(any(abs(f - t) <= near for f in frames) for t in true)
    right = not refused and all(hits) and len(hits) == len(true)
    counts = {"refused": refused, "episodes": 1, "right": right, "sure": len(sure)}
    counts |= {"wrong": sure.count(False), "found": found, "boundaries": len(true)}
    return counts | {"outsiders": is_outsider, "outsiders refused": is_outsider and refused}


def changed(e: Example, name: str, task: TaskExamples) -> Iterator[tuple[str, Example, list[int], bool]]:
    """Yield an episode in each way: the kind, the episode, its boundaries, and whether it is an outsider.

    Its hand stays open only where the hand moves at the same boundary in all examples.
    """
    length, width, marks = len(e.timestamps), e.state.shape[1], boundaries(e)
    every = np.arange(length)
    kinds = {"true": every, "reversed": every[::-1]}
    for share in (0.1, 0.25, 0.5):
        kinds |= {f"begins {share:.0%} late": every[round(share * length) :]}
        kinds |= {f"ends {share:.0%} early": every[: -round(share * length)]}
    kinds["middle left out"] = np.delete(every, slice(round(0.35 * length), round(0.65 * length)))
    kinds["stops for 3 s"] = np.insert(every, length // 2, [length // 2] * round(3 * e.fps))
    scale = Scale.of([np.hstack([x.state, x.action]) for x in task.examples])
    places = scale.places(np.hstack([e.state, e.action]))
    ways = np.abs(np.diff(places, axis=0, append=places[-1:])).sum(axis=1)
    steps = [ways * ((segment.start <= every) & (every < segment.end)) for segment in e.segments]
    for kind, at in kinds.items():
        is_outsider = kind == "reversed" or any(w[[*{*at}]].sum() < w.sum() / 2 for w in steps)
        made = replace(e, timestamps=np.arange(len(at)) / e.fps, state=e.state[at], action=e.action[at])
        yield kind, made, [int(np.argmax(at == mark)) for mark in marks if mark in at], is_outsider
    yield "half as fast", replace(e, fps=e.fps / 2, timestamps=2 * e.timestamps), marks, False
    hand = HANDS.get(name, [*range(width - 6, width), *range(2 * width - 6, 2 * width)])
    if set.intersection(*(moves(one, hand) for one in task.examples)):
        held = np.hstack([e.state, e.action])
        held[:, hand] = held[0, hand]
        yield "hand stays open", replace(e, state=held[:, :width], action=held[:, width:]), [], True


def moves(e: Example, hand: list[int]) -> set[int]:
    """Number the boundaries at which the hand makes a third of its way within 0.6 s on both sides."""
    ways, last, around = np.hstack([e.state, e.action])[:, hand], len(e.timestamps) - 1, round(0.6 * e.fps)
    at = np.array(boundaries(e), int)
    change = ways[np.minimum(at + around, last)] - ways[np.maximum(at - around, 0)]
    return set(np.flatnonzero((np.abs(change) > np.ptp(ways, axis=0) / 3).any(axis=1)).tolist())


if __name__ == "__main__":
    main()
