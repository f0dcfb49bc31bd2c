"""The examples in docstrings run."""

import doctest
import importlib
import subprocess

import pytest
from support.places import ROOT

PACKAGES = ("ros_pkg/goalreel_ros/", "lab/")
"""Folders that are on the path, beside the packages that goalreel/ links to."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def with_examples() -> list[str]:
    """The modules that hold any, as they are imported."""
    command = ["git", "grep", "-lE", r"^\s*>>> ", "--", "*.py", ":!tests", ":!lab/tests", ":!lab/studies"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = [file.removesuffix(".py").removesuffix("/__init__") for file in files]
    for folder in PACKAGES:
        names = [name.removeprefix(folder) for name in names]
    inside = [name if name.startswith("goalreel") else f"goalreel/{name}" for name in names]
    return [name.replace("/", ".") for name in inside]


@pytest.mark.parametrize("name", with_examples())
def test_the_examples_of(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.failed == 0, "see the standard output"
