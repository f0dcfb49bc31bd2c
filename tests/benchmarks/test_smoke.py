"""Every benchmark runs at its smallest size and prints what its docstring says; no time is looked at."""

import pytest
from support.benchmarks import check, smoke
from support.browser import needs_chromium
from support.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
FILES = {path.stem: path for path in sorted(BENCHMARKS.glob("*.py")) if path.stem != "common"}
BROWSER = {"review", "studio"}
PROCESSES = BROWSER | {"ros", "startup"}
LONG = {"loop", "startup", "studio", "write"}
"""They import lerobot or diffusers, or start nodes."""
LAB = {"review", "ros", "scale", "studio"}
"""What they run has tests of its own in `make test`, so that they alone break here: `make lab` runs them."""


def case(name: str) -> object:
    marks = [pytest.mark.process] if name in PROCESSES else []
    marks += [pytest.mark.long] if name in LONG else []
    marks += [pytest.mark.lab] if name in LAB else []
    marks += [needs_chromium] if name in BROWSER else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", list(map(case, FILES)))
def test_it_runs_and_prints_what_its_docstring_says(name):
    pytest.importorskip("rclpy" if name == "ros" else "json")
    check(FILES[name], smoke(FILES[name], alone=name == "ros"))


@pytest.mark.parametrize("name", FILES)
def test_make_bench_and_the_list_of_benchmarks_have_it(name):
    assert "--json" in FILES[name].read_text(), "`make bench` passes --json to who knows it"
    assert f"`python benchmarks/{name}.py" in (BENCHMARKS / "README.md").read_text()
