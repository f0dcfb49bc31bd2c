"""What the name of a step claims, and whether the simulator contradicts it.

The benchmark reads names by rules of its own, not by the planner's. A name that the rules cannot read counts
as contradicted, since nothing confirms it. So does a noun that the task does not have.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from goalreel_lab.metaworld.tasks import TaskSpec
from goalreel_lab.metaworld.truth import BodyTruth, RecordingTruth, moved

_SLACK_S = 0.5
"""Seconds by which what is said of a segment's end may be early or late."""
_MOVED = 0.015
"""Metres or radians from which a body counts as moved."""
_AT_HOME = 0.06
"""Metres from where the hand began."""
_TURN = 0.08
"""Share of the gripper's range from which it has opened or closed."""

_HOLD = "grasp, grab, pick up, pick, seize, hold, take hold of, close the hand on"
_PLACE = "put, place, set, drop, lay, insert, stack, hang, put down, set down, stow"
_MOVE = "move, take, remove, bring, lift, transfer, unplug"
_WORK = "push, pull, slide, drag, sweep, turn, rotate"
_VERBS = {
    verb: kind
    for kind, verbs in {
        "hold": _HOLD,
        "place": _PLACE,
        "move": _MOVE,
        "carry": "carry, keep hold of",
        "work": _WORK,
        "press": "press, hit, hammer, kick, turn on, switch on",
        "state": "open, close, shut, lock, unlock, turn off, switch off",
        "reach": "reach, reach for, reach over, reach behind, touch, approach, go to",
        "try": "try to pick up, try to grasp",
        "leave": "retreat from, release, let go of",
        "home": "go home, return home, return to, go back home, go back to, move back to the home",
        "open hand": "open the hand, open the gripper, let go",
        "close hand": "close the hand, close the gripper",
    }.items()
    for verb in verbs.split(", ")
}
_VERB = re.compile(rf"^({'|'.join(sorted(map(re.escape, _VERBS), key=len, reverse=True))})\b\s*")
_RELATION = re.compile(
    r"\b(into|in|onto|on|off|out of|from|away from|to|at|over|under|behind|around|past|of|by|with|next to)\b"
)
_LOOSE = re.compile(r"\b(up|down|back|open|shut|away|in|off|on|sideways)$")
_PARTS = re.compile(r",? then |; |, and | and (?=(?:the )?(?:" + "|".join(sorted(_VERBS)) + r")\b)|, ")
_PLACED = frozenset(("place", "move", "work", "state"))
"""Kinds of claims whose object is where the words say at the end."""
_ROBOT = frozenset(("hand", "gripper", "arm", "robot"))


@dataclass(frozen=True, slots=True)
class NamedStep:
    """A sub-task name that was written, on the frames [start, end)."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ClaimJudgement:
    """What the simulator says of a name."""

    contradiction: str
    """Why it is untrue; empty where nothing contradicts it."""
    bodies: frozenset[str]
    """The bodies that it is about."""


@dataclass(frozen=True, slots=True)
class _Claim:
    kind: str
    bodies: frozenset[str]
    """Any of them will do."""
    placed: bool
    """It says where the object is at the end."""


def can_read(name: str, spec: TaskSpec) -> bool:
    """Whether the benchmark's rules read every clause of a name."""
    return not any(isinstance(_read(part, spec), str) for part in _parts(name))


def judge(
    step: NamedStep, spec: TaskSpec, episode: RecordingTruth, fps: float, slack_s: float = _SLACK_S
) -> ClaimJudgement:
    """Compare a name with what the simulator saw in its frames, whose ends may be off by `slack_s`."""
    slack = round(slack_s * fps)
    bodies: frozenset[str] = frozenset()
    for part in _parts(step.name):
        claim = _read(part, spec)
        if isinstance(claim, str):
            return ClaimJudgement(claim, bodies)
        bodies |= claim.bodies
        if reason := _contradiction(claim, step, episode, slack):
            return ClaimJudgement(f"{part}: {reason}", bodies)
    return ClaimJudgement("", bodies)


def _parts(name: str) -> Iterator[str]:
    text = re.sub(r"\s*\(\d+ of \d+\)$", "", " ".join(name.lower().split())).strip(" .")
    yield from filter(None, _PARTS.split(text))


