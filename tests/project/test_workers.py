"""`--workers`: the tests of a run in processes that are forked from the one that collected them."""

import os
import subprocess
import sys

import pytest
from support.places import TESTS

pytestmark = pytest.mark.process

CONFTEST = """
import os
import pytest

pytest_plugins = ["support.workers"]


@pytest.fixture(scope="session")
def worker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("session")
    (folder / "it").touch(exist_ok=False)
    yield os.getpid()
    with open("ended", "a") as file:
        print(os.getpid(), os.getppid(), file=file)
"""
FILE = """
import os
import warnings


def test_what_one_worker_does(worker):
    assert worker == os.getpid() != os.getsid(0)


def test_what_fails():
    warnings.warn("worn")
    os.system("echo heard")
    assert not "so"


def test_what_ends_the_process(worker):
    if __file__.endswith("test_2.py"):
        os._exit(9)


def test_what_comes_behind(worker):
    pass
"""


@pytest.fixture
def run(tmp_path):
    """Runs four files of tests, and gives what was printed."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(FILE)
    environment = {
        **os.environ,
        "PYTHONPATH": str(TESTS),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "COLUMNS": "200",
    }

    def go(*options: str) -> str:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            *options,
            ".",
        ]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        ).stdout

    return go


def test_every_test_is_told_of_once_though_a_worker_dies(run, tmp_path):
    printed = run("--workers", "2", "--junitxml", "tests.xml")
    assert "5 failed, 11 passed, 4 warnings" in printed
    assert printed.count("\nheard\n") == 4
    died = "test_2.py::test_what_ends_the_process - the process that ran it ended with exit code 9"
    assert died in printed
    assert (tmp_path / "tests.xml").read_text().count("<testcase ") == 16
    ended = (tmp_path / "ended").read_text().splitlines()
    assert 0 < len(ended) == len(set(ended)) <= 2  # the other one died, and never got to the end
    assert len({line.split()[1] for line in ended}) == 1


def test_it_stops_after_as_many_failures_as_are_allowed(run):
    assert "stopping after 1 failures" in run("--workers", "1", "-x")
