"""Any LeRobot policy checkpoint as an actor on the tabletop."""

import io
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

import cv2
import numpy as np
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.policies.utils import prepare_observation_for_inference
from numpy.typing import NDArray
from PIL import Image as Picture
from pydantic import BaseModel
from safetensors import SafetensorError

from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.errors import InputError
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.subgoal_camera import LIVE_FORMS, SubGoalForm, in_form
from goalreel.tabletop.env import ACTION_NAMES, STATE_NAMES, Tabletop
from goalreel.tabletop.mjcf import CAMERAS
from goalreel.tabletop.scene import SubGoal
from goalreel_lab.bench.closed import go_home
from goalreel_lab.bench.scenes import Walk
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, IMAGES, KEY_POSE_NAMES, STATE, WORDS, approach

type Acts = Literal["steps", "key_poses"]
"""Form of an action: a control step of `Tabletop.step` or a key pose (`policy.policy_tasks`)."""


@dataclass(frozen=True)
class GoalCue:
    """Cue of a policy: the present sub-goal as it is told."""

    text: str
    words: NDArray[np.float32]
    """(WORDS,), for policies that read no text."""
    picture: Image | None = None
    """The goal image; None: the sub-goal camera is black."""
    spot: tuple[float, float] | None = None
    """Place to let go, x and y in m (world), for a policy of key poses: it overrules the policy."""


class LeRobotActor:
    """A policy with its processors. It sees the cameras that it was trained with, `subgoal` among them."""

    def __init__(
        self, policy: PreTrainedPolicy, preprocess: Any, postprocess: Any, form: SubGoalForm
    ) -> None:
        """
        Raises:
            InputError: the policy wants what the tabletop has not, or its actions are of another shape.
        """
        self._policy, self._before, self._after = policy, preprocess, postprocess
        self._form: SubGoalForm = form
        inputs, outputs = policy.config.input_features or {}, policy.config.output_features or {}
        action = outputs["action"].shape if "action" in outputs else ()
        kinds: dict[tuple[int, ...], Acts] = {
            (len(ACTION_NAMES),): "steps",
            (len(KEY_POSE_NAMES),): "key_poses",
        }
        if tuple(action) not in kinds:
            raise InputError(
                f"actions of the policy are {tuple(action)}: the tabletop takes ({len(ACTION_NAMES)},), "
                f"control steps, or ({len(KEY_POSE_NAMES)},), key poses"
            )
        self.acts: Acts = kinds[tuple(action)]
        self._cameras: dict[str, int] = {}
        sizes = {STATE: (len(STATE_NAMES),), ENVIRONMENT: (WORDS,)}
        for key, feature in inputs.items():
            if key == SUBGOAL or (key.startswith(IMAGES) and key.removeprefix(IMAGES) in CAMERAS):
                height, width = feature.shape[1:]
                if height != width:
                    raise InputError(f"{key} is {width}x{height}: the tabletop's cameras are square")
                self._cameras[key] = height
            elif sizes.get(key) != tuple(feature.shape):
                raise InputError(
                    f"the policy wants {key} {tuple(feature.shape)}: the tabletop has {STATE} "
                    f"{sizes[STATE]}, {ENVIRONMENT} {sizes[ENVIRONMENT]}, {SUBGOAL}, and {IMAGES}CAMERA "
                    f"of {', '.join(CAMERAS)}"
                )
        self._has = {key for key in inputs if key in sizes}

    @classmethod
    def load(cls, folder: Path, form: SubGoalForm) -> Self:
        """Load a checkpoint as LeRobot writes it; safetensors alone.

        Raises:
            InputError: there is none in `folder`, or it is for another robot.
        """
        if not (folder / "config.json").is_file():
            inner = folder / "pretrained_model"
            if not (inner / "config.json").is_file():
                raise InputError(f"{folder} holds no LeRobot policy: a folder with config.json is wanted")
            folder = inner
        try:
            config = PreTrainedConfig.from_pretrained(folder)
            config.device = "cuda" if torch.cuda.is_available() else "cpu"
            policy = get_policy_class(config.type).from_pretrained(folder, config=config).eval()
            device = {"device_processor": {"device": config.device}}
            preprocess, postprocess = make_pre_post_processors(
                config, pretrained_path=str(folder), preprocessor_overrides=device
            )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as e:
            raise InputError(f"{folder} is not a LeRobot policy that can be loaded: {e}") from e
        return cls(policy, preprocess, postprocess, form)

    @property
    def sees_goals(self) -> bool:
        """Tell whether the policy has a camera for goal images."""
        return SUBGOAL in self._cameras

    def reset(self) -> None:
        """Forget the actions that were imagined for another sub-goal."""
        self._policy.reset()

    @torch.inference_mode()
    def act(self, env: Tabletop, cue: GoalCue) -> NDArray[np.float32]:
        """Choose the next action, (5,) or (6,), for what the cameras show now.

        Raises:
            InputError: it is not finite.
        """
        observation: dict[str, Any] = {}
        for key, size in self._cameras.items():
            if key != SUBGOAL:
                observation[key] = env.render(key.removeprefix(IMAGES), size).copy()
            elif cue.picture is None:
                observation[key] = np.zeros((size, size, 3), np.uint8)
            else:
                goal = cue.picture.resized((size, size)).pixels
                live = env.render(env.scene.camera, size) if self._form in LIVE_FORMS else goal
                observation[key] = in_form(self._form, goal, live).copy()
        if STATE in self._has:
            observation[STATE] = env.observation()
        if ENVIRONMENT in self._has:
            observation[ENVIRONMENT] = cue.words.copy()
        device = torch.device(str(self._policy.config.device))
        ready = self._before(prepare_observation_for_inference(observation, device, cue.text))
        action = self._after(self._policy.select_action(ready))[0].float().cpu().numpy()
        if not np.isfinite(action).all():
            raise InputError(f"the policy answers {action.tolist()}, which no robot can carry out")
        return action


