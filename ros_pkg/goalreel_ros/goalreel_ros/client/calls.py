"""Service calls that block with a timeout, on a node that spins beside."""

import threading
from typing import Any

from rclpy.client import Client

from goalreel_ros.client.beside import Beside


class Calls:
    """Calls services of the node `server`. Their clients are made when first needed, and kept."""

    def __init__(self, beside: Beside, server: str, timeout: float) -> None:
        self.server = server
        self._beside, self._timeout = beside, timeout
        self._clients: dict[str, Client] = {}
        self._lock = threading.Lock()

    def __call__(self, kind: type, name: str, request: Any, timeout: float | None = None) -> Any:
        """The response of the service `~/name`, of which `request` is a request.

        Raises:
            TimeoutError: nobody offers it, or nobody answers, within `timeout` seconds.
        """
        timeout = self._timeout if timeout is None else timeout
        client = self._client(kind, name)
        if not client.wait_for_service(timeout):
            raise TimeoutError(f"no node offers {client.srv_name} within {timeout:g} s")
        answered = threading.Event()
        future = self._beside.run(lambda: client.call_async(request))
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(timeout):
            client.remove_pending_request(future)
            raise TimeoutError(f"{client.srv_name} did not answer within {timeout:g} s")
        return future.result()

    def _client(self, kind: type, name: str) -> Client:
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self._beside.node.create_client(kind, f"{self.server}/{name}")
            return self._clients[name]
