"""Ask at the terminal what the data do not tell of the robot."""

import sys
from threading import Thread
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from goalreel.annotator.options import Options
    from goalreel.annotator.questions.question import Choice, Question
    from goalreel.datasets.source import Source


def with_answers(options: "Options", source: "Source") -> "Options":
    """Ask one question after the other, and add the answers to the options.

    Nothing is asked where stdin or stderr is no terminal: the run then ends with the first question.
    """
    from goalreel.annotator.questions.picture import with_picture
    from goalreel.annotator.questions.question import find_question
    from goalreel.annotator.robot import goal_camera, read_robot

    asked: set[str] = set()
    while sys.stdin.isatty() and sys.stderr.isatty():
        robot = read_robot(source, options.state_layout, options.camera)
        question = find_question(robot, options.layout)
        if question is None or not question.choices or question.finding.field in asked:
            break
        asked.add(question.finding.field)
        choice = _ask(with_picture(question, source, robot, goal_camera(robot, source)))
        typer.echo(f"Next time say {choice.option}", err=True)
        name, _, value = choice.option.removeprefix("--").partition(" ")
        options = options.but(**{name: value})
    return options


def _ask(question: "Question") -> "Choice":
    if not question.picture:
        typer.echo(f"{question}.", err=True)
    else:
        typer.echo(f"The data do not tell {question.about}: {question.finding.reason}.", err=True)
        typer.echo(f"Look at {question.picture}", err=True)
        typer.secho(question.look, err=True, bold=True)
    for choice in question.choices:
        words = f"{choice.words}  ({choice.option})" if question.picture else choice.option
        typer.echo(f"  {choice.letter}  {words}", err=True)
    letters = {choice.letter: choice for choice in question.choices}
    browser = "; W shows the picture in the browser" if question.picture else ""
    while True:
        word = typer.prompt(f"{' or '.join(letters)}{browser}", err=True).strip().upper()
        choice = _ask_in_browser(question) if word == "W" and question.picture else letters.get(word)
        if choice is not None:
            return choice


def _ask_in_browser(question: "Question") -> "Choice | None":
    import webbrowser

    from goalreel.annotator.questions.question import ask_in_browser
    from goalreel.extras import absent

    def show(address: str) -> None:
        typer.echo(f"Choose the answer at {address}   Ctrl-C: answer here", err=True)
        Thread(target=webbrowser.open, args=(address,), daemon=True).start()  # it may wait for the page

    try:
        return ask_in_browser(question, show)
    except ModuleNotFoundError as e:
        typer.echo(absent(e) or str(e), err=True)
        return None
