"""Commands that goalreel-lab adds: named without it, they say how to get it; `--help` never imports it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from goalreel.cli import extension
from goalreel.cli.main import app

COMMANDS = [
    (group, command) for group, commands in extension.LABORATORY.items() for command in sorted(commands)
]


@pytest.fixture
def no_laboratory(monkeypatch):
    monkeypatch.setattr(extension.metadata, "entry_points", lambda **_: ())


@pytest.mark.parametrize(("group", "command"), COMMANDS)
def test_without_the_laboratory_its_commands_say_how_to_get_it(group, command, no_laboratory):
    result = CliRunner().invoke(app, [group, command, "--json"])
    (line,) = result.output.splitlines()
    assert (result.exit_code, line.partition(": ")[0]) == (1, "goalreel")
    assert f"{group} {command}` comes with goalreel-lab: " in line
    assert "pip install" in line


def test_without_the_laboratory_other_commands_are_listed(no_laboratory):
    page = CliRunner().invoke(app, ["eval", "--help"]).output
    assert " review " in page
    assert " metaworld " not in page


@pytest.mark.process
def test_no_help_but_a_groups_imports_the_laboratory():
    code = (
        "import sys; from goalreel.cli.main import app\n"
        "try: app({0!r})\nexcept SystemExit: print('goalreel_lab' in sys.modules)"
    )
    for arguments, imported in (
        (["--help"], "False"),
        (["tabletop", "--help"], "False"),
        (["eval", "--help"], "True"),
    ):
        command = [sys.executable, "-c", code.format(arguments)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert printed.splitlines()[-1] == imported, arguments
