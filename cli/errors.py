"""What a person can mend becomes one line on stderr and an exit status; a bug still shows itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

EXTRAS = {
    "accelerate": "train",
    "av": "lerobot",
    "datasets": "train",
    "diffusers": "gpu",
    "fastapi": "serve",
    "httpx2": "api",
    "lerobot": "lerobot",
    "mujoco": "sim",
    "openai": "api",
    "peft": "train",
    "prometheus_client": "serve",
    "pyarrow": "lerobot",
    "ray": "serve",
    "rosbags": "bags",
    "tensorboard": "train",
    "torch": "gpu",
    "transformers": "gpu",
    "trl": "train",
    "uvicorn": "serve",
}
"""Which extra brings a package that turned out to be missing."""
ROS = ("goalreel_interfaces", "goalreel_ros", "rclpy")
"""What comes from a ROS 2 workspace, or from an extra and two folders."""


@contextmanager
def one_line_errors(interrupted: str = "interrupted") -> Iterator[None]:
    """Wrap a command: bad input, a broken dataset, a dead server or a missing package ends it in one line."""
    from goalreel.batch import BackendError
    from goalreel.errors import DatasetError

    try:
        yield
    except (DatasetError, BackendError, ValueError, OSError) as e:
        fail((str(e) or type(e).__name__).splitlines()[0])
    except ModuleNotFoundError as e:
        said = absent(e)
        if said is None:
            raise
        fail(said)
    except KeyboardInterrupt:
        fail(interrupted, status=130)


def absent(error: ModuleNotFoundError) -> str | None:
    """What brings the package that is missing; None where none of our extras does."""
    package = (error.name or "").split(".")[0]
    if package in ROS:
        from goalreel.installed import install_ros

        return f"{package} is not installed: source your ROS 2 workspace, or {install_ros()}"
    if package in EXTRAS:
        return f"{package} is not installed: pip install 'goalreel[{EXTRAS[package]}]'"
    return None


def fail(message: str, status: int = 1) -> NoReturn:
    """End the command."""
    typer.secho(f"goalreel: {message}", err=True, fg="red")
    raise typer.Exit(status)
