"""The server of storyboards on disk, with and without the page."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import Response

from goalreel.annotator.web import mount_page
from goalreel.annotator.web.auth import Access, LoginMiddleware
from goalreel.errors import InputError, UserError
from goalreel.extras import absent
from goalreel.serving.app import create_app
from goalreel.serving.errors import error_response
from goalreel.serving.settings import Models, ServeSettings
from goalreel.studio import api, scenes
from goalreel.studio.boards import StudioBoards
from goalreel.studio.models import StudioPreset
from goalreel.studio.scenes import DatasetFrames

STATIC = Path(str(files(__package__))) / "static"


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
        routers=(api.router, api.about, scenes.router),
        admits=None if page_access is None else page_access.admits,
    )
    app.state.frames = DatasetFrames(datasets)
    app.exception_handler(UserError)(_failed)
    app.exception_handler(OSError)(_failed)
    app.exception_handler(ModuleNotFoundError)(_missing)
    if page_access is not None:
        mount_page(app, "studio", STATIC)
        app.add_middleware(LoginMiddleware, access=page_access)
    return app


async def _failed(_: Request, error: Exception) -> Response:
    """Answer what the user can mend in one line."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return error_response(422 if isinstance(error, InputError) else 500, line)


async def _missing(_: Request, error: Exception) -> Response:
    """Answer that a package is not installed."""
    assert isinstance(error, ModuleNotFoundError)
    return error_response(501, absent(error) or str(error))
