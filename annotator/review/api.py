"""What the page reads and changes, as JSON."""

from collections.abc import Callable

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import Response

from goalreel.annotator.review.dependencies import Desk, InList, Known, Rendering
from goalreel.annotator.review.queue import Listed
from goalreel.annotator.review.rerender import Busy
from goalreel.annotator.review.schemas import (
    ChangeRequest,
    ConflictAnswer,
    DatasetAnswer,
    EpisodeAnswer,
    ListAnswer,
    RenderRequest,
    Wire,
)
from goalreel.annotator.review.session import ReviewDesk
from goalreel.datasets.corrections.log import ConflictError

router = APIRouter(prefix="/api")


@router.get("/dataset")
def dataset(desk: Desk, rendering: Rendering) -> DatasetAnswer:
    """What all episodes have in common."""
    return desk.dataset(rendering.can_render)


@router.get("/episodes")
def episodes(desk: Desk, asked: InList) -> ListAnswer:
    """A page of the list."""
    return desk.rows(asked.listed, asked.offset, asked.limit)


@router.get("/episodes/{index}")
def episode(desk: Desk, index: Known, asked: InList) -> EpisodeAnswer:
    """An episode as it is now."""
    return desk.look(index, asked.listed)


@router.post("/episodes/{index}/events")
def change(desk: Desk, index: Known, request: ChangeRequest, asked: InList) -> Response:
    """Make a change: 200 once it is on the disk, 409 where somebody was first."""
    event = request.event
    if event.kind == "frame" and event.camera not in desk.cameras:
        raise HTTPException(422, f"there is no camera {event.camera}")
    return _answered(
        desk,
        index,
        asked.listed,
        lambda: desk.change(index, request.revision, request.by, event, asked.listed),
    )


@router.post("/episodes/{index}/render")
def render(desk: Desk, rendering: Rendering, index: Known, request: RenderRequest, asked: InList) -> Response:
    """Have a step rendered and judged again: as `change`, and 503 while another picture is being made."""

    def work() -> EpisodeAnswer:
        desk.check(index, request.revision)
        attempt = rendering.render(index, request.step, request.prompt)
        return desk.add(index, request.by, request.step, [attempt], asked.listed)

    try:
        return _answered(desk, index, asked.listed, work)
    except Busy as e:
        raise HTTPException(503, "another picture is being made: ask again when it is there") from e


def _answered(desk: ReviewDesk, index: int, listed: Listed, work: Callable[[], EpisodeAnswer]) -> Response:
    """The episode as `work` leaves it, or as somebody left it who was first."""
    try:
        return _json(work(), 200)
    except ConflictError as e:
        return _json(ConflictAnswer(detail=str(e), episode=desk.look(index, listed)), 409)


def _json(answer: Wire, status: int) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")
