"""The summary of a run of `annotate`."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from goalreel.claims import ClaimTotals, add_counts, count, count_details
from goalreel.critics.examination import Examination
from goalreel.planners.examples.carry import Measurement
from goalreel.planners.kinematic.robot import Robot
from goalreel.terms import LabelForm
from goalreel.types import Status, Storyboard


@dataclass
class Summary:
    """Summary of a run. `steps` counts the steps of the episodes annotated in this run by status."""

    out: Path
    camera: str
    annotated: int = 0
    """Episodes recorded in this run."""
    incomplete: int = 0
    """Those of them with a step that has no accepted picture."""
    resumed: int = 0
    """Episodes that had a record already, and keep it."""
    not_begun: int = 0
    """Episodes that the run did not get to before it stopped."""
    steps: Counter[str] = field(default_factory=Counter)
    dataset_steps: Counter[Status] = field(default_factory=Counter)
    """Steps by status of all episodes that no person corrected, those of earlier runs too.

    Empty where no dataset was written. A picture that a person took away is no failure.
    """
    end_checked: Counter[str] = field(default_factory=Counter)
    """Checkers of the end against the whole instruction (`Storyboard.end_checked`) -> episodes."""
    doubtful: int = 0
    """Steps whose words may be untrue: no name is written for their frames."""
    claims: ClaimTotals = field(default_factory=dict)
    """Their claims by maker and by checker (`goalreel.claims.count`)."""
    details: ClaimTotals = field(default_factory=dict)
    """Their details by maker and by checker."""
    unaligned: int = 0
    """Steps that were looked for in a recording and not found, whatever their status."""
    failures: dict[int, str] = field(default_factory=dict)
    """Episode -> why it was not recorded. The same call tries it again."""
    examination: Examination | None = None
    """The critic's answers to control questions; None where it was asked none."""
    stopped: str | None = None
    """Reason why the run ended early; None where it went through."""
    shard: str | None = None
    """Such as "2/3" where the run was a part of one: then the dataset is not written yet."""
    robot: Robot | None = None
    """The robot as it was understood."""
    labels: Mapping[LabelForm, int] = field(default_factory=dict)
    """The form of existing labels that the planner takes -> episodes."""
    measured: Sequence[Measurement] = ()
    """Boundaries of labelled episodes that were found again, of each instruction."""
    to_label: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Instruction -> episodes whose labels would serve the others best, where rules planned."""

    @property
    def ended(self) -> int:
        """Episodes that are done with, be it as a failure."""
        return self.annotated + self.resumed + len(self.failures)

    def add_board(self, board: Storyboard | None) -> None:
        """Count an episode that was recorded, or None for one that keeps its record."""
        if board is None:
            self.resumed += 1
            return
        self.annotated += 1
        self.incomplete += not board.complete
        self.steps.update(step.status for step in board.steps)
        self.end_checked[board.end_checked] += 1
        self.doubtful += sum(bool(step.step.doubts) for step in board.steps)
        add_counts(self.claims, count(board.steps))
        add_counts(self.details, count_details(board.steps))
        self.unaligned += sum(step.unaligned for step in board.steps)

    def add(self, part: str) -> None:
        """Count in what a worker did, as its `as_json` tells."""
        counts = json.loads(part)
        for name in ("annotated", "incomplete", "resumed", "doubtful", "unaligned"):
            setattr(self, name, getattr(self, name) + counts[name])
        self.steps.update(counts["steps"])
        self.end_checked.update(counts["end_checked"])
        add_counts(self.claims, counts["claims"])
        add_counts(self.details, counts["details"])
        self.failures |= {int(episode): why for episode, why in counts["failures"].items()}
        self.stopped = self.stopped or counts["stopped"]

    @property
    def clean(self) -> bool:
        """No episode and no step failed, in this run or an earlier one, and none is left to do."""
        failed = self.steps["failed"] or self.dataset_steps["failed"]
        return not (self.failures or self.not_begun or self.stopped or failed)

    def as_json(self) -> str:
        """One JSON object on one line."""
        robot = self.robot.settings() if self.robot else None
        measured = [asdict(one) for one in self.measured]
        examined = None if self.examination is None else self.examination.summary()
        more = {"out": str(self.out), "failed": len(self.failures), "robot": robot, "measured": measured}
        more["examination"] = examined
        return json.dumps({**vars(self), **more})
