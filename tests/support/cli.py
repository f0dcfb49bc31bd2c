"""The command line, run in this process: a child for each command would import everything anew."""

from typer.testing import CliRunner, Result

from goalreel.cli.main import app


def invoke(*words: object) -> Result:
    """Run `goalreel WORDS...`, whatever comes of it; a bug in it is raised here."""
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def goalreel(*words: object) -> str:
    """What a command that succeeds prints."""
    result = invoke(*words)
    assert result.exit_code == 0, f"{words}\n{result.stderr}"
    return result.stdout


def fails(*words: object) -> str:
    """The one line that a command which fails prints on stderr."""
    result = invoke(*words)
    assert result.exit_code == 1, f"{words}\n{result.stderr}"
    lines = [line for line in result.stderr.splitlines() if line.startswith("goalreel: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]
