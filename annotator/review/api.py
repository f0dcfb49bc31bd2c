"""The routes that the page reads and changes, as JSON."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response

from goalreel.annotator.review.dependencies import EpisodeIndex, Filters, OpenSession, Rendering
from goalreel.annotator.review.queue import ListFilter
from goalreel.annotator.review.rerender import Busy
from goalreel.annotator.review.schemas import (
    ChangeRequest,
    ConflictAnswer,
    DatasetAnswer,
    EpisodeAnswer,
    HistoryAnswer,
    ListAnswer,
    RenderRequest,
    Schema,
)
from goalreel.annotator.review.session import ReviewSession
from goalreel.annotator.review.views import HISTORY
from goalreel.datasets.corrections.log import ConflictError

router = APIRouter(prefix="/api")


@router.get("/dataset")
def dataset(session: OpenSession, rendering: Rendering) -> DatasetAnswer:
    """The facts that all episodes share."""
    return session.dataset(rendering.can_render)


@router.get("/episodes")
def episodes(session: OpenSession, query: Filters) -> ListAnswer:
    """A page of the list."""
    return session.rows(query.filters, query.offset, query.limit)


@router.get("/episodes/{index}")
def episode(session: OpenSession, index: EpisodeIndex, query: Filters) -> EpisodeAnswer:
    """The present state of an episode."""
    return session.look(index, query.filters)


@router.get("/episodes/{index}/history")
def history(
    session: OpenSession,
    index: EpisodeIndex,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = HISTORY,
) -> HistoryAnswer:
    """A page of the history of an episode, which ends before its `offset` newest changes."""
    return session.history(index, offset, limit)


@router.post("/episodes/{index}/events")
def change(session: OpenSession, index: EpisodeIndex, request: ChangeRequest, query: Filters) -> Response:
    """Make a change: 200 when it is on the disk, 409 where another change came first."""
    event = request.event
    if event.kind == "frame" and event.camera not in session.cameras:
        raise HTTPException(422, f"there is no camera {event.camera}")
    return _respond(
        session,
        index,
        query.filters,
        lambda: session.change(index, request.revision, request.by, event, query.filters),
    )


@router.post("/episodes/{index}/render")
def render(
    session: OpenSession, rendering: Rendering, index: EpisodeIndex, request: RenderRequest, query: Filters
) -> Response:
    """Render and judge a step again: as `change`, and 503 while another picture is rendered."""

    def work() -> EpisodeAnswer:
        session.check(index, request.revision)
        attempt = rendering.render(index, request.step, request.prompt)
        return session.add(index, request.by, request.step, [attempt], query.filters)

    try:
        return _respond(session, index, query.filters, work)
    except Busy as e:
        raise HTTPException(503, "another picture is being made: ask again when it is there") from e


def _respond(
    session: ReviewSession, index: int, filters: ListFilter, work: Callable[[], EpisodeAnswer]
) -> Response:
    """The episode after `work`, or, with 409, after the change that came first."""
    try:
        return _json(work(), 200)
    except ConflictError as e:
        return _json(ConflictAnswer(detail=str(e), by=e.by, episode=session.look(index, filters)), 409)


def _json(answer: Schema, status: int) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")
