"""Look for spoiled labels in a dataset that has some."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, computed_field

from goalreel.annotator.examples import label_example
from goalreel.datasets.labels import find_labels
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.planners.examples.audit import FAULTS, Fault, suspicions
from goalreel.planners.examples.carry import Example
from goalreel.planners.examples.hand_cues import cues_of
from goalreel.planners.kinematic.layout import Layout


class LabelFinding(BaseModel):
    """A label that may be wrong."""

    model_config = ConfigDict(frozen=True)

    episode: int
    step: int
    """Counted from 0 within the episode."""
    name: str
    start_s: float
    """Seconds since the episode's start."""
    end_s: float
    fault: Fault
    why: str
    sure: float
    """0 to 1; it orders the findings, and is no probability."""

    def __str__(self) -> str:
        span = f"{self.start_s:.1f}-{self.end_s:.1f} s"
        return f'episode {self.episode}, step {self.step + 1} "{self.name}", {span}: {self.fault}: {self.why}'


class Audit(BaseModel):
    """Findings of `goalreel check --audit`."""

    model_config = ConfigDict(frozen=True)

    episodes: int
    """Number of episodes with labels that can be read."""
    labels: int
    findings: tuple[LabelFinding, ...] = ()
    """The surest first, one a label."""
    unread: tuple[str, ...] = ()
    """Reasons to leave out episodes, one line each; or why there is nothing to audit."""

    @computed_field
    @property
    def faults(self) -> dict[str, int]:
        """Fault -> number of findings; only those that occur."""
        counts = {fault: sum(found.fault == fault for found in self.findings) for fault in FAULTS}
        return {fault: count for fault, count in counts.items() if count}


def audit_labels(source: Source, selected: Sequence[int], layout: Layout) -> Audit:
    """Compare the sub-task labels of the selected episodes with each other, their words and their motion."""
    labelled = {i for indices in find_labels(source, selected).values() for i in indices}
    examples: dict[int, Example] = {}
    unread: list[str] = []
    for index in selected:
        try:
            source.episode(index)
            if index in labelled:
                examples[index] = label_example(source, index)
        except DatasetError as e:
            unread.append(str(e).removeprefix(f"{source.root}: "))
    if not labelled and not unread:
        unread.append("no episode has sub-task labels: there is nothing to audit")
    findings: list[LabelFinding] = []
    indices = [*examples]
    for found in suspicions([*examples.values()], cues_of(layout)):
        index = indices[found.episode]
        example = examples[index]
        segment = example.segments[found.step]
        findings.append(
            LabelFinding(
                episode=index,
                step=found.step,
                name=example.steps[found.step].name,
                start_s=round(segment.start / example.fps, 2),
                end_s=round(segment.end / example.fps, 2),
                fault=found.fault,
                why=found.why,
                sure=round(found.sure, 2),
            )
        )
    return Audit(
        episodes=len(examples),
        labels=sum(len(example.steps) for example in examples.values()),
        findings=tuple(findings),
        unread=tuple(unread),
    )
