"""Claims of a step's name, and the simulator's judgement of them.

The benchmark reads names by rules of its own, not by the planner's. A name that the rules cannot read counts
as contradicted, since nothing confirms it. So does a noun that the task does not have.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from pydantic import BaseModel

from goalreel.annotator.statistics import Measurement, boundary_counts, share, with_interval
from goalreel.types import Segment
from goalreel_lab.metaworld.tasks import TaskSpec
from goalreel_lab.metaworld.truth import (
    BodyTruth,
    Contact,
    RecordingTruth,
    contact_cuts,
    contacts,
    moved,
    without_gaps,
)

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
    """Judgement of the simulator on a name."""

    contradiction: str
    """Reason why it is untrue; empty where nothing contradicts it."""
    bodies: frozenset[str]
    """The bodies that it is about."""


@dataclass(frozen=True, slots=True)
class _Claim:
    kind: str
    bodies: frozenset[str]
    """Any of them will do."""
    placed: bool
    """It says where the object is at the end."""


def judge(
    step: NamedStep, spec: TaskSpec, episode: RecordingTruth, fps: float, slack_s: float = _SLACK_S
) -> ClaimJudgement:
    """Compare a name with what the simulator saw in its frames, whose ends may be off by `slack_s`."""
    slack = round(slack_s * fps)
    bodies: frozenset[str] = frozenset()
    parts = list(_parts(step.name))
    for i, part in enumerate(parts, 1):
        claim = _read(part, spec)
        if isinstance(claim, str):
            return ClaimJudgement(claim, bodies)
        bodies |= claim.bodies
        if reason := _contradiction(claim, step, episode, fps, slack, done=i < len(parts)):
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


def _contradiction(
    claim: _Claim, step: NamedStep, episode: RecordingTruth, fps: float, slack: int, *, done: bool
) -> str:
    """Say why a claim is untrue; empty where it is not. One that is `done` before another may have ended."""
    start, end = step.start, min(step.end, len(episode))
    whole = slice(max(0, start - slack), end + slack + 1)
    last = whole if done else slice(max(start, end - slack - 1), end + slack + 1)
    if claim.kind == "home":
        away = np.linalg.norm(np.subtract(episode.hand[end - 1], episode.hand[0]))
        return "" if away < _AT_HOME else "the hand is not where it began"
    if claim.kind in ("open hand", "close hand"):
        change = episode.opening[end - 1] - episode.opening[start]
        change = change if claim.kind == "open hand" else -change
        return "" if change > _TURN else "the gripper does not do so"
    if claim.kind == "reach" and not claim.bodies:
        return "" if any(episode.success[last]) else "the hand is not there at the end"
    bodies = [without_gaps(episode.bodies[name], fps) for name in claim.bodies]
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


TOLERANCE_S = 0.5


@dataclass(frozen=True, slots=True)
class Annotation:
    """Result of `annotate` on one recording."""

    cuts: tuple[int, ...]
    """The frames at which another step begins, without the first."""
    names: tuple[NamedStep, ...]
    """The sub-task rows that say something else than the instruction."""
    failed: bool = False
    """There is no plan."""
    observed: tuple[NamedStep, ...] = ()
    """The steps whose goal image is *observed*, up to the frame of that image, whether named or in doubt."""
    doubted: tuple[tuple[str, NamedStep], ...] = ()
    """Each doubt, with a step whose name it keeps from being written."""
    doubts: tuple[str, ...] = ()
    """Reasons for doubt in the steps' words, each once."""


class ScoreDetail(BaseModel, frozen=True):
    """A name that the simulator contradicts, or a contact that no name covers."""

    task: str
    episode: int
    instruction: str
    what: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EpisodeScore:
    """The counts of one episode."""

    kind: str
    boundary: tuple[int, int, int]
    """Matched, predicted and true cuts."""
    names: int
    false: tuple[ScoreDetail, ...]
    contacts: int
    missed: tuple[ScoreDetail, ...]
    failed: bool = False
    observed: int = 0
    """Steps with an observed goal image whose words the benchmark reads."""
    observed_untrue: int = 0
    observed_early: int = 0
    doubts: Mapping[str, bool] = field(default_factory=dict)
    """The kinds of doubts; true where a name that it keeps back is untrue."""
    asked: bool = False
    """The run stopped to ask which end of the gripper is closed, and was told."""
    inverted: bool = False
    """It took the open end of the gripper for the closed one."""


class MetaWorldReport(BaseModel, frozen=True):
    """Report of `goalreel eval metaworld`."""

    split: str
    tasks: int
    episodes: int
    tolerance_s: float
    cut_f1: Measurement
    """Cuts within the tolerance of where contact begins or ends; the last retreat is no cut."""
    cut_precision: Measurement
    cut_recall: Measurement
    false_claims: Measurement
    """Share of the names that the simulator contradicts."""
    observed_untrue: Measurement
    """Share of the observed goal images at whose frame the simulator contradicts the step's words."""
    observed_early: Measurement
    """Share of those at which it does so, and does not within the tolerance."""
    coverage: Measurement
    """Share of the contacts during which a name is true of the body that is touched."""
    cuts: int
    true_cuts: int
    names: int
    false_names: int
    observed: int
    """Steps with an observed goal image whose words the benchmark reads."""
    contacts: int
    contacts_named: int
    asked: int
    """Recordings of runs that stopped to ask which end of the gripper is closed, and were told."""
    inverted: int
    """Recordings whose open end of the gripper was taken for the closed one."""
    failures: int
    """Recordings without a plan."""
    doubt_kinds: dict[str, tuple[int, int]]
    """Recordings with a doubt of each kind that keeps an untrue name back, and all that have one."""
    untrue: tuple[ScoreDetail, ...]
    unnamed: tuple[ScoreDetail, ...]


