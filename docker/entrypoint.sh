#!/usr/bin/env bash
# Run a command in the container's ROS workspace.
set -e # not -u: ROS's setup files read what nobody has set
source "/opt/ros/$ROS_DISTRO/setup.bash"
source /opt/goalreel/workspace/install/setup.bash
exec "$@"
