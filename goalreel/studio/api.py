"""Storyboards on disk over HTTP: the routes of `goalreel.serving.storyboards`, and those to change them."""

import asyncio
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi import Path as PathParameter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, StreamingResponse

from goalreel import __version__
from goalreel.datasets.corrections.events import one_line
from goalreel.errors import InputError
from goalreel.image import MAX_PIXELS
from goalreel.serving.errors import EVENTS, HEADERS, responses
from goalreel.serving.images import decode_all, from_base64
from goalreel.serving.service import Here
from goalreel.serving.storyboards import JobId, Submission, submitted_task
from goalreel.studio.board import StudioBoard
from goalreel.studio.boards import StudioBoards
from goalreel.studio.corpus import add_to_corpus
from goalreel.studio.edits import MAX_VARIANTS, BoardEdit, ContinueEdit
from goalreel.studio.events import PersonsChange, Submitted
from goalreel.studio.exports import EXPORT_TYPES, ExportName, export_bytes
from goalreel.studio.robot import send_to_robot
from goalreel.studio.schemas import (
    BoardView,
    ConflictView,
    CorpusView,
    ErrorText,
    ExecutionView,
    HistoryView,
    StudioView,
)
from goalreel.studio.trust import persons_verdicts, storyboard_of
from goalreel.studio.views import board_view, model_names, preset_view, row_view
from goalreel.types import Storyboard, Task

router = APIRouter(prefix="/v1/storyboards", tags=["storyboards"])
about = APIRouter(prefix="/v1", tags=["studio"])

_IMMUTABLE = "private, max-age=31536000, immutable"


class BoardSubmission(Submission):
    """What to make a storyboard of; `variants`: pictures of each step, at least.

    `preset`: the name of a preset of `GET /v1/studio`; without it, the models of the start make it.
    """

    preset: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    variants: Annotated[int, Field(ge=1, le=MAX_VARIANTS)] = 1


class EditRequest(BaseModel):
    """A person's change; `after` is the last event that they have seen."""

    model_config = ConfigDict(extra="forbid")

    after: Annotated[int, Field(ge=0, lt=2**31)]
    by: Annotated[str, Field(min_length=1, max_length=80), AfterValidator(one_line)] = "person"
    edit: BoardEdit


def _boards(request: Request) -> StudioBoards:
    return request.app.state.jobs


type Boards = Annotated[StudioBoards, Depends(_boards)]


async def _board(boards: Boards, job_id: JobId) -> StudioBoard:
    return boards.find(job_id)


type BoardHere = Annotated[StudioBoard, Depends(_board)]


@router.post("", status_code=202, responses=responses(404))
async def submit_board(body: BoardSubmission, boards: Boards, response: Response, service: Here) -> BoardView:
    """Start one; fetch it under the id that comes back."""
    models = boards.models_of(body.preset)
    task = await submitted_task(body, service.settings.max_pixels)
    submitted = Submitted(
        task=Task(id=task.id, instruction=task.instruction),
        max_attempts=body.max_attempts or models.settings.loop.max_attempts,
        variants=body.variants,
        on_unverified=body.on_unverified,
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
) -> HistoryView:
    """The newest storyboards that hold all words of `q`; `before` is an id."""
    total, summaries = boards.history(q, limit, before)
    rows = [row_view(summary) for summary in summaries]
    return HistoryView(total=total, storyboards=rows, damaged=boards.damaged)


@router.get("/{job_id}", responses=responses(404))
async def fetch_board(board: BoardHere, record: bool = True) -> BoardView:
    """How it stands; with `record` the whole record, its pictures inline."""
    view = board_view(board)
    stored = await _record(board) if record else None
    if stored is None:
        return view
    dump = await asyncio.to_thread(partial(stored.model_dump, mode="json"))
    return view.model_copy(update={"storyboard": dump})


@router.get("/{job_id}/events", response_class=StreamingResponse, responses=responses(404) | EVENTS)
async def board_events(
    board: BoardHere,
    last_event_id: Annotated[int, Header(ge=0, lt=2**31)] = 0,
    after: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    follow: bool = False,
) -> StreamingResponse:
    """Server-sent events, all or those after Last-Event-ID or `after`; with `follow` beyond the last one."""
    stream = board.follow(max(last_event_id, after), stay=follow)
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


@router.get("/{job_id}/pictures/{name}", response_class=FileResponse, responses=responses(404))
async def picture(
    board: BoardHere, name: Annotated[str, PathParameter(max_length=80, pattern=r"^[0-9a-f]+\.png$")]
) -> FileResponse:
    """A picture, which never changes."""
    try:
        path = board.folder.picture(name)
    except InputError as e:
        raise HTTPException(404, str(e)) from e
    return FileResponse(path, media_type="image/png", headers={"Cache-Control": _IMMUTABLE})


