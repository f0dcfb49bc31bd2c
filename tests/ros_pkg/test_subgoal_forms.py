"""A policy sees live what it was trained on: the same pixels from the node as in an annotated dataset."""

from array import array

import cv2
import numpy as np
import pytest
from support.recordings import make_dataset, moving_square, storyboard
from support.ros_bench import RED, Robot, painted
from support.wait import until

from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import build
from goalreel.image import Image
from goalreel.subgoal_camera import LIVE_FORMS

pytestmark = pytest.mark.process

KEY = "observation.images.subgoal"
LATER = 6
"""A frame on which the robot has done something, though not what is wanted."""


@pytest.fixture(scope="module", params=["difference"])
def form(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def node_parameters(form):
    return {"subgoal_form": form, "image_timeout": 120.0}


@pytest.fixture(scope="module")
def trained_on(form, tmp_path_factory) -> list[np.ndarray]:
    """The sub-goal camera of a dataset with the goal that the node will have, frame by frame."""
    folder = tmp_path_factory.mktemp(form)
    source = Source.open(make_dataset(folder / "in", (12,), cameras=("front",)))
    board = storyboard(12, ("verified",), drawn=(0,))
    (step,) = board.steps
    goal = step.attempts[0].model_copy(update={"image": Image(painted(moving_square(0, 0), RED))})
    board = board.model_copy(update={"steps": (step.model_copy(update={"attempts": (goal,)}),)})
    with Records.open(folder / "out", {}, source.fingerprint()) as records:
        records.commit(0, board)
        build(source, folder / "out", records, form=form)
    frames = Source.open(folder / "out").episode(0).frames(KEY, range(12))
    return [image.pixels.astype(int) for image in frames]


def film(robot, frame: int) -> None:
    """Let the robot's camera see a frame of the dataset."""
    data = array("B", moving_square(frame, 0).tobytes())
    robot.film(lambda: robot.frame(size=(48, 48), data=data))


@pytest.fixture(scope="module")
def filming(node):
    """From the first moment at the dataset's frames: a task begins with the newest."""
    robot = Robot()
    film(robot, 0)
    yield robot
    robot.close()


def coarse(picture: np.ndarray) -> np.ndarray:
    """Give what two codecs leave of the noise in the pictures: the means of 4x4 pixels."""
    return cv2.resize(picture.astype(np.float32), (12, 12), interpolation=cv2.INTER_AREA)


def test_the_camera_shows_what_the_policy_was_trained_on(form, trained_on, client, robot):
    from lerobot_camera_goalreel import GoalreelCamera, GoalreelCameraConfig

    known = {0: trained_on[0], LATER: trained_on[LATER], "black": np.zeros((48, 48, 3))}
    with GoalreelCamera(GoalreelCameraConfig(width=48, height=48, timeout_s=60, warmup_s=0)) as camera:

        def shown() -> object:
            """Which of them; None where it is none."""
            seen = coarse(camera.read_latest(60_000))
            errors = {name: float(np.abs(seen - coarse(picture)).mean()) for name, picture in known.items()}
            best = min(errors, key=errors.get)
            return best if errors[best] < 5 else None

        task = client.execute(RED)
        until(lambda: shown() in (0, LATER))
        if form in LIVE_FORMS:
            until(lambda: shown() == 0)
            film(robot, LATER)
            until(lambda: shown() == LATER)
            robot.stop_filming()
            until(lambda: shown() == "black")  # no fresh frame, no picture that is made of it
            film(robot, 0)
            until(lambda: shown() == 0)
        task.cancel()
        until(lambda: shown() == "black")
