"""The files by which the project works: hooks, CI, citation. Each is valid and names what is there."""

import json
import re
import tomllib

import pytest
import yaml
from pre_commit.clientlib import load_config
from support.places import ROOT, TESTS

import goalreel


def test_the_hooks_have_the_versions_of_the_constraints_and_refuse_a_long_subject():
    (repository,) = load_config(str(ROOT / ".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local"
    pins = {pin for hook in repository["hooks"] for pin in hook["additional_dependencies"]}
    constraints = set((ROOT / "constraints.txt").read_text().split())
    assert {pin for pin in pins if not pin.startswith("pre-commit-hooks")} <= constraints
    (entry,) = (hook["entry"] for hook in repository["hooks"] if hook["id"] == "subject")
    pattern = re.compile(entry, re.MULTILINE)
    assert pattern.search("x" * 73)
    assert not pattern.search("x" * 72 + "\n\n" + "a longer line in the body " * 9)


@pytest.mark.parametrize(
    "file", [*(ROOT / ".github").rglob("*.yml"), ROOT / "CITATION.cff"], ids=lambda f: f.name
)
def test_a_file_for_the_forge_is_yaml(file):
    assert isinstance(yaml.safe_load(file.read_text()), dict)


def test_every_job_of_ci_calls_a_target_of_the_makefile():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    targets = set(re.findall(r"^([\w/.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(jobs["check"]["strategy"]["matrix"]["target"]) <= targets


def test_the_devcontainer_is_set_up_as_ci_is():
    """No Docker runs here: CI does the same steps in the same image."""
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["newest-lerobot"]
    install, _, trust, make, *_ = (step.get("run") for step in job["steps"])
    assert container["image"] == job["container"]["image"]
    assert container["runArgs"] == [job["container"]["options"]]
    assert container["onCreateCommand"] == install
    assert container["updateContentCommand"] == f"{trust} && {make}"
    assert f"\n{make.removeprefix('make ')}: " in (ROOT / "Makefile").read_text()
    assert container["remoteEnv"]["PATH"].startswith("${containerWorkspaceFolder}/.venv/bin:")


def test_the_list_of_long_tests_names_tests():
    """Where it fails, run `python dev/long_tests.py` after `make test`, or take the line away."""
    tests = (line.split("::") for line in (TESTS / "long.txt").read_text().splitlines())
    gone = [f"{file}::{name}" for file, name in tests if f"def {name}(" not in (ROOT / file).read_text()]
    assert gone == []


def test_the_citation_names_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == goalreel.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["license"] == project["license"]
