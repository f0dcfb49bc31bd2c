"""Every refusal as one line of JSON, in the shape OpenAI's clients read: `{"error": {"message": ...}}`.

Also the headers and the description of streams of server-sent events.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from goalreel.errors import BackendError
from goalreel.http.access import UNANSWERED
from goalreel.serving.queues import QueueFull
from goalreel.terms import check_controls

CLIENT_GONE = 499
RETRY_SECONDS = 1
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
_INVALID = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Connection": "close"}  # of streams


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise ValueError("not valid Unicode") from e
    return text


Utf8 = Annotated[str, AfterValidator(_encodable)]
"""JSON can smuggle in halves of surrogate pairs, which no UTF-8 reply could carry."""
Wording = Annotated[
    str,
    Field(min_length=1, max_length=20_000, pattern=r"\S"),
    AfterValidator(_encodable),
    AfterValidator(check_controls),
]


def _not_streamed(asked: bool | None) -> bool | None:
    if asked:
        raise ValueError("should be false: an answer is sent when it is whole")
    return asked


Stream = Annotated[bool | None, AfterValidator(_not_streamed)]
ModelOwn = Annotated[Any, Field(description="The served model's own: taken, and not used.")]


class ErrorDetail(BaseModel):
    """The mistake, and what to do."""

    message: str
    type: str
    param: str | None
    """The field that is to blame."""
    code: str | None
    """OpenAI's word for it, where there is one."""


class ErrorBody(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail


class UnknownModelError(HTTPException):
    """The refusal of a model's name, with the field to blame, and OpenAI's word for what is wrong."""

    param, code = "model", "model_not_found"

    def __init__(self, message: str) -> None:
        super().__init__(404, message)


def responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Describe what a route may answer besides success, for its OpenAPI description."""
    always = (400, 401, 403, 413, 422, 429, 503)
    return {code: {"model": ErrorBody} for code in sorted({*always, *codes})}


def unanswered(message: str, *, refused: bool) -> HTTPException:
    """Make the error of a request without an answer: 422 that it is to blame, 424 that the model is."""
    return HTTPException(422 if refused else UNANSWERED, message)


def error_response(
    status: int,
    message: str,
    headers: dict[str, str] | None = None,
    *,
    param: str | None = None,
    code: str | None = None,
) -> Response:
    """Make the reply. ASCII only: a message may quote what the client sent."""
    ours = status >= 500 or status == UNANSWERED
    kind = "server_error" if ours else "invalid_request_error"
    error = {"message": message, "type": kind, "param": param, "code": code or _CODES.get(status)}
    body = json.dumps({"error": error}).encode("ascii")
    return Response(body, status, headers, media_type="application/json")


def add_handlers(app: FastAPI) -> None:
    """Give every expected error its status and one line."""
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(QueueFull)(_later)
    app.exception_handler(BackendError)(_later)


async def _http(_: Request, error: HTTPException) -> Response:
    param, code = (error.param, error.code) if isinstance(error, UnknownModelError) else (None, None)
    headers = dict(error.headers or {})
    return error_response(error.status_code, str(error.detail), headers, param=param, code=code)


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return error_response(400, f"the body is no JSON: {first['ctx']['error']} at {first['loc'][-1]}")
    param = _field(first["loc"][1:])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "model_attributes_type":
        message = "should be a JSON object, sent as application/json"
    code = _INVALID.get(first["type"], "invalid_value")
    return error_response(400, f"{param or 'the body'}: {message}", param=param, code=code)


def _field(place: Sequence[str | int]) -> str | None:
    """The name of a field as a client writes it: pydantic adds which kind of part it took the value for."""
    names = [
        str(name)
        for previous, name, after in zip(("", *place), place, (*place[1:], None), strict=False)
        if not (isinstance(previous, int) and name in ("text", "image_url") and after is not None)
    ]
    return ".".join(names) or None


async def _later(_: Request, error: QueueFull | BackendError) -> Response:
    line = (str(error).splitlines() or ["the model could not be called"])[0]
    status = 429 if isinstance(error, QueueFull) else 503
    return error_response(status, line, {"Retry-After": str(RETRY_SECONDS)})


_EVENT = {"type": "object", "properties": {k: {"type": "string"} for k in ("id", "event", "data")}}
EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": _EVENT}}}}
