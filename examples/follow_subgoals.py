"""A LeRobot policy that follows the sub-goals of a running goalreel node, at 10 Hz.

It starts a task, and until that ends gives the policy what its camera sees and, as one more camera, the
picture to reach next, in the form that its dataset has it (`--form`): black where there is none. Replace
`state` and `send` by your robot's; the actions are printed here. Needs rclpy, and lerobot for the policy.

goalreel node --preset server --camera /wrist_camera
python examples/follow_subgoals.py my_policy 0 "put the red block in the bowl"
"""

import argparse
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import get_args

import cv2
import numpy as np
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot_camera_goalreel.camera_goalreel import fit
from numpy.typing import NDArray
from rclpy.utilities import remove_ros_args

from goalreel.subgoal_camera import DEFAULT_FORM, SubGoalForm, in_form
from goalreel_ros.client import GoalreelClient, GoalreelError, NodeGoneError

PERIOD = 0.1
SUBGOAL = "observation.images.subgoal"


def state(size: int) -> NDArray[np.float32]:
    """The joints' positions: your robot's."""
    return np.zeros(size, np.float32)


def send(action: NDArray[np.float32]) -> None:
    """Move the robot: yours."""
    print(json.dumps([round(float(a), 4) for a in action]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("policy", type=Path, help="a checkpoint of lerobot-train, with the sub-goal camera")
    parser.add_argument("camera", help="a number, or a video file, for the policy's other cameras")
    parser.add_argument("instruction")
    parser.add_argument("--form", choices=get_args(SubGoalForm), default=DEFAULT_FORM)
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])

    config = PreTrainedConfig.from_pretrained(options.policy)
    policy = get_policy_class(config.type).from_pretrained(options.policy).eval()
    preprocess, after = make_pre_post_processors(config, pretrained_path=str(options.policy))
    pictures = {key: feature.shape for key, feature in config.image_features.items()}
    joints = config.robot_state_feature
    capture = cv2.VideoCapture(int(options.camera) if options.camera.isdecimal() else options.camera)

    with GoalreelClient() as goalreel, torch.inference_mode():
        goalreel.wait_until_active(timeout=60)
        task = goalreel.execute(options.instruction)
        try:
            while not task.done:
                began = time.monotonic()
                read, bgr = capture.read()
                if not read:
                    raise SystemExit(f"no more frames from {options.camera}")
                frame = np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)
                subgoal, goal = goalreel.subgoal(), goalreel.goal_image
                name = subgoal.name if subgoal is not None else ""
                sizes = {key: (width, height) for key, (_, height, width) in pictures.items()}
                observation: dict[str, np.ndarray] = {key: fit(frame, size) for key, size in sizes.items()}
                live = observation[SUBGOAL]  # the camera of the goals is this one
                goal_pixels = np.zeros_like(live) if goal is None else fit(goal, sizes[SUBGOAL])
                observation[SUBGOAL] = (
                    goal_pixels if goal is None else in_form(options.form, goal_pixels, live)
                )
                if joints is not None:
                    observation["observation.state"] = state(joints.shape[0])
                device = torch.device(config.device or "cpu")
                batch = preprocess(prepare_observation_for_inference(observation, device, name))
                send(after(policy.select_action(batch)).squeeze(0).cpu().numpy())
                time.sleep(max(0.0, PERIOD - (time.monotonic() - began)))
            task.result()
        except GoalreelError as e:
            raise SystemExit(f"{e.code.name}: {e}") from e
        finally:
            capture.release()
            with suppress(NodeGoneError):
                task.cancel()  # nothing happens if it is over


if __name__ == "__main__":
    main()
