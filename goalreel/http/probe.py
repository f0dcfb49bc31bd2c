"""Ask a model server, before any task, whether it is there, takes the key and has the model."""

import json
from typing import Any

from goalreel.errors import BackendError, InputError
from goalreel.http.client import HttpClient, HttpError, Reply, is_transient
from goalreel.http.endpoint import Endpoint

_NO_ROUTE = (404, 405)


def probe_openai(endpoint: Endpoint, model: str, route: str) -> str:
    """Check that an OpenAI-compatible server answers and serves a model. Gives a remark, or "".

    A server that lists no models gets an empty request at `route`, such as `/chat/completions`, which it
    refuses if there is such a route.

    Raises:
        InputError: it is no such server, refuses the key, or is goalreel's and does not serve the model.
        BackendError: it cannot be reached, or is not ready.
    """
    reply, says = _send(endpoint, "GET", "/models")
    if reply.status in _NO_ROUTE:
        reply, says = _send(endpoint, "POST", route, json={})
        if reply.status in (401, *_NO_ROUTE):
            raise InputError(says)
        return ""
    _check(reply, says)
    if reply.status != 200:  # such as 403, for a key that may not list models
        return ""
    cards = _cards(endpoint, reply)
    served = [str(card.get("id")) for card in cards]
    if not served or any(f"/{name}:".find(f"/{model}:") >= 0 for name in served):
        return ""  # also models/NAME and NAME:latest, as Gemini and Ollama list them
    names = ", ".join(served[:8]) + (", ..." if served[8:] else "")
    message = f"{endpoint.shown} does not list {model!r}, but {names}"
    if cards[0].get("owned_by") == "goalreel":
        raise InputError(f"{message}: name one of them, or start it with that model too")
    return message


def probe_gemini(endpoint: Endpoint, model: str) -> str:
    """Check that Gemini's API answers and has a model. Raises as `probe_openai`."""
    reply, says = _send(endpoint, "GET", f"/models/{model}")
    if reply.status in _NO_ROUTE or b"API_KEY_INVALID" in reply.body:
        raise InputError(says)
    _check(reply, says)
    return ""


def probe_address(endpoint: Endpoint) -> str:
    """Check that a server of no known list answers at all; BackendError where it cannot be reached."""
    _send(endpoint, "GET", "")
    return ""


def _send(endpoint: Endpoint, method: str, route: str, **content: Any) -> tuple[Reply, str]:
    """Return the reply to a request, and the explanation of one that is no success."""
    client = HttpClient(endpoint, timeout_s=3.0, retries=0)
    try:
        return client.call(method, route, **content), ""
    except HttpError as e:
        if e.reply is None:
            raise BackendError(client.explain(e)) from e
        return e.reply, client.explain(e)


def _check(reply: Reply, says: str) -> None:
    if reply.status == 401 and b"scope" not in reply.body:  # of a key that may not list models
        raise InputError(says)
    if is_transient(reply.status):
        raise BackendError(says)


def _cards(endpoint: Endpoint, reply: Reply) -> list[dict[str, Any]]:
    try:
        listed = json.loads(reply.body)
    except (ValueError, RecursionError):
        kind = reply.headers.get("Content-Type", "nothing").partition(";")[0]
        raise InputError(
            f"{endpoint.shown} is no model server: it answers /models with {kind}{endpoint.advice(404)}"
        ) from None
    data = listed.get("data") if isinstance(listed, dict) else None
    return [card for card in data if isinstance(card, dict)] if isinstance(data, list) else []
