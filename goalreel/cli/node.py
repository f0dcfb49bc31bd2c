"""`goalreel node`: the ROS 2 node without a ROS workspace. ROS itself is imported when it runs."""

import json
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import PresetOptions, with_options
from goalreel.errors import InputError
from goalreel.files import check_file
from goalreel.models.presets import ModelChoice

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
        help="Which planner, editor and critic: a name, or the path of a .yaml file. nano knows only the "
        "simulated tabletop. [default: the params file's, or nano]"
    ),
]


@with_options(models=PresetOptions(None, live=True))
def node(
    *,
    preset: Preset = None,
    models: ModelChoice,
    camera: Annotated[
        str, typer.Option(metavar="TOPIC", help="The camera: frames on TOPIC/image_raw.")
    ] = "camera",
    namespace: Annotated[str | None, typer.Option(help="Namespace of the node and its topics.")] = None,
    params_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="ROS parameters, in YAML.")
    ] = None,
    autostart: Annotated[
        bool, typer.Option(help="Configure and activate the node. Without, a lifecycle manager does it.")
    ] = True,
    health: Annotated[
        bool, typer.Option("--health", help="Start nothing: ask the running node whether it is active.")
    ] = False,
    ros_args: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ROS ARGUMENTS]", help="Passed on to ROS.")
    ] = None,
) -> None:
    """Run the ROS 2 node: frames and instructions in, sub-goals out.

    With --health it runs none, and exits with 0 if the node that runs is active, else with 1.

    Unless the environment says otherwise, only this machine is reached
    (ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST; SUBNET for the network) and raw frames travel through
    large shared memory (FASTDDS_DEFAULT_PROFILES_FILE; the camera's driver needs it as well).
    """
    with one_line_errors():
        _check(preset, models)
        for option, name in {"--camera": camera, "--namespace": namespace or ""}.items():
            if not re.fullmatch(r"[\w/~{}]*", name, re.ASCII):
                raise InputError(f"{option} {name}: ROS names have letters a to z, digits, _ and / alone")
        import goalreel_ros
        from goalreel.streaming.settings import parameter_values
        from goalreel_ros.main import main

        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        if health:
            from goalreel_ros.client.commander import check_health

            check_health("/".join(["", *filter(None, (namespace or "").split("/")), "goalreel"]))
            return typer.echo("active")
        profiles = Path(goalreel_ros.__file__).with_name("fastdds_shm.xml")
        os.environ.setdefault("FASTDDS_DEFAULT_PROFILES_FILE", str(profiles))
        values = {**parameter_values(models.overrides), "autostart": autostart}
        if preset is not None:
            values["preset"] = preset
        # Of two rules for one topic ROS obeys the first: those of the user. Of two values it takes the last.
        arguments = ["--ros-args", *(ros_args or ()), "-r", f"image:={camera.rstrip('/')}/image_raw"]
        if namespace is not None:
            arguments += ["-r", f"__ns:=/{namespace.strip('/')}"]
        if params_file is not None:
            arguments += ["--params-file", str(check_file(params_file))]
        for name, value in values.items():
            arguments += ["-p", f"{name}:={json.dumps(value)}"]
        main(arguments)


def _check(preset: str | None, models: ModelChoice) -> None:
    """Refuse an unknown preset or model before ROS is imported."""
    from goalreel.models import presets
    from goalreel.models.load import check_name
    from goalreel.models.names import ModelName
    from goalreel.types import ROLES

    if preset is not None:
        presets.read(preset)
    for role in ROLES:
        if name := models.overrides.get(role):
            check_name(role, ModelName.parse(str(name)), recordings=False)
