"""The commands of docs/bags.md run, in order, in one folder with such a bag."""

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from support import bags as b
from support.places import ROOT

BIN = Path(sys.executable).parent
TEXT = (ROOT / "docs" / "bags.md").read_text(encoding="utf-8")


def test_every_command_runs(tmp_path):
    sent = [replace(s, topic="/front/image_raw") if s.topic == "/image" else s for s in b.robot(20)]
    sent += [b.storyboard(0, ("pick",), 0), b.subgoal(0, 0, "pick", picture=b.moving(25))]
    b.write_bag(tmp_path / "run", sorted(sent, key=lambda s: s.at))
    lines = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
    run = [shlex.split(line) for line in lines]
    assert [words[0] for words in run] == ["goalreel"] * 4 + ["python"]
    for words in run[:4]:
        done = subprocess.run([BIN / "goalreel", *words[1:]], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}\n{done.stderr[-2000:]}"
    made = sorted(p.name for p in tmp_path.iterdir())
    assert made == [
        "goals",
        "goals-recorded",
        "goals-report",
        "run",
        "shown",
        "shown-recorded",
        "shown-report",
    ]


def test_options_are_those_of_the_command():
    told = set(re.findall(r"`(--[a-z-]+)", TEXT))
    done = subprocess.run([BIN / "goalreel", "bag2lerobot", "--help"], capture_output=True, text=True)
    there = set(re.findall(r"--[a-z-]+", done.stdout))
    assert told <= there
