"""A policy of words led through its plan by timers, the Critic, labelled episodes or the simulator.

lab/docs/steering.md fixes the question, the measures and the rule. One command; kill it anywhere and run it
again. Tasks are finished one after the other, each with all training seeds and arms.

    python lab/studies/policy/steer.py --out out/steer
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import demos
import numpy as np
import torch
import typer
from demos import POSE, THINGS
from fit import PICK_NEAR, PLACE_NEAR, Scale, fit
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from numpy.typing import NDArray
from pieces import read_state, save_state
from rich.console import Console
from torch import Tensor

from goalreel.annotator.statistics import Measurement, json_line, values_table
from goalreel.claims import PERSON
from goalreel.cli.console import progress_bars
from goalreel.cli.options import SPLITS
from goalreel.files import exclusive
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.models.model_set import ModelSet
from goalreel.planners.examples.carry import Example
from goalreel.planners.examples.live import MOST, LiveSteps
from goalreel.progress import OnProgress
from goalreel.tabletop.env import CONTROL_HZ, STATE_NAMES, Tabletop, TabletopState
from goalreel.tabletop.expert import pick_and_place
from goalreel.tabletop.scene import KINDS, SubGoal
from goalreel.tabletop.splits import seeds
from goalreel.types import (
    Candidate,
    Critic,
    Failure,
    Plan,
    Planner,
    ReplanContext,
    Segment,
    Step,
    Storyboard,
    StoryboardStep,
    Verdict,
    plan_rest,
)
from goalreel_lab.bench.plan import read_step
from goalreel_lab.bench.scenes import SIZE, Walk
from goalreel_lab.policy.arms import SILENT
from goalreel_lab.policy.intervals import difference_of_counts, measure_counts
from goalreel_lab.policy.policy_tasks import (
    ENVIRONMENT,
    KEY_POSE_NAMES,
    STATE,
    WORDS,
    sample_task,
    sub_goal_of,
    sub_task,
)
from goalreel_lab.policy.rollout import Acts, Bounds, GoalCue, PolicyHand, no_film, try_once
from goalreel_lab.policy.study import tasks

TIMERS = {f"timer_{seconds}": seconds for seconds in (2, 4, 8, 16)}
ARMS = (*TIMERS, "critic", "examples", "truth")
TRIES, REPLANS = 3, 1
BATCH, RATE, STEPS, EVERY = 128, 1e-3, 6000, 50
MEAN, SPREAD = np.array([0.52, 0.0, 0.03, 0.0, 0.0]), np.array([0.1, 0.15, 0.03, 0.7, 0.7])
TOLD = 2 * (POSE - 1) + WORDS


# -- the policy


def tell(poses: NDArray[np.float32], words: NDArray[np.float32]) -> NDArray[np.float32]:
    """Make what the policy is told, (TOLD,): where the named block and its target are, and the words.

    `poses` is a row of `Demos.poses`.
    """
    if not words.any():
        return np.zeros(TOLD, np.float32)
    goal = sub_goal_of(words)
    named = poses[[THINGS.index(goal.object), THINGS.index(goal.target)], 1:]
    return np.concatenate([((named - MEAN) / SPREAD).ravel(), words]).astype(np.float32)


def words_policy() -> ACTPolicy:
    """Make lerobot's ACT of the policy study, which is told where things are instead of seeing them."""
    return ACTPolicy(
        ACTConfig(
            input_features={
                STATE: PolicyFeature(FeatureType.STATE, (len(STATE_NAMES),)),
                ENVIRONMENT: PolicyFeature(FeatureType.ENV, (TOLD,)),
            },
            output_features={"action": PolicyFeature(FeatureType.ACTION, (len(KEY_POSE_NAMES),))},
            chunk_size=2, n_action_steps=2, dim_model=128, n_heads=4, dim_feedforward=512,
            n_encoder_layers=2, n_decoder_layers=2, pre_norm=True, use_vae=False, dropout=0.0,
            device="cpu", push_to_hub=False,
        )
    )  # fmt: skip


