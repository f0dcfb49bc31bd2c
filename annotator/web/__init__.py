"""The kit of the review page and the studio: one document, and the scripts and styles that both import.

A page's own files are served under /static, those that pages share under /common.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles

_KIT: Final = Path(str(files(__package__)))
_STYLE: Final = Path(str(files("goalreel.annotator.report"))) / "report.css"


def mount_page(app: Starlette, name: str, own: Path) -> None:
    """Serve the page `name`, whose `main.js` and `NAME.css` are in the folder `own`."""
    scripts = [f"/static/{path.name}" for path in sorted(own.glob("*.js"))]
    scripts += [f"/common/{path.name}" for path in sorted((_KIT / "static").glob("*.js"))]
    # All at once, not each when another one asks for it.
    early = "\n".join(f'<link rel="modulepreload" href="{script}">' for script in scripts)
    document = (_KIT / "page.html").read_text(encoding="utf-8").replace("PAGE", name)
    document = document.replace("SCRIPTS", early)

    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse(document)

    async def style(_: Request) -> FileResponse:
        return FileResponse(_STYLE)

    app.add_route("/", page)
    app.mount("/static", StaticFiles(directory=own))
    app.add_route("/common/report.css", style)
    app.mount("/common", StaticFiles(directory=_KIT / "static"))
