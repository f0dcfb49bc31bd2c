#!/usr/bin/env bash
# Build both ROS 2 packages with colcon into FOLDER/install: scripts/colcon_packages.sh FOLDER [CMAKE ARGUMENT...]
set -euo pipefail
folder=$(realpath -m "$1")
shift
cd "$(dirname "$0")/.."
# Not colcon's own first line: the Python that runs it is the one that the executables will run in.
exec python3 "$(command -v colcon)" --log-base "$folder/log" build \
  --base-paths ros_pkg --build-base "$folder/build" --install-base "$folder/install" \
  --cmake-args -DBUILD_TESTING=OFF "$@"
