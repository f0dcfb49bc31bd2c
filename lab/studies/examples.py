# ruff: noqa: ANN001, ANN201, ANN202, E501, T201
"""Boundaries carried over from three labelled episodes, on recordings with a truth.

    python lab/studies/examples.py --zoo ZOO --metaworld METAWORLD --real REAL --seed 0

Sets: combinations of the zoo drawn by the seed whose recordings are in ZOO (`goalreel eval zoo --data ZOO`), tasks
of Meta-World's develop and choose splits in METAWORLD (`goalreel eval metaworld --data METAWORLD`), and labelled
real sets in REAL. A set of four episodes is measured four times, each with one episode as the query; a larger one
with draws of three. The truth is where contact begins or ends; in the zoo, every contact, in Meta-World without
the last retreat.

Printed for each group: recall and precision of all boundaries within 0.5 s, where an episode that is refused finds
none; how many are sure, and how many of these are wrong, for all and for those whose examples find at least 80 %
of their boundaries in each other; true episodes refused, and episodes cut off at 60 %, or of another task, refused.
"""

import argparse
import dataclasses
import json
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from goalreel.datasets.source import Source
from goalreel.planners.examples.carry import TaskExamples
from goalreel.planners.examples.example import Example
from goalreel.types import Segment, Step
from goalreel_lab.metaworld.tasks import split_tasks
from goalreel_lab.metaworld.truth import contact_cuts, contacts, read_truth
from goalreel_lab.zoo.episode import SimulatedEpisode
from goalreel_lab.zoo.run import EPISODES, SIZE, _truth
from goalreel_lab.zoo.tasks import ROBOTS
from goalreel_lab.zoo.writing import draw, write


def episode(state, action, fps, marks):
    """Give a recording, and the truth about it."""
    numbers = [np.asarray(values, np.float32) for values in (state, action)]
    times = (np.arange(len(state)) / fps).astype(np.float32)
    return SimpleNamespace(
        state=numbers[0], action=numbers[1], fps=fps, timestamps=times, marks=sorted(marks)
    )


def example(e, number):
    edges = [0, *[m for m in e.marks if 0 < m < len(e.state)], len(e.state)]
    spans = tuple(Segment(start=a, end=b) for a, b in pairwise(edges))
    steps = tuple(Step(name=f"step {i}", instruction="done", prompt="do") for i in range(len(spans)))
    return Example(
        id=str(number),
        numbers=str(number),
        instruction="do it",
        fps=e.fps,
        by="person",
        steps=steps,
        segments=spans,
        timestamps=e.timestamps.astype(float),
        state=e.state.astype(float),
        action=e.action.astype(float),
    )


def zoo(folder, seed, count):
    cache = {}

    def load(robot, task, start):
        path = folder / f"{robot}-{task}-{start}-{EPISODES}x{SIZE}"
        if path not in cache:
            cache[path] = (
                [SimulatedEpisode.load(path / f"{i}.npz") for i in range(EPISODES)] if path.exists() else []
            )
        return cache[path]

    def written(simulated, writing):
        for i, one in enumerate(simulated):
            numbers = write(one, writing, i)
            values = [np.stack([c.values for c in columns], 1) for columns in (numbers.state, numbers.action)]
            truth, marks = _truth(one, numbers, writing, i, "x"), []
            for at in sorted(
                {t for c in contacts(truth, writing.fps) for t in (c.start, c.end) if 0 < t < len(truth)}
            ):
                if not marks or at - marks[-1] > 0.5 * writing.fps:
                    marks.append(at)
            state, action = values
            yield episode(state, action, writing.fps, marks)

    for number in range(count):
        writing = draw(1000 * seed + number)
        simulated = load(writing.robot, writing.task, "closed" if writing.starts_closed else "open")
        if not simulated:
            continue
        others = [
            t for t in ROBOTS[writing.robot].tasks if t != writing.task and load(writing.robot, t, "open")
        ]
        other = dataclasses.replace(writing, task=random.Random(number).choice(others), starts_closed=False)
        none = " (no gripper)" if writing.gripper == "none" else ""
        own = list(written(simulated, writing))
        yield f"zoo {writing.robot}{none}", own, list(written(load(writing.robot, other.task, "open"), other))


