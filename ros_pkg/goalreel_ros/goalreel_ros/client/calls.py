"""Blocking service calls with a timeout, on a node that spins in the background."""

import threading
from collections.abc import Mapping
from typing import Any

from goalreel_ros.client.background_node import BackgroundNode


class Calls:
    """Calls services of the node `server`. `services` gives their types by name.

    All clients are created at once, since a server can answer only a client that it has discovered.
    """

    def __init__(
        self, background: BackgroundNode, server: str, services: Mapping[str, type], timeout: float
    ) -> None:
        self.server = server
        self._background, self._timeout = background, timeout
        create = background.node.create_client
        self._clients = {name: create(kind, f"{server}/{name}") for name, kind in services.items()}

    def __call__(self, name: str, request: Any, timeout: float | None = None) -> Any:
        """Send a request to the service `~/name` and give its response.

        Raises:
            TimeoutError: nobody offers the service, or there is no answer, within `timeout` seconds.
        """
        timeout = self._timeout if timeout is None else timeout
        client = self._clients[name]
        if not client.wait_for_service(timeout):
            raise TimeoutError(f"no node offers {client.srv_name} within {timeout:g} s")
        answered = threading.Event()
        future = self._background.run(lambda: client.call_async(request))
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(timeout):
            client.remove_pending_request(future)
            raise TimeoutError(f"{client.srv_name} did not answer within {timeout:g} s")
        return future.result()
