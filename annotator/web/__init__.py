"""What the review page and the studio share: scripts and styles, served under /common."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

_COMMON: Final = Path(str(files(__package__))) / "static"
_STYLE: Final = Path(str(files("goalreel.annotator.report"))) / "report.css"


def mount_static(app: Starlette, own: Path) -> None:
    """Serve a page's own files under /static, and those that pages share under /common."""
    app.mount("/static", StaticFiles(directory=own))
    app.add_route("/common/report.css", _style)
    app.mount("/common", StaticFiles(directory=_COMMON))


async def _style(_: Request) -> FileResponse:
    return FileResponse(_STYLE)
