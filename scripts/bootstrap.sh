#!/usr/bin/env bash
# Make .venv with goalreel and everything its demo and tests need. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
# A Python of the ROS 2 wheels hands these to its children; in another environment they name wrong libraries.
if [ -n "${_ROS_WHEELS_BOOTSTRAP_COMPLETE:-}" ]; then unset _ROS_WHEELS_BOOTSTRAP_COMPLETE LD_LIBRARY_PATH; fi

# Two first calls of make at once: the second waits, and finds all made.
if command -v flock >/dev/null; then
  asked=$(mktemp)
  trap 'rm -f "$asked"' EXIT
  exec 9<.
  locked=0
  flock -n 9 || locked=$?
  if [ $locked = 1 ]; then # other numbers: this file system has no locks
    echo "another make is installing here: waiting for it"
    flock 9
  fi
  if [ .venv/.ready -nt "$asked" ]; then exit; fi
fi

packages=(ffmpeg libegl1 libegl-mesa0 libgl1-mesa-dri chromium chromium-driver fonts-dejavu-core g++)
missing=()
if command -v dpkg-query >/dev/null; then
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
fi
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ]; then
    echo "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "please install: sudo apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi

find_python() {
  for candidate in python3.12 "$HOME"/.pyenv/versions/3.12*/bin/python; do
    if "$candidate" - 2>/dev/null <<'EOF'; then
import ensurepip, os, sys, sysconfig
headers = os.path.join(sysconfig.get_path("include"), "Python.h")  # the ROS 2 interfaces are compiled
sys.exit(sys.version_info[:2] != (3, 12) or not os.path.exists(headers))
EOF
      command -v "$candidate"
      return
    fi
  done
}

if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
  rm -rf .venv
  python=$(find_python || true)
  if [ -n "$python" ]; then
    "$python" -m venv .venv
  else # uv brings a Python 3.12 of its own
    python3 -m venv .venv-uv
    .venv-uv/bin/python -m pip install -q uv
    .venv-uv/bin/uv venv -q --seed --python 3.12 .venv
    rm -rf .venv-uv
  fi
fi
.venv/bin/uv --version >/dev/null 2>&1 || .venv/bin/python -m pip install -q uv
echo "installing Python packages into .venv"
# Compiled once: where Python may not write bytecode, as in many containers, each process would compile torch anew.
# Not through `python -m uv`: of the two variables above, the build environment would inherit this venv's.
.venv/bin/uv pip install -q --compile-bytecode --python .venv/bin/python -c constraints.txt -e '.[dev]' -e ./lab \
  -e ./ros_pkg/goalreel_ros -e ./ros_pkg/lerobot_camera_goalreel
# uv builds a folder again whenever it is named, and the interfaces take a minute.
sum=$(find ros_pkg/goalreel_interfaces -type f | sort | xargs sha256sum | sha256sum)
if ! .venv/bin/python -c 'import goalreel_interfaces.msg' 2>/dev/null || [ "$sum" != "$(cat .venv/.interfaces 2>/dev/null)" ]; then
  echo "building the ROS 2 interfaces"
  .venv/bin/uv pip install -q --python .venv/bin/python -c constraints.txt ./ros_pkg/goalreel_interfaces
  echo "$sum" >.venv/.interfaces
fi
touch .venv/.ready
