"""The goalreel node, and RViz when asked for.

ros2 launch goalreel_ros goalreel.launch.py camera:=/wrist_camera rviz:=true
"""

from collections.abc import Iterator
from pathlib import Path

# `launch` and `launch_ros` are ROS packages; in this repository `launch` is also the name of a folder.
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.conditions import IfCondition
from launch.substitutions import EnvironmentVariable, LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.parameter_descriptions import ParameterValue

HERE = Path(__file__).parent
MODELS = ("preset", "planner", "editor", "critic")
DDS_PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"
ARGUMENTS = {
    "preset": ("", "Which planner, editor and critic. Empty: as in params_file."),
    "planner": ("", "Instead of the preset's planner, such as server:URL."),
    "editor": ("", "Instead of the preset's editor, such as server:URL."),
    "critic": ("", "Instead of the preset's critic, such as server:URL."),
    "server_timeout": (
        "",
        "Seconds to wait for the models' servers, such as 120.0 where one is started as well. "
        "Empty: as in params_file.",
    ),
    "camera": ("camera", "Base topic of the camera: frames at CAMERA/IMAGE."),
    "image": ("image_raw", "Name of the frames below the base topic."),
    "namespace": ("", "Namespace of the node and its topics."),
    "frame": ("camera_optical_frame", "The camera's optical frame, in which RViz shows the plan."),
    "params_file": (str(HERE / "goalreel.yaml"), "Parameters of the node."),
}
"""Default and description of each argument."""
SWITCHES = {
    "autostart": ("true", "Configure and activate the node. false: leave that to a lifecycle manager."),
    "use_sim_time": ("false", "Take the time from /clock."),
    "rviz": ("false", "Start RViz too."),
    "shared_memory": (
        "true",
        f"Large shared memory for raw frames, unless {DDS_PROFILES} is set. The camera's driver needs it "
        "as well.",
    ),
}
"""The same of what is true or false."""
FRAMES = [LaunchConfiguration("camera"), "/", LaunchConfiguration("image")]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch; `ros2 launch` calls this."""
    profiles = EnvironmentVariable(DDS_PROFILES, default_value=str(HERE / "fastdds_shm.xml"))
    shared_memory = IfCondition(LaunchConfiguration("shared_memory"))
    return LaunchDescription(
        [
            *_arguments(),
            SetEnvironmentVariable(DDS_PROFILES, profiles, condition=shared_memory),
            OpaqueFunction(function=_node),
            _rviz(),
        ]
    )


def _arguments() -> Iterator[DeclareLaunchArgument]:
    for name, (default, text) in ARGUMENTS.items():
        yield DeclareLaunchArgument(name, default_value=default, description=text)
    for name, (default, text) in SWITCHES.items():
        yield DeclareLaunchArgument(name, default_value=default, description=text, choices=["true", "false"])


def _node(context: LaunchContext) -> list[LifecycleNode]:
    """Make the node. Only the models that are set replace those of the params file."""
    models = {name: LaunchConfiguration(name).perform(context) for name in MODELS}
    parameters = {name: ParameterValue(value, value_type=str) for name, value in models.items() if value}
    if seconds := LaunchConfiguration("server_timeout").perform(context):
        parameters["server_timeout"] = ParameterValue(seconds, value_type=float)
    for name in ("autostart", "use_sim_time"):
        parameters[name] = ParameterValue(LaunchConfiguration(name), value_type=bool)
    return [
        LifecycleNode(
            package="goalreel_ros",
            executable="goalreel_node",
            name="goalreel",
            namespace=LaunchConfiguration("namespace"),
            # The node activates itself, with the same code as without launch, which is tested.
            parameters=[LaunchConfiguration("params_file"), parameters],
            remappings=[("image", FRAMES)],
            output="screen",
        )
    ]


def _rviz() -> Node:
    """Make RViz's node. Its configuration names topics without a namespace: hence the remappings."""
    return Node(
        package="rviz2",
        executable="rviz2",
        namespace=LaunchConfiguration("namespace"),
        arguments=["-d", str(HERE / "goalreel.rviz"), "-f", LaunchConfiguration("frame")],
        parameters=[{"use_sim_time": ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool)}],
        remappings=[
            ("/goalreel/markers", "goalreel/markers"),
            ("/goalreel/storyboard/image", "goalreel/storyboard/image"),
            ("/goalreel/subgoal/image", "goalreel/subgoal/image"),
            ("/image", FRAMES),
        ],
        condition=IfCondition(LaunchConfiguration("rviz")),
    )
