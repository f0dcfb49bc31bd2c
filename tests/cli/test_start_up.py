"""The commands that read and write datasets load none of the libraries that only models and policies need."""

import json
import signal
import subprocess
import sys
import urllib.request

import pytest

HEAVY = ("torch", "transformers", "diffusers", "lerobot", "datasets", "pandas")
SCRIPT = """
import json, sys
from goalreel.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit as e:
    assert e.code in (0, None, 130), e
print(json.dumps([name for name in {heavy} if name in sys.modules]))
"""


pytestmark = pytest.mark.process


def start(*words: object, **pipes: int) -> subprocess.Popen[str]:
    """`goalreel WORDS...` in a process that ends with a line of the heavy packages it has loaded."""
    command = [sys.executable, "-c", SCRIPT.format(heavy=HEAVY), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **pipes)


def loaded(*words: object) -> list[str]:
    """The heavy packages that a command has loaded when it ends."""
    process = start(*words)
    printed, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(printed.splitlines()[-1])


@pytest.mark.parametrize("kind", ["video", "image"])
def test_annotate_build_show_and_export_load_nothing_heavy(kind, request, tmp_path):
    source, out = request.getfixturevalue(f"{kind}_dataset"), tmp_path / "out"
    assert loaded("annotate", source, "--out", out) == []
    assert loaded("build", out) == []
    assert loaded("show", out, "--out", tmp_path / "report") == []
    for form, path in {"table": tmp_path / "steps.csv", "sarm": tmp_path / "sarm"}.items():
        assert set(loaded("export", out, "--to", form, "--out", path)) <= {"pandas"}, form


def test_the_export_for_groot_loads_nothing_heavy(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {0: {}})
    assert set(loaded("export", out, "--to", "groot", "--out", tmp_path / "groot")) <= {"pandas"}


def test_review_loads_nothing_heavy(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {0: {}})
    process = start("review", out, "--port", 0, stderr=subprocess.PIPE)
    address = next(word for line in process.stderr for word in line.split() if word.startswith("http"))
    for path in ("", "api/dataset", "api/episodes/0"):
        with urllib.request.urlopen(f"{address}{path}") as answer:
            assert answer.status == 200
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate()
    assert json.loads(printed.splitlines()[-1]) == []
