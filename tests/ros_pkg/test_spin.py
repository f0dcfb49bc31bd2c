"""What a spin that is broken off says, and that it goes on."""

import threading

import pytest
import rclpy.logging
from rclpy.action.server import RCLError

from goalreel_ros.main import _spin

GONE = "Failed to add 'rcl_action_server_t' to wait set: action server pointer is invalid, at a.c:1"
UNSENT = "Failed to send a message: cannot publish data, at publisher.c:1"


class Broken:
    """Spins that raise what is given, one after the other, and then one that ends."""

    def __init__(self, *errors: str) -> None:
        self.errors = list(errors)

    def run(self) -> None:
        if self.errors:
            raise RCLError(self.errors.pop(0))


class FakeStop:
    """A StopSignal without signals."""

    def request(self) -> None:
        self.requested = True


@pytest.mark.parametrize(("errors", "said"), [((GONE,), []), ((UNSENT, GONE), [UNSENT])])
def test_only_what_was_not_sent_is_an_error(errors, said, monkeypatch):
    logged = []
    logger = rclpy.logging.get_logger("goalreel")
    monkeypatch.setattr(type(logger), "error", lambda self, text: logged.append(text))
    clean, stop = threading.Event(), FakeStop()
    _spin(Broken(*errors), clean, stop)
    assert clean.is_set()
    assert stop.requested
    assert logged == said
