"""Any LeRobot policy checkpoint as an actor on the tabletop."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.policies.utils import prepare_observation_for_inference
from numpy.typing import NDArray
from safetensors import SafetensorError

from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.subgoal_camera import LIVE_FORMS, SubGoalForm, in_form
from goalreel.tabletop.env import ACTION_NAMES, STATE_NAMES, Tabletop
from goalreel.tabletop.mjcf import CAMERAS
from goalreel_lab.policy.keyposes import KEY_POSE_NAMES
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, IMAGES, STATE, WORDS

type Acts = Literal["steps", "key_poses"]
"""Whether an action is a control step of `Tabletop.step` or a key pose (`keyposes.py`)."""


@dataclass(frozen=True)
class GoalCue:
    """What a policy is told of the present sub-goal."""

    text: str
    words: NDArray[np.float32]
    """(WORDS,), for policies that read no text."""
    picture: Image | None = None
    """The goal image; None: the sub-goal camera is black."""
    spot: tuple[float, float] | None = None
    """Where to let go, x and y in m (world), for a policy of key poses: it overrules the policy."""


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
