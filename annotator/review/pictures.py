"""Frames, stored pictures and videos. Pictures have an ETag, so that a browser fetches the same one once."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from goalreel.annotator.report.cards import jpeg
from goalreel.annotator.review.dependencies import EpisodeIndex, OpenSession
from goalreel.annotator.review.session import ReviewSession
from goalreel.files import digest

WIDEST = 1920
KEPT = 4096
"""JPEGs kept, of some 5 to 50 kB each."""

router = APIRouter()


class FrameStore:
    """Exact frames of the recordings, by our own decoder: a browser seeks to about the right place."""

    def __init__(self, session: ReviewSession) -> None:
        self._session = session
        self.jpeg = lru_cache(KEPT)(self._jpeg)

    def mark(self, index: int, camera: str) -> str:
        """What tells the file with a camera's frames from others, and from itself after a change."""
        path = self._session.video(index, camera) or self._session.source.data_path(index)
        try:
            status = path.stat()
        except OSError:  # who decodes it says so
            return str(path)
        return f"{path} {status.st_mtime_ns} {status.st_size}"

    def _jpeg(self, mark: str, index: int, camera: str, frame: int, width: int) -> bytes:
        return jpeg(self._session.episode(index).frames(camera, [frame])[0], width)


@router.get("/frames/{index}/{camera}/{frame}.jpg")
def one_frame(
    request: Request,
    session: OpenSession,
    index: EpisodeIndex,
    camera: str,
    frame: Annotated[int, InPath(ge=0)],
    width: Annotated[int, Query(ge=16, le=WIDEST)] = WIDEST,
) -> Response:
    """A frame with its longest side at most `width` pixels."""
    if camera not in session.cameras or frame >= session.queue[index].frames:
        raise HTTPException(404, f"no frame {frame} of {camera} in episode {index}")
    store: FrameStore = request.app.state.frames
    mark = store.mark(index, camera)
    tag = digest(mark, f"{index} {camera} {frame} {width}")
    return _tagged(request, tag, "image/jpeg", lambda: store.jpeg(mark, index, camera, frame, width))


@router.get("/pictures/{folder}/{name}.png")
def stored_picture(request: Request, session: OpenSession, folder: str, name: str) -> Response:
    """A picture that is no frame of a recording."""
    try:
        path = session.reviews.records.stored(f"images/{folder}/{name}.png")
    except ValueError as e:
        raise HTTPException(404, "no such picture") from e
    return _tagged(request, name, "image/png", path.read_bytes)


@router.get("/video/{index}/{camera}")
def video(session: OpenSession, index: EpisodeIndex, camera: str) -> Response:
    """The file that shows an episode, in the ranges that the browser asks for."""
    path: Path | None = session.video(index, camera) if camera in session.cameras else None
    if path is None or not path.is_file():
        raise HTTPException(404, f"no video of {camera} in episode {index}")
    return FileResponse(path, media_type="video/mp4")


def _tagged(request: Request, tag: str, kind: str, data: Callable[[], bytes]) -> Response:
    headers = {"ETag": f'"{tag}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data(), media_type=kind, headers=headers)
