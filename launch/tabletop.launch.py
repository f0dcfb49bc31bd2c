"""A simulated robot to try the node with: camera and arm, models that know the scene, and a policy.

ros2 launch goalreel_ros tabletop.launch.py rviz:=true
ros2 topic echo --once /tabletop/truth    # the instruction of this scene, for /goalreel/instruction
"""

from pathlib import Path

# `launch` and `launch_ros` are ROS packages; in this repository `launch` is also the name of a folder.
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

HERE = Path(__file__).parent
CAMERA = ("image", "camera/image_raw")


def generate_launch_description() -> LaunchDescription:
    """Describe the launch; `ros2 launch` calls this."""
    server = ["server:http://127.0.0.1:", LaunchConfiguration("port")]
    namespace = LaunchConfiguration("namespace")
    models = [(model, server) for model in ("planner", "editor", "critic")]
    goalreel = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(HERE / "goalreel.launch.py")),
        launch_arguments=[
            *models,
            ("preset", "server"),  # whose critic, unlike nano's, can judge the end of several steps
            ("namespace", namespace),
            ("server_timeout", "60.0"),
            ("rviz", LaunchConfiguration("rviz")),
            ("frame", "front_optical_frame"),
        ],
    )
    simulator = Node(
        package="goalreel_ros",
        executable="tabletop_simulator",
        namespace=namespace,
        parameters=[{"seed": _whole("seed"), "port": _whole("port")}],
        remappings=[CAMERA],
        output="screen",
    )
    follower = Node(
        package="goalreel_ros",
        executable="tabletop_follower",
        namespace=namespace,
        parameters=[{"seed": _whole("seed")}],
        remappings=[CAMERA, ("subgoal", "goalreel/subgoal")],
        output="screen",
    )
    # Simulator and follower come last, so that they get the shared memory that the node's launch file sets.
    return LaunchDescription([*_arguments(), goalreel, simulator, follower])


def _arguments() -> list[DeclareLaunchArgument]:
    return [
        DeclareLaunchArgument("seed", default_value="3", description="Of the scene and its instruction."),
        DeclareLaunchArgument(
            "port", default_value="8765", description="Where the simulator serves its models on this machine."
        ),
        DeclareLaunchArgument("namespace", default_value="", description="Of all nodes and their topics."),
        DeclareLaunchArgument(
            "rviz", default_value="false", choices=["true", "false"], description="Start RViz too."
        ),
    ]


def _whole(argument: str) -> ParameterValue:
    return ParameterValue(LaunchConfiguration(argument), value_type=int)
