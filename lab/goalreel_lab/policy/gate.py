"""A storyboard carried out by a policy; nobody, the Critic or the simulator says when a step is reached.

Part 5 of lab/docs/policy-experiments.md fixes the three ways and their measures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from goalreel.drivers import run
from goalreel.image import Image
from goalreel.middleware import AskAdapter, use_known_answers
from goalreel.models.model_set import ModelSet
from goalreel.tabletop.env import CONTROL_HZ, Tabletop
from goalreel.tabletop.scene import SubGoal
from goalreel.types import (
    Candidate,
    Critic,
    Failure,
    Planner,
    ReplanContext,
    Step,
    Storyboard,
    StoryboardStep,
    Verdict,
    plan_rest,
)
from goalreel_lab.bench.plan import read_step
from goalreel_lab.bench.scenes import SIZE, Walk
from goalreel_lab.policy.arms import SILENT, GateArm
from goalreel_lab.policy.policy_tasks import sub_task
from goalreel_lab.policy.rollout import (
    Actor,
    Bounds,
    GoalCue,
    OnStep,
    PolicyEnd,
    PolicyHand,
    no_film,
    try_once,
)

REPLANS = 1
"""So often the Planner is asked again in a task."""


class GateEnd(PolicyEnd):
    """End of a task that was carried out by its storyboard."""

    measures: ClassVar[tuple[str, ...]] = (
        *PolicyEnd.measures,
        "steps",
        "looks",
        "false_stops",
        "false_passes",
        "unanswered",
        "replans",
        "stopped",
    )
    steps: int
    """Control steps of the arm, with its ways home."""
    looks: int
    false_stops: int
    """Looks that said "not reached" where the simulator says reached."""
    false_passes: int
    """Looks that said "reached" where the simulator does not."""
    unanswered: int
    """Looks at which the Critic gave no verdict; they said "not reached"."""
    replans: int
    stopped: bool
    """The task ended before its last step was reached, or without a plan."""


@dataclass(frozen=True)
class GateRules:
    """Judge of a task under way, and limits of the policy."""

    arm: GateArm
    model_set: ModelSet
    """Draws the goal images of a plan that is continued."""
    planner: Planner
    """Continues plans."""
    critic: Critic
    """Looks at live views."""
    words: bool
    """True if the policy is told a step's words beside its goal image."""
    bounds: Bounds


def roll_gated(
    walk: Walk, board: Storyboard, rules: GateRules, actor: Actor, on_step: OnStep = no_film
) -> GateEnd:
    """Carry out a task by its storyboard."""
    with torch.random.fork_rng(), Tabletop(walk.episode.scene) as env:
        torch.manual_seed(walk.seed)
        return _GatedTask(walk, rules, actor, env, on_step).carry_out(board)


class _GatedTask:
    def __init__(self, walk: Walk, rules: GateRules, actor: Actor, env: Tabletop, on_step: OnStep) -> None:
        self._walk, self._rules, self._actor, self._env = walk, rules, actor, env
        self._hand = PolicyHand(env, GoalCue("", SILENT), on_step)
        self._picture = walk.moments[0].picture
        """Picture for a step without a goal image: the one before, or at first the scene."""
        self._looks: list[tuple[bool, bool]] = []
        """(said to be reached, reached)."""
        self._unanswered = 0

    def carry_out(self, board: Storyboard) -> GateEnd:
        start_s = self._env.time_s
        steps, done, replans = board.steps, 0, 0
        while done < len(steps):
            if self._reach(steps[done], done):
                done += 1
                continue
            if replans == REPLANS:
                break
            replans += 1
            if not (rest := self._plan_rest(steps, done)):
                break
            steps = (*steps[:done], *rest)
        return GateEnd(
            success=all(self._env.holds(goal) for goal in self._walk.goals),
            steps=round((self._env.time_s - start_s) * CONTROL_HZ),
            looks=len(self._looks),
            false_stops=self._looks.count((False, True)),
            false_passes=self._looks.count((True, False)),
            unanswered=self._unanswered,
            replans=replans,
            stopped=not steps or done < len(steps),
        )

    def _reach(self, board_step: StoryboardStep, index: int) -> bool:
        """Try a step as often as the rules allow; tell whether it counts as reached."""
        step, goal = board_step.step, read_step(board_step.step, self._walk.names)
        self._picture = board_step.goal_image or self._picture
        self._hand.cue = self._cue(step, goal)
        is_open = self._rules.arm == "open"
        source = self._view()
        for _ in range(1 if is_open else self._rules.bounds.tries):
            try_once(self._hand, self._actor, self._rules.bounds)
            if is_open or self._look(step, goal, index, source):
                return True
        return False

    def _cue(self, step: Step, goal: SubGoal | None) -> GoalCue:
        if not self._rules.words:
            return GoalCue("", SILENT, self._picture)
        if goal is None:
            return GoalCue(step.name, SILENT, self._picture)
        return GoalCue(goal.text, sub_task(goal), self._picture)

    def _look(self, step: Step, goal: SubGoal | None, index: int, source: Image) -> bool:
        reached = goal is not None and self._env.holds(goal)
        verdict = reached if self._rules.arm == "truth" else self._judge(step, index, source)
        self._looks.append((verdict, reached))
        return verdict

    def _judge(self, step: Step, index: int, source: Image) -> bool:
        """Ask the Critic, as the ROS node does."""
        candidate = Candidate(
            task_id=self._walk.task.id,
            step=index,
            source=source,
            image=self._view(),
            instruction=step.instruction,
            prompt=step.prompt or step.instruction,
            first_prompt=step.prompt,
        )
        (answer,) = self._rules.critic.judge([candidate])
        self._unanswered += isinstance(answer, Failure)
        return isinstance(answer, Verdict) and answer.success

    def _plan_rest(self, steps: Sequence[StoryboardStep], done: int) -> tuple[StoryboardStep, ...]:
        """Plan from the live view what is left, and draw it; empty where there is no plan."""
        model_set, preset = self._rules.model_set, self._rules.model_set.provenance.preset
        self._picture = self._view()
        progress = ReplanContext(Storyboard(task=self._walk.task, steps=tuple(steps)), done, self._picture)
        (plan,) = plan_rest(self._rules.planner, [progress])
        task = self._walk.task.model_copy(update={"image": self._picture})
        planned = use_known_answers(lambda stage, _: plan if stage == "plan" else None)
        models = AskAdapter(planned(model_set.ask))
        (board,) = run([task], models, models, models, max_attempts=preset.max_attempts, keep=preset.keep)
        return board.steps

    def _view(self) -> Image:
        return Image(self._env.render(self._env.scene.camera, SIZE).copy())
