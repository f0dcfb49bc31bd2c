"""The server of storyboards on disk, with and without the page.

docs/reference/http-api.md describes its routes.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, StreamingResponse

from goalreel import __version__
from goalreel.annotator.plan import make_task
from goalreel.annotator.web import mount_page
from goalreel.annotator.web.auth import Access, PageMiddleware
from goalreel.boards.log import ConflictError
from goalreel.boards.step import Who
from goalreel.datasets.corrections.events import LOOK_S
from goalreel.errors import InputError, UserError, first_line
from goalreel.extras import absent
from goalreel.http.server import one_of_many
from goalreel.image import MAX_PIXELS
from goalreel.loop import OnRejected
from goalreel.serving.app import create_app
from goalreel.serving.errors import EVENTS, HEADERS, Wording, error_response, responses
from goalreel.serving.images import decode_all, from_base64
from goalreel.serving.service import Here
from goalreel.serving.settings import Models, ServeSettings
from goalreel.studio import scenes
from goalreel.studio.board import StudioBoard
from goalreel.studio.boards import StudioBoards
from goalreel.studio.events import (
    BoardEdit,
    ContinueEdit,
    JudgeEdit,
    PersonsChange,
    Submitted,
)
from goalreel.studio.exports import EXPORT_TYPES, ExportName, export_bytes
from goalreel.studio.models import StudioPreset
from goalreel.studio.scenes import dataset_ability, ros_ability, send_to_robot
from goalreel.studio.state import storyboard_of
from goalreel.studio.views import Json, board_view, model_names
from goalreel.types import ROLES, DoneStep, Storyboard, Task

STATIC = Path(str(files(__package__))) / "static"
router = APIRouter(prefix="/v1/storyboards", tags=["storyboards"])
about = APIRouter(prefix="/v1", tags=["studio"])

MAX_PICTURES, MAX_DONE = 32, 100
"""In one request; the bounds on its bytes and pixels count all pictures together."""
JobId = Annotated[str, PathParameter(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z-]+$")]


class DoneBody(BaseModel):
    """A step that is behind us: what is true since then, and how that looks."""

    model_config = ConfigDict(extra="forbid")

    instruction: Wording
    image: str | None = None


class BoardSubmission(BaseModel):
    """A request for a storyboard. Pictures are base64 or data URLs.

    `image` is the scene as it is now, and without it the last picture there is; none: from text alone.
    `images` belong to the `<image>` marks of the instruction, in order. `done`: the plan goes on after these.
    `preset`: the name of a preset of `GET /v1/studio`; without it, the models of the start make it.
    """

    model_config = ConfigDict(extra="forbid")

    instruction: Wording
    image: str | None = None
    images: Annotated[list[str], Field(max_length=MAX_PICTURES)] = []
    done: Annotated[list[DoneBody], Field(max_length=MAX_DONE)] = []
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    max_attempts: Annotated[int, Field(ge=1, le=10)] | None = None
    on_rejected: OnRejected = "continue"
    preset: Annotated[str, Field(min_length=1, max_length=80)] | None = None


async def submitted_task(body: BoardSubmission, max_pixels: int) -> Task:
    """Read the task; the limit of pixels is for all its pictures together.

    Raises:
        HTTPException: 400 or 413, as `decode_all`; 400, pictures and marks differ in number.
    """
    pictures = [body.image, *body.images, *(step.image for step in body.done)]
    decoded = iter(await decode_all([from_base64(text) for text in pictures if text is not None], max_pixels))
    image, *others = [None if text is None else next(decoded) for text in pictures]
    images = [picture for picture in others[: len(body.images)] if picture is not None]
    done_pictures = zip(body.done, others[len(body.images) :], strict=True)
    done = [DoneStep(instruction=step.instruction, image=picture) for step, picture in done_pictures]
    try:
        return make_task(body.instruction, image, images=images, done=done, seed=body.seed)
    except InputError as e:
        raise HTTPException(400, str(e)) from e


class EditRequest(BaseModel):
    """A person's change; `after` is the last event that they have seen."""

    model_config = ConfigDict(extra="forbid")

    after: Annotated[int, Field(ge=0, lt=2**31)]
    by: Who = "person"
    edit: BoardEdit


def _boards(request: Request) -> StudioBoards:
    return request.app.state.jobs


type Boards = Annotated[StudioBoards, Depends(_boards)]


async def _board(boards: Boards, job_id: JobId) -> StudioBoard:
    return boards.find(job_id)


type BoardHere = Annotated[StudioBoard, Depends(_board)]


async def _record(board: BoardHere) -> Storyboard:
    """Make the record with its pictures, which another thread reads."""
    record = await asyncio.to_thread(storyboard_of, board.state, board.folder.load)
    if record is None:
        raise InputError("there is no plan yet: wait until it is there")
    return record


