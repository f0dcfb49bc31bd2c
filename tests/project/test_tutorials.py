"""The tutorials as printed: every block runs, in order, in one empty folder.

That of ROS 2: `ros_pkg/test_tabletop_loop.py`. That of a model of one's own: `models/test_plugins.py`.
"""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.cli import goalreel
from support.pages import blocks, commands, run_python, text_of
from support.places import ROOT, SHARED

from goalreel.datasets.source import Source

pytestmark = [pytest.mark.process, pytest.mark.long]

BIN = Path(sys.executable).parent
TUTORIALS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs/tutorials").glob("*.md"))]
ELSEWHERE = {"test_tabletop_loop.py": "sub-goals-on-a-robot.md", "test_plugins.py": "your-own-model.md"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_served_page(words: Sequence[str]) -> str:
    """Serve a page on a free port until it has answered."""
    command = [BIN / "goalreel", *words, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = next(line.split()[2] for line in server.stderr if line.startswith("Look at "))
            return urllib.request.urlopen(address, timeout=60).read().decode()
        finally:
            server.terminate()


def run_command(words: Sequence[str]) -> str:
    """Run a command, and return what it prints."""
    match words:
        case ["goalreel", "review" | "studio", *_]:
            return read_served_page(words[1:])
        case ["goalreel", *arguments]:
            return goalreel(*arguments)
        case [program, *arguments]:
            done = subprocess.run([BIN / program, *arguments], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-3000:]
            return done.stdout + done.stderr
        case _:
            raise ValueError("no command")


def run_page(page: str) -> str:
    """Run the blocks of a tutorial, and return what they print."""
    printed = []
    for block in blocks(page):
        if block.language == "python":
            printed.append(run_python(block.code))
        else:
            assert block.language == "sh"
            printed += map(run_command, block.commands)
    return "".join(printed)


def test_every_tutorial_is_run():
    assert {Path(page).name for page in TUTORIALS} == {
        "annotate-and-train.md",
        "first-storyboard.md",
        "label-three.md",
        *ELSEWHERE.values(),
    }


def test_a_first_storyboard(folder):
    printed = run_page("docs/tutorials/first-storyboard.md")
    assert "2 (128, 128, 3) uint8" in printed
    assert printed.count("accepted - ") == 2
    assert "True Move the orange block in front of the yellow block. Do not lose the orange block." in printed
    assert "True ['blue block in blue bowl']" in printed
    assert (folder / "predicted/index.html").is_file()
    assert (folder / "second/index.html").is_file()


@pytest.mark.lab
def test_annotating_and_training(folder):
    printed = run_page("docs/tutorials/annotate-and-train.md")
    assert "nothing is broken" in printed
    assert re.search(r"episodes annotated +2 *\nsteps observed +16 *\n", printed)
    assert (folder / "annotated-report/index.html").is_file()
    assert "End of training" in printed
    assert len(re.findall(r"\bloss:\d+\.\d+", printed)) == 5
    last = " ".join(printed.partition("End of training")[2].split())
    assert "observation.images.subgoal gets observation.images.subgoal" in last
    assert last.endswith("nothing is broken; warnings: 0")


@pytest.mark.lab
@pytest.mark.skipif(not (SHARED / "cr5_banana").is_dir(), reason="no real episodes are at hand")
def test_labelling_three(folder):
    (folder / "banana").symlink_to(SHARED / "cr5_banana")
    printed = run_page("docs/tutorials/label-three.md")
    assert "episode 4 first, then 22 and 14" in " ".join(printed.split())
    assert "6 of 6 boundaries were found again" in " ".join(printed.split())
    truth = json.loads((SHARED / "cr5_banana/labels.json").read_text())
    dataset = Source.open(folder / "labelled")
    whole = 0
    for index in dataset.indices:
        rows = dataset.episode(index).subtasks("rows")
        named = {text: 10 * seconds for seconds, text in rows}
        grasp, release = truth[str(index)]["boundaries"]
        assert named["put the banana on the plate"] == pytest.approx(grasp, abs=5)
        assert named["move back"] == pytest.approx(release, abs=5)
        whole += "grasp the banana" in named  # where no picture of the moving camera is sharp, it is not
    assert whole >= 22


def test_the_commands_of_the_readme_are_those_of_the_tutorials():
    in_tutorials = [words for page in TUTORIALS for words in commands(page)]
    of_the_readme = [words for words in commands("README.md") if words[0] != "make"]
    assert [words for words in of_the_readme if words not in in_tutorials] == []
    assert len(of_the_readme) > 5
    code = [block.code for page in TUTORIALS for block in blocks(page, "python")]
    assert [block.code for block in blocks("README.md", "python") if block.code not in code] == []
    targets = [words[1] for words in commands("README.md") if words[0] == "make"]
    assert [target for target in targets if f"\n{target}: " not in text_of("Makefile")] == []


def test_the_ros_commands_of_the_readme_are_those_of_the_tutorial():
    in_tutorial = commands("docs/tutorials/sub-goals-on-a-robot.md", "bash")
    *background, client = commands("README.md", "bash")
    assert [words[-1] for words in background] == ["&"] * 3
    assert [*(words[:-1] for words in background), client] == in_tutorial
