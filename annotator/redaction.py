"""No record holds the address of a server: a dataset is pushed, and another address is the same run."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.types import ROLES, Attempt, Storyboard

_URL = re.compile(r"[A-Za-z][\w+.-]*://[^\s'\"<>]*[^\s'\"<>.,:;)\]]")
_IP = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b")
_SERVER = "the server"


def without_addresses(board: Storyboard, preset: Preset) -> Storyboard:
    """A storyboard whose failures name no URL, no IP address and no host of the models of `preset`."""
    hosts = [host for role in ROLES for host in _hosts(preset.model_name(role))]
    steps = (
        step.model_copy(update={"attempts": tuple(_cleaned(attempt, hosts) for attempt in step.attempts)})
        for step in board.steps
    )
    return board.model_copy(update={"steps": tuple(steps)})


def _cleaned(attempt: Attempt, hosts: Sequence[str]) -> Attempt:
    failure = attempt.failure
    if failure is None:
        return attempt
    redacted = failure.model_copy(update={"message": _without(failure.message, hosts)})
    return attempt.model_copy(update={"failure": redacted})


def _hosts(name: ModelName) -> list[str]:
    if name.parts:
        return [host for part in name.parts for host in _hosts(part)]
    address = _URL.search(name.target)
    host = urlsplit(address[0]).hostname if address else None
    return [host] if host else []


def _without(message: str, hosts: Sequence[str]) -> str:
    text = _IP.sub(_SERVER, _URL.sub(_SERVER, message))
    for host in hosts:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(:\d+)?(?![\w.-])", _SERVER, text, flags=re.IGNORECASE)
    return text
