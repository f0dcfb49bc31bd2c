"""Asks a goalreel server on how many steps its planner was trained."""

from collections.abc import Mapping

import httpx2

from goalreel.http.client import Endpoint
from goalreel.models.kinds import SERVER_KEYS

_TIMEOUT_S = 10.0


class StepsQuery:
    """The number of steps that a server's planner was trained on: asked when it is needed, until it is told.

    Called, it gives None where the server has no such number, or cannot be reached: the plan is then asked
    for all the same, and says why it cannot be.
    """

    def __init__(self, address: str, headers: Mapping[str, str] | None = None) -> None:
        self._address, self._headers = address.rstrip("/"), headers or {}
        self._answer: tuple[int | None] | None = None

    def __call__(self) -> int | None:
        if self._answer is None:
            endpoint = Endpoint(f"{self._address}/v1", SERVER_KEYS, more_headers=self._headers)
            url, headers = f"{endpoint.address}/models/planner", endpoint.headers
            try:
                response = httpx2.get(url, headers=headers, timeout=_TIMEOUT_S, **endpoint.connection)
                steps = response.raise_for_status().json().get("trained_steps")
            except (httpx2.HTTPError, ValueError, AttributeError):
                return None
            self._answer = (steps if isinstance(steps, int) and steps > 0 else None,)
        return self._answer[0]
