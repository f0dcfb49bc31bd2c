"""The dependencies of the routes: the dataset under review, its models, the episode, the list's filters."""

from typing import Annotated, Literal

from fastapi import Depends, Path, Query, Request
from pydantic import Field
from starlette.exceptions import HTTPException

from goalreel.annotator.review.queue import ListFilter
from goalreel.annotator.review.rerender import Rerenderer
from goalreel.annotator.review.schemas import Schema
from goalreel.annotator.review.session import ReviewSession


def _session(request: Request) -> ReviewSession:
    return request.app.state.session


def _rendering(request: Request) -> Rerenderer:
    return request.app.state.rendering


type OpenSession = Annotated[ReviewSession, Depends(_session)]
type Rendering = Annotated[Rerenderer, Depends(_rendering)]


def _check_index(session: OpenSession, index: Annotated[int, Path(ge=0, lt=2**31)]) -> int:
    if index not in session.queue:
        raise HTTPException(404, f"episode {index} is not annotated")
    return index


type EpisodeIndex = Annotated[int, Depends(_check_index)]


class ListQuery(Schema):
    """The list on the page, or the list from which the episode was chosen."""

    order: Literal["doubt", "index"] = "doubt"
    status: Literal["all", "unreviewed", "accept", "reject", "unsure"] = "all"
    q: Annotated[str, Field(max_length=200)] = ""
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=200)] = 24

    @property
    def filters(self) -> ListFilter:
        """The filters without the page of the list."""
        return ListFilter(self.order, self.status, self.q)


type Filters = Annotated[ListQuery, Query()]
