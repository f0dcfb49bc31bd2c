"""`goalreel node`: the ROS 2 node without a ROS workspace. ROS itself is imported when it runs."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.models import (
    PRESET,
    Critic,
    CriticMode,
    CriticScores,
    CriticThreshold,
    Editor,
    Keep,
    MaxAttempts,
    MaxSteps,
    Planner,
    parameters,
)

EPILOG = (
    "Examples:\n\n"
    "- `goalreel node --preset server --camera /wrist_camera`\n\n"
    "- `goalreel node --preset klein --namespace robot1 --no-autostart`\n\n"
    "- `goalreel node --preset api --planner openai:MODEL@URL --editor openai:MODEL@URL "
    "--critic openai:MODEL@URL -- -r image:=/zed/rgb/image_rect_color -p image_transport:=compressed`"
)
Preset = Annotated[
    str | None,
    typer.Option(
        help=f"{PRESET} nano knows only the simulated tabletop. [default: the params file's, or nano]"
    ),
]


def node(
    preset: Preset = None,
    planner: Planner = None,
    editor: Editor = None,
    critic: Critic = None,
    max_attempts: MaxAttempts = None,
    critic_mode: CriticMode = None,
    critic_scores: CriticScores = None,
    critic_threshold: CriticThreshold = None,
    max_steps: MaxSteps = None,
    keep: Keep = None,
    camera: Annotated[
        str, typer.Option(metavar="TOPIC", help="The camera: TOPIC/image_raw and TOPIC/camera_info.")
    ] = "camera",
    namespace: Annotated[str | None, typer.Option(help="Of the node and its topics.")] = None,
    params_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="ROS parameters, in YAML.")
    ] = None,
    autostart: Annotated[
        bool, typer.Option(help="Configure and activate; else a lifecycle manager does.")
    ] = True,
    ros_args: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ROS ARGUMENTS]", help="Passed on to ROS.")
    ] = None,
) -> None:
    """Run the ROS 2 node: frames and instructions in, sub-goals out.

    Unless the environment says otherwise, only this machine is reached
    (ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST; SUBNET for the network) and raw frames travel through
    large shared memory (FASTDDS_DEFAULT_PROFILES_FILE; the camera's driver needs it as well).
    """
    models = dict(locals())
    with one_line_errors():
        import goalreel_ros
        from goalreel_ros.main import main

        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        profiles = Path(goalreel_ros.__file__).with_name("fastdds_shm.xml")
        os.environ.setdefault("FASTDDS_DEFAULT_PROFILES_FILE", str(profiles))
        given = {**parameters(models), "autostart": autostart}
        # Of two rules for one topic ROS obeys the first: those of the user.
        main(
            [
                "--ros-args",
                *(ros_args or ()),
                *_remappings(camera, namespace),
                *_given(params_file, given),
            ]
        )


def _remappings(camera: str, namespace: str | None) -> Iterator[str]:
    yield from ("-r", f"image:={camera}/image_raw", "-r", f"camera_info:={camera}/camera_info")
    if namespace is not None:
        yield from ("-r", f"__ns:=/{namespace.strip('/')}")


def _given(params_file: Path | None, parameters: dict[str, object]) -> Iterator[str]:
    """Of two values for one parameter ROS takes the last: those of the command line."""
    if params_file is not None:
        yield from ("--params-file", str(params_file))
    for name, value in parameters.items():
        yield from ("-p", f"{name}:={json.dumps(value)}")
