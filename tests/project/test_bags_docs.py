"""The commands of docs/bags.md run, in order, in one folder with such a bag."""

import re
import shlex
from dataclasses import replace

from support import bags as b
from support.cli import goalreel
from support.places import ROOT

TEXT = (ROOT / "docs" / "bags.md").read_text(encoding="utf-8")


def test_every_command_runs(tmp_path, monkeypatch):
    sent = [replace(s, topic="/front/image_raw") if s.topic == "/image" else s for s in b.robot(20)]
    sent += [b.storyboard(0, ("pick",), 0), b.subgoal(0, 0, "pick", picture=b.moving(25))]
    b.write_bag(tmp_path / "run", sorted(sent, key=lambda s: s.at))
    lines = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
    run = [shlex.split(line) for line in lines]
    assert [words[0] for words in run] == ["goalreel"] * 4 + ["python"]
    monkeypatch.chdir(tmp_path)
    for words in run[:4]:
        goalreel(*words[1:])
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
    there = set(re.findall(r"--[a-z-]+", goalreel("bag2lerobot", "--help")))
    assert told <= there
