"""How often a status is untrue: what was observed or verified, and the simulator says otherwise."""

from collections.abc import Sequence
from typing import Literal

from goalreel.annotator.statistics import Measurement, share_with_interval
from goalreel.tabletop.grammar import read_goals
from goalreel.tabletop.readback import shown
from goalreel.types import Storyboard, StoryboardStep
from goalreel_lab.bench.scenes import Walk, look, look_rendered, outcome
from goalreel_lab.bench.words import read_step
from goalreel_lab.bench.written_names import EpisodeTruth
from goalreel_lab.written_names import NameClaim

type ObservedTruth = Literal["true", "early", "untrue"]
"""`early`: it is true half a second sooner or later, as where the hand has not let go yet."""


def measure_verified(walks: Sequence[Walk], boards: Sequence[Storyboard]) -> dict[str, Measurement]:
    """Measure how far to trust the word *verified* of made pictures.

    - `verified`: the share of the steps that have it.
    - `verified_untrue`: of these, the share whose picture, read back, does not show what the step says, or
      shows that something else moved.
    - `boards_untrue`: of the storyboards all of whose steps are verified, the share whose last picture does
      not show all that was asked for.
    """
    statuses: list[tuple[int, bool]] = []
    wrong: list[tuple[int, bool]] = []
    ends: list[tuple[int, bool]] = []
    for walk, board in zip(walks, boards, strict=True):
        scene, layout = walk.episode.scene, walk.moments[0].layout
        for step in board.steps:
            goal, verified = read_step(step.step, walk.names), step.status == "verified"
            drawn = None if goal is None else look_rendered(step.goal_image, scene, layout, goal.object)
            right = goal is not None and outcome(drawn, layout, goal).right
            statuses.append((walk.seed, verified))
            if verified:
                wrong.append((walk.seed, not right))
            layout = layout if drawn is None else drawn
        if board.steps and all(step.status == "verified" for step in board.steps):
            ends.append((walk.seed, not all(shown(layout, goal) for goal in walk.goals)))
    return {
        "verified": share_with_interval(statuses),
        "verified_untrue": share_with_interval(wrong),
        "boards_untrue": share_with_interval(ends),
    }


def observed_truth(step: StoryboardStep, truth: EpisodeTruth, slack: int) -> ObservedTruth | None:
    """Compare what an observed step says with the simulator at the frame of its goal image.

    None: the step is not observed, or its words state nothing that the simulator knows.
    """
    frame, claim = _frame(step), truth.claim(step.step.name)
    if step.status != "observed" or frame is None or not claim.contact:
        return None
    if claim.objects is not None and not claim.objects:
        return "untrue"
    if not claim.held and claim.holds is None:
        return None
    if _holds(claim, truth, frame):
        return "true"
    near = range(max(0, frame - slack), min(len(truth.holds), frame + slack + 1))
    return "early" if any(_holds(claim, truth, f) for f in near) else "untrue"


def observed_unseen(step: StoryboardStep, truth: EpisodeTruth, walk: Walk) -> bool | None:
    """Tell whether an observed picture does not show a relation that holds at its frame.

    None: the step is not observed, states no relation, or states one that does not hold.
    """
    goals = read_goals(step.step.name)
    if len(goals) != 1 or observed_truth(step, truth, slack=0) != "true":
        return None
    (goal,) = goals
    layout = walk.moments[walk.goals.index(goal)].layout
    return not outcome(look(step.goal_image, walk.episode.scene, layout, goal.object), layout, goal).right


def _holds(claim: NameClaim, truth: EpisodeTruth, frame: int) -> bool:
    if claim.holds is not None:
        return claim.holds(frame)
    contacts = (c for c in truth.contacts if c.start <= frame < c.end)
    return any(claim.objects is None or c.object in claim.objects for c in contacts)


def _frame(step: StoryboardStep) -> int | None:
    """The frame of the recording that a step's goal image is."""
    image = step.goal_image
    return None if image is None or image.frame is None else int(image.frame.rpartition("#")[2])
