"""A Planner that looks at a recorded episode: the robot's state proposes cuts, a chat model cuts and names.

An episode usually takes one call. One that needs more than MOMENTS frames is watched in windows. The last
segment of a window is watched again at the beginning of the next, so that no cut is due to a window's end.
"""

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from goalreel.chat import json_reply, prompts
from goalreel.chat.conversation import THOUGHTFUL, Chat, Message, Question, ask, interleave, plain
from goalreel.chat.plan import MAX_STEPS
from goalreel.claims import DetailName
from goalreel.errors import BackendError, DatasetError
from goalreel.image import Image
from goalreel.planners.examples.carry import Example, numbers_of
from goalreel.planners.examples.slots import words
from goalreel.planners.kinematic.description import Cue, Proposal, proposals
from goalreel.planners.kinematic.layout import Layout, Unsegmentable
from goalreel.planners.recorded import read_each
from goalreel.planners.watch.reply import (
    CONTACTS,
    TILES,
    contact_sheet,
    describe,
    moments,
    parse_watch_reply,
    snap,
    watch_schema,
)
from goalreel.types import Failure, Plan, Recording, Recordings, Segment, Step, Task, opener

log = logging.getLogger(__name__)
BLIND = "the model that watched gives the same steps for frames that stand still"
MOMENTS = 3 * TILES  # frames of each camera in one call
TOLERANCE_S = 0.5  # a boundary this near to a proposed one is taken for it
_EXAMPLE = (
    '{{"segments": [{{"start": {span.start}, "end": {span.end}, "name": "...", "state": "...", '
    '"outcome": "done", "agrees": true, "seen": null}}]}}'
)
_CUES: Mapping[Cue, str] = {
    "closed": "the gripper has closed",
    "opened": "the gripper opens",
    "still": "the arm stands still",
    "slow": "the arm is slow",
}


