"""What the routes find in the application: the dataset under review, its models, the episode meant."""

from typing import Annotated, Literal

from fastapi import Depends, Path, Query, Request
from pydantic import Field
from starlette.exceptions import HTTPException

from goalreel.annotator.review.queue import Listed
from goalreel.annotator.review.rerender import Rerenderer
from goalreel.annotator.review.schemas import Wire
from goalreel.annotator.review.session import ReviewDesk


def _desk(request: Request) -> ReviewDesk:
    return request.app.state.desk


def _rendering(request: Request) -> Rerenderer:
    return request.app.state.rendering


type Desk = Annotated[ReviewDesk, Depends(_desk)]
type Rendering = Annotated[Rerenderer, Depends(_rendering)]


def _known(desk: Desk, index: Annotated[int, Path(ge=0, lt=2**31)]) -> int:
    if index not in desk.queue:
        raise HTTPException(404, f"episode {index} is not annotated")
    return index


type Known = Annotated[int, Depends(_known)]


class ListQuery(Wire):
    """The list that the page is at, or that an episode was chosen from."""

    order: Literal["doubt", "index"] = "doubt"
    status: Literal["all", "unreviewed", "accept", "reject", "unsure"] = "all"
    q: Annotated[str, Field(max_length=200)] = ""
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=200)] = 24

    @property
    def listed(self) -> Listed:
        """Without the place in the list."""
        return Listed(self.order, self.status, self.q)


type InList = Annotated[ListQuery, Query()]
