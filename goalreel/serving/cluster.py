"""The same application on many machines: replicas under Ray Serve, behind one address.

The address is a `Front` in this process, which hands requests on to Ray's proxy when they are whole: Ray
bounds no header, body or time itself. The models are replicated. Storyboards are one small application more,
`/v1/storyboards`, whose agents call the replicas over HTTP as any client does, and try again when one dies.
`/metrics` and `/health` speak for the replica that happens to answer; Ray replaces replicas by itself.
"""

import os
import signal
import socket
import sys
from types import FrameType
from typing import Protocol

import httpx2
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from goalreel.errors import InputError
from goalreel.http.server import BoundedServer
from goalreel.serving.app import create_app
from goalreel.serving.errors import error_response
from goalreel.serving.service import while_connected
from goalreel.serving.settings import Models, ServeSettings

_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade"})
"""Headers of one connection (RFC 9110, 7.6.1)."""
HEALTH_SECONDS = 5


class Front:
    """An ASGI application in front of an HTTP server at `address`; bodies have `max_body_bytes` at most."""

    def __init__(self, address: str, max_body_bytes: int) -> None:
        self._address, self._limit = address, max_body_bytes
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx2.AsyncClient(timeout=None, trust_env=False, limits=limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, body = Request(scope, receive), bytearray()
        try:
            async for part in request.stream():
                body += part
                if len(body) > self._limit:
                    refusal = error_response(413, f"the body has more than {self._limit} bytes")
                    await refusal(scope, receive, send)
                    return
            await while_connected(request, self._hand_on(scope, bytes(body), receive, send))
        except (ClientDisconnect, HTTPException):
            return  # nobody is there to be answered

    async def _hand_on(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        headers = [(k, v) for k, v in scope["headers"] if k not in _HOP and not k.startswith(b"x-forwarded")]
        if scope.get("client"):  # who takes turns in the queues
            headers.append((b"x-forwarded-for", scope["client"][0].encode()))
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        url = f"{self._address}{path}{'?' if query else ''}{query}"
        request = httpx2.Request(scope["method"], url, headers=headers, content=body)
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.TransportError:
            await error_response(503, "no replica answers: try again")(scope, receive, send)
            return
        try:
            forwarded = [(k.lower(), v) for k, v in response.headers.raw if k.lower() not in _HOP | {b"date"}]
            await send({"type": "http.response.start", "status": response.status_code, "headers": forwarded})
            async for chunk in response.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()


class FrontServer(BoundedServer):
    """Serves a `Front` until a signal ends it; what is under way has `drain_seconds` to end."""

    def __init__(self, front: Front, drain_seconds: int) -> None:
        super().__init__(front, lifespan="off", timeout_graceful_shutdown=drain_seconds)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; the second signal ends at once. uvicorn would raise it again, before the cluster is ended."""
        self.force_exit = self.should_exit
        self.should_exit = True


class BuildModels(Protocol):
    """Makes the models of one process."""

    def __call__(self, *, server: str | None = None) -> Models:
        """Load them; or, where `server` names a server that has them, ask there, in the same words."""
        ...


class _Replica:
    """The health check of a replica for Ray, besides HTTP."""

    app: FastAPI

    def check_health(self) -> None:
        """Ray replaces a replica whose check fails."""
        if not self.app.state.service.healthy:
            raise RuntimeError("a model's worker is dead")


def deploy(build: BuildModels, settings: ServeSettings, *, replicas: int = 1, gpus: float = 0.0) -> None:
    """Start the application on this machine, or on the cluster RAY_ADDRESS names; return when it answers.

    `build` loads once in each replica, which holds `gpus` GPUs, and once more looks at them from outside.
    """
    import ray
    from ray import serve

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not ray.is_initialized():
        ray.init(include_dashboard=None if "RAY_ADDRESS" in os.environ else False)
    serve.start(http_options={"host": settings.host, "port": settings.port})

    def models_app() -> FastAPI:
        return create_app(build(), settings)

    def storyboards_app() -> ASGIApp:
        return _at_root(create_app(_replicated(build, settings), settings))

    models = serve.deployment(
        name="models",
        num_replicas=replicas,
        # One batch in the model and one collecting; the rest waits where any replica can take it.
        max_ongoing_requests=2 * settings.batch_size,
        max_queued_requests=replicas * settings.queue_size,
        health_check_period_s=HEALTH_SECONDS,
        graceful_shutdown_timeout_s=settings.drain_seconds,
        ray_actor_options={"num_gpus": gpus},
    )(serve.ingress(models_app)(_Replica))
    serve.run(models.bind(), name="models", route_prefix="/")
    jobs = serve.deployment(
        name="storyboards", max_ongoing_requests=settings.max_requests, ray_actor_options={"num_cpus": 0}
    )(serve.ingress(storyboards_app)())
    serve.run(jobs.bind(), name="storyboards", route_prefix="/v1/storyboards")


def serve_cluster(
    build: BuildModels, settings: ServeSettings, listening: socket.socket, *, replicas: int, gpus: float
) -> None:
    """`deploy` behind a `Front` on a socket, until Ctrl-C or SIGTERM; replicas finish what they have begun.

    Raises:
        InputError: the cluster's head is another machine.
    """
    import ray
    from ray import serve

    with socket.create_server(("127.0.0.1", 0)) as free:
        inner = settings.but(host="127.0.0.1", port=free.getsockname()[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # what was begun is ended, as on Ctrl-C
    try:
        deploy(build, inner, replicas=replicas, gpus=gpus)
        address = f"http://{inner.host}:{inner.port}"
        try:
            httpx2.get(f"{address}/-/healthz", timeout=30, trust_env=False)
        except httpx2.TransportError as e:
            raise InputError(
                "Ray answers on another machine: run this command on the head node of the cluster"
            ) from e
        front = Front(address, settings.max_body_bytes)
        FrontServer(front, settings.drain_seconds).run(sockets=[listening])
    finally:
        serve.shutdown()
        ray.shutdown()


def _replicated(build: BuildModels, settings: ServeSettings) -> Models:
    """The replicas, as a client sees them."""
    if settings.token:
        os.environ["GOALREEL_API_KEY"] = settings.token
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return build(server=f"server:http://{f'[{host}]' if ':' in host else host}:{settings.port}")


def _at_root(app: ASGIApp) -> ASGIApp:
    """Ray mounts an application below its prefix; this one's routes already begin with it."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "root_path": ""}, receive, send)

    return call
