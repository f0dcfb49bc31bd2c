"""Robots and tasks of the zoo."""

from dataclasses import dataclass

from goalreel_lab.metaworld.tasks import TaskSpec


@dataclass(frozen=True)
class ZooRobot:
    """A robot of robosuite, with a gripper that its scripted grasp holds with."""

    gripper: str = "default"
    slow: bool = False
    """Its fingers need seconds to close."""
    lower: float = 0.0
    """Metres above a thing's middle at which it is grasped."""
    tasks: tuple[str, ...] = ("lift", "stack", "place", "press")


ROBOTS = {
    "Panda": ZooRobot(tasks=("lift", "stack", "place", "press", "door")),
    "IIWA": ZooRobot(slow=True),
    "UR5e": ZooRobot("PandaGripper"),
    "Kinova3": ZooRobot("RethinkGripper"),
    "Jaco": ZooRobot(slow=True),
}


@dataclass(frozen=True)
class ZooTask:
    """A task of robosuite: how it is asked for, and the body that its nouns mean."""

    env: str
    body: str
    joint: str
    geoms: str
    """Beginning of the names of the body's geoms."""
    spec: TaskSpec


TASKS = {
    "lift": ZooTask(
        "Lift",
        "cube_main",
        "cube_joint0",
        "cube_",
        TaskSpec(kind="grasp", say=("pick up the cube", "lift the red cube"), objects={"cube": "cube"}),
    ),
    "stack": ZooTask(
        "Stack",
        "cubeA_main",
        "cubeA_joint0",
        "cubeA_",
        TaskSpec(
            kind="grasp",
            say=("put the red cube on the green cube", "pick up the red cube and place it on the green cube"),
            objects={"cube": "cube"},
        ),
    ),
    "place": ZooTask(
        "Beside",
        "cubeA_main",
        "cubeA_joint0",
        "cubeA_",
        TaskSpec(
            kind="grasp",
            say=("put the red cube next to the green cube", "move the red cube next to the green one"),
            objects={"cube": "cube"},
            places=("one",),
        ),
    ),
    "door": ZooTask(
        "Door",
        "Door_door",
        "Door_hinge",
        "Door_handle",
        TaskSpec(
            kind="articulated",
            say=("open the door", "pull the door open"),
            objects={"door": "door", "handle": "door"},
        ),
    ),
    "press": ZooTask(
        "Button",
        "button",
        "button_joint",
        "button",
        TaskSpec(kind="push", say=("press the button", "press the red button"), objects={"button": "button"}),
    ),
}