def metaworld(folder):
    sets = []
    for split in ("develop", "choose"):
        for task in split_tasks(split):
            path = folder / f"{task}-4x128"
            if path.exists():
                source, truth = Source.open(path), read_truth(path)
                recorded = [source.episode(i) for i in source.indices]
                marks = [contact_cuts(contacts(t, truth.fps), len(t)) for t in truth.episodes]
                sets.append(
                    (
                        split,
                        [episode(e.state, e.action, e.fps, m) for e, m in zip(recorded, marks, strict=True)],
                    )
                )
    for number, (split, episodes) in enumerate(sets):
        yield (
            f"Meta-World {split}",
            episodes,
            random.Random(number).choice([s for i, (_, s) in enumerate(sets) if i != number]),
        )


def real(folder):
    for name in ("cr5_banana", "gr1_sim"):
        source, labels = Source.open(folder / name), json.loads((folder / name / "labels.json").read_text())
        recorded = [source.episode(i) for i in source.indices]
        marks = [labels[str(i)]["boundaries"] for i in source.indices]
        yield name, [episode(e.state, e.action, e.fps, m) for e, m in zip(recorded, marks, strict=True)], []
        if name == "cr5_banana":
            bare = [
                episode(e.state, e.action[:, :-1], e.fps, m) for e, m in zip(recorded, marks, strict=True)
            ]
            yield f"{name} without the gripper", bare, []


def matched(found, true, slack):
    free, count = list(true), 0
    for at in found:
        near = min(free, key=lambda mark: abs(mark - at), default=None)
        if near is not None and abs(near - at) <= slack:
            free.remove(near)
            count += 1
    return count


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("zoo", "metaworld", "real"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=120)
    options = parser.parse_args()
    totals = defaultdict(lambda: defaultdict(int))
    sets = [
        *(real(options.real) if options.real else ()),
        *(metaworld(options.metaworld) if options.metaworld else ()),
    ]
    sets += zoo(options.zoo, options.seed, options.count) if options.zoo else []
    for group, episodes, others in sets:
        total, every = totals[group], range(len(episodes))
        draws = (
            [[i for i in every if i != q][:3] for q in every]
            if len(every) < 6
            else [random.Random(d).sample(every, 3) for d in range(4)]
        )
        for labelled in draws:
            task = TaskExamples([example(episodes[i], i) for i in labelled])
            for q in set(every) - set(labelled):
                e = episodes[q]
                carried, slack = task.carry(e), 0.5 * e.fps + 1e-9
                frames = [] if carried.refusal else carried.frames
                total["true"] += len(e.marks)
                total["found"] += len(frames)
                total["matched"] += matched(frames, e.marks, slack)
                total["queries"] += 1
                total["refused"] += carried.refusal is not None
                for at, doubt in zip(frames, carried.doubts, strict=False):
                    wrong = not any(abs(at - mark) <= slack for mark in e.marks)
                    for key in ("sure", "sure_gated") if task.measurement.enough else ("sure",):
                        total[key] += doubt is None
                        total[f"{key}_wrong"] += doubt is None and wrong
                cut = episode(
                    e.state[: int(0.6 * len(e.state))], e.action[: int(0.6 * len(e.state))], e.fps, ()
                )
                total["cut_refused"] += task.carry(cut).refusal is not None
            for other in others[:1]:
                total["others"] += 1
                total["other_refused"] += task.carry(other).refusal is not None
    for group, t in totals.items():
        print(
            f"{group}: recall {t['matched'] / max(1, t['true']):.3f}, precision {t['matched'] / max(1, t['found']):.3f} of {t['true']}; "
            f"sure {t['sure']}, wrong {t['sure_wrong']} (gated {t['sure_gated']}, {t['sure_gated_wrong']}); refused: true {t['refused']} of "
            f"{t['queries']}, cut off {t['cut_refused']}, other task {t['other_refused']} of {t['others']}"
        )


if __name__ == "__main__":
    main()
