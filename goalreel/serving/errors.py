"""Every refusal as one line of JSON, in the shape OpenAI's clients read: `{"error": {"message": ...}}`."""

import json
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from goalreel.errors import BackendError
from goalreel.http import UNANSWERED
from goalreel.serving.batcher import QueueFull

CLIENT_GONE = 499
RETRY_SECONDS = 1


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise ValueError("not valid Unicode") from e
    return text


Utf8 = Annotated[str, AfterValidator(_encodable)]
"""JSON can smuggle in halves of surrogate pairs, which no UTF-8 reply could carry."""
Wording = Annotated[Utf8, Field(min_length=1, max_length=20_000, pattern=r"\S")]


class ErrorDetail(BaseModel):
    """What was wrong, and what to do."""

    message: str
    type: str
    code: int


class ErrorBody(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail


def responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides success, for its OpenAPI description."""
    always = (400, 401, 403, 413, 422, 429, 503)
    return {code: {"model": ErrorBody} for code in sorted({*always, *codes})}


def unanswered(message: str, *, refused: bool) -> HTTPException:
    """What a request without an answer is told: 422 that it is to blame, 424 that the model is."""
    return HTTPException(422 if refused else UNANSWERED, message)


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """The reply itself. ASCII only: a message may quote what the client sent."""
    ours = status >= 500 or status == UNANSWERED
    kind = "server_error" if ours else "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "code": status}}
    return Response(json.dumps(body), status, headers, media_type="application/json")


def add_handlers(app: FastAPI) -> None:
    """Give every expected error its status and one line."""
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(QueueFull)(_full)
    app.exception_handler(BackendError)(_unavailable)


async def _http(_: Request, error: HTTPException) -> Response:
    return error_response(error.status_code, str(error.detail), dict(error.headers or {}))


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return error_response(422, f"{where}: {first['msg']}")


async def _full(_: Request, error: QueueFull) -> Response:
    return error_response(429, str(error), {"Retry-After": str(error.retry_after)})


async def _unavailable(_: Request, error: BackendError) -> Response:
    line = (str(error).splitlines() or ["the model could not be called"])[0]
    return error_response(503, line, {"Retry-After": str(RETRY_SECONDS)})
