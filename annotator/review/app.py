"""The review page over HTTP: all routes behind the authorization.

Pictures have an ETag, so that a browser fetches the same one once.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, Response

from goalreel import __version__
from goalreel.annotator.report.cards import jpeg
from goalreel.annotator.review.acts import Act, Acts
from goalreel.annotator.review.queue import ListQuery
from goalreel.annotator.review.rerender import Busy, Rerenderer
from goalreel.annotator.review.session import HISTORY, Json, ReviewSession, history_view
from goalreel.annotator.web import mount_page
from goalreel.annotator.web.auth import Access, AuthMiddleware, LoginMiddleware
from goalreel.boards.log import ConflictError
from goalreel.boards.step import Phrase, StepId, Who
from goalreel.datasets.corrections import events
from goalreel.datasets.corrections.reviews import Reviewed
from goalreel.datasets.info_file import is_outside
from goalreel.datasets.video import video_index
from goalreel.errors import DatasetError, InputError, UserError, first_line
from goalreel.files import digest
from goalreel.http.server import BoundedServer
from goalreel.models.model_set import ModelSet
from goalreel.settings import Frozen
from goalreel.types import Text

STATIC = Path(str(files(__package__))) / "static"
CLOSE_SECONDS = 2
"""Time for requests under way when the server ends."""
WIDEST = 1920
KEPT = 4096
"""JPEGs kept, of some 5 to 50 kB each."""

api = APIRouter(prefix="/api")
pages = APIRouter()


def create_review(session: ReviewSession, access: Access, models: ModelSet | None = None) -> FastAPI:
    """Build the application. `models` render again; None takes those of the dataset's annotation."""
    app = FastAPI(
        title="goalreel review", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.session, app.state.rendering = session, Rerenderer(session, models)
    app.state.acts = Acts(session)
    app.state.frames = FrameStore(session)
    app.include_router(pages)
    app.include_router(api)
    mount_page(app, "review", STATIC)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(UserError)(_failed)
    app.exception_handler(OSError)(_failed)
    app.add_middleware(AuthMiddleware, access=access)
    app.add_middleware(LoginMiddleware, access=access)
    return app


def serve_review(app: FastAPI, listening: socket.socket) -> None:
    """Serve the page until Ctrl-C, after which this returns, or another signal ends it."""
    server = BoundedServer(app, timeout_graceful_shutdown=CLOSE_SECONDS, lifespan="off")
    with suppress(KeyboardInterrupt):  # uvicorn raises it when the last answer is sent
        server.run(sockets=[listening])


class FrameStore:
    """Exact frames of the recordings, by our own decoder: a browser seeks to about the right place."""

    def __init__(self, session: ReviewSession) -> None:
        self._session = session
        self.jpeg = lru_cache(KEPT)(self._jpeg)

    def mark(self, index: int, camera: str) -> str:
        """Tell the file with a camera's frames from others, and from itself after a change."""
        path = self._session.video(index, camera) or self._session.source.data_path(index)
        try:
            status = path.stat()
        except OSError:  # who decodes it says so
            return str(path)
        return f"{path} {status.st_mtime_ns} {status.st_size}"

    def _jpeg(self, mark: str, index: int, camera: str, frame: int, width: int) -> bytes:
        return jpeg(self._session.episode(index).frames(camera, [frame])[0], width)


class Seen(Frozen):
    """A request of a person who has seen a revision of an episode."""

    revision: Annotated[int, Field(ge=0)]
    by: Who


class ChangeRequest(Seen):
    """A change of an episode."""

    event: Annotated[events.PageCorrection, Field(discriminator="kind")]


class RenderRequest(Seen):
    """Another picture of a step, from a person's prompt."""

    step: StepId
    prompt: Phrase


class ActRequest(Frozen):
    """An act on many episodes of an instruction."""

    act: Act
    instruction: Text
    by: Who
    anyway: bool = False
    """Carry over even where too few boundaries were found again."""


async def _session(request: Request) -> ReviewSession:
    return request.app.state.session


async def _rendering(request: Request) -> Rerenderer:
    return request.app.state.rendering


async def _acts(request: Request) -> Acts:
    return request.app.state.acts


type OpenSession = Annotated[ReviewSession, Depends(_session)]
type OpenActs = Annotated[Acts, Depends(_acts)]
type Rendering = Annotated[Rerenderer, Depends(_rendering)]
type Filters = Annotated[ListQuery, Query()]


async def _check_index(session: OpenSession, index: Annotated[int, InPath(ge=0, lt=2**31)]) -> int:
    if index not in session.queue:
        raise HTTPException(404, f"episode {index} is not annotated")
    return index


type EpisodeIndex = Annotated[int, Depends(_check_index)]


@api.get("/dataset")
def dataset(session: OpenSession, rendering: Rendering) -> Json:
    """Describe what all episodes share."""
    return session.dataset(rendering.can_render)


@api.get("/episodes")
async def episodes(session: OpenSession, query: Filters) -> Response:
    """List a page of the episodes, without a thread, for which a search would wait behind pictures."""
    return _json(session.rows(query), 200)


@api.get("/tasks")
def tasks(acts: OpenActs) -> list[Json]:
    """Say of each instruction how far its episodes are labelled, and what can be done."""
    return acts.tasks()


@api.get("/turns")
def turns(session: OpenSession, query: Filters) -> Json:
    """Say what undo and redo of a person would do, in whatever episode that is."""
    return session.queue.turns(query.by)


@api.get("/acts")
def progress(acts: OpenActs) -> tuple[int, int]:
    """Tell how many episodes the act in progress has carried steps over to, and how many it is for."""
    return acts.progress


@api.post("/acts")
def act(acts: OpenActs, request: ActRequest) -> Json:
    """Act on many episodes; what the answer tells is on the disk."""
    return {"told": acts.do(**dict(request)), "tasks": acts.tasks()}


@api.get("/episodes/{index}")
def episode(session: OpenSession, index: EpisodeIndex, query: Filters) -> Json:
    """Describe an episode as it is now."""
    return session.view(index, session.look(index), query)


@api.get("/episodes/{index}/history")
def history(
    session: OpenSession,
    index: EpisodeIndex,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = HISTORY,
) -> Json:
    """List a page of the history of an episode, which ends before its `offset` newest changes."""
    return history_view(session.look(index), offset, limit)


@api.post("/episodes/{index}/events")
def change(
    session: OpenSession, acts: OpenActs, index: EpisodeIndex, request: ChangeRequest, query: Filters
) -> Response:
    """Make a change: 200 when it is on the disk, 409 where another change came first.

    An undo or redo that names a change of an act on many episodes is of the whole act.
    """
    event = request.event
    if event.kind == "frame" and event.camera not in session.cameras:
        raise HTTPException(422, f"there is no camera {event.camera}")

    def work() -> Reviewed:
        row = session.queue[index]
        if event.kind in ("undo", "redo") and event.of:
            act = row.act if event.kind == "undo" else row.undone
            if act and act.by == request.by:
                acts.do(event.kind, row.instruction, request.by)
                return session.look(index)
        return session.change(index, request.revision, request.by, event)

    return _respond(session, index, query, work)


@api.post("/episodes/{index}/render")
def render(
    session: OpenSession, rendering: Rendering, index: EpisodeIndex, request: RenderRequest, query: Filters
) -> Response:
    """Render and judge a step again: as `change`, and 503 while another picture is rendered."""

    def work() -> Reviewed:
        session.look(index).replay.check(request.revision)
        attempt = rendering.render(index, request.step, request.prompt)
        return session.add(index, request.by, request.step, attempt)

    try:
        return _respond(session, index, query, work)
    except Busy as e:
        raise HTTPException(503, "another picture is being made: ask again when it is there") from e


def _respond(session: ReviewSession, index: int, query: ListQuery, work: Callable[[], Reviewed]) -> Response:
    """Answer with the episode after `work`, or, with 409, after the change that came first."""
    try:
        return _json(session.view(index, work(), query), 200)
    except ConflictError as e:
        now = session.view(index, session.look(index), query)
        return _json({"detail": str(e), "by": e.by, "state": now}, 409)


def _json(answer: Json, status: int) -> Response:
    return Response(to_json(answer, inf_nan_mode="null"), status, media_type="application/json")


@pages.get("/frames/{index}/{camera}/{frame}.jpg")
def one_frame(
    request: Request,
    session: OpenSession,
    index: EpisodeIndex,
    camera: str,
    frame: Annotated[int, InPath(ge=0)],
    width: Annotated[int, Query(ge=16, le=WIDEST)] = WIDEST,
) -> Response:
    """Serve a frame with its longest side at most `width` pixels."""
    if camera not in session.cameras or frame >= session.queue[index].frames:
        raise HTTPException(404, f"no frame {frame} of {camera} in episode {index}")
    store: FrameStore = request.app.state.frames
    mark = store.mark(index, camera)
    tag = digest(mark, f"{index} {camera} {frame} {width}")
    return _tagged(request, tag, "image/jpeg", lambda: store.jpeg(mark, index, camera, frame, width))


@pages.get("/pictures/{folder}/{name}.png")
def stored_picture(request: Request, session: OpenSession, folder: str, name: str) -> Response:
    """Serve a picture that is no frame of a recording."""
    try:
        data = session.reviews.records.png(f"images/{folder}/{name}.png")
    except (ValueError, OSError) as e:
        raise HTTPException(404, "no such picture") from e
    return _tagged(request, name, "image/png", lambda: data)


@pages.get("/video/{index}/{camera}")
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


def _tagged(request: Request, tag: str, kind: str, data: Callable[[], bytes]) -> Response:
    headers = {"ETag": f'"{tag}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data(), media_type=kind, headers=headers)


async def _http(_: Request, error: HTTPException) -> Response:
    return JSONResponse({"detail": str(error.detail)}, error.status_code, dict(error.headers or {}))


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    first: dict[str, Any] = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return JSONResponse({"detail": f"{where}: {first['msg'].removeprefix('Value error, ')}"}, 422)


async def _failed(_: Request, error: Exception) -> Response:
    """Answer an error that the user can fix in one line."""
    return JSONResponse({"detail": first_line(error)}, 422 if isinstance(error, InputError) else 500)
