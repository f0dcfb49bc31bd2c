"""Episodes that labelled examples refuse: true ones, cut ones, and such as fail.

    python lab/benchmarks/outsiders.py --half report --data recordings --json

The sets are those of lab/benchmarks/audit.py without the tabletop. In each of `--draws` draws of a task some
episodes are the examples, first those that `goalreel check` names; up to four others are changed in each way.
Thresholds were chosen on `choose`. Expected: at most 5 % of true, waiting and slow ones are refused.

An outsider is reversed, keeps its hand open, or lacks more than half of the way of a labelled step. Of `true`
ones there is a row a set; `found` of their `boundaries`, those of refused ones too, are within 0.5 s. `right`
have all boundaries that are left there; `wrong` are `sure` boundaries that are not.
"""

import random
import sys
from collections import Counter
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
    counts = Counter[tuple[str, str]]()
    all_sets = sets(options.half, options.data, 0, options.tasks)
    for name, episodes in ((name, own) for name, labelled, _ in all_sets for own in by_task(labelled)):
        for draw in range(options.draws if len(episodes) > options.examples else 0):
            rng = random.Random(f"{episodes[0].instruction} {draw}")
            recordings = [cast("Recording", e) for e in episodes]
            every = range(len(episodes))
            known = rng.sample(every, options.examples) if draw else choose(recordings, options.examples)
            task = TaskExamples([episodes[i] for i in known])
            others = sorted({*every} - {*known})
            for other in rng.sample(others, min(4, len(others))):
                for kind, episode, true, is_outsider in changed(episodes[other], name, task):
                    for row in (kind, f"{kind}, {name}")[: 1 + (kind == "true")]:
                        counts.update({(row, m): n for m, n in score(task, episode, true, is_outsider)})
    measures = ("refused", "episodes", "right", "sure", "wrong", "found", "boundaries")
    measures = (*measures, "outsiders", "outsiders refused")
    kinds = dict.fromkeys(kind for kind, _ in counts)
    rows = [{"kind": kind} | {m: counts[kind, m] for m in measures} for kind in kinds]
    report({"half": options.half, "examples": options.examples, "rows": rows}, options.json)


def by_task(episodes: Sequence[Example]) -> list[list[Example]]:
    """Group episodes whose instructions differ in a thing or a place at most: those that serve each other."""
    groups = dict[str, list[Example]]()
    for e in episodes:
        alike = (text for text in groups if find_slots(text, e.instruction) is not None)
        groups.setdefault(next(alike, e.instruction), []).append(e)
    return [*groups.values()]


def score(task: TaskExamples, e: Example, true: list[int], is_outsider: bool) -> Iterator[tuple[str, int]]:
    """Carry over to an episode, and count."""
    carried, near = task.carry(cast("Recording", e)), TOLERANCE_S * e.fps
    yield from (("episodes", 1), ("outsiders", is_outsider), ("boundaries", len(true)))
    if carried.refusal:
        yield from (("refused", 1), ("outsiders refused", is_outsider))
        return
    hits = [any(abs(f - t) <= near for t in true) for f in carried.frames]
    sure = [h for h, d in zip(hits, carried.doubts, strict=True) if d is None]
    yield from (("right", all(hits) and len(hits) == len(true)), ("sure", len(sure)))
    yield "wrong", sure.count(False)
    yield "found", sum(any(abs(f - t) <= near for f in carried.frames) for t in true)


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
