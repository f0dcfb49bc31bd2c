"""A Planner that looks at a recorded episode: its state proposes boundaries, a chat model cuts and names.

One call an episode as a rule. One that needs more than MOMENTS frames is watched in windows, the last segment
of a window again at the beginning of the next, so that no cut is due to a window's end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from goalreel.errors import BackendError, DatasetError
from goalreel.planners.agents.ask import Question, ask
from goalreel.planners.agents.json_reply import Problem
from goalreel.planners.agents.parsing import MAX_STEPS
from goalreel.planners.agents.prompts import render
from goalreel.planners.chat.conversation import Chat, Message
from goalreel.planners.chat.interleave import interleave, plain
from goalreel.planners.kinematic.layout import Layout, Unsegmentable
from goalreel.planners.kinematic.proposals import Cue, Proposal, proposals
from goalreel.planners.watch.contact_sheet import CONTACTS, TILES, contact_sheet, moments
from goalreel.planners.watch.exemplars import Exemplar, likest
from goalreel.planners.watch.parsing import parse_watched, snapped, watched_schema
from goalreel.types import Failure, Plan, Recording, Recordings, Segment, Step, Task

MOMENTS = 3 * TILES
"""Frames in one call, of each camera."""
TOLERANCE_S = 0.5
"""A boundary this near to one that the sensors propose is meant to be that one."""
_CUES: Mapping[Cue, str] = {
    "closed": "the gripper has closed",
    "opened": "the gripper opens",
    "still": "the arm stands still",
    "slow": "the arm is slow",
}


class WatchPlanner:
    """Cuts recorded episodes into what happened in their pictures, and names it, with any chat model.

    The instruction is a hint, and the state's proposals are too. A plan's segments cover the episode without
    a gap, one a step; a step that the pictures show to have failed has that `outcome`, one that contradicts
    the instruction says so in its `auxiliary_text`. `task.id` names the recording. A model is asked at most
    `replies` times a window (see `agents.ask`). The likest `exemplars` are shown as examples.

    Raises:
        ValueError: no camera, or `replies` is less than 1.
    """

    def __init__(
        self,
        recordings: Recordings,
        chat: Chat,
        cameras: Sequence[str],
        layout: Layout | None = None,
        replies: int = 3,
        exemplars: Sequence[Exemplar] = (),
    ) -> None:
        if replies < 1 or not cameras:
            raise ValueError(f"a watching planner needs cameras and replies, got {cameras} and {replies}")
        self._open = recordings.__getitem__ if isinstance(recordings, Mapping) else recordings
        self._chat = chat
        self._cameras = tuple(cameras)
        self._layout = layout
        self._replies = replies
        self._exemplars = exemplars

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        """Answer i is what happened in recording `tasks[i].id`, or why that could not be told.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        watches = [self._watch(task) for task in tasks]
        answers: dict[int, Plan | Failure] = {i: w for i, w in enumerate(watches) if isinstance(w, Failure)}
        under_way = {i: w for i, w in enumerate(watches) if isinstance(w, _Watch)}
        later = False
        while under_way:
            for i, said in zip(list(under_way), self._ask(list(under_way.values()), later), strict=True):
                done = said if isinstance(said, Failure) else under_way[i].take(said)
                if done is not None:
                    answers[i] = done
                    del under_way[i]
            later = True
        return [answers[i] for i in range(len(tasks))]

    def _watch(self, task: Task) -> "_Watch | Failure":
        try:
            recording = self._open(task.id)
            examples = likest(self._exemplars, task.instruction, recording)
            return _Watch(recording, task.instruction, proposed(recording, self._layout), examples)
        except KeyError:
            return Failure(stage="plan", message=f"no recording {task.id!r}")
        except (Unsegmentable, DatasetError) as e:
            return Failure(stage="plan", message=f"{task.id}: {e}")

    def _ask(self, watches: "Sequence[_Watch]", later: bool) -> list[Plan | Failure]:
        """One window of each. Once there are answers, a dead back end costs only what is still open."""
        questions = [watch.question(self._cameras) for watch in watches]
        try:
            return ask(self._chat, questions, stage="plan", replies=self._replies, schema=watched_schema())
        except BackendError as e:
            if not later:
                raise
            return [Failure(stage="plan", message=str(e))] * len(watches)


@dataclass(frozen=True, slots=True)
class WatchCost:
    """What it takes to watch episodes: at least, for a model may be asked again."""

    calls: int = 0
    pictures: int = 0
    """Contact sheets."""
    text_tokens: int = 0
    """About: four characters of a prompt make one."""

    def __add__(self, other: "WatchCost") -> "WatchCost":
        return WatchCost(
            self.calls + other.calls, self.pictures + other.pictures, self.text_tokens + other.text_tokens
        )

    def times(self, factor: float) -> "WatchCost":
        """The cost of `factor` times as much."""
        return WatchCost(
            round(self.calls * factor), round(self.pictures * factor), round(self.text_tokens * factor)
        )


