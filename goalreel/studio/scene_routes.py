"""Scenes to begin from, over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from goalreel.serving.errors import responses
from goalreel.studio.scenes import DatasetFrames, example_scenes, ros_frame
from goalreel.studio.schemas import DatasetsView, Scene, ScenesView

router = APIRouter(prefix="/v1", tags=["studio"])


@router.get("/examples", responses=responses())
def examples() -> ScenesView:
    """Scenes that come with goalreel."""
    return ScenesView(scenes=list(example_scenes()))


@router.get("/datasets", responses=responses())
def datasets(request: Request) -> DatasetsView:
    """The datasets whose frames can be taken."""
    return DatasetsView(datasets=_frames(request).datasets())


@router.get("/frames", responses=responses())
def first_frame(
    request: Request,
    dataset: Annotated[str, Query(min_length=1, max_length=1000)],
    episode: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    camera: Annotated[str | None, Query(max_length=200)] = None,
) -> Scene:
    """The first frame of an episode."""
    return _frames(request).first_frame(dataset, episode, camera)


@router.get("/frames/ros", responses=responses())
def camera_frame(
    topic: Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_/~]+$")],
) -> Scene:
    """The next frame of a ROS camera."""
    return ros_frame(topic)


def _frames(request: Request) -> DatasetFrames:
    return request.app.state.frames