type RecordHere = Annotated[Storyboard, Depends(_record)]


@router.post("", status_code=202, responses=responses(404))
async def submit_board(body: BoardSubmission, boards: Boards, response: Response, service: Here) -> Json:
    """Start one; fetch it under the id that comes back."""
    models = boards.models_of(body.preset)
    task = await submitted_task(body, service.settings.max_pixels)
    submitted = Submitted(
        task=Task(id=task.id, instruction=task.instruction),
        max_attempts=body.max_attempts or models.settings.loop.max_attempts,
        on_rejected=body.on_rejected,
        preset=body.preset,
    )
    board = await boards.submit(task, submitted)
    response.headers["Location"] = f"/v1/storyboards/{board.id}"
    return board_view(board)


@router.get("", responses=responses())
async def history(
    boards: Boards,
    q: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 24,
    before: Annotated[str | None, Query(max_length=64)] = None,
) -> Json:
    """List the newest storyboards that hold all words of `q`; `before` is an id."""
    total, rows = boards.history(q, limit, before)
    return {"total": total, "storyboards": rows, "damaged": boards.damaged}


@router.get("/{job_id}", responses=responses(404))
async def fetch_board(board: BoardHere, record: bool = True, by: Who = "person") -> Json:
    """Fetch the state for the person `by`; with `record` the whole record, its pictures inline."""
    view = board_view(board, by)
    if record and not board.state.needs_plan:
        stored = await _record(board)
        view["storyboard"] = await asyncio.to_thread(partial(stored.model_dump, mode="json"))
    return view


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


@router.get("/{job_id}/export/{name}", response_class=Response, responses=responses(404))
async def export_board(board: BoardHere, record: RecordHere, name: ExportName) -> Response:
    """Fetch the storyboard as a file."""
    names = model_names(board.state.models)
    data = await asyncio.to_thread(export_bytes, record, name, names, board.examination)
    headers = {"Content-Disposition": f'attachment; filename="{board.id}-{name}"'}
    return Response(data, media_type=EXPORT_TYPES[name], headers=headers)


@router.post("/{job_id}/execute", responses=responses(404, 422))
async def execute_board(record: RecordHere) -> Json:
    """Let a running ROS node execute it, as it stands now."""
    try:
        await asyncio.to_thread(send_to_robot, record)
    except TimeoutError as e:
        raise HTTPException(503, str(e)) from e
    return {"message": "The robot’s node executes it."}


@about.get("/studio", responses=responses())
async def studio(request: Request, boards: Boards, service: Here) -> Json:
    """Say what this server can do."""
    settings = service.settings
    looks = (asyncio.to_thread(preset.view) for preset in boards.sets.presets.values())
    return {
        "version": __version__,
        "models": {role: getattr(service.models, f"{role}_name") for role in ROLES},
        "references": settings.loop.references != "none",
        "presets": await asyncio.gather(*looks),
        "max_attempts": settings.loop.max_attempts,
        "max_pixels": min(settings.max_pixels, MAX_PIXELS),
        "datasets": dataset_ability(request.app.state.datasets),
        "ros": ros_ability(),
        "execute": ros_ability(),
    }


def create_board_app(
    models: Models,
    settings: ServeSettings,
    folder: Path,
    *,
    datasets: Path | None = None,
    presets: Sequence[StudioPreset] = (),
    page_access: Access | None = None,
) -> FastAPI:
    """Build a server that keeps its storyboards in `folder`.

    Args:
        models: what it serves.
        settings: its limits.
        folder: is made if need be.
        datasets: the folder of the datasets whose first frames it shows; None shows none.
        presets: what a storyboard may be made with beside `models`, by name.
        page_access: who may use the page, which is served then; None serves no page.

    Raises:
        DatasetError: another server serves the folder, or it cannot be written.
    """
    app = create_app(
        models,
        settings,
        keep=lambda service: StudioBoards(service, folder, presets),
        routers=(router, about, scenes.router),
        admits=None if page_access is None else page_access.admits,
    )
    app.state.datasets = datasets
    app.exception_handler(UserError)(_failed)
    app.exception_handler(OSError)(_failed)
    app.exception_handler(ModuleNotFoundError)(_missing)
    if page_access is not None:
        mount_page(app, "studio", STATIC)
        app.add_middleware(PageMiddleware, access=page_access, guards=False)
    return app


async def _failed(_: Request, error: Exception) -> Response:
    """Answer what the user can mend in one line."""
    return error_response(422 if isinstance(error, InputError) else 500, first_line(error))


async def _missing(_: Request, error: Exception) -> Response:
    """Answer that a package is not installed."""
    assert isinstance(error, ModuleNotFoundError)
    return error_response(501, absent(error) or str(error))
