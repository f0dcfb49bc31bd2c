"""The commands that read and write datasets load none of the libraries that only models and policies need."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence

import pytest

HEAVY = ("torch", "transformers", "diffusers", "lerobot", "datasets", "pandas")
NOT_FOR_HELP = (*HEAVY, "numpy", "cv2", "av", "pyarrow", "PIL", "yaml", "packaging", "goalreel.types")
SCRIPT = """
import json, sys
from goalreel.cli.main import app
for words in json.loads(sys.argv[1]):
    try:
        app(words)
    except SystemExit as e:
        assert e.code in (0, None), (words, e)
    print(json.dumps([words[0], *(name for name in {names} if name in sys.modules)]))
"""


pytestmark = pytest.mark.process


def start(*commands: tuple[object, ...], names: Sequence[str] = HEAVY, **pipes: int) -> subprocess.Popen[str]:
    """Start a process that runs commands in turn, and prints after each which of `names` are loaded."""
    words = json.dumps([[str(word) for word in words] for words in commands])
    command = [sys.executable, "-c", SCRIPT.format(names=tuple(names)), words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **pipes)


def loaded(printed: str) -> list[list[str]]:
    """Each command with the modules, of those looked for, that were loaded when it ended."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith('["')]


def test_help_loads_no_library_for_data():
    names = ("annotate", "plan", "build", "show", "review", "export")
    commands = [("--help",), *((name, "--help") for name in names)]
    process = start(*commands, names=(*NOT_FOR_HELP, "pydantic"))
    printed, _ = process.communicate()
    assert process.returncode == 0
    assert loaded(printed) == [["--help"], *([name, "pydantic"] for name in names)]


def test_annotate_build_show_and_export_load_nothing_heavy(video_dataset, image_dataset, tmp_path):
    out, images = tmp_path / "out", tmp_path / "images"
    first = (
        ("annotate", video_dataset, "--out", out),
        ("annotate", image_dataset, "--out", images),
        ("build", out),
        ("build", images),
        ("show", out, "--out", tmp_path / "report"),
        ("show", images, "--out", tmp_path / "reports"),
    )
    exports = [("export", source, "--out", tmp_path / f"{source.name}.csv") for source in (out, images)]
    process = start(*first, *exports)
    printed, _ = process.communicate()
    assert process.returncode == 0
    lines = loaded(printed)
    assert lines[: len(first)] == [[words[0]] for words in first]
    assert len(lines) == len(first) + len(exports)
    assert {name for _, *names in lines for name in names} <= {"pandas"}


def test_review_loads_nothing_heavy_and_ctrl_c_ends_it_well(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {0: {}})
    process = start(("review", out, "--port", 0), stderr=subprocess.PIPE)
    address = next(word for line in process.stderr for word in line.split() if word.startswith("http"))
    for path in ("", "api/dataset", "api/episodes/0"):
        with urllib.request.urlopen(f"{address}{path}") as answer:
            assert answer.status == 200
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate()
    assert said.splitlines()[-1] == "goalreel: ended; every change is saved"
    assert loaded(printed) == [["review"]]