EXACT = 0.015
"""So far, in x and y (m), a block may lie from its spot and count as exactly there."""
MOST_POSES = 4
"""Key poses of one try: a policy that never lets go is stopped."""


class Actor(Protocol):
    """Actor: `LeRobotActor`, or a script."""

    acts: Acts

    def reset(self) -> None: ...

    def act(self, env: Tabletop, cue: GoalCue) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Bounds:
    """Limits of a policy for a sub-goal: tries of key poses, or control steps."""

    tries: int = 3
    steps: int = 150


class PolicyEnd(BaseModel, frozen=True):
    """End of a task."""

    measures: ClassVar[tuple[str, ...]] = ("success",)
    """Measures of such ends (`intervals.measure_seeds`)."""
    success: bool
    """All sub-goals of the instruction hold at the end."""


class Rolled(PolicyEnd):
    """End of a task in which the simulator said when a sub-goal was reached."""

    measures: ClassVar[tuple[str, ...]] = ("success", "reached", "exact", "length", "first_right")
    reached: int
    """Sub-goals reached in their order, before the first that was not."""
    goals: int
    exact: int
    """Sub-goals reached whose block lies within EXACT of where the true goal image shows it."""
    first_right: bool
    """The first block that a finger touched is the first sub-goal's."""


type OnStep = Callable[[Tabletop, GoalCue], None]
"""Sees every control step of a policy, and what it is told then."""


def no_film(env: Tabletop, cue: GoalCue) -> None:
    """See nothing."""


def roll(
    walk: Walk, actor: Actor, cues: Sequence[GoalCue], bounds: Bounds, on_step: OnStep = no_film
) -> Rolled:
    """Carry out a task; `cues[i]` is what the actor is told of sub-goal i.

    Whether a sub-goal is reached the simulator says, alike for every arm. A policy that samples its actions
    draws the same ones whenever the task is carried out.
    """
    with torch.random.fork_rng(), Tabletop(walk.episode.scene) as env:
        torch.manual_seed(walk.seed)
        hand = PolicyHand(env, cues[0], on_step)
        reached = exact = 0
        for goal, cue, moment in zip(walk.goals, cues, walk.moments[1:], strict=True):
            actor.reset()
            hand.cue = cue
            _pursue(hand, actor, goal, bounds)
            if not env.holds(goal):
                break
            reached += 1
            away = env.layout()[goal.object] - moment.layout[goal.object]
            exact += bool(np.linalg.norm(away[:2]) <= EXACT)
        return Rolled(
            reached=reached,
            goals=len(walk.goals),
            exact=exact,
            success=all(env.holds(g) for g in walk.goals),
            first_right=hand.first == walk.goals[0].object,
        )