def score_episode(
    annotation: Annotation, spec: TaskSpec, episode: RecordingTruth, fps: float
) -> EpisodeScore:
    """Compare one annotated recording with its truth."""
    touches = contacts(episode, fps)
    counts = boundary_counts(
        _segments(annotation.cuts, len(episode)),
        _segments(contact_cuts(touches, len(episode)), len(episode)),
        TOLERANCE_S,
        fps,
    )
    verdicts = [(step, judge(step, spec, episode, fps)) for step in annotation.names]
    true = [(step, verdict.bodies) for step, verdict in verdicts if not verdict.contradiction]

    observed, observed_untrue, observed_early = _count_observed(annotation.observed, spec, episode, fps)

    doubts: dict[str, bool] = {}
    for doubt, step in annotation.doubted:
        kind = re.sub(r'".*"|once|twice|\d+ times', "...", doubt)
        doubts[kind] = doubts.get(kind, False) or bool(judge(step, spec, episode, fps).contradiction)

    def detail(what: str, start: int, end: int) -> ScoreDetail:
        return ScoreDetail(
            task=episode.task,
            episode=episode.seed,
            instruction=episode.instruction,
            what=what,
            start=start,
            end=end,
        )

    return EpisodeScore(
        kind=spec.kind,
        boundary=(counts.matched, counts.predicted, counts.true),
        names=len(verdicts),
        false=tuple(
            detail(f"{step.name!r}: {verdict.contradiction}", step.start, step.end)
            for step, verdict in verdicts
            if verdict.contradiction
        ),
        contacts=len(touches),
        missed=tuple(
            detail(touch.object, touch.start, touch.end)
            for touch in touches
            if not _is_named(touch, true, TOLERANCE_S * fps)
        ),
        failed=annotation.failed,
        observed=observed,
        observed_untrue=observed_untrue,
        observed_early=observed_early,
        doubts=doubts,
    )


def _count_observed(
    steps: Sequence[NamedStep], spec: TaskSpec, episode: RecordingTruth, fps: float
) -> tuple[int, int, int]:
    """Count observed goal images, those that the simulator contradicts at their frame, and early ones."""

    def is_true(step: NamedStep, later: int) -> bool:
        end = min(max(step.start + 1, step.end + later), len(episode))
        return not judge(replace(step, end=end), spec, episode, fps, slack_s=0.0).contradiction

    readable = [s for s in steps if not any(isinstance(_read(p, spec), str) for p in _parts(s.name))]
    contradicted = [step for step in readable if not is_true(step, 0)]
    slack = round(TOLERANCE_S * fps)
    early = [step for step in contradicted if any(is_true(step, d) for d in range(-slack, slack + 1))]
    return len(readable), len(contradicted) - len(early), len(early)


def _is_named(touch: Contact, true: Sequence[tuple[NamedStep, frozenset[str]]], slack: float) -> bool:
    """Tell if a true name speaks of the body, on frames that overlap the contact or lead to it."""
    return any(
        touch.object in bodies and step.start < touch.end and touch.start < step.end + slack
        for step, bodies in true
    )


def _segments(cuts: Sequence[int], frames: int) -> list[Segment]:
    return [Segment(start=a, end=b) for a, b in itertools.pairwise([0, *cuts, frames])]


def make_report(split: str, tasks: int, scores: Sequence[EpisodeScore]) -> MetaWorldReport:
    """Add up the episodes, with 95 % intervals over them."""
    predicted, true = (sum(score.boundary[i] for score in scores) for i in (1, 2))
    false = sum(len(score.false) for score in scores)
    missed = sum(len(score.missed) for score in scores)
    names, touches = sum(score.names for score in scores), sum(score.contacts for score in scores)
    cuts = [score.boundary for score in scores]
    kinds: dict[str, list[bool]] = {}
    for kind, is_right in itertools.chain.from_iterable(score.doubts.items() for score in scores):
        kinds.setdefault(kind, []).append(is_right)
    return MetaWorldReport(
        split=split,
        tasks=tasks,
        episodes=len(scores),
        tolerance_s=TOLERANCE_S,
        cut_f1=with_interval([(2 * m, p + t) for m, p, t in cuts], share),
        cut_precision=with_interval([(m, p) for m, p, _ in cuts], share),
        cut_recall=with_interval([(m, t) for m, _, t in cuts], share),
        false_claims=with_interval([(len(score.false), score.names) for score in scores], share),
        observed_untrue=with_interval([(s.observed_untrue, s.observed) for s in scores], share),
        observed_early=with_interval([(s.observed_early, s.observed) for s in scores], share),
        coverage=with_interval(
            [(score.contacts - len(score.missed), score.contacts) for score in scores], share
        ),
        cuts=predicted,
        true_cuts=true,
        names=names,
        false_names=false,
        observed=sum(score.observed for score in scores),
        contacts=touches,
        contacts_named=touches - missed,
        asked=sum(score.asked for score in scores),
        inverted=sum(score.inverted for score in scores),
        failures=sum(score.failed for score in scores),
        doubt_kinds={kind: (sum(right), len(right)) for kind, right in sorted(kinds.items())},
        untrue=tuple(detail for score in scores for detail in score.false),
        unnamed=tuple(detail for score in scores for detail in score.missed),
    )
