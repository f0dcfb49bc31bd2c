"""The nano checkpoints by their names: goalreel-nano, a distribution of its own, `nano/` in a checkout."""

from importlib.util import find_spec
from pathlib import Path

from goalreel.errors import InputError
from goalreel.extras import install_beside

NAMES = ("nano-critic", "nano-editor", "nano-planner")


def _folder() -> Path:
    """The folder of the checkpoints: that of the checkout, or of the installed distribution."""
    beside = Path(__file__).parents[1] / "nano/goalreel_nano"
    spec = find_spec("goalreel_nano")  # a folder of data, without code
    installed = list(spec.submodule_search_locations or ()) if spec else []
    return beside if beside.is_dir() or not installed else Path(installed[0])


NANO = _folder()


def located(name: str) -> str:
    """The folder of a nano checkpoint, by its name; any other name as it is.

    A folder of that name in the working directory comes first, as with every other name.

    Raises:
        InputError: goalreel-nano is not installed.
    """
    if name not in NAMES or Path(name).is_dir():
        return name
    folder = NANO / name.removeprefix("nano-")
    if not folder.is_dir():
        raise InputError(f"{name} comes with goalreel-nano: {install_beside('nano')}")
    return str(folder)
