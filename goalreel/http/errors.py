"""What an HTTP error means: its status, its words, and the field that it is about."""

import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_REFUSAL_500 = re.compile(rb"jinja|template|image input|mmproj", re.IGNORECASE)
"""llama.cpp and Ollama say so of what their model cannot take, with the status of a fault of the server."""
_MESSAGES = ("error", "errors", "message", "msg", "detail", "fault", "faultstring", "title")
"""Where an error says what is wrong, the likeliest first."""


def true_status(status: int, body: bytes) -> int:
    """The status that a reply means.

    Some gateways send 200 with an error, and its status as `code`. Some servers send 500 for what their model
    will never take.
    """
    if status == 500 and _REFUSAL_500.search(body[:5000]):
        return 400
    if status != 200 or b'"error"' not in body[:1000]:
        return status
    error = _read(body).get("error")
    code = str(error.get("code") if isinstance(error, dict) else None)
    return int(code) if re.fullmatch("[45][0-9][0-9]", code) else status


def check_encoding(response: "httpx2.Response") -> None:
    """Check that the body of a reply could be decompressed.

    Raises:
        ValueError: the server compressed it in a way that nobody asked for.
    """
    accepted = _words(response.request.headers.get("Accept-Encoding", "")) | {"identity"}
    if unknown := _words(response.headers.get("Content-Encoding", "")) - accepted:
        raise ValueError(f"it is compressed as {min(unknown)}, which was not asked for")


def _words(header: str) -> set[str]:
    return set(header.casefold().replace(",", " ").split())


def error_text(body: bytes, limit: int = 200) -> str:
    """Summarise the body of an error in one line of at most `limit` characters, in the server's own words.

    It reads OpenAI's `error.message`, FastAPI's `detail`, `message`, a list of these, or a page's title.
    """
    text = body[:5000].decode(errors="replace").removeprefix("\ufeff")
    try:
        value = json.loads(body)
        has_content = any(value.values()) if isinstance(value, dict) else value
        message = _message(value) or (text if has_content else "")
    except (ValueError, RecursionError):
        title = _TITLE.search(text)
        message = title[1] if title else text
    return " ".join(message.split())[:limit] or "no message"


def _message(value: Any) -> str:
    match value:
        case str():
            return value
        case [first, *_]:
            return _message(first)
        case {"msg": str(text), "loc": [*_, name]}:
            return f"{name}: {text}"
        case {"message": str(text), "metadata": {"raw": str(raw)}}:  # OpenRouter
            return f"{text}: {_message(_read(raw.encode())) or raw}"
        case dict():
            fields = {str(name).casefold(): inner for name, inner in value.items()}
            return next(filter(None, (_message(fields.get(name)) for name in _MESSAGES)), "")
    return ""


def refusal_words(body: bytes) -> str:
    """What a refusal says, in lower case and at most 2,000 letters, with the field that its `param` names."""
    reply = _read(body)
    error = reply.get("error")
    parameter = (error if isinstance(error, dict) else reply).get("param")
    return f"{parameter or ''} {error_text(body, 2000)}".casefold()


def refused_field(text: str, sent: Collection[str]) -> str | None:
    """The field, of those that were `sent`, that a refusal names in its text; None where it names none."""
    return next((n for n in sent if re.search(rf"(?<![a-z]){n}(?![a-z])", text.casefold())), None)


def _read(body: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return reply if isinstance(reply, dict) else {}
