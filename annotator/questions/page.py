"""A page on this machine that shows a question's picture and takes the answer."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from goalreel.annotator.questions.question import Choice, Question
from goalreel.annotator.web import mount_page
from goalreel.annotator.web.auth import Access, AuthMiddleware, LoginMiddleware
from goalreel.http.access import listen
from goalreel.http.server import BoundedServer

STATIC = Path(str(files(__package__))) / "static"


def ask_in_browser(question: Question, show: Callable[[str], object]) -> Choice | None:
    """Serve the page, whose address `show` gets, until somebody chooses an answer; None after Ctrl-C."""
    access = Access(token=secrets.token_urlsafe(16), page="question")
    chosen: list[Choice] = []

    async def read(_: Request) -> Response:
        answers = [{"letter": c.letter, "words": f"{c.words}: {c.option}"} for c in question.choices]
        return JSONResponse({"look": question.look, "text": question.finding.reason, "answers": answers})

    async def picture(_: Request) -> Response:
        return FileResponse(question.picture or STATIC)

    async def choose(request: Request) -> Response:
        chosen.extend(c for c in question.choices if c.letter == request.path_params["letter"])
        server.should_exit = bool(chosen)
        return Response(status_code=204 if chosen else 404)

    app = Starlette()
    app.add_route("/api/question", read)
    app.add_route("/api/answers/{letter}", choose, methods=["POST"])
    app.add_route("/picture.png", picture)
    mount_page(app, "question", STATIC)
    app.add_middleware(AuthMiddleware, access=access)
    app.add_middleware(LoginMiddleware, access=access)
    server = BoundedServer(app, timeout_graceful_shutdown=2, lifespan="off")
    with listen(access.host, 0) as socket, suppress(KeyboardInterrupt):
        show(f"http://{access.host}:{socket.getsockname()[1]}/?token={access.token}")
        server.run(sockets=[socket])
    return chosen[0] if chosen else None
