"""The application: every route, behind one gate."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Literal, Protocol

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from goalreel import __version__
from goalreel.errors import UserError
from goalreel.serving import chat, docs_page, images, storyboards
from goalreel.serving.errors import add_handlers, responses
from goalreel.serving.gate import Gate
from goalreel.serving.jobs import Jobs
from goalreel.serving.service import Here, Service
from goalreel.serving.settings import Models, ServeSettings

router = APIRouter(tags=["operation"])


class ModelHealth(BaseModel):
    """How the worker of one role does."""

    alive: bool
    waiting: Annotated[int, Field(description="Requests in its queue.")]
    under_way: Annotated[int, Field(description="Requests that it is answering.")]
    silent_seconds: Annotated[float, Field(description="Since its last token or answer, while at work.")]


class Health(BaseModel):
    """`Healthy` with status 200, anything else with 503."""

    status: Literal["Healthy", "Unhealthy", "Draining", "Stuck"]
    models: dict[str, ModelHealth]


@router.get("/health", response_model=Health, responses={503: {"model": Health}})
async def health(service: Here) -> JSONResponse:
    """Whether new work is taken: 503 when a model is dead or stuck, or while shutting down."""
    if service.draining:
        status = "Draining"
    else:
        status = "Healthy" if service.healthy else "Stuck" if service.stuck else "Unhealthy"
    models = {
        role: ModelHealth(
            alive=batcher.alive,
            waiting=batcher.waiting,
            under_way=batcher.under_way,
            silent_seconds=round(batcher.silent_seconds, 1),
        )
        for role, batcher in service.batchers.items()
    }
    body = Health(status=status, models=models)
    return JSONResponse(body.model_dump(), 200 if status == "Healthy" else 503)


@router.get("/metrics", response_class=PlainTextResponse, responses=responses())
async def metrics(request: Request, service: Here) -> Response:
    """Counters for Prometheus."""
    text = service.metrics.render(service.batchers, request.app.state.jobs.counts())
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Every route and type, on a page that works offline."""
    headers = {"Content-Security-Policy": docs_page.POLICY}
    return HTMLResponse(docs_page.render(request.app.openapi()), headers=headers)


class BoardKeeper(Protocol):
    """What has the storyboards of a server."""

    @property
    def busy(self) -> bool: ...
    def counts(self) -> Mapping[str, int]: ...
    async def close(self) -> None: ...


def create_app(
    models: Models,
    settings: ServeSettings,
    *,
    keep: Callable[[Service], BoardKeeper] = Jobs,
    routers: Sequence[APIRouter] = (storyboards.router,),
    admits: Callable[[Headers], bool] | None = None,
) -> FastAPI:
    """Build the application and start one worker thread a model; they stop when the application does.

    `keep` makes what has the storyboards, in memory by default, and `routers` are their routes. `admits` says
    which requests are authorized, as `Gate` has it.

    Raises:
        DatasetError: as `keep`.
    """
    service = Service(models, settings)
    try:
        jobs = keep(service)
    except UserError:
        service.close()
        raise

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await jobs.close()
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="goalreel",
        version=__version__,
        summary="Storyboards of checked visual sub-goals, and the models that make them.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service, app.state.jobs = service, jobs
    add_handlers(app)
    for part in (chat.router, images.router, *routers, router):
        app.include_router(part)
    app.add_middleware(Gate, service=service, admits=admits)
    return app
