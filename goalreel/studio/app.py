"""The server of storyboards on disk, with and without the page.

docs/reference/http-api.md describes its routes.
"""

import asyncio
import shutil
import tempfile
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, Path as PathParameter, Query, Request, Response
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, StreamingResponse

from goalreel import __version__
from goalreel.annotator.plan import make_task, write_plan
from goalreel.annotator.web import mount_page
from goalreel.annotator.web.auth import Access, PageMiddleware
from goalreel.boards.log import ConflictError
from goalreel.boards.step import Who
from goalreel.datasets.corrections.events import LOOK_S
from goalreel.errors import InputError, UserError, first_line
from goalreel.extras import absent
from goalreel.files import read_mapping
from goalreel.http.server import one_of_many
from goalreel.image import MAX_PIXELS, Image
from goalreel.loop import OnRejected
from goalreel.models import presets
from goalreel.models.load import kinds_of
from goalreel.serving.app import create_app
from goalreel.serving.errors import EVENTS, HEADERS, Wording, error_response, responses
from goalreel.serving.images import decode_all, from_base64, to_base64
from goalreel.serving.service import Here
from goalreel.serving.settings import Models, ServeSettings
from goalreel.settings import Frozen
from goalreel.studio.board import Json, StudioBoard, board_view, model_names
from goalreel.studio.boards import StudioBoards
from goalreel.studio.events import BoardEdit, ContinueEdit, JudgeEdit, PersonsChange, Submitted
from goalreel.studio.state import storyboard_of
from goalreel.types import ROLES, Storyboard, Task

FOLDER = Path(str(files(__package__)))
router = APIRouter(prefix="/v1/storyboards", tags=["storyboards"])
about = APIRouter(prefix="/v1", tags=["studio"])

