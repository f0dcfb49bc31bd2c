"""Questions that a run asks the owner of a dataset about its robot, and the answers to choose from."""

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from goalreel.planners.kinematic.layout import Finding
from goalreel.planners.kinematic.robot import Robot

if TYPE_CHECKING:
    from starlette.requests import Request

_LETTERS = "ABCDEF"


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to a question."""

    letter: str
    answer: str
    """One of `Finding.answers`."""
    words: str
    """The case in which it is right, such as `it is closed in row A`."""
    option: str
    """The option of `goalreel annotate` that gives it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the robot that the data leave open."""

    finding: Finding
    about: str
    """Such as `which end of the gripper is closed`."""
    look: str
    """The same as asked of someone who looks at the picture."""
    choices: tuple[Choice, ...]
    rows: Mapping[str, str]
    """The rows of the picture by their labels, each as the answer that it alone would be."""
    picture: Path | None = None

    def __str__(self) -> str:
        """One line with the options that answer it."""
        line = f"{self.about} is not known ({self.finding.reason})"
        if self.picture:
            options = ", or ".join(f"{choice.option} if {choice.words}" for choice in self.choices)
            return f"{line}: look at {self.picture}, and say {options}"
        options = " or ".join(choice.option for choice in self.choices)
        return f"{line}: say {options}" if options else line


def find_question(robot: Robot, layout: str | None = None) -> Question | None:
    """Find the first thing that a run needs and the data do not tell; None where all is known.

    The options of the answers repeat `layout`, which a person has said before.
    """
    if not robot.unknown:
        return None
    finding = robot.unknown[0]
    about, look, words = _words(finding)
    said = "--camera " if finding.field == "camera" else f"--layout {layout}," if layout else "--layout "
    shown = list(dict.fromkeys(hand for answer in finding.answers for hand in _hands(answer)))
    labels = _LETTERS if shown == list(finding.answers) else "123456789"
    rows: dict[str, str] = dict(zip(labels, shown, strict=False))
    choices: list[Choice] = []
    for letter, answer in zip(_LETTERS, finding.answers, strict=False):
        own = [label for label, row in rows.items() if row in _hands(answer)]
        where = f"row{'s' if own[1:] else ''} {' and '.join(own)}" if own else "no row"
        where += " alone" if labels != _LETTERS and len(own) == 1 else ""
        choices.append(Choice(letter, answer, words.format(where), said + answer))
    return Question(finding, about, look, tuple(choices), rows)


def _hands(answer: str) -> list[str]:
    """The answer for each hand alone: `gripper=5` and `gripper=11` for `gripper=5/11`."""
    first, *more = answer.split(",")
    if not first.startswith("gripper="):
        return [answer]
    hands = first.removeprefix("gripper=").split("/")
    return [",".join([f"gripper={hand}", *more]) for hand in hands if hand != "none"]


def _words(finding: Finding) -> tuple[str, str, str]:
    """Say what is asked, what to look for in the picture, and when an answer is right."""
    *label, field = finding.field.split()
    hand = f"gripper {label[0]}" if label and label[0][0].isdigit() else " ".join(["the", *label, "gripper"])
    match field:
        case "closed":
            about = f"which end of {hand} is closed"
            return about, f"In which row is {hand} closed, or holds something?", "it is closed in {}"
        case "gripper":
            look = "In which rows does a gripper open or close from picture to picture?"
            return "the gripper", look, "it opens and closes in {}"
        case "camera":
            look = "Which row shows the work best, and stands still?"
            return "the camera of the goal images", look, "{} is best"
        case "state":
            return "the robot's state", "Which curve follows the robot?", "that of {} does"
        case _:
            return f"the robot's {finding.field}", f"Which {field} is right?", "{} is right"


def ask_in_browser(question: Question, show: Callable[[str], object]) -> Choice | None:
    """Serve the page, whose address `show` gets, until somebody chooses an answer; None after Ctrl-C."""
    from starlette.applications import Starlette
    from starlette.responses import FileResponse, JSONResponse, Response

    from goalreel.annotator.web import mount_page
    from goalreel.annotator.web.auth import Access, AuthMiddleware, LoginMiddleware
    from goalreel.http.access import listen
    from goalreel.http.server import BoundedServer

    access = Access(token=secrets.token_urlsafe(16), page="question")
    chosen: list[Choice] = []
    static = Path(__file__).parent / "static"

    async def read(_: "Request") -> Response:
        answers = [{"letter": c.letter, "words": f"{c.words}: {c.option}"} for c in question.choices]
        return JSONResponse({"look": question.look, "text": question.finding.reason, "answers": answers})

    async def picture(_: "Request") -> Response:
        return FileResponse(question.picture or static)

    async def choose(request: "Request") -> Response:
        chosen.extend(c for c in question.choices if c.letter == request.path_params["letter"])
        server.should_exit = bool(chosen)
        return Response(status_code=204 if chosen else 404)

    app = Starlette()
    app.add_route("/api/question", read)
    app.add_route("/api/answers/{letter}", choose, methods=["POST"])
    app.add_route("/picture.png", picture)
    mount_page(app, "question", static)
    app.add_middleware(AuthMiddleware, access=access)
    app.add_middleware(LoginMiddleware, access=access)
    server = BoundedServer(app, timeout_graceful_shutdown=2, lifespan="off")
    with listen(access.host, 0) as socket, suppress(KeyboardInterrupt):
        show(f"http://{access.host}:{socket.getsockname()[1]}/?token={access.token}")
        server.run(sockets=[socket])
    return chosen[0] if chosen else None