class PolicyHand:
    """Steps the environment for what it is told now, and notes which block is touched first."""

    def __init__(self, env: Tabletop, cue: GoalCue, on_step: OnStep) -> None:
        self.env, self.cue, self._on_step = env, cue, on_step
        self.first: str | None = None

    def step(self, action: NDArray[np.float32]) -> None:
        self.env.step(action)
        if self.first is None:
            self.first = next(iter(self.env.touched()), None)
        self._on_step(self.env, self.cue)


def _pursue(hand: PolicyHand, actor: Actor, goal: SubGoal, bounds: Bounds) -> None:
    env = hand.env
    if actor.acts == "steps":
        for _ in range(bounds.steps):
            if env.holds(goal) and env.still(goal.object):
                return
            hand.step(actor.act(env, hand.cue))
        return
    for _ in range(bounds.tries):
        if env.holds(goal):
            return
        try_once(hand, actor, bounds)


def try_once(hand: PolicyHand, actor: Actor, bounds: Bounds) -> None:
    """Let a policy try once, and bring the arm home: key poses until one lets go, or so many control steps.

    The simulator is not asked whether the sub-goal is reached.
    """
    env, cue = hand.env, hand.cue
    actor.reset()
    if actor.acts == "steps":
        for _ in range(bounds.steps):
            hand.step(actor.act(env, cue))
    else:
        for _ in range(MOST_POSES):
            pose = actor.act(env, cue)
            if cue.spot is not None and pose[5] >= 0:
                pose = np.array([*cue.spot, *pose[2:]], pose.dtype)
            for action, _ in approach(env, pose):
                hand.step(action)
            if pose[5] >= 0:
                break
    go_home(env)


SIDE, LINE, LINES, LETTERS = 160, 13, 3, 56
"""Pixels of a picture's side and of a line of text; how many lines there are, of so many letters."""
BANNER = LINES * LINE + 3
EVERY = 5
"""Control steps between two frames: half a second, shown in a fifth of one."""
FRAME_MS, LAST_MS = 200, 1500


def film(carry_out: Callable[[OnStep], PolicyEnd], path: Path) -> None:
    """Carry out a task once more, and write it to `path`."""
    frames: list[NDArray[np.uint8]] = []
    steps = 0

    def look(env: Tabletop, cue: GoalCue) -> None:
        nonlocal steps
        if steps % EVERY == 0:
            frames.append(_frame(env.render(env.scene.camera, SIDE), cue))
        steps += 1

    end = carry_out(look)
    frames[-1] = _with_text(frames[-1], "reached" if end.success else "not reached")
    # One palette for all, or colours flicker: of the first frame and the last, which show every block.
    colours = Picture.fromarray(np.vstack([frames[0], frames[-1]])).quantize(256)
    pictures = [Picture.fromarray(f).quantize(palette=colours, dither=Picture.Dither.NONE) for f in frames]
    packed = io.BytesIO()
    waits = [FRAME_MS] * (len(pictures) - 1) + [LAST_MS]
    pictures[0].save(packed, "GIF", save_all=True, append_images=pictures[1:], duration=waits, loop=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, packed.getvalue())


def _frame(live: NDArray[np.uint8], cue: GoalCue) -> NDArray[np.uint8]:
    black = np.zeros((SIDE, SIDE, 3), np.uint8)
    goal = black if cue.picture is None else cue.picture.resized((SIDE, SIDE)).pixels
    banner = np.full((BANNER, 2 * SIDE, 3), 255, np.uint8)
    return _with_text(np.vstack([banner, np.hstack([live, goal])]), cue.text or "(no words)")


def _with_text(frame: NDArray[np.uint8], text: str) -> NDArray[np.uint8]:
    pixels = frame.copy()
    pixels[:BANNER] = 255
    for number, line in enumerate(textwrap.wrap(text, LETTERS, max_lines=LINES, placeholder=" ..."), 1):
        cv2.putText(
            pixels, line, (3, LINE * number), cv2.FONT_HERSHEY_SIMPLEX, 0.34, (0, 0, 0), 1, cv2.LINE_AA
        )
    return pixels