@dataclass(frozen=True)
class Samples:
    """Demonstrated sub-goals: what is told, (N, told), and the expert's key poses."""

    told: Tensor
    actions: Tensor

    @property
    def data(self) -> Any:
        return self

    @property
    def first(self) -> int:
        return len(self.told)

    def rows(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.randint(self.first, (count,), generator=generator)

    def inputs(self, rows: Tensor, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        return {STATE: torch.zeros(len(rows), len(STATE_NAMES)), ENVIRONMENT: self.told[rows]}

    @classmethod
    def read(cls, folder: Path) -> "Samples":
        it = demos.read(sorted(folder.glob("*.npz")))
        told = np.stack([tell(it.poses[i], words) for i, words in zip(it.live, it.sub_tasks, strict=True)])
        return cls(torch.from_numpy(told), torch.from_numpy(it.actions))


class WordsActor:
    """The policy; its two key poses are chosen together, as the arm sets out from home."""

    acts: Acts = "key_poses"

    def __init__(self, policy: ACTPolicy, scale: Scale) -> None:
        self._policy, self._scale = policy.eval(), scale
        self._poses: list[NDArray[np.float32]] = []

    def reset(self) -> None:
        self._poses = []

    @torch.inference_mode()
    def chunk(self, inputs: dict[str, Tensor]) -> Tensor:
        return self._policy.predict_action_chunk(inputs) * self._scale.std + self._scale.mean

    def act(self, env: Tabletop, cue: GoalCue) -> NDArray[np.float32]:
        if not self._poses:
            told = tell(demos.poses_of(env), cue.words)
            samples = Samples(torch.from_numpy(told)[None], torch.empty(0))
            self._poses = [*self.chunk(samples.inputs(torch.zeros(1, dtype=torch.long)))[0].numpy()]
        return self._poses.pop(0)


def trained(out: Path, seed: int, progress: OnProgress) -> WordsActor:
    """Train until it picks as exactly on validation scenes as the study's policy: 60 % within 12 mm."""
    path = out / f"policy-{seed}.pt"
    if not path.exists():
        lessons, checks = Samples.read(out / "demos"), Samples.read(out / "validation")
        near = [0.0, 0.0]
        for step, _, policy, scale, _ in fit(lessons, seed, STEPS, BATCH, RATE, None, words_policy):
            if step % EVERY:
                continue
            actor = WordsActor(policy, scale)
            poses = actor.chunk(checks.inputs(torch.arange(checks.first)))
            policy.train()
            pick, place = (poses - checks.actions)[..., :2].norm(dim=-1).T
            near = [float((pick < PICK_NEAR).float().mean()), float((place < PLACE_NEAR).float().mean())]
            progress(f"policy {seed}, {near[0]:.0%} and {near[1]:.0%} near", step, STEPS)
            if near[0] >= 0.6:
                break
        save_state(
            path,
            {"policy": policy.state_dict(), "mean": scale.mean, "std": scale.std, "near": near, "step": step},
        )
    state = read_state(path)
    policy = words_policy()
    policy.load_state_dict(state["policy"])
    return WordsActor(policy, Scale(state["mean"], state["std"]))


# -- tries


class Watched(Tabletop):
    """A tabletop that keeps the robot's numbers, and whether the sub-goal holds, at every control step."""

    goal: SubGoal | None = None
    trace: list[tuple[NDArray[np.float32], bool]]

    def step(self, action: NDArray[np.floating]) -> NDArray[np.float32]:
        numbers = super().step(action)
        self.trace.append((numbers, self.goal is not None and self.holds(self.goal)))
        return numbers


@dataclass(frozen=True)
class Moment:
    """The end of a try: what the arm, the things and the camera are like, and how it went."""

    state: TabletopState
    picture: Image
    trace: tuple[tuple[NDArray[np.float32], bool], ...]
    held: tuple[bool, ...]
    """True for each sub-goal of the task that holds."""

    @property
    def seconds(self) -> float:
        return len(self.trace) / CONTROL_HZ

    @property
    def lost(self) -> float:
        return sum(holds for _, holds in self.trace) / CONTROL_HZ


class Tries:
    """Tries of a policy in a task. The policy is deterministic, so each is carried out once for all arms."""

    def __init__(self, walk: Walk, actor: WordsActor, env: Watched) -> None:
        self.walk, self._actor, self._env = walk, actor, env
        env.trace = []
        self._known: dict[tuple[Step, ...], Moment] = {(): self._moment()}

    def after(self, path: tuple[Step, ...]) -> Moment:
        """Give the moment after these steps were tried, one after the other."""
        if path not in self._known:
            before = self.after(path[:-1])
            env, goal = self._env, read_step(path[-1], self.walk.names)
            env.set_state(before.state)
            env.trace, env.goal = [], goal
            cue = GoalCue(path[-1].name, SILENT if goal is None else sub_task(goal))
            try_once(PolicyHand(env, cue, no_film), self._actor, Bounds())
            self._known[path] = self._moment()
        return self._known[path]

    def _moment(self) -> Moment:
        env = self._env
        picture = Image(env.render(env.scene.camera, SIZE).copy())
        held = tuple(env.holds(goal) for goal in self.walk.goals)
        return Moment(env.get_state(), picture, tuple(env.trace), held)


# -- arms

type Sees = Callable[[tuple[Step, ...], float], bool | None]
"""(steps tried, seconds since the present one began) -> is that one done? None: nothing can be said."""


@dataclass
class Task:
    """A task under way in an arm."""

    tries: Tries
    steps: list[Step]
    tries_left: int | None
    """Tries of a step after which it is planned anew; None: for ever."""
    planner: Planner
    done: int = 0
    path: tuple[Step, ...] = ()

    def lead(self, sees: Sees) -> dict[str, float]:
        """Lead the policy through the plan."""
        names = ("false_done", "entered", "lost_s", "seconds", "unanswered", "looks", "replans")
        counts = dict.fromkeys(names, 0.0)
        while self.done < len(self.steps):
            counts["entered"] += 1
            if self._is_done(sees, counts):
                self.done += 1
            elif counts["replans"] == REPLANS or not (rest := self._rest()):
                break
            else:
                counts["replans"] += 1
                self.steps = [*self.steps[: self.done], *rest]
        success, stopped = all(self.tries.after(self.path).held), self.done < len(self.steps)
        return {**counts, "success": float(success), "stopped": float(stopped or not self.steps)}

    def _is_done(self, sees: Sees, counts: dict[str, float]) -> bool:
        step, seconds = self.steps[self.done], 0.0
        for _ in itertools.count() if self.tries_left is None else range(self.tries_left):
            self.path = (*self.path, step)
            now = self.tries.after(self.path)
            seconds += now.seconds
            counts["seconds"] += now.seconds
            counts["lost_s"] += now.lost
            counts["looks"] += 1
            said = sees(self.path, seconds)
            counts["unanswered"] += said is None
            if said:
                counts["false_done"] += not now.trace[-1][1]
                return True
        return False

    def _rest(self) -> Sequence[Step]:
        task = self.tries.walk.task
        board = Storyboard(task=task, steps=tuple(StoryboardStep(step=step) for step in self.steps))
        progress = ReplanContext(board, self.done, self.tries.after(self.path).picture)
        (plan,) = plan_rest(self.planner, [progress])
        return plan.steps if isinstance(plan, Plan) else ()


class Gates:
    """The judges of whether a step of a task is done."""

    def __init__(self, tries: Tries, critic: Critic, examples: Mapping[str, LiveSteps]) -> None:
        self._tries, self._critic, self._examples = tries, critic, examples

    def of(self, arm: str) -> Sees:
        if arm in TIMERS:
            return lambda _, seconds: seconds >= TIMERS[arm]
        return {"critic": self._judged, "examples": self._moved, "truth": self._true}[arm]

    def _true(self, path: tuple[Step, ...], _: float) -> bool:
        return self._tries.after(path).trace[-1][1]

    def _judged(self, path: tuple[Step, ...], _: float) -> bool | None:
        """Ask the Critic on the view before the step and the live one, as the product does."""
        step, began = path[-1], _began(path)
        candidate = Candidate(
            task_id=self._tries.walk.task.id,
            step=0,
            source=self._tries.after(path[:began]).picture,
            image=self._tries.after(path).picture,
            instruction=step.instruction,
            prompt=step.prompt or step.instruction,
            first_prompt=step.prompt,
        )
        (answer,) = self._critic.judge([candidate])
        return answer.success if isinstance(answer, Verdict) else None

    def _moved(self, path: tuple[Step, ...], _: float) -> bool | None:
        """Follow the robot's numbers since the step began."""
        goal = read_step(path[-1], self._tries.walk.names)
        if goal is None:
            return None
        live, count = self._examples[goal.kind], 0
        live.restart()
        for end in range(_began(path) + 1, len(path) + 1):
            for numbers, _holds in self._tries.after(path[:end]).trace:
                live.push(count / CONTROL_HZ, numbers)
                count += 1
        return live.is_left(0)


def _began(path: tuple[Step, ...]) -> int:
    """Count the tries before the first of the present step."""
    return len(path) - len([*itertools.takewhile(lambda step: step is path[-1], reversed(path))])


def labelled(count: int = MOST) -> dict[str, LiveSteps]:
    """Let the expert do steps of each kind, in scenes of the training split; label where they end."""
    found: dict[str, list[Example]] = {kind: [] for kind in KINDS}
    for seed in itertools.count():
        episode = sample_task("seen", seed)
        goal = episode.goals[0]
        if len(found[goal.kind]) < count:
            with Watched(episode.scene) as env:
                env.trace, env.goal = [], goal
                for action, _ in pick_and_place(env, goal):
                    env.step(action)
                if env.holds(goal):
                    found[goal.kind].append(_example(seed, goal, env.trace))
        if all(len(examples) == count for examples in found.values()):
            break
    return {kind: LiveSteps(examples, action=False) for kind, examples in found.items()}


def _example(seed: int, goal: SubGoal, trace: Sequence[tuple[NDArray[np.float32], bool]]) -> Example:
    state = np.array([numbers for numbers, _ in trace], np.float64)
    return Example(
        id=f"seed {seed}",
        numbers=str(seed),
        instruction=goal.text,
        fps=CONTROL_HZ,
        timestamps=np.arange(len(state)) / CONTROL_HZ,
        state=state,
        action=np.zeros((len(state), 0)),
        steps=(Step(name=goal.text, instruction=goal.text, prompt=None, auxiliary_text=goal.text),),
        segments=(Segment(start=0, end=len(state)),),
        by=PERSON,
    )


# -- the measurement


def carry_out(
    walk: Walk, plan: Plan | Failure, actor: WordsActor, models: ModelSet, examples: Mapping[str, LiveSteps]
) -> dict[str, dict[str, float]]:
    """Carry out a task in all arms."""
    steps = [*plan.steps] if isinstance(plan, Plan) else []
    with Watched(walk.episode.scene) as env:
        tries = Tries(walk, actor, env)
        gates = Gates(tries, models.live_critic or models.critic, examples)
        return {
            arm: Task(tries, steps, None if arm in TIMERS else TRIES, models.planner).lead(gates.of(arm))
            for arm in ARMS
        }


def main(
    out: Annotated[Path, typer.Option(help="Everything is kept here.")] = Path("out/steer"),
    scenes: Annotated[int, typer.Option(min=1, help="Training scenes, about ten sub-goals each.")] = 400,
    checks: Annotated[int, typer.Option(min=1, help="Validation scenes that end a training.")] = 50,
    training_seeds: Annotated[int, typer.Option("--seeds", min=1, help="Trainings.")] = 3,
    split: Annotated[SPLITS, typer.Option(help="Of the tasks.")] = "test",
    episodes: Annotated[int, typer.Option(min=1, help="Tasks.")] = 200,
    report: Annotated[bool, typer.Option("--report", help="Tell of what is done, and do no more.")] = False,
) -> None:
    """Train the policies, lead them through the tasks, and print a line of JSON and a table."""
    torch.set_num_threads(1)
    path = out / f"{split}.jsonl"
    with exclusive(out, out) if not report else nullcontext(), progress_bars() as progress:
        if not report:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                demos.make(out / "demos", seeds("train", scenes), pool, progress)
                demos.make(out / "validation", seeds("validation", checks), pool, progress)
            actors = [trained(out, seed, progress) for seed in range(training_seeds)]
            models = load(presets.load("nano"), roles=("planner", "critic"))
            examples, known = labelled(), {line["seed"] for line in _read(path)}
            for done, walk in enumerate(tasks("seen", split, episodes, 0, progress), 1):
                if walk.seed not in known:
                    (plan,) = models.planner.plan([walk.task])
                    ends = [carry_out(walk, plan, actor, models, examples) for actor in actors]
                    with path.open("a") as file:
                        file.write(json.dumps({"seed": walk.seed, "ends": ends}) + "\n")
                progress("tasks", done, episodes)
    values = compare([line["ends"] for line in _read(path)])
    settings = {"split": split, "tasks": len(_read(path)), "seeds": training_seeds, "scenes": scenes}
    typer.echo(json_line(settings, values))
    Console().print(
        values_table(f"{settings['tasks']} tasks", values, ("critic_minus_timer", "truth_minus_critic"))
    )


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def compare(ends: Sequence[Sequence[Mapping[str, Mapping[str, float]]]]) -> dict[str, Measurement]:
    """Measure each arm, and differences to the timer with most successes; `ends` by task, then seed."""

    def counts(arm: str, measure: str) -> NDArray[np.float64]:
        per = {"false_done": "entered", "unanswered": "looks"}.get(measure)
        pairs = [[(seed[arm][measure], seed[arm][per] if per else 1) for seed in task] for task in ends]
        return np.array(pairs, np.float64).swapaxes(0, 1)

    names = ("success", "false_done", "lost_s", "seconds", "stopped", "unanswered", "replans")
    values = {f"{arm}.{name}": measure_counts(counts(arm, name)) for arm in ARMS for name in names}
    best = max(TIMERS, key=lambda arm: counts(arm, "success")[..., 0].sum())
    pairs = {f"{arm}_minus_timer": (arm, best) for arm in ("critic", "examples", "truth")}
    pairs |= {f"truth_minus_{arm}": ("truth", arm) for arm in ("critic", "examples")}
    for key, (first, second) in pairs.items():
        values[key] = difference_of_counts(counts(first, "success"), counts(second, "success"))
    return values


if __name__ == "__main__":
    typer.run(main)