MAX_PICTURES = 32
"""In one sentence; the bounds on a request's bytes and pixels count all pictures together."""
JobId = Annotated[str, PathParameter(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z-]+$")]


class BoardSubmission(Frozen):
    """A request for a storyboard. Pictures are base64 or data URLs.

    `image` is the scene as it is now, and without it the last picture there is; none: from text alone.
    `images` belong to the `<image>` marks of the instruction, in order.
    """

    instruction: Wording
    image: str | None = None
    images: Annotated[tuple[str, ...], Field(max_length=MAX_PICTURES)] = ()
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    max_attempts: Annotated[int, Field(ge=1, le=10)] | None = None
    on_rejected: OnRejected = "continue"


async def submitted_task(body: BoardSubmission, max_pixels: int) -> Task:
    """Read the task; the limit of pixels is for all its pictures together.

    Raises:
        HTTPException: 400 or 413, as `decode_all`; 400, pictures and marks differ in number.
    """
    scene = [] if body.image is None else [body.image]
    pictures = await decode_all([from_base64(text) for text in [*scene, *body.images]], max_pixels)
    image = pictures[0] if scene else None
    try:
        return make_task(body.instruction, image, images=pictures[len(scene) :], seed=body.seed)
    except InputError as e:
        raise HTTPException(400, str(e)) from e


class EditRequest(Frozen):
    """A person's change; `after` is the last event that they have seen."""

    after: Annotated[int, Field(ge=0, lt=2**31)]
    by: Who = "person"
    edit: BoardEdit


def _boards(request: Request) -> StudioBoards:
    return request.app.state.jobs


type Boards = Annotated[StudioBoards, Depends(_boards)]


async def _board(boards: Boards, job_id: JobId) -> StudioBoard:
    return boards.find(job_id)


type BoardHere = Annotated[StudioBoard, Depends(_board)]


@router.post("", status_code=202, responses=responses(404))
async def submit_board(body: BoardSubmission, boards: Boards, response: Response, service: Here) -> Json:
    """Start one; fetch it under the id that comes back."""
    task = await submitted_task(body, service.settings.max_pixels)
    submitted = Submitted(
        task=Task(id=task.id, instruction=task.instruction),
        max_attempts=body.max_attempts or service.settings.loop.max_attempts,
        on_rejected=body.on_rejected,
    )
    board = await boards.submit(task, submitted)
    response.headers["Location"] = f"/v1/storyboards/{board.id}"
    return board_view(board)


@router.get("", responses=responses())
async def history(
    boards: Boards,
    limit: Annotated[int, Query(ge=1, le=200)] = 24,
    before: Annotated[str | None, Query(max_length=64)] = None,
    in_doubt: bool = False,
) -> Json:
    """List the newest storyboards, or those of them that are in doubt; `before` is an id."""
    rows = boards.history(in_doubt=in_doubt)
    shown = [row for row in rows if before is None or row["id"] < before][:limit]
    doubted = sum(row["in_doubt"] for row in rows)
    return {"storyboards": shown, "total": len(rows), "in_doubt": doubted, "damaged": boards.damaged}


@router.get("/{job_id}", responses=responses(404))
async def fetch_board(board: BoardHere, record: bool = True, by: Who = "person") -> Json:
    """Fetch the state for the person `by`; with `record` the whole record, its pictures inline."""
    view = board_view(board, by)
    if record and not board.state.needs_plan:
        stored = await _record(board)
        view["storyboard"] = await asyncio.to_thread(partial(stored.model_dump, mode="json"))
    return view


async def _record(board: StudioBoard) -> Storyboard:
    """Make the record with its pictures, which another thread reads.

    Raises:
        InputError: there is no plan yet.
    """
    record = await asyncio.to_thread(storyboard_of, board.state, board.folder.load)
    if record is None:
        raise InputError("there is no plan yet: wait until it is there")
    return record


@router.get("/{job_id}/events", response_class=StreamingResponse, responses=responses(404) | EVENTS)
async def board_events(
    board: BoardHere,
    last_event_id: Annotated[int, Header(ge=0, lt=2**31)] = 0,
    after: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    follow: bool = False,
) -> StreamingResponse:
    """Server-sent events, all or those after Last-Event-ID or `after`; with `follow` beyond the last one."""
    stream = board.follow(max(last_event_id, after), stay=follow)
    return StreamingResponse(one_of_many(stream), media_type="text/event-stream", headers=HEADERS)


@router.get("/{job_id}/pictures/{name}", response_class=FileResponse, responses=responses(404))
async def picture(
    board: BoardHere, name: Annotated[str, PathParameter(max_length=80, pattern=r"^[0-9a-f]+\.png$")]
) -> FileResponse:
    """Fetch a picture, which never changes."""
    try:
        path = board.folder.picture(name)
    except InputError as e:
        raise HTTPException(404, str(e)) from e
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return FileResponse(path, media_type="image/png", headers=headers)


@router.post("/{job_id}/edits", responses=responses(404, 409))
async def edit_board(
    body: EditRequest, board: BoardHere, boards: Boards, service: Here, response: Response
) -> Json:
    """Change a storyboard; 409, with the state, where another change came first."""
    edit = body.edit
    if isinstance(edit, JudgeEdit) and edit.accept and edit.seconds < LOOK_S:
        raise InputError(
            f"nobody has seen the picture for {LOOK_S:g} s (`seconds`): look at it, then accept it"
        )
    if isinstance(edit, ContinueEdit):
        [image] = await decode_all([from_base64(edit.image)], service.settings.max_pixels)
        edit = edit.model_copy(update={"image": await asyncio.to_thread(board.folder.store, image)})
    try:
        if board.replay.is_saved(body.after, body.by, edit):
            return board_view(board, body.by)
    except ConflictError as e:
        response.status_code = 409
        error = {"message": str(e), "type": "invalid_request_error", "param": None, "code": "conflict"}
        return {"error": error, "by": e.by, "state": board_view(board, body.by)}
    board.append(PersonsChange(by=body.by, edit=edit))
    boards.look_again(board)
    if edit.kind in ("draw", "continue") or (edit.kind == "instruct" and board.state.next_open() is None):
        boards.begin(board)
    return board_view(board, body.by)


@router.post("/{job_id}/resume", status_code=202, responses=responses(404))
async def resume_board(board: BoardHere, boards: Boards) -> Json:
    """Go on: draw what is open, failed or stale, and plan if there is no plan."""
    boards.begin(board, reopen=True)
    return board_view(board)


@router.post("/{job_id}/cancel", responses=responses(404))
async def cancel_board(board: BoardHere, boards: Boards) -> Json:
    """Stop it if it runs, and keep what is there."""
    await boards.stop(board.id)
    return board_view(board)


@router.delete("/{job_id}", status_code=204, responses=responses(404))
async def forget_board(board: BoardHere, boards: Boards) -> None:
    """Stop it if it runs, and forget it."""
    await boards.forget(board)


@router.get("/{job_id}/export/storyboard.zip", response_class=Response, responses=responses(404))
async def export_board(board: BoardHere) -> Response:
    """Fetch the folder that `goalreel plan` writes of it."""

    def zipped(record: Storyboard) -> bytes:
        names = {str(role): name for role, name in model_names(board.state.models).items()}
        with tempfile.TemporaryDirectory() as folder:
            write_plan(record, Path(folder) / "storyboard", names, board.examination)
            return Path(shutil.make_archive(f"{folder}/saved", "zip", folder, "storyboard")).read_bytes()

    data = await asyncio.to_thread(zipped, await _record(board))
    headers = {"Content-Disposition": f'attachment; filename="{board.id}-storyboard.zip"'}
    return Response(data, media_type="application/zip", headers=headers)


@cache
def example_scenes() -> list[Json]:
    """Read the scenes that come with goalreel: pictures of its simulated tabletop."""
    listed = read_mapping(FOLDER / "examples" / "examples.yaml", "write one `file: instruction` a line")
    return [
        {
            "name": f"Scene {number}",
            "instruction": str(instruction),
            "picture": f"data:image/png;base64,{to_base64(Image.of(FOLDER / 'examples' / name))}",
        }
        for number, (name, instruction) in enumerate(listed.items(), start=1)
    ]


@about.get("/examples", responses=responses())
def examples() -> Json:
    """List the scenes that come with goalreel."""
    return {"scenes": example_scenes()}


@cache
def offered_presets() -> list[str]:
    """Name the presets that a studio can be started with."""
    offered: list[str] = []
    for name in presets.names():
        with suppress(InputError):
            kinds_of(presets.load(name), recordings=False)
            offered.append(name)
    return offered


@about.get("/studio", responses=responses())
async def studio(service: Here) -> Json:
    """Say what this server can do."""
    settings = service.settings
    return {
        "version": __version__,
        "models": {role: getattr(service.models, f"{role}_name") for role in ROLES},
        "references": settings.loop.references != "none",
        "presets": offered_presets(),
        "max_pixels": min(settings.max_pixels, MAX_PIXELS),
    }


def create_board_app(
    models: Models, settings: ServeSettings, folder: Path, *, page_access: Access | None = None
) -> FastAPI:
    """Build a server that keeps its storyboards in `folder`, which is made if need be.

    `page_access` says who may use the page, which is served then; None serves no page.

    Raises:
        DatasetError: another server serves the folder, or it cannot be written.
    """
    app = create_app(
        models,
        settings,
        keep=lambda service: StudioBoards(service, folder),
        routers=(router, about),
        admits=None if page_access is None else page_access.admits,
    )
    for kind in (UserError, OSError, ModuleNotFoundError):
        app.exception_handler(kind)(_failed)
    if page_access is not None:
        mount_page(app, "studio", FOLDER / "static")
        app.add_middleware(PageMiddleware, access=page_access, guards=False)
    return app


async def _failed(_: Request, error: Exception) -> Response:
    """Answer what the user can mend in one line."""
    if isinstance(error, ModuleNotFoundError):
        return error_response(501, absent(error) or str(error))
    return error_response(422 if isinstance(error, InputError) else 500, first_line(error))
