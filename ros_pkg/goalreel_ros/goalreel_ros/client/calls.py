"""Service calls that block with a timeout, on a node that spins beside."""

import threading
from collections.abc import Mapping
from typing import Any

from goalreel_ros.client.background_node import Beside


class Calls:
    """Calls services of the node `server`, their types by name.

    Their clients are made at once: the server must have found one before it can answer it.
    """

    def __init__(self, beside: Beside, server: str, services: Mapping[str, type], timeout: float) -> None:
        self.server = server
        self._beside, self._timeout = beside, timeout
        make = beside.node.create_client
        self._clients = {name: make(kind, f"{server}/{name}") for name, kind in services.items()}

    def __call__(self, name: str, request: Any, timeout: float | None = None) -> Any:
        """The response of the service `~/name`, of which `request` is a request.

        Raises:
            TimeoutError: nobody offers it, or nobody answers, within `timeout` seconds.
        """
        timeout = self._timeout if timeout is None else timeout
        client = self._clients[name]
        if not client.wait_for_service(timeout):
            raise TimeoutError(f"no node offers {client.srv_name} within {timeout:g} s")
        answered = threading.Event()
        future = self._beside.run(lambda: client.call_async(request))
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(timeout):
            client.remove_pending_request(future)
            raise TimeoutError(f"{client.srv_name} did not answer within {timeout:g} s")
        return future.result()
