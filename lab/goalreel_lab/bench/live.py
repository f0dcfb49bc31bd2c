"""The Critic on a camera's frames of a robot at work: one by one, in the order in which the node asks, and at
the end of a whole task.

The scripted expert carries every sub-goal out, once well and once badly. The simulator says which frames show
it reached (`lab/goalreel_lab/corpora/live.py`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from goalreel.annotator.statistics import Measurement
from goalreel.image import Image
from goalreel.progress import OnProgress
from goalreel.streaming.follower import Closeness, Tracker
from goalreel.streaming.settings import EngineSettings
from goalreel.tabletop.env import CONTROL_HZ
from goalreel.tabletop.grammar import state_of
from goalreel.types import Candidate, Critic, Failure, Verdict
from goalreel_lab.bench.plan import in_batches
from goalreel_lab.bench.scenes import SIZE
from goalreel_lab.corpora.live import (
    FAULTS,
    UNDERWAY,
    LiveFrame,
    LiveMoment,
    carried_out,
    failed,
    frame_of,
    live_rows,
    whole_rows,
)
from goalreel_lab.corpora.plans import Done, walk
from goalreel_lab.corpora.rows import VerdictRow, candidate_of
from goalreel_lab.corpora.verdicts import prompt_for
from goalreel_lab.statistics import balanced_accuracy_with_interval, share_with_interval
from goalreel_lab.variety import PLAIN, View

type Asks = Callable[[Image, Image | None, Sequence[Image], float], list[int]]
"""(view at the step's start, goal image, frames since, seconds between them) -> the frames asked about.

Without a goal image the step is one in words alone."""

EVERY = 2
"""Control steps from one look to the next: five looks a second, as the node's `track_rate`."""
AFTER = 8.0
"""Seconds for which the arm is watched at home, when all is done."""
CONFIRMED = (1, 2, 3)
"""So many successes in a row make a sub-goal count as reached."""
_STREAM = 12


@dataclass(frozen=True)
class LiveAnswer:
    """Answer about one frame, and the truth."""

    seed: int
    reached: bool
    verdict: bool
    mistake: str | None = None


@dataclass(frozen=True)
class LiveCourse:
    """One execution of one sub-goal, and the frames of it about which the node asks."""

    seed: int
    pictured: bool
    """There is a goal image; else the step is one in words alone."""
    candidates: tuple[Candidate, ...]
    reached: tuple[bool, ...]
    """True for each frame that shows the sub-goal reached."""
    ends_well: bool
    """It is reached at the end."""

    def called(self, answers: Sequence[bool], confirmations: int) -> int | None:
        """Give the question after which the sub-goal counts as reached; None where it never does."""
        row = 0
        for i, yes in enumerate(answers):
            row = row + 1 if yes else 0
            if row == confirmations:
                return i
        return None


def live_courses(
    seeds: Sequence[int], asks: Asks, progress: OnProgress, view: View = PLAIN
) -> list[LiveCourse]:
    """Carry every sub-goal of every episode out, well and badly."""
    courses: list[LiveCourse] = []
    for number, seed in enumerate(seeds, start=1):
        for done in walk([seed], SIZE, _STREAM, view):
            courses += _courses(done, carried_out(done, precise=True), asks)
            tries = (failed(done, FAULTS[i]) for i in done.rng.permutation(len(FAULTS)))
            if badly := next(filter(None, tries), None):
                courses += _courses(done, badly, asks)
        progress("live scenes", number, len(seeds))
    return courses


def _courses(done: Done, moments: Sequence[LiveMoment], asks: Asks) -> Iterator[LiveCourse]:
    period = EVERY / CONTROL_HZ
    frames = [frame_of(done, m) for m in [*moments[:-1:EVERY], moments[-1]]]
    frames += [frames[-1]] * round(AFTER / period)
    prompt = prompt_for(done)
    for goal in (done.target, None):
        numbers = asks(done.source, goal, [f.image for f in frames], period)
        yield LiveCourse(
            seed=done.origin.seed,
            pictured=goal is not None,
            candidates=tuple(_candidate(done, frames[i], prompt) for i in numbers),
            reached=tuple(frames[i].success(done.goal) for i in numbers),
            ends_well=frames[-1].success(done.goal),
        )


def _candidate(done: Done, frame: LiveFrame, prompt: str) -> Candidate:
    return Candidate(
        task_id=f"live-{done.origin.seed}",
        step=done.origin.done,
        source=done.source,
        image=frame.image,
        instruction=state_of(done.goal),
        prompt=prompt,
        first_prompt=prompt,
    )


def judge_frames(
    seeds: Sequence[int], critic: Critic, progress: OnProgress, view: View = PLAIN
) -> list[LiveAnswer]:
    """Ask about single frames, as training shows them; an answer without a verdict is no success."""
    return _judge(list(live_rows(seeds, SIZE, view)), critic, "live frames", progress)


def judge_wholes(
    seeds: Sequence[int], critic: Critic, progress: OnProgress, view: View = PLAIN
) -> list[LiveAnswer]:
    """Ask at a right and at a wrong end of every episode whether the whole task is done."""
    return _judge(list(whole_rows(seeds, SIZE, view)), critic, "whole tasks", progress)


def _judge(rows: Sequence[VerdictRow], critic: Critic, label: str, progress: OnProgress) -> list[LiveAnswer]:
    answers = in_batches(critic.judge, [candidate_of(row) for row in rows], label, progress)
    return [
        LiveAnswer(row.origin.seed, row.mistake is None, _yes(answer), row.mistake)
        for row, answer in zip(rows, answers, strict=True)
    ]


def judge_courses(
    courses: Sequence[LiveCourse], critic: Critic, progress: OnProgress
) -> list[tuple[bool, ...]]:
    """Ask what the node would ask, the same question once: whether each frame is called a success."""
    candidates = list({id(c.image): c for course in courses for c in course.candidates}.values())
    answers = {
        id(c.image): _yes(answer)
        for c, answer in zip(
            candidates, in_batches(critic.judge, candidates, "live courses", progress), strict=True
        )
    }
    return [tuple(answers[id(c.image)] for c in course.candidates) for course in courses]


def _yes(answer: Verdict | Failure) -> bool:
    return isinstance(answer, Verdict) and answer.success


def measure_frames(answers: Sequence[LiveAnswer], prefix: str = "") -> dict[str, Measurement]:
    """Measure `false_success`, `missed` and `balanced_accuracy`.

    `false_success` is the share called a success of frames that do not show it. `missed` is the share not
    called so of frames that do.
    """
    wrong, right = ([a for a in answers if a.reached == reached] for reached in (False, True))
    return {
        f"{prefix}false_success": share_with_interval((a.seed, a.verdict) for a in wrong),
        f"{prefix}missed": share_with_interval((a.seed, not a.verdict) for a in right),
        f"{prefix}balanced_accuracy": balanced_accuracy_with_interval(
            (a.seed, a.reached, a.verdict == a.reached) for a in answers
        ),
    }


def measure_kinds(answers: Sequence[LiveAnswer]) -> dict[str, Measurement]:
    """Measure `false_success` apart: of robots at work (`_underway`), and done in vain (`_failed`)."""
    wrong = [a for a in answers if not a.reached]
    kinds = {"underway": True, "failed": False}
    return {
        f"false_success_{kind}": share_with_interval(
            (a.seed, a.verdict) for a in wrong if (a.mistake in UNDERWAY) == underway
        )
        for kind, underway in kinds.items()
    }


def measure_courses(
    courses: Sequence[LiveCourse], answers: Sequence[Sequence[bool]]
) -> dict[str, Measurement]:
    """Measure the frames that the node asks about as `measure_frames` does, then `measure_calls`.

    `gated_` stands before the first. `words_` stands before both for steps in words alone, whose frames no
    goal image filters.
    """
    result: dict[str, Measurement] = {}
    for pictured in (True, False):
        pairs = [(c, row) for c, row in zip(courses, answers, strict=True) if c.pictured == pictured]
        frame_answers = [
            LiveAnswer(course.seed, reached, yes)
            for course, row in pairs
            for reached, yes in zip(course.reached, row, strict=True)
        ]
        result |= measure_frames(frame_answers, "gated_" if pictured else "words_")
        for count in CONFIRMED:
            result |= measure_calls(pairs, count, "" if pictured else "words_")
    return result


def measure_calls(
    pairs: Sequence[tuple[LiveCourse, Sequence[bool]]], count: int, prefix: str = ""
) -> dict[str, Measurement]:
    """Measure the share of sub-goals called reached: `early`, `noticed` and `fooled`.

    `early` ones are called so before they are, `noticed` ones once they are and not before, and `fooled` ones
    where the robot failed. `_COUNT` needs so many successes in a row.
    """
    called = [(course, course.called(row, count)) for course, row in pairs]
    well = [(c, i) for c, i in called if c.ends_well]
    badly = [(c, i) for c, i in called if not c.ends_well]
    calls = {
        "early": share_with_interval((c.seed, i is not None and not c.reached[i]) for c, i in well),
        "noticed": share_with_interval((c.seed, i is not None and c.reached[i]) for c, i in well),
        "fooled": share_with_interval((c.seed, i is not None) for c, i in badly),
    }
    return {f"{prefix}{key}{'' if count == 1 else f'_{count}'}": value for key, value in calls.items()}


def critic_query_frames(
    settings: EngineSettings, start: Image, goal: Image | None, frames: Sequence[Image], period: float
) -> list[int]:
    """Give the numbers of the frames about which the engine asks a Critic that always says no, at once.

    Args:
        start: the view when the sub-goal began.
        goal: its picture; None for a step in words alone.
        frames: the camera's frames since then, one every `period` seconds.
    """
    measure = None if goal is None else Closeness(start, goal)
    tracker = Tracker(settings, 0.0)
    values = (math.nan if measure is None else measure.measure(frame) for frame in frames)
    decisions = (tracker.decide(i * period, closeness) for i, closeness in enumerate(values))
    return [i for i, decision in enumerate(decisions) if decision == "ask"]
