"""The review page over HTTP: all routes behind the authorization."""

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, Response

from goalreel import __version__
from goalreel.annotator.review import api, pictures
from goalreel.annotator.review.auth import Access, AuthMiddleware, LoginMiddleware
from goalreel.annotator.review.rerender import Rerenderer
from goalreel.annotator.review.session import ReviewSession
from goalreel.annotator.web import mount_static
from goalreel.errors import InputError, UserError
from goalreel.models.model_set import ModelSet

STATIC = Path(str(files(__package__))) / "static"

pages = APIRouter()


@pages.get("/")
def page() -> Response:
    """The one page; its scripts do the rest."""
    return FileResponse(STATIC / "index.html")


def create_review(session: ReviewSession, access: Access, models: ModelSet | None = None) -> FastAPI:
    """Build the application. `models` render again; None takes those of the dataset's annotation."""
    app = FastAPI(
        title="goalreel review", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.session, app.state.rendering = session, Rerenderer(session, models)
    app.state.frames = pictures.FrameStore(session)
    for part in (pages, api.router, pictures.router):
        app.include_router(part)
    mount_static(app, STATIC)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(UserError)(_failed)
    app.exception_handler(OSError)(_failed)
    app.add_middleware(AuthMiddleware, access=access)
    app.add_middleware(LoginMiddleware, access=access)
    return app


async def _http(_: Request, error: HTTPException) -> Response:
    return JSONResponse({"detail": str(error.detail)}, error.status_code, dict(error.headers or {}))


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return JSONResponse({"detail": f"{where}: {first['msg'].removeprefix('Value error, ')}"}, 422)


async def _failed(_: Request, error: Exception) -> Response:
    """Answer an error that the user can fix in one line."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return JSONResponse({"detail": line}, 422 if isinstance(error, InputError) else 500)
