"""The review page over HTTP: all routes behind the authorization."""

import socket
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path as InPath, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, Response

from goalreel.annotator.review.acts import Act, Acts
from goalreel.annotator.review.queue import ListQuery
from goalreel.annotator.review.session import Json, ReviewSession
from goalreel.annotator.web import auth, mount_page
from goalreel.boards.log import ConflictError
from goalreel.boards.step import Who
from goalreel.datasets.corrections import events
from goalreel.datasets.info_file import is_outside
from goalreel.datasets.video import video_index
from goalreel.errors import DatasetError, InputError, UserError, first_line
from goalreel.files import digest
from goalreel.http.server import BoundedServer
from goalreel.settings import Frozen
from goalreel.types import Text

WIDEST = 1920
router = APIRouter()


def create_review(session: ReviewSession, access: auth.Access) -> FastAPI:
    """Build the application."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.session, app.state.acts = session, Acts(session)
    app.include_router(router)
    mount_page(app, "review", Path(str(files(__package__))) / "static")
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(UserError)(_failed)
    app.exception_handler(OSError)(_failed)
    app.add_middleware(auth.PageMiddleware, access=access, guards=True)
    return app


def serve_review(app: FastAPI, listening: socket.socket) -> None:
    """Serve the page until Ctrl-C, after which this returns, or another signal ends it."""
    server = BoundedServer(app, timeout_graceful_shutdown=2, lifespan="off")
    with suppress(KeyboardInterrupt):  # uvicorn raises it when the last answer is sent
        server.run(sockets=[listening])


class ChangeRequest(Frozen):
    """A change of a person who has seen a revision of an episode."""

    revision: Annotated[int, Field(ge=0)]
    by: Who
    event: Annotated[events.PageCorrection, Field(discriminator="kind")]


class ActRequest(Frozen):
    """An act on many episodes of an instruction."""

    act: Act
    instruction: Text
    by: Who
    anyway: bool = False
    """Carry over even where too few boundaries were found again."""


async def _session(request: Request) -> ReviewSession:
    return request.app.state.session


async def _acts(request: Request) -> Acts:
    return request.app.state.acts


type OpenSession = Annotated[ReviewSession, Depends(_session)]
type OpenActs = Annotated[Acts, Depends(_acts)]
type Filters = Annotated[ListQuery, Query()]


async def _check_index(session: OpenSession, index: Annotated[int, InPath(ge=0, lt=2**31)]) -> int:
    if index not in session.queue:
        raise HTTPException(404, f"episode {index} is not annotated")
    return index


type EpisodeIndex = Annotated[int, Depends(_check_index)]


@router.get("/api/dataset")
def dataset(session: OpenSession) -> Json:
    """Describe what all episodes share."""
    return session.dataset()


@router.get("/api/episodes")
async def episodes(session: OpenSession, query: Filters) -> Response:
    """List a page of the episodes, without a thread, for which a search would wait behind pictures."""
    return _json(session.rows(query))


@router.get("/api/tasks")
def tasks(acts: OpenActs) -> list[Json]:
    """Say of each instruction how far its episodes are labelled, and what can be done."""
    return acts.tasks()


@router.get("/api/turns")
def turns(session: OpenSession, query: Filters) -> Json:
    """Say what undo and redo of a person would do, in whatever episode that is."""
    return session.queue.turns(query.by)


@router.post("/api/acts")
def act(acts: OpenActs, request: ActRequest) -> Json:
    """Act on many episodes; what the answer tells is on the disk."""
    return {"told": acts.do(**dict(request)), "tasks": acts.tasks()}


@router.get("/api/episodes/{index}")
def episode(session: OpenSession, index: EpisodeIndex, query: Filters) -> Json:
    """Describe an episode as it is now."""
    return session.view(index, session.look(index), query)


@router.post("/api/episodes/{index}/events")
def change(
    session: OpenSession, acts: OpenActs, index: EpisodeIndex, request: ChangeRequest, query: Filters
) -> Response:
    """Make a change: 200 when it is on the disk, 409 where another change came first.

    An undo or redo that names a change of an act on many episodes is of the whole act.
    """
    event = request.event
    if event.kind == "frame" and event.camera not in session.cameras:
        raise HTTPException(422, f"there is no camera {event.camera}")

    row = session.queue[index]
    turn = event.kind if event.kind in ("undo", "redo") and event.of else None
    act = None if turn is None else row.act if turn == "undo" else row.undone
    try:
        if turn and act and act.by == request.by:
            acts.do(turn, row.instruction, request.by)
            reviewed = session.look(index)
        else:
            reviewed = session.change(index, request.revision, request.by, event)
    except ConflictError as e:
        now = session.view(index, session.look(index), query)
        return _json({"detail": str(e), "by": e.by, "state": now}, 409)
    return _json(session.view(index, reviewed, query))


def _json(answer: Json, status: int = 200) -> Response:
    return Response(to_json(answer, inf_nan_mode="null"), status, media_type="application/json")


@router.get("/frames/{index}/{camera}/{frame}.jpg")
def one_frame(
    request: Request,
    session: OpenSession,
    index: EpisodeIndex,
    camera: str,
    frame: Annotated[int, InPath(ge=0)],
    width: Annotated[int, Query(ge=16, le=WIDEST)] = WIDEST,
) -> Response:
    """Serve a frame with its longest side at most `width` pixels; a browser fetches the same one once."""
    if camera not in session.cameras or frame >= session.queue[index].frames:
        raise HTTPException(404, f"no frame {frame} of {camera} in episode {index}")
    mark = session.mark(index, camera)
    headers = {"ETag": f'"{digest(mark, f"{index} {camera} {frame} {width}")}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    data = session.jpeg(mark, index, camera, frame, width)
    return Response(data, media_type="image/jpeg", headers=headers)


@router.get("/pictures/{folder}/{name}.png")
def stored_picture(session: OpenSession, folder: str, name: str) -> Response:
    """Serve a picture that is no frame of a recording, and that never changes."""
    try:
        data = session.reviews.records.png(f"images/{folder}/{name}.png")
    except (ValueError, OSError) as e:
        raise HTTPException(404, "no such picture") from e
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(data, media_type="image/png", headers=headers)


@router.get("/video/{index}/{camera}")
def video(session: OpenSession, index: EpisodeIndex, camera: str) -> Response:
    """Serve the file that shows an episode, in the ranges that the browser asks for.

    Large videos may be links to another disk, but a link to something else is not followed.
    """
    path = session.video(index, camera) if camera in session.cameras else None
    if path is not None and path.is_file():
        with suppress(DatasetError):
            if is_outside(path, session.source.root):
                video_index(path)
            return FileResponse(path, media_type="video/mp4")
    raise HTTPException(404, f"no video of {camera} in episode {index}")


async def _http(_: Request, error: HTTPException) -> Response:
    return JSONResponse({"detail": str(error.detail)}, error.status_code, dict(error.headers or {}))


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    first: dict[str, Any] = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return JSONResponse({"detail": f"{where}: {first['msg'].removeprefix('Value error, ')}"}, 422)


async def _failed(_: Request, error: Exception) -> Response:
    """Answer an error that the user can fix in one line."""
    return JSONResponse({"detail": first_line(error)}, 422 if isinstance(error, InputError) else 500)
