"""The application: every route behind one gate that looks at token, drain, number and size; its server."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import FrameType
from typing import Annotated, Any, Literal, TypedDict

from fastapi import APIRouter, FastAPI
from pydantic import Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalreel import __version__
from goalreel.errors import UserError
from goalreel.http.access import LATE, is_authorized, is_foreign, is_too_long, limit_body
from goalreel.http.server import BoundedServer
from goalreel.serving import chat, errors, images, steering
from goalreel.serving.service import Here, Service
from goalreel.serving.settings import Models, ServeSettings

OPEN = frozenset({"/health"})
TOO_MANY = "too many requests at once"


class Gate:
    """ASGI middleware. It refuses by headers alone wherever they suffice, and counts the body as it comes.

    `admits` says which requests are authorized; None: those with the token, or to a name of this machine.
    """

    def __init__(
        self, app: ASGIApp, service: Service, admits: Callable[[Headers], bool] | None = None
    ) -> None:
        self._app, self._service = app, service
        self._admits = admits or partial(is_authorized, token=service.settings.token)
        self._limit = service.settings.max_body_bytes
        self._too_long = f"the body may have at most {self._limit} bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if refusal := self._refusal(scope):
            status, message = refusal
            headers = {"Retry-After": str(errors.RETRY_SECONDS)} if status in (429, 503) else {}
            if status == 401:
                headers["WWW-Authenticate"] = "Bearer"
            await errors.error_response(status, message, headers)(scope, receive, send)
            return
        await self._pass(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if scope["path"] in OPEN:
            return None
        if not self._admits(headers):
            if self._service.settings.token:
                return 401, "send the server's token as Authorization: Bearer TOKEN"
            return 403, "this server has no token and answers to localhost only"
        if scope["method"] not in ("GET", "HEAD") and is_foreign(headers):
            return 403, "no page of another site may use this server"
        new_work = scope["method"] == "POST"
        if new_work and self._service.draining:
            return 503, "the server is shutting down"
        if new_work and self._is_full:
            return 429, TOO_MANY
        return (413, self._too_long) if is_too_long(headers, self._limit) else None

    @property
    def _is_full(self) -> bool:
        return self._service.under_way >= self._service.settings.max_requests

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        def refuse(status: int) -> Message:
            raise HTTPException(status, self._too_long if status == 413 else LATE)

        def begin() -> None:
            nonlocal working
            if scope["method"] == "POST" and not working:
                if self._is_full:
                    raise HTTPException(429, TOO_MANY, {"Retry-After": str(errors.RETRY_SECONDS)})
                working = True
                self._service.under_way += 1

        working = False
        try:
            # A request whose body is not there yet takes no place from others.
            await self._app(scope, limit_body(receive, self._limit, refuse, begin), send)
        finally:
            self._service.under_way -= working


router = APIRouter(tags=["operation"])


class ModelHealth(TypedDict):
    """The state of one role's worker: requests in its queue, those that it answers, and its silence."""

    alive: bool
    waiting: int
    under_way: int
    silent_seconds: Annotated[float, Field(description="Since its last answer, while at work.")]


class Health(TypedDict):
    """`Healthy` with status 200, anything else with 503."""

    status: Literal["Healthy", "Unhealthy", "Draining", "Stuck"]
    models: dict[str, ModelHealth]


@router.get("/health", response_model=Health, responses={503: {"model": Health}})
async def health(service: Here) -> JSONResponse:
    """Report if new work is taken: 503 when a model fails or is stuck, or while shutting down."""
    status = "Draining" if service.draining else "Stuck" if service.stuck else "Healthy"
    if status == "Healthy" and not service.healthy:
        status = "Unhealthy"
    models: dict[str, ModelHealth] = {
        role: {
            "alive": batcher.alive,
            "waiting": batcher.waiting,
            "under_way": batcher.under_way,
            "silent_seconds": round(batcher.silent_seconds, 1),
        }
        for role, batcher in service.batchers.items()
    }
    return JSONResponse(Health(status=status, models=models), 200 if status == "Healthy" else 503)


def create_app(
    models: Models,
    settings: ServeSettings,
    *,
    keep: Callable[[Service], Any] | None = None,
    routers: Sequence[APIRouter] = (),
    admits: Callable[[Headers], bool] | None = None,
) -> FastAPI:
    """Build the application and start one worker thread a model; they stop when the application does.

    `keep` makes what has the storyboards, if there are any: it tells whether it is `busy`, and has `close()`.
    `routers` are their routes. `admits` says which requests are authorized, as `Gate` has it.
    """
    service = Service(models, settings)
    try:
        jobs = None if keep is None else keep(service)
    except UserError:
        service.close()
        raise

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if jobs is not None:
            await jobs.close()
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="goalreel",
        version=__version__,
        summary="Storyboards of checked visual sub-goals, and the models that make them.",
        lifespan=lifespan,
        redoc_url=None,
    )
    app.state.service, app.state.jobs, app.state.steering = service, jobs, steering.Steering(service)
    errors.add_handlers(app)
    for part in (chat.router, images.router, *routers, router):
        app.include_router(part)
    app.add_middleware(Gate, service=service, admits=admits)
    return app


CLOSE_SECONDS = 5
"""After the drain, for connections to end."""


class DrainingServer(BoundedServer):
    """On the first SIGTERM or SIGINT new work is answered 503 and /health says Draining, while requests and
    storyboards under way are finished, for `drain_seconds` at most; a second signal exits at once.
    """

    def __init__(self, app: FastAPI) -> None:
        self._service, self._jobs = app.state.service, app.state.jobs
        settings = self._service.settings
        super().__init__(app, host=settings.host, port=settings.port, timeout_graceful_shutdown=CLOSE_SECONDS)
        self._drain_seconds = settings.drain_seconds
        self._deadline = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; uvicorn calls this on SIGINT and SIGTERM."""
        if self._service.draining:
            self.should_exit = self.force_exit = True
        self._service.draining = True
        self._deadline = time.monotonic() + self._drain_seconds

    async def on_tick(self, counter: int) -> bool:
        """Tick as `BoundedServer` does; go on while work is under way."""
        if self._service.draining:
            busy = self._service.under_way or (self._jobs and self._jobs.busy)
            self.should_exit = self.should_exit or not busy or time.monotonic() >= self._deadline
        return await super().on_tick(counter)


def serve_app(app: FastAPI, listening: socket.socket) -> None:
    """Serve an application on a socket until a signal ends it, as DrainingServer does."""
    DrainingServer(app).run(sockets=[listening])