def watch_cost(
    recording: Recording,
    cameras: Sequence[str],
    layout: Layout | None = None,
    exemplars: Sequence[Exemplar] = (),
) -> WatchCost:
    """Reckon what an episode will cost, without a call or a look at its frames.

    Raises:
        Unsegmentable: its numbers cannot be read.
    """
    examples = likest(exemplars, recording.instruction, recording)
    watch = _Watch(recording, recording.instruction, proposed(recording, layout), examples)
    total = WatchCost()
    while watch.start < watch.length:
        text = render("watcher/system", {"most": MAX_STEPS}) + watch.words(cameras)
        total += WatchCost(1, len(watch.sheets()), round(len(text) / 4))
        watch.move_on(watch.end)
    return total


def proposed(recording: Recording, layout: Layout | None) -> tuple[Proposal, ...]:
    """Boundaries that the state proposes: none where it tells nothing and no layout was given.

    Raises:
        Unsegmentable: no frames; or a layout was given and does not fit.
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
    """One episode under way: the window that is asked about, and what happened before it."""

    recording: Recording
    instruction: str
    proposals: tuple[Proposal, ...]
    examples: tuple[Exemplar, ...] = ()
    steps: list[Step] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    cut_off: bool = False
    """Whether the last of `segments` ends only because its window did."""

    def __post_init__(self) -> None:
        self.length = len(self.recording.timestamps)
        self.moments = moments(self.length, self.recording.fps, self.proposals)
        self.move_on(0)

    def move_on(self, start: int) -> None:
        """Take the window that begins at a frame of the episode, or at its end none."""
        frames = [start, *(f for f in self.moments if f > start)]
        end = self.length
        if len(frames) > MOMENTS:
            last = frames[MOMENTS - 1]
            late = [p for p in self.proposals if (start + last) / 2 < p.frame <= last]
            sure = [p for p in late if p.cue in CONTACTS]
            end = next((p.frame for p in reversed(sure or late)), last)
        self.start, self.end = start, end
        self.frames = [f for f in frames if f <= end]

    def words(self, cameras: Sequence[str]) -> str:
        """What the model is asked about the window, with a mark for each sheet."""
        began = self.recording.timestamps[0]
        inside = [p for p in self.proposals if self.start < p.frame < self.end]
        told = [(p.frame, f"{self.recording.timestamps[p.frame] - began:.1f}", _CUES[p.cue]) for p in inside]
        values = {
            "examples": [(plain(e.instruction), f"{e.length_s:.1f}", e.answer) for e in self.examples],
            "instruction": plain(self.instruction),
            "before": [plain(step.name) for step in self.steps],
            "cut_off": self.cut_off,
            "start": self.start,
            "end": self.end,
            "fps": f"{self.recording.fps:g}",
            "cameras": [camera.removeprefix("observation.images.") for camera in cameras],
            "proposals": told,
            "sheets": self.sheets(),
        }
        return render("watcher/watch", values)

    def sheets(self) -> list[list[int]]:
        """The frames on each sheet."""
        return [self.frames[i : i + TILES] for i in range(0, len(self.frames), TILES)]

    def question(self, cameras: Sequence[str]) -> Question[Plan] | Failure:
        """What the model is asked about the window, and how its reply is read."""
        try:
            sheets = [contact_sheet(self.recording, cameras, frames) for frames in self.sheets()]
        except DatasetError as e:
            return Failure(stage="plan", message=f"{self.recording.id}: {e}")
        span = Segment(start=self.start, end=self.end)
        system = Message("system", (render("watcher/system", {"most": MAX_STEPS}),))

        def read(reply: str) -> Plan | Problem:
            said = parse_watched(reply, span, self.instruction)
            reach = TOLERANCE_S * self.recording.fps
            return said if isinstance(said, Problem) else snapped(said, span, self.proposals, reach)

        def again(problem: Problem) -> str:
            known = {"problem": problem.message, "start": span.start, "end": span.end}
            return plain(render("watcher/again", known))

        return Question((system, Message("user", interleave(self.words(cameras), sheets))), read, again)

    def take(self, said: Plan) -> Plan | None:
        """Add what happened in the window; gives the whole plan where it was the last one.

        The last segment of an earlier window may go on behind it, so it is watched again, unless the window
        holds little else.
        """
        spans = list(zip(said.steps, said.segments or (), strict=True))
        if self.cut_off and said.steps[0].name.casefold() == self.steps[-1].name.casefold():
            self.steps.pop()
            spans[0] = (said.steps[0], Segment(start=self.segments.pop().start, end=spans[0][1].end))
        again = spans[-1][1].start
        self.cut_off = self.end < self.length and again < (self.start + self.end) / 2
        if self.end < self.length and not self.cut_off:
            spans.pop()
        self.steps += [step for step, _ in spans]
        self.segments += [segment for _, segment in spans]
        self.move_on(self.segments[-1].end)
        whole = self.start >= self.length
        return Plan(steps=tuple(self.steps), segments=tuple(self.segments)) if whole else None