@dataclass(frozen=True, eq=False, repr=False)
class WatchPlanner:
    """Cuts recorded episodes into the events in their pictures, and names them, with any chat model.

    The instruction and the proposals from the robot's state are hints. The segments of a plan, one for each
    step, cover the episode without a gap. A step that the pictures show to fail has the `outcome` `failed`;
    one that contradicts the instruction says so in its `auxiliary_text`. `task.id` names the recording. A
    model gives at most `replies` replies to a window (`conversation.ask`). Its prompt has the most similar
    `examples`. With `details` it is asked once more about each step (`watch.reply`). With `examine` it is
    asked for the first plan of several steps once more, with frames that stand still: if the plan is the
    same, the model is blind, and all its steps are in doubt.

    Raises:
        ValueError: there is no camera.
    """

    recordings: Recordings
    chat: Chat
    cameras: Sequence[str]
    layout: Layout | None = None
    replies: int = 3
    examples: Sequence[Example] = ()
    details: Collection[DetailName] = ()
    examine: bool = False
    _blind: list[bool] = field(default_factory=list, init=False)
    """The result of that question, once it is asked."""

    def __post_init__(self) -> None:
        if not self.cameras:
            raise ValueError("a watching planner needs cameras")

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        """Answer i is the plan of recording `tasks[i].id`, or the reason why there is none.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        watches = read_each(self.recordings, tasks, self._watch)
        answers: dict[int, Plan | Failure] = {i: w for i, w in enumerate(watches) if isinstance(w, Failure)}
        every = {i: w for i, w in enumerate(watches) if isinstance(w, _Watch)}
        first = True
        while still := [i for i in every if i not in answers]:
            replies = self._ask([every[i] for i in still], first=first)
            for i, reply in zip(still, replies, strict=True):
                answer = reply if isinstance(reply, Failure) else every[i].add(reply)
                if answer is not None:
                    answers[i] = answer
            first = False
        if self.examine and self._is_blind(tasks, answers):
            answers = {i: a if isinstance(a, Failure) else _doubted(a) for i, a in answers.items()}
        if self.details:
            watched = {
                i: (watch.recording, watch.instruction, plan)
                for i, watch in every.items()
                if isinstance(plan := answers[i], Plan)
            }
            plans = describe(self.chat, list(watched.values()), self.cameras, self.details, self.replies)
            answers |= dict(zip(watched, plans, strict=True))
        return [answers[i] for i in range(len(tasks))]

    def _watch(self, task: Task, recording: Recording) -> "_Watch":
        examples = likest(self.examples, task.instruction, recording)
        return _Watch(recording, task.instruction, proposed(recording, self.layout), examples)

    def _is_blind(self, tasks: Sequence[Task], answers: Mapping[int, Plan | Failure]) -> bool:
        """Tell if it is; the first plan of several steps, whose pictures change, shows it."""
        for i, plan in answers.items():
            if self._blind or isinstance(plan, Failure) or len(plan.steps) == 1:
                continue
            recording = opener(self.recordings)(tasks[i].id)
            ends = [recording.frames(camera, [0, len(recording.timestamps) - 1]) for camera in self.cameras]
            if all(first == last for first, last in ends):
                continue
            still = replace(
                self, recordings={tasks[i].id: _StillRecording(recording)}, examine=False, details=()
            )
            with suppress(BackendError):
                (again,) = still.plan([tasks[i]])
                self._blind.extend([again == plan] if isinstance(again, Plan) else [])
            if self._blind == [True]:
                log.warning("the planner is blind: %s. All its steps are in doubt.", BLIND)
        return self._blind[:1] == [True]

    def _ask(self, watches: "Sequence[_Watch]", *, first: bool) -> list[Plan | Failure]:
        """Ask about one window of each. After the `first` call, a dead back end fails only open episodes."""
        questions = [watch.question(self.cameras) for watch in watches]
        try:
            return ask(self.chat, questions, stage="plan", replies=self.replies, schema=watch_schema())
        except BackendError as e:
            if first:
                raise
            return [Failure(stage="plan", message=str(e))] * len(watches)


def _doubted(plan: Plan) -> Plan:
    steps = (step.model_copy(update={"doubts": (*step.doubts, BLIND)}) for step in plan.steps)
    return plan.model_copy(update={"steps": tuple(steps)})


@dataclass(frozen=True)
class _StillRecording:
    """A recording whose cameras show its first frame all the time."""

    recording: Recording

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recording, name)

    def frames(self, camera: str, indices: Sequence[int]) -> list[Image]:
        return self.recording.frames(camera, [0]) * len(indices)


@dataclass(frozen=True, slots=True)
class WatchCost:
    """The least that it costs to watch episodes: a model may be asked again."""

    calls: int = 0
    pictures: int = 0
    """Contact sheets."""
    text_tokens: int = 0
    """An estimate: four characters of a prompt make one."""

    def __add__(self, other: "WatchCost") -> "WatchCost":
        return WatchCost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def times(self, factor: float) -> "WatchCost":
        """Multiply the cost by `factor`, as for more episodes."""
        return WatchCost(*(round(value * factor) for value in astuple(self)))


def watch_cost(
    recording: Recording,
    cameras: Sequence[str],
    layout: Layout | None = None,
    examples: Sequence[Example] = (),
) -> WatchCost:
    """Estimate the cost of an episode, without a call or a look at its frames.

    Raises:
        Unsegmentable: the recording has no frame, or `layout` does not fit it.
    """
    shown = likest(examples, recording.instruction, recording)
    watch = _Watch(recording, recording.instruction, proposed(recording, layout), shown)
    total = WatchCost()
    while watch.start < watch.length:
        text = prompts.render("watcher/system", {"most": MAX_STEPS}) + watch.text(cameras)
        total += WatchCost(1, len(watch.sheets()), round(len(text) / 4))
        watch.move_on(watch.end)
    return total


def proposed(recording: Recording, layout: Layout | None) -> tuple[Proposal, ...]:
    """The boundaries that the robot's state proposes; none where it has no layout that we know.

    Raises:
        Unsegmentable: the recording has no frame, or `layout` does not fit it.
    """
    if not len(recording.timestamps):
        raise Unsegmentable("the recording holds no frame")
    try:
        return proposals(recording, layout)
    except Unsegmentable:
        if layout is not None:
            raise
        return ()


@dataclass
class _Watch:
    """One episode in progress: the present window, and the steps before it."""

    recording: Recording
    instruction: str
    proposals: tuple[Proposal, ...]
    examples: tuple[Example, ...] = ()
    steps: list[Step] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    cut_off: bool = False
    """The last of `segments` ends only because its window ends."""

    def __post_init__(self) -> None:
        self.length = len(self.recording.timestamps)
        self.moments = moments(self.length, self.recording.fps, self.proposals)
        self.move_on(0)

    def move_on(self, start: int) -> None:
        """Go to the window that begins at a frame of the episode."""
        frames = [start, *(f for f in self.moments if f > start)]
        end = self.length
        if len(frames) > MOMENTS:
            last = frames[MOMENTS - 1]
            late = [p for p in self.proposals if (start + last) / 2 < p.frame <= last]
            sure = [p for p in late if p.cue in CONTACTS]
            end = next((p.frame for p in reversed(sure or late)), last)
        self.start, self.end = start, end
        self.frames = [f for f in frames if f <= end]

    def text(self, cameras: Sequence[str]) -> str:
        """The text of the question about the window, with a mark for each sheet."""
        zero = self.recording.timestamps[0]
        inside = [p for p in self.proposals if self.start < p.frame < self.end]
        cues = [(p.frame, f"{self.recording.timestamps[p.frame] - zero:.1f}", _CUES[p.cue]) for p in inside]
        seconds = [f"{len(e.timestamps) / e.fps:.1f}" for e in self.examples]
        examples = [(plain(e.instruction), s, answer(e)) for e, s in zip(self.examples, seconds, strict=True)]
        values = {
            "examples": examples,
            "instruction": plain(self.instruction),
            "before": [plain(step.name) for step in self.steps],
            "cut_off": self.cut_off,
            "start": self.start,
            "end": self.end,
            "fps": f"{self.recording.fps:g}",
            "cameras": [camera.removeprefix("observation.images.") for camera in cameras],
            "proposals": cues,
            "sheets": self.sheets(),
        }
        return prompts.render("watcher/watch", values)

    def sheets(self) -> list[list[int]]:
        """The frames on each sheet."""
        return [self.frames[i : i + TILES] for i in range(0, len(self.frames), TILES)]

    def question(self, cameras: Sequence[str]) -> Question[Plan] | Failure:
        """The question about the window, with the reader of its replies."""
        try:
            sheets = [contact_sheet(self.recording, cameras, frames) for frames in self.sheets()]
        except DatasetError as e:
            return Failure(stage="plan", message=f"{self.recording.id}: {e}")
        span = Segment(start=self.start, end=self.end)
        system = Message("system", (prompts.render("watcher/system", {"most": MAX_STEPS}),))

        def read(reply: str) -> Plan | json_reply.Problem:
            plan = parse_watch_reply(reply, span, self.instruction)
            reach = TOLERANCE_S * self.recording.fps
            return plan if isinstance(plan, json_reply.Problem) else snap(plan, span, self.proposals, reach)

        turn = Message("user", interleave(self.text(cameras), sheets))
        return Question((system, turn), read, THOUGHTFUL % _EXAMPLE.format(span=span))

    def add(self, window: Plan) -> Plan | None:
        """Add the plan of the window; return the whole plan after the last window.

        Unless it is the last one, the last segment of a window may continue after it. So it is watched again,
        except where it fills more than half of the window.
        """
        spans = list(zip(window.steps, window.segments or (), strict=True))
        if self.cut_off and window.steps[0].name.casefold() == self.steps[-1].name.casefold():
            self.steps.pop()
            spans[0] = (window.steps[0], Segment(start=self.segments.pop().start, end=spans[0][1].end))
        last_start = spans[-1][1].start
        self.cut_off = self.end < self.length and last_start < (self.start + self.end) / 2
        if self.end < self.length and not self.cut_off:
            spans.pop()
        self.steps += [step for step, _ in spans]
        self.segments += [segment for _, segment in spans]
        self.move_on(self.segments[-1].end)
        whole = self.start >= self.length
        return Plan(steps=tuple(self.steps), segments=tuple(self.segments)) if whole else None


LIMIT = 3  # examples for one recording


def answer(example: Example) -> str:
    """The JSON that a watching model should answer, but with seconds in the place of frames."""
    segments = [
        {
            "start_s": round(segment.start / example.fps, 1),
            "end_s": round(segment.end / example.fps, 1),
            "name": step.name,
            "outcome": step.outcome,
        }
        for step, segment in zip(example.steps, example.segments, strict=True)
    ]
    return plain(json.dumps({"segments": segments}, ensure_ascii=False, separators=(",", ":")))


def likest(examples: Sequence[Example], instruction: str, recording: Recording) -> tuple[Example, ...]:
    """At most LIMIT examples of other recordings, first those whose instructions share the most words.

    Equally similar ones stay in their order.
    """
    if not examples:
        return ()
    target, numbers = frozenset(words(instruction)), numbers_of(recording)
    others = [example for example in examples if example.numbers != numbers]

    def likeness(example: Example) -> float:
        """The Jaccard index: the share of all their words that both have."""
        own = frozenset(words(example.instruction))
        return len(own & target) / max(1, len(own | target))

    return tuple(sorted(others, key=likeness, reverse=True)[:LIMIT])
