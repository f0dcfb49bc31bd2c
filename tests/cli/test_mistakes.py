"""A forgotten instruction, a wrong file or an unknown model is one line, before anything is loaded."""

import builtins
import os
import signal
from pathlib import Path

import pytest
from support.cli import fails
from support.serving_models import picture

HEAVY = ("torch", "transformers", "diffusers", "lerobot", "mujoco", "rosbags", "httpx2", "fastapi", "rclpy")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """The working directory, with `scene.png`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scene.png").write_bytes(picture().png())


@pytest.fixture
def nothing_loads(monkeypatch):
    """Importing what loads models or data fails."""

    def guarded(name, *arguments, **keywords):
        assert name.partition(".")[0] not in HEAVY, f"{name} is imported"
        return original(name, *arguments, **keywords)

    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", guarded)


FORGOTTEN = "scene.png is a file, and there is no instruction: say what the robot should do"
NO_DATASET = "scene.png: is a file, and a LeRobot dataset is a folder"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("plan scene.png --out p", FORGOTTEN),
        ("plan absent.png --out p", "absent.png is a file, and there is no instruction"),
        ("rollout scene.png", FORGOTTEN),
        ("doctor --models nano --instruction scene.png", FORGOTTEN),
        (
            "rollout -- --policy.path=p",
            "there is no instruction: say what the robot should do, before the --",
        ),
        ("annotate scene.png --out o", NO_DATASET),
        ("bag2lerobot scene.png --out o", "scene.png: no bag there"),
        ("show scene.png", NO_DATASET),
        ("export scene.png --out o.csv", NO_DATASET),
        ("eval review scene.png", NO_DATASET),
        (
            "eval policy --policy scene.png",
            "--policy scene.png: is a file, and a LeRobot checkpoint is a folder",
        ),
        ("corpus from-storyboards scene.png --out o", "scene.png: holds no storyboard"),
    ],
)
@pytest.mark.usefixtures("nothing_loads")
def test_an_argument_of_another_kind(words, line):
    assert line in fails(*words.split())


@pytest.mark.parametrize(
    "words",
    [
        "serve --planner hf:nano-planner --critic hf:nano-critic --editor crayon",
        "plan scene.png tidy --out p --editor crayon",
        "rollout tidy --editor crayon -- --policy.path=p",
        "annotate scene.png --out o --editor crayon",
        "node --editor crayon",
        "eval policy --policy p --editor crayon",
        "eval tabletop --editor crayon",
        "corpus make --kind verdicts --episodes 1 --out o --editor crayon",
    ],
)
@pytest.mark.usefixtures("nothing_loads")
def test_an_unknown_model(words):
    assert "no editor called 'crayon': use " in fails(*words.split())


@pytest.mark.parametrize(
    "words",
    [
        "serve --port 0 --planner hf:nano-planner --editor diffusers:absent",
        "plan scene.png tidy --out p --editor diffusers:absent",
        "plan scene.png tidy --out p --critic hf:some/where/absent",
    ],
)
def test_a_checkpoint_that_is_not_there(words, monkeypatch):
    """Nothing is loaded, though the planner that comes with goalreel is there."""
    monkeypatch.setattr("goalreel.chat.hf.HfChat.load", None)
    assert "absent; a repository is written OWNER/NAME" in fails(*words.split())


PIPE = "pipe: cannot be read (is no file, but a folder, a pipe or a device)"
IN_FOLDER = ".json: is a pipe or a device, and no file: remove it"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("plan nothing --config pipe", PIPE),
        ("annotate data --out out --config pipe", PIPE),
        ("plan --prompts pipe --out out", PIPE),
        ("annotate . --out out --steps pipe", PIPE),
        ("plan scene.png tidy --out out --planner hf:pipes", IN_FOLDER),
        ("plan scene.png tidy --out out --editor diffusers:pipes", IN_FOLDER),
        ("plan scene.png tidy --out out --critic hf:nano-critic?processor=pipes", IN_FOLDER),
        ("plan --prompts large.jsonl --out out", "large.jsonl: cannot be read (is larger than "),
        ("corpus import large.jsonl --out out", "is larger than 2097152 KiB"),
    ],
)
def test_what_is_no_file_or_has_no_end_is_not_read(words, line):
    os.mkfifo("pipe")
    Path("pipes").mkdir()
    for name in ("config.json", "model_index.json"):
        os.mkfifo(f"pipes/{name}")
    with Path("large.jsonl").open("wb") as large:
        large.truncate(2**40)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(300)  # which ends a command that waits for the pipe
    try:
        assert line in fails(*words.split())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