def _read(part: str, spec: TaskSpec) -> _Claim | str:
    """Read one clause, or say why it cannot be read."""
    verb = _VERB.match(part)
    if not verb:
        return f"{part}: no verb that the benchmark knows"
    kind, rest = _VERBS[verb[1]], part[verb.end() :].strip()
    if kind in ("open hand", "close hand") and not rest:
        return _Claim(kind, frozenset(), False)
    if kind == "home":
        return _Claim(kind, frozenset(), False)
    if "home" in rest.split():
        return _Claim("home", frozenset(), False)
    thing, relation, place = _cut(rest)
    if place and not _is_known(place, spec):
        return f"{part}: nothing here is called {place!r}"
    if thing.split()[-1:] and thing.split()[-1] in _ROBOT:
        return _Claim("reach", _bodies(place, spec), False)
    if kind == "reach" and not thing:
        thing, relation, place = place, "", ""
    bodies = _bodies(thing, spec)
    if not bodies and not (kind == "reach" and _is_known(thing, spec)):
        return f"{part}: nothing here is called {thing!r}"
    return _Claim(kind, bodies, bool(place) and kind in _PLACED and relation not in ("of", "by", "with"))


def _cut(rest: str) -> tuple[str, str, str]:
    """("the puck", "to", "the goal"), without words such as "up"."""
    match = _RELATION.search(rest)
    while match and not rest[match.end() :].strip():
        rest = rest[: match.start()].strip()
        match = _RELATION.search(rest)
    if not match:
        return _LOOSE.sub("", rest).strip(), "", ""
    return _LOOSE.sub("", rest[: match.start()].strip()).strip(), match[1], rest[match.end() :].strip()


def _bodies(noun: str, spec: TaskSpec) -> frozenset[str]:
    last = noun.removeprefix("one of ").split()[-1:]
    if last == ["something"]:
        return frozenset(spec.objects.values())
    return frozenset(spec.objects[word] for word in last if word in spec.objects)


def _is_known(noun: str, spec: TaskSpec) -> bool:
    tokens = noun.split()
    return bool(tokens) and any(word in spec.objects or word in spec.places for word in tokens)


def _contradiction(claim: _Claim, step: NamedStep, episode: RecordingTruth, slack: int) -> str:
    """Say why a claim is untrue; empty where it is not."""
    start, end = step.start, min(step.end, len(episode))
    whole = slice(max(0, start - slack), end + slack + 1)
    last = slice(max(start, end - slack - 1), end + slack + 1)
    if claim.kind == "home":
        away = np.linalg.norm(np.subtract(episode.hand[end - 1], episode.hand[0]))
        return "" if away < _AT_HOME else "the hand is not where it began"
    if claim.kind in ("open hand", "close hand"):
        change = episode.opening[end - 1] - episode.opening[start]
        change = change if claim.kind == "open hand" else -change
        return "" if change > _TURN else "the gripper does not do so"
    if claim.kind == "reach" and not claim.bodies:
        return "" if any(episode.success[last]) else "the hand is not there at the end"
    bodies = [episode.bodies[name] for name in claim.bodies]
    reasons = [_of_body(claim, body, episode, step, whole, last) for body in bodies]
    return "" if "" in reasons else reasons[0]


def _of_body(
    claim: _Claim, body: BodyTruth, episode: RecordingTruth, step: NamedStep, whole: slice, last: slice
) -> str:
    touched = any(body.touched[whole])
    by_tool = any(body.met[whole])
    done = any(episode.success[last])
    held_at_end = any(body.held[last])
    has_moved = moved(body, whole.start, whole.stop) > _MOVED if body.movable else by_tool or touched
    checks: dict[str, Sequence[tuple[Callable[[], bool] | bool, str]]] = {
        "hold": [(held_at_end, "the hand does not hold it at the end")],
        "place": [
            (touched, "the hand does not touch it"),
            (has_moved, "it does not move"),
            (not body.held[min(step.end, len(episode)) - 1], "the hand still holds it at the end"),
        ],
        "move": [(touched, "the hand does not touch it"), (has_moved, "it does not move")],
        "carry": [
            (touched, "the hand does not touch it"),
            (has_moved, "it does not move"),
            (held_at_end, "the hand does not hold it at the end"),
        ],
        "work": [(touched or by_tool, "nothing touches it"), (has_moved, "it does not move")],
        "press": [
            (touched or by_tool, "nothing touches it"),
            (any(episode.success[whole]), "the task is not done in this step"),
        ],
        "state": [(touched or by_tool, "nothing touches it"), (done, "the task is not done at the end")],
        "reach": [(any(body.touched[last]), "the hand is not at it at the end")],
        "try": [(touched, "the hand does not touch it"), (not held_at_end, "the hand holds it at the end")],
        "leave": [
            (touched, "the hand was not on it"),
            (not body.touched[min(step.end, len(episode)) - 1], "the hand is still on it"),
        ],
    }
    placed = [(done, "the relation does not hold at the end")] if claim.placed else []
    return next((reason for holds, reason in (*checks[claim.kind], *placed) if not holds), "")
