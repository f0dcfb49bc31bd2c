"""The laboratory's benchmarks run at their smallest size and print what their docstrings say."""

import pytest
from support.benchmarks import check, smoke
from support.places import ROOT

FILES = {path.stem: path for path in sorted((ROOT / "lab" / "benchmarks").glob("*.py"))}


@pytest.mark.lab
@pytest.mark.parametrize("name", FILES)
def test_it_runs_and_prints_what_its_docstring_says(name):
    check(FILES[name], smoke(FILES[name]))
