"""The Planner that carries the steps of labelled episodes over to the others of their tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Literal

from goalreel.claims import RULE
from goalreel.errors import DatasetError
from goalreel.planners.examples.carry import Carried, Example, Measurement, TaskExamples, numbers_of, shape
from goalreel.planners.examples.hand_cues import Cues, HandCues
from goalreel.planners.examples.slots import LEFT, find_slots, replaced, unsaid, words
from goalreel.planners.recorded import read_each
from goalreel.types import Failure, Plan, Planner, Recording, Recordings, Segment, Step, Task

MOST = 10  # examples of a task: beyond five little is gained, and each is aligned twice with every episode
# To lock a door looks much like to unlock it:
_ANOTHER_VERB = "every labelled episode's instruction begins with another word"
# The same motion may be another one with another thing:
_ANOTHER_THING = "no episode of this instruction is labelled, nor of two like it that agree"
_SHOWN_S = (0.1, 0.8)  # seconds after a boundary in which the claim of the step before it is seen


class ExamplesPlanner:
    """Makes plans of recordings from labelled episodes of the same task.

    Those of the same instruction are used and, if there are fewer than two, those whose instructions differ
    in a few words. An episode that is an example itself keeps its labels. Another planner, if there is one,
    plans the episodes without examples, and those that are unlike them.
    """

    def __init__(
        self,
        recordings: Recordings,
        examples: Sequence[Example],
        rules: Planner | None = None,
        cues: Cues | None = None,
    ) -> None:
        """
        Args:
            recordings: the episodes by id; read in several threads.
            examples: of a robot whose state and action have the dimensions of `recordings`.
            rules: plans the other episodes.
            cues: rules that see a hand close and open, for tasks whose examples agree with them.
        """
        self._recordings, self._rules, self._examples, self._cues = recordings, rules, tuple(examples), cues
        self._own = {example.numbers: example for example in examples}
        self._pools: dict[tuple[str, ...], _Pool] = {}
        self._by_text: dict[str, _Pool | None] = {}
        self._lock = Lock()

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        """Answer i is the plan of recording `tasks[i].id`, or the reason why there is none."""
        with self._lock:  # once, before threads ask for it
            for text in {task.instruction for task in tasks}:
                self.measurement(text)
        return read_each(self._recordings, tasks, self._plan)

    def measurement(self, instruction: str) -> Measurement | None:
        """Give that of the examples which serve an instruction; None where none does."""
        pool = self._pool(instruction)
        return pool.task.measurement if pool else None

    def _plan(self, task: Task, recording: Recording) -> Plan | Failure:
        if example := self._own.get(numbers_of(recording)):
            return example.plan
        pool = self._pool(task.instruction)
        if pool is None:
            return self._by_rules(task, "no labelled episode has such an instruction")
        carried = pool.task.carry(recording)
        if carried.refusal:
            return self._by_rules(task, carried.refusal, in_doubt=True)
        nearest = pool.task.examples[carried.example]
        if pool.cues:
            carried = pool.cues.join(carried, shape(nearest), recording)
        alike = [e for e in (nearest, *pool.task.examples) if shape(e) == shape(nearest)]
        example = next((e for e in alike if _key(e.instruction) == _key(task.instruction)), nearest)
        slots = find_slots(example.instruction, task.instruction) or {}
        if slots:
            texts = {_key(e.instruction) for e in alike}
            if len(texts) < 2 or not pool.task.measurement.enough:
                carried = replace(carried, doubt=_ANOTHER_THING)
            verbs = {words(e.instruction)[0] for e in pool.task.examples}
            if len(verbs) == 1 and words(task.instruction)[0] not in verbs:
                carried = replace(carried, doubt=_ANOTHER_VERB)
        return _carry_over(example, carried, recording, slots)

    def _pool(self, instruction: str) -> "_Pool | None":
        """The examples that serve an instruction; None where there are none."""
        key = _key(instruction)
        if key not in self._by_text:
            own = [e for e in self._examples if _key(e.instruction) == key]
            if len(own) < 2:
                own = [e for e in self._examples if find_slots(e.instruction, instruction) is not None]
            # A failure does not travel.
            serving = [e for e in own if all(step.outcome == "done" for step in e.steps)] or own
            serving = serving[:: max(1, -(-len(serving) // MOST))]
            ids = tuple(e.numbers for e in serving)
            if serving and ids not in self._pools:
                cues = HandCues(serving, self._cues) if self._cues else None
                self._pools[ids] = _Pool(TaskExamples(serving), cues)
            self._by_text[key] = self._pools[ids] if serving else None
        return self._by_text[key]

    def _by_rules(self, task: Task, reason: str, *, in_doubt: bool = False) -> Plan | Failure:
        """Plan by the other planner; `in_doubt` says why the examples' planner did not."""
        if self._rules is None:
            raise DatasetError(reason)
        plan = self._rules.plan([task])[0]
        if isinstance(plan, Failure):
            return plan
        why = (f"not carried over: {reason}",) if in_doubt else ()
        steps = [s.model_copy(update={"by": RULE, "doubts": (*s.doubts, *why)}) for s in plan.steps]
        return plan.model_copy(update={"steps": tuple(steps)})


@dataclass(frozen=True)
class _Pool:
    """Examples that serve the same instructions."""

    task: TaskExamples
    cues: HandCues | None


def _key(instruction: str) -> str:
    return " ".join(words(instruction))


def _carry_over(example: Example, carried: Carried, recording: Recording, slots: Mapping[str, str]) -> Plan:
    length = len(recording.timestamps)
    edges, doubts = [0, *carried.frames, length], [None, *carried.doubts, None]
    texts = [replaced(step, slots) for step in example.steps]
    left = LEFT if unsaid(example.steps, texts, slots) else None
    steps, segments = list[Step](), list[Segment]()

    def add(number: int, start: int, end: int, outcome: Literal["done", "failed"]) -> None:
        why = filter(None, (left, carried.doubt, *(doubts[edge] for edge in shape(example)[number])))
        update = {"doubts": tuple(dict.fromkeys(why)), "details": None, "outcome": outcome}
        steps.append(texts[number].model_copy(update=update))
        following = next((edge for edge in edges if edge > end), length)
        first, last = (min(end + round(s * recording.fps), following) for s in _SHOWN_S)
        shown = (min(first, last - 1), last) if end < length else None
        segments.append(Segment(start=start, end=end, goal=shown))

    for number, (first, last) in enumerate(shape(example)):
        start, end = edges[first], edges[last]
        for closed, opened in carried.attempts if number + 1 < len(texts) else ():
            if start < closed < opened < end:
                add(number, start, closed, "failed")
                add(number + 1, closed, opened, "failed")
                start = opened
        if start < end:
            add(number, start, end, "done")
    if not steps:
        raise DatasetError("shorter than its steps")
    return Plan(steps=tuple(steps), segments=tuple(segments))
