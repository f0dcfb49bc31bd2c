"""The Planner that takes the sub-task labels of a recording, from people or another tool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.errors import DatasetError
from goalreel.planners.kinematic.clauses import read, sentence
from goalreel.planners.recorded import read_each
from goalreel.terms import KEEP, LabelForm
from goalreel.types import Failure, Plan, Recording, Recordings, Segment, Step, Task


@dataclass(frozen=True, eq=False, repr=False)
class RowsPlanner:
    """Makes plans from labels: a segment and a step for each, with the label's text as its name.

    A recording with labels has `subtasks()`, or `subtasks(form)` where a form is asked for: (seconds since
    the start, text) in order of time. A label without a text ends the one before it. Frames before the first
    label and in such gaps belong to no step. `task.id` names the recording.
    """

    recordings: Recordings
    form: LabelForm | None = None
    """Which labels to take, where a recording has several; None takes its first."""

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        """Answer i is the plan of recording `tasks[i].id`, or the reason why there is none."""
        return read_each(self.recordings, tasks, self._plan)

    def _plan(self, task: Task, recording: Recording) -> Plan:
        subtasks = getattr(recording, "subtasks", lambda *form: ())
        labels = subtasks(self.form) if self.form else subtasks()
        pieces = _pieces(labels, recording)
        steps, segments = zip(*((labelled_step(text), segment) for text, segment in pieces), strict=True)
        return Plan(steps=steps, segments=segments)


def _pieces(labels: Sequence[tuple[float, str]], recording: Recording) -> list[tuple[str, Segment]]:
    """The labels with a text and their frames."""
    times = recording.timestamps.astype(np.float64)
    half = 0.5 / recording.fps
    frames: list[int] = []
    for seconds, text in labels:
        if not times[0] - half <= seconds <= times[-1] + half:
            raise DatasetError(f"its sub-task label {text!r} at {seconds:g} s is outside the recording")
        frame = int(np.abs(times - seconds).argmin())
        if frames and frame == frames[-1]:
            raise DatasetError(f"it has two sub-task labels at {seconds:g} s: keep one of them")
        frames.append(frame)
    ends = [*frames, len(times)][1:]
    pieces = [
        (text.strip(), Segment(start=start, end=end))
        for (_, text), start, end in zip(labels, frames, ends, strict=True)
        if text.strip()
    ]
    if not pieces:
        raise DatasetError("it has no sub-task labels: use another --planner for it")
    return pieces


def labelled_step(text: str) -> Step:
    """The step of a label: with the state that its clauses describe, else with the label's own words.

    >>> labelled_step("put the cup on the shelf").instruction
    'the cup is on the shelf'
    """
    clauses = read(text)
    if not clauses or not all(clause.understood for clause in clauses):
        return Step(name=text, instruction=f'"{text}" is done', prompt=_order(text))
    state = " and ".join(clause.state for clause in clauses)
    return Step(name=text, instruction=state, prompt=clauses[0].prompt if len(clauses) == 1 else _order(text))


def one_wording(step: Step, words: Mapping[str, str], *, keep_prompt: bool = False) -> dict[str, str]:
    """Complete a person's words of a step, so that name, claim and prompt say the same.

    The name or the claim alone stands for the other one, and the prompt follows them, unless it is set on
    purpose or the step has no picture.

    >>> cup = Step(name="x", instruction="x", prompt="x")
    >>> one_wording(cup, {"name": "put the cup on the shelf"})["instruction"]
    'the cup is on the shelf'
    """
    if not words.keys() & {"name", "instruction"}:
        return dict(words)
    derived = labelled_step(words.get("name") or words["instruction"])
    full = {"name": derived.name, "instruction": derived.instruction}
    if step.prompt is not None and not keep_prompt:
        full["prompt"] = derived.prompt or derived.name
    return full | dict(words)


def _order(text: str) -> str:
    return f"{sentence(text.rstrip('.'))}. {KEEP}"
