"""Asks a model server, before any task, whether it is there, takes the key and serves the model.

No token is spent on it: lists are read, and no model is asked.
"""

import json
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from goalreel.errors import BackendError, InputError
from goalreel.http.errors import error_text, true_status
from goalreel.http.retries import is_transient

if TYPE_CHECKING:
    import httpx2

    from goalreel.http.client import Endpoint

PROBE_S = 3.0
"""Seconds for each wait of a probe: for the connection, and for each part of the reply."""
_NO_ROUTE = (404, 405)


@runtime_checkable
class ServerModel(Protocol):
    """A model that may be behind a server. One of a plugin is probed too if it has this method."""

    def probe(self) -> str | None:
        """Ask the server whether it is there and has the model. Gives a remark, or ""; None without a server.

        Raises:
            InputError: the address, the key or the model's name is wrong.
            BackendError: the server does not answer now.
        """
        ...


def probe(model: object) -> str | None:
    """Probe the server of a model; None where it is known to ask none.

    Raises:
        InputError, BackendError: as `ServerModel.probe`.
    """
    return model.probe() if isinstance(model, ServerModel) else None


def probe_openai(endpoint: "Endpoint", model: str, route: str) -> str:
    """Check that an OpenAI-compatible server answers and serves a model. Gives a remark, or "".

    Args:
        endpoint: where it is.
        model: the name that requests have.
        route: what requests are sent to, such as `/chat/completions`. A server that lists no models gets an
            empty request there, which it refuses if there is such a route.

    Raises:
        InputError: it is no such server, refuses the key, or is goalreel's and does not serve the model.
        BackendError: it cannot be reached, or is not ready.
    """
    response = _send(endpoint, "GET", "/models")
    if response.status_code in _NO_ROUTE:
        response = _send(endpoint, "POST", route)
        if response.status_code in _NO_ROUTE:
            raise InputError(_refusal(endpoint, response))
        _check(endpoint, response, refuses=True)
        return ""
    _check(endpoint, response)
    if response.status_code != 200:  # such as 403, for a key that may not list models
        return ""
    cards = _cards(endpoint, response)
    served = [str(card.get("id")) for card in cards]
    if not served or any(f"/{name}:".find(f"/{model}:") >= 0 for name in served):
        return ""  # also models/NAME and NAME:latest, as Gemini and Ollama list them
    names = ", ".join(served[:8]) + (", ..." if served[8:] else "")
    message = f"{endpoint.address} does not list {model!r}, but {names}"
    if cards[0].get("owned_by") == "goalreel":
        raise InputError(f"{message}: name one of them, or start it with that model too")
    return message


def probe_gemini(endpoint: "Endpoint", model: str) -> str:
    """Check that Gemini's API answers and has a model.

    Raises:
        InputError, BackendError: as `probe_openai`.
    """
    response = _send(endpoint, "GET", f"/models/{model}")
    if response.status_code in _NO_ROUTE or b"API_KEY_INVALID" in response.content:
        raise InputError(_refusal(endpoint, response))
    _check(endpoint, response)
    return ""


def probe_address(endpoint: "Endpoint") -> str:
    """Check that a server of no known list answers at all.

    Raises:
        BackendError: it cannot be reached.
    """
    _send(endpoint, "GET", "")
    return ""


def _send(endpoint: "Endpoint", method: str, path: str) -> "httpx2.Response":
    import httpx2

    from goalreel.http.client import REDIRECTS

    try:
        with httpx2.Client(timeout=PROBE_S, **endpoint.connection) as client:
            body = {} if method == "POST" else None
            address, query = endpoint.address + path, endpoint.query or None
            request = client.build_request(method, address, params=query, json=body)
            endpoint.authorize(request)
            response = client.send(request)
            for _ in range(REDIRECTS):
                if (following := endpoint.redirected(response)) is None:
                    break
                response = client.send(following)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as e:
        raise BackendError(endpoint.out_of_reach(e)) from e
    except httpx2.TimeoutException as e:
        raise BackendError(f"no answer from {endpoint.address} within {PROBE_S:g} s") from e
    except httpx2.HTTPError as e:
        text = str(e).strip() or type(e).__name__
        raise BackendError(f"{endpoint.address} does not speak HTTP as it should: {text}") from e
    response.status_code = true_status(response.status_code, response.content)
    return response


def _check(endpoint: "Endpoint", response: "httpx2.Response", refuses: bool = False) -> None:
    """Check the status of a reply; `refuses` is for a request that has to be refused."""
    status = response.status_code
    if status == 401 and b"scope" not in response.content:  # of a key that may not list models
        raise InputError(_refusal(endpoint, response))
    if is_transient(status) and not refuses:
        raise BackendError(_refusal(endpoint, response))


def _cards(endpoint: "Endpoint", response: "httpx2.Response") -> list[dict[str, Any]]:
    try:
        listed = json.loads(response.content)
    except ValueError:
        kind = response.headers.get("Content-Type", "nothing").partition(";")[0]
        raise InputError(
            f"{endpoint.address} is no model server: it answers /models with {kind}{endpoint.advice(404)}"
        ) from None
    data = listed.get("data") if isinstance(listed, dict) else None
    return [card for card in data if isinstance(card, dict)] if isinstance(data, list) else []


def _refusal(endpoint: "Endpoint", response: "httpx2.Response") -> str:
    status = response.status_code
    text = error_text(response.content)
    return endpoint.hide_key(f"HTTP {status} from {endpoint.address}: {text}{endpoint.advice(status)}")
