"""`import goalreel`: the public API, light until it is used."""

import subprocess
import sys

import pytest

import goalreel


@pytest.mark.parametrize("name", goalreel.__all__)
def test_every_public_name_is_there(name):
    assert getattr(goalreel, name).__doc__


def test_what_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        goalreel.nonsense  # noqa: B018
    assert set(dir(goalreel)) == set(goalreel.__all__)


@pytest.mark.process
def test_it_loads_nothing_by_itself():
    heavy = ("torch", "cv2", "pyarrow", "lerobot", "numpy", "pydantic", "goalreel.models", "goalreel.types")
    code = f"import goalreel, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.process
def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "goalreel", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage: goalreel [OPTIONS] COMMAND" in done.stdout


def test_a_folder_without_a_storyboard_is_one_line(tmp_path):
    with pytest.raises(goalreel.InputError, match=r"holds no storyboard\.json"):
        goalreel.load_storyboard(tmp_path)
    (tmp_path / "storyboard.json").write_text('{"task": {}}')
    with pytest.raises(goalreel.InputError, match=r"storyboard\.json: task\.id: Field required") as caught:
        goalreel.load_storyboard(tmp_path)
    assert "\n" not in str(caught.value)
    (tmp_path / "odd/storyboard.json").mkdir(parents=True)
    with pytest.raises(goalreel.InputError, match=r"storyboard\.json: cannot be read"):
        goalreel.load_storyboard(tmp_path / "odd")