@router.post(
    "/{job_id}/edits", response_model=BoardView, responses=responses(404) | {409: {"model": ConflictView}}
)
async def edit_board(
    body: EditRequest, board: BoardHere, boards: Boards, service: Here
) -> Response | BoardView:
    """Change a storyboard."""
    edit = body.edit
    if isinstance(edit, ContinueEdit):
        [image] = await decode_all([from_base64(edit.image)], service.settings.max_pixels)
        edit = edit.model_copy(update={"image": await asyncio.to_thread(board.folder.store, image)})
    change = PersonsChange(by=body.by, edit=edit)
    came_first = board.changed_since(body.after)
    if came_first:
        if came_first[0].what == change:  # it was saved, but its answer was lost
            return board_view(board)
        return _conflict(board, came_first[0].what)
    board.append(change)
    boards.look_again(board)
    if edit.kind in ("draw", "continue"):
        boards.begin(board)
    return board_view(board)


@router.post("/{job_id}/resume", status_code=202, responses=responses(404))
async def resume_board(board: BoardHere, boards: Boards) -> BoardView:
    """Go on: draw what is open, failed or stale, and plan if there is no plan."""
    boards.begin(board, reopen=True)
    return board_view(board)


@router.post("/{job_id}/cancel", responses=responses(404))
async def cancel_board(board: BoardHere, boards: Boards) -> BoardView:
    """Stop it if it runs, and keep what is there."""
    await boards.cancel(board)
    return board_view(board)


@router.delete("/{job_id}", status_code=204, responses=responses(404))
async def forget_board(board: BoardHere, boards: Boards) -> None:
    """Stop it if it runs, and forget it."""
    await boards.forget(board)


@router.get("/{job_id}/export/{name}", response_class=Response, responses=responses(404))
async def export_board(board: BoardHere, name: ExportName, boards: Boards) -> Response:
    """The storyboard as a file."""
    record = await _record(board)
    if record is None:
        raise InputError("there is no plan yet: wait until it is there")
    data = await asyncio.to_thread(export_bytes, record, name, model_names(board.state))
    headers = {"Content-Disposition": f'attachment; filename="{board.id}-{name}"'}
    return Response(data, media_type=EXPORT_TYPES[name], headers=headers)


@router.post("/{job_id}/corpus", responses=responses(404))
async def add_board(board: BoardHere, boards: Boards) -> CorpusView:
    """Add it to the corpus, as it stands now."""
    record, verdicts = await _record(board), persons_verdicts(board.state)
    if record is None:
        raise InputError("there is no plan yet: wait until it is there")
    folder = boards.folder / "corpus"
    report = await asyncio.to_thread(add_to_corpus, folder, board.id, record, verdicts)
    return CorpusView(folder=str(folder / "rows"), storyboards=report.storyboards, rows=report.rows)


@router.post("/{job_id}/execute", responses=responses(404, 422))
async def execute_board(board: BoardHere) -> ExecutionView:
    """Let a running ROS node execute it, as it stands now."""
    record = await _record(board)
    if record is None:
        raise InputError("there is no plan yet: wait until it is there")
    try:
        await asyncio.to_thread(send_to_robot, record)
    except TimeoutError as e:
        raise HTTPException(503, str(e)) from e
    return ExecutionView(message="The robot’s node executes it.")


@about.get("/studio", responses=responses())
async def studio(request: Request, boards: Boards, service: Here) -> StudioView:
    """What this server can do."""
    from goalreel.studio.scenes import ros_ability

    settings = service.settings
    looks = (asyncio.to_thread(preset_view, preset) for preset in boards.sets.presets)
    return StudioView(
        version=__version__,
        models=boards.names(),
        presets=await asyncio.gather(*looks),
        max_attempts=settings.loop.max_attempts,
        max_pixels=min(settings.max_pixels, MAX_PIXELS),
        max_variants=MAX_VARIANTS,
        datasets=request.app.state.frames.ability,
        ros=ros_ability(),
        execute=ros_ability(),
    )


async def _record(board: StudioBoard) -> Storyboard | None:
    """The record with its pictures, which another thread reads."""
    return await asyncio.to_thread(storyboard_of, board.state, board.folder.load)


def _conflict(board: StudioBoard, first: object) -> Response:
    who = first.by if isinstance(first, PersonsChange) else "somebody"
    error = ErrorText(message=f"a change by {who} came first: look at it, then change that")
    body = ConflictView(error=error, state=board_view(board))
    return JSONResponse(body.model_dump(mode="json"), 409)
