"""Labels that do not fit the others: of the same instruction, of the dataset, and what the instruction says.

Nothing is learned in advance. What most labelled episodes have in common is looked for in each of them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from goalreel.planners.examples.carry import RATE, TOLERANCE_S, Example, TaskExamples, shape
from goalreel.planners.examples.hand_cues import Cue, Cues
from goalreel.planners.examples.slots import find_slots, replaced, words
from goalreel.planners.kinematic.clauses import read, split_return

type Fault = Literal["wrong object", "swapped", "cut shifted", "merged", "split", "invented"]
FAULTS: tuple[Fault, ...] = get_args(Fault.__value__)

_MOST = 10  # episodes with which each one is compared
_TEXTS = 200  # instructions among which those with words alike are looked for
FEWEST = 3  # so many episodes, or fewer, tell nothing of each other
_AGREE = 0.6  # share of the other episodes that have the same steps, before one with others is suspected
_USUAL = 0.85  # share of the labels that have something in common, before one without it is suspected
_NEAR = 0.75  # share of the boundaries that go with an act of the hand, before another one is suspected
_TIMES = 4.0  # a boundary is elsewhere if it is so many times further away than usual, and by TOLERANCE_S
_SAID = 0.7  # a word names a thing if so many of the labels with it are of instructions with it
_RARE = 0.25  # share of the episodes that have such a word at most, where it is suspected
_EDGE_S = 0.3  # seconds around a boundary in which an act of the hand may belong to either step


@dataclass(frozen=True)
class Suspicion:
    """A label that may be wrong."""

    episode: int
    """Its place in the list of examples."""
    step: int
    fault: Fault
    why: str
    sure: float
    """0 to 1; it orders suspicions, and is no probability."""


@dataclass(frozen=True)
class _Expected:
    """A step that is expected, or any number of steps about a thing."""

    words: tuple[str, ...]
    text: str
    is_open: bool = False


def suspicions(examples: Sequence[Example], cues: Cues | None = None) -> list[Suspicion]:
    """Look for labels that do not fit, at most one suspicion a label, the surest first.

    Args:
        examples: labelled episodes of one robot.
        cues: sees the hand close and open.
    """
    by_text = defaultdict[str, list[int]](list)
    for at, example in enumerate(examples):
        by_text[" ".join(words(example.instruction))].append(at)
    alone = [at for own in by_text.values() if len(own) <= FEWEST for at in own]
    by_clauses = _by_instructions(examples)
    every = [
        *(_by_things(examples) if by_clauses is None else by_clauses),
        *_by_repeats(examples),
        *(
            one
            for text in by_text
            for one in _by_names(examples, text, by_text, with_alike=by_clauses is None)
        ),
        *(one for own in by_text.values() if len(own) > FEWEST for one in _by_places(examples, own)),
        *(_by_hand(examples, cues, alone) if cues else ()),
    ]
    found: dict[tuple[int, int], Suspicion] = {}
    for one in sorted(every, key=lambda one: (-one.sure, one.episode, one.step)):
        found.setdefault((one.episode, one.step), one)
    return list(found.values())


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(words(text))


def _others(at: int, places: Iterable[int]) -> list[int]:
    """At most _MOST other episodes, evenly spread."""
    others = [other for other in places if other != at]
    return others[:: max(1, -(-len(others) // _MOST))]


def _by_names(
    examples: Sequence[Example], text: str, by_text: Mapping[str, Sequence[int]], *, with_alike: bool
) -> Iterator[Suspicion]:
    """Compare the steps of each episode with those of most others, also of words alike if there are few."""
    alike = [*by_text][:: -(-len(by_text) // _TEXTS)] if with_alike and len(by_text[text]) <= FEWEST else []
    texts = dict.fromkeys([text, *alike])
    slots = {other: found for other in texts if (found := find_slots(other, text)) is not None}
    named = {
        at: tuple(replaced(step, found).name for step in examples[at].steps)
        for other, found in slots.items()
        for at in by_text[other]
    }
    for at in by_text[text]:
        if len(others := _others(at, named)) < FEWEST:
            continue
        ((usual, count),) = Counter(named[other] for other in others).most_common(1)
        if count >= max(_AGREE * len(others), FEWEST - 1):
            expected = [_Expected(_tokens(name), name) for name in usual]
            found = differences(named[at], expected)
            # Several steps are too many or too few where something is tried again.
            is_another_way = sum(fault in ("merged", "split", "invented") for _, fault, _ in found) > 1
            if is_another_way or named[at] in (named[other] for other in others):
                continue
            for step, fault, why in found:
                why = f"{why}, by {count} of {len(others)} others"
                yield Suspicion(at, step, fault, why, count / len(others))


def _by_places(examples: Sequence[Example], own: Sequence[int]) -> Iterator[Suspicion]:
    """Find boundaries that the other episodes of the instruction with as many steps have elsewhere."""
    tasks: dict[tuple[int, ...], TaskExamples] = {}
    away = defaultdict[int, list[tuple[int, float, float]]](list)
    for at in own:
        steps = shape(examples[at])
        same = _others(at, [other for other in own if shape(examples[other]) == steps])
        if len(same) < FEWEST - 1:
            continue
        ids = tuple(sorted((at, *same)))
        if ids not in tasks:
            tasks[ids] = TaskExamples([examples[i] for i in ids])
        begins = {start: number for number, (start, _) in enumerate(steps)}
        for number, found in enumerate(tasks[ids].found_by_others(ids.index(at)), 1):
            seconds, places = (found.mark - found.place) / RATE, np.array(found.projections)
            is_same_side = (places < found.mark) == (found.place < found.mark)
            far = float(np.mean(is_same_side & (np.abs(places - found.mark) > TOLERANCE_S * RATE)))
            if found.unlike < 1:  # a long way round, to where it does look like theirs
                far = 0.0
            away[begins.get(number, len(steps) - 1)].append((at, seconds, far))
    for step, those in away.items():
        limit = max(TOLERANCE_S, _TIMES * float(np.median([abs(seconds) for _, seconds, _ in those])))
        for at, seconds, votes in those:
            if abs(seconds) > limit and votes >= _AGREE:
                where = f"{abs(seconds):.1f} s {'after' if seconds > 0 else 'before'}"
                why = f"begins {where} where the other episodes have it"
                yield Suspicion(at, step, "cut shifted", why, votes * (1 - TOLERANCE_S / 2 / abs(seconds)))


def differences(names: Sequence[str], expected: Sequence[_Expected]) -> list[tuple[int, Fault, str]]:
    """(step, fault, why) for the fewest changes that turn the expected steps into `names`."""
    tokens = [_tokens(name) for name in names]
    n, m = len(tokens), len(expected)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    back: dict[tuple[int, int], tuple[int, int]] = {}

    def reach(i: int, j: int, before: tuple[int, int], price: float) -> None:
        if (total := cost[before] + price) < cost[i, j] - 1e-9:
            cost[i, j], back[i, j] = total, before

    for i in range(n + 1):
        for j in range(m + 1):
            if i and j:
                reach(i, j, (i - 1, j - 1), _unlike(tokens[i - 1], expected[j - 1]))
            if i > 1 and j > 1 and tokens[i - 1] != tokens[i - 2]:
                crossed = _unlike(tokens[i - 1], expected[j - 2]) + _unlike(tokens[i - 2], expected[j - 1])
                if not crossed:
                    reach(i, j, (i - 2, j - 2), 0.5)
            if i:  # a step too many; any number of steps is what an open one expects
                is_open = j > 0 and expected[j - 1].is_open
                reach(i, j, (i - 1, j), _unlike(tokens[i - 1], expected[j - 1]) if is_open else 0.7)
            if j:
                reach(i, j, (i, j - 1), 0.0 if expected[j - 1].is_open else 0.7)
    found: list[tuple[int, Fault, str]] = []
    i, j = n, m
    while (i, j) in back:
        before = back[i, j]
        way = (i - before[0], j - before[1])
        step = min(max(i - 1, 0), n - 1)
        is_open = j > 0 and expected[j - 1].is_open
        if (way == (1, 1) or (way == (1, 0) and is_open)) and _unlike(tokens[step], expected[j - 1]):
            found.append((step, "wrong object", f'"{names[step]}" and not "{expected[j - 1].text}"'))
        elif way == (2, 2):
            found.append((step, "swapped", f'"{names[step]}" comes before "{names[step - 1]}"'))
            found.append((step - 1, "swapped", f'"{names[step - 1]}" comes after "{names[step]}"'))
        elif way == (1, 0) and not is_open:
            is_split = _is_repeated(tokens, step)
            step += is_split and tokens[step] == (*tokens, ())[step + 1]  # the later one is too many
            found.append((step, "split" if is_split else "invented", f'no "{names[step]}" is expected here'))
        elif way == (0, 1) and not is_open:
            found.append((step, "merged", f'there is no "{expected[j - 1].text}" here'))
        i, j = before
    return found[::-1]


def _is_repeated(steps: Sequence[object], step: int) -> bool:
    return steps[step] in (*steps[max(0, step - 1) : step], *steps[step + 1 : step + 2])


def _unlike(tokens: Sequence[str], expected: _Expected) -> float:
    if expected.is_open:
        return 0.0 if set(expected.words) <= set(tokens) else 0.5
    if tuple(tokens) == expected.words:
        return 0.0
    ratio = SequenceMatcher(None, tokens, expected.words, autojunk=False).ratio()
    return 0.2 + 1.2 * (1 - ratio)


def _by_instructions(examples: Sequence[Example]) -> list[Suspicion] | None:
    """Compare steps with the clauses of the instruction; None unless most episodes have a step for each."""
    pairs: list[tuple[int, list[tuple[int, Fault, str]]]] = []
    for at, example in enumerate(examples):
        clauses = read(split_return(example.instruction)[0])
        if not clauses or not all(clause.understood for clause in clauses):
            continue
        expected = [
            _Expected(() if c.several or c.unordered else _tokens(c.object), c.name, is_open=True)
            if c.kind == "many" or c.unordered
            else _Expected(_tokens(c.state), c.name)
            for c in clauses
        ]
        states = [step.instruction for step in example.steps]
        pairs.append((at, differences(states, expected)))
    agree = sum(not found for _, found in pairs) / max(1, len(pairs))
    every = [(at, *difference) for at, found in pairs for difference in found]
    suspected = [Suspicion(at, step, f, f"{why}, by the instruction", agree) for at, step, f, why in every]
    return suspected if agree >= _AGREE else None


def _by_things(examples: Sequence[Example]) -> list[Suspicion]:
    """Find words that name a thing which the instruction does not name, where this is rare."""
    asked = [set(words(example.instruction)) for example in examples]
    labels = [[set(words(step.name)) for step in example.steps] for example in examples]
    used = [set[str]().union(*steps) for steps in labels]
    every, seen = set[str]().union(*asked), Counter(word for own in used for word in own)
    said = Counter(word for own, of in zip(asked, used, strict=True) for word in own & of)
    is_closed = sum(count > 1 for count in seen.values()) >= _USUAL * len(seen)

    def is_odd(word: str) -> bool:
        """Tell whether others use a word only where their instruction does; or where it is of another one."""
        others = seen[word] - 1
        return said[word] >= _SAID * others if others else word in every or is_closed

    found: list[Suspicion] = []
    for at, (own, steps) in enumerate(zip(asked, labels, strict=True)):
        odd = [(step, sorted(filter(is_odd, its - own))) for step, its in enumerate(steps)]
        odd = [(step, unsaid) for step, unsaid in odd if unsaid]
        if len(odd) <= max(1, len(steps) // 2):
            whys = [
                (step, f'says "{", ".join(unsaid)}", and the instruction does not') for step, unsaid in odd
            ]
            found += [Suspicion(at, step, "wrong object", why, 0.7) for step, why in whys]
    is_rare = len({one.episode for one in found}) <= max(1, _RARE * len(examples))
    return found if is_rare and len(examples) > FEWEST else []


def _by_repeats(examples: Sequence[Example]) -> Iterator[Suspicion]:
    """Find a step that has the name of the one before it, where this is rare."""
    pairs = [
        (at, i, a.name == b.name)
        for at, e in enumerate(examples)
        for i, (a, b) in enumerate(pairwise(e.steps))
    ]
    if sum(same for *_, same in pairs) <= (1 - _USUAL) * len(pairs):
        for at, step, same in pairs:
            if same:
                yield Suspicion(at, step + 1, "split", "has the name of the step before it", 0.9)


def _by_hand(examples: Sequence[Example], cues: Cues, alone: Sequence[int]) -> Iterator[Suspicion]:
    """Compare how often the hand closes and opens in a step and, in those that stand `alone`, when."""
    acts = [cues(example) for example in examples]
    for kind in ("closed", "opened"):
        frames = [np.array([f for f, k in its if k == kind]) for its in acts]
        yield from _by_counts(examples, frames, kind)
    yield from _by_offsets(examples, {at: acts[at] for at in alone})


def _by_counts(examples: Sequence[Example], acts: Sequence[np.ndarray], kind: str) -> Iterator[Suspicion]:
    rows: list[tuple[int, int, int, int]] = []
    for at, (example, frames) in enumerate(zip(examples, acts, strict=True)):
        edge, last = _EDGE_S * example.fps, len(example.segments) - 1
        for step, segment in enumerate(example.segments):
            start, end = segment.start if step else -np.inf, segment.end if step < last else np.inf
            least = int(((frames >= start + edge) & (frames < end - edge)).sum())
            most = int(((frames >= start - edge) & (frames < end + edge)).sum())
            rows.append((at, step, least, most))
    tallies = defaultdict[tuple[str | None, int | None], np.ndarray](lambda: np.zeros((3, 4), int))
    for at, step, least, most in rows:
        may = [least <= n <= most for n in range(4)]
        exactly = [least == n == most for n in range(4)]
        for name in (examples[at].steps[step].name, None):
            for episode in (at, None):
                tallies[name, episode] += np.array([may, exactly, [True] * 4])
    for at, step, least, most in rows:
        for name in (examples[at].steps[step].name, None):
            may, exactly, (count, *_) = tallies[name, None] - tallies[name, at]
            if count <= FEWEST:
                continue
            shares = [_share(number, count) for number in may]
            usual = shares.index(max(shares))
            if shares[usual] >= _USUAL and exactly[usual] / count >= _AGREE:
                if not least <= usual <= most:
                    verb = "closes" if kind == "closed" else "opens"
                    times = least if least > usual else most
                    why = f"the hand {verb} {times} times in it, and {usual} in others"
                    is_split = _is_repeated([other.name for other in examples[at].steps], step)
                    fault: Fault = "merged" if least > usual else "split" if is_split else "invented"
                    yield Suspicion(at, step, fault, why, shares[usual] * 0.8)
                break


def _share(number: int, count: int) -> float:
    """Share of `number` in `count`, nearer to a half where there are few."""
    return float((number + 1) / (count + 2))


def _by_offsets(examples: Sequence[Example], acts: Mapping[int, Sequence[Cue]]) -> Iterator[Suspicion]:
    """Find boundaries that are elsewhere than usual, by the acts of the hand in the episodes of `acts`."""
    for kind in ("closed", "opened"):
        rows = [
            (at, step, min(((segment.start - f) / examples[at].fps for f, k in its if k == kind), key=abs))
            for at, its in acts.items()
            if any(k == kind for _, k in its)
            for step, segment in enumerate(examples[at].segments[1:], 1)
        ]
        if not rows:
            continue
        middle = float(np.median([seconds for *_, seconds in rows]))
        usual = float(np.median([abs(seconds - middle) for *_, seconds in rows]))
        limit = max(TOLERANCE_S, _TIMES * usual)
        near = _share(sum(abs(seconds - middle) <= limit for *_, seconds in rows), len(rows))
        if near < _NEAR or usual > TOLERANCE_S:
            continue
        for at, step, seconds in rows:
            if (away := abs(seconds - middle)) > limit:
                where = f"{abs(seconds):.1f} s {'after' if seconds > 0 else 'before'} the hand has {kind}"
                why = f"begins {where}, and others {middle:.1f} s"
                yield Suspicion(at, step, "cut shifted", why, near * (1 - TOLERANCE_S / 2 / away))
