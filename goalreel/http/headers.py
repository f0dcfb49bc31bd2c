"""Headers that a person adds to each request: `NAME:VALUE`, where `$VARIABLE` is one of the environment."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from goalreel.errors import InputError

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$([A-Za-z_]\w*)")
_SECRET = re.compile(r"auth|key|token|secret|cookie|passw|credential|signature", re.IGNORECASE)
_PUBLIC = re.compile(r"([A-Za-z]+ )?\$(\{\w+\}|[A-Za-z_]\w*)")


def read_headers(lines: Iterable[str]) -> dict[str, str]:
    """Take `NAME:VALUE` lines apart; the values keep their `$VARIABLE`s.

    Raises:
        InputError: one is written in another way, or has a secret's name and a value without a variable.
    """
    return dict(_pair(line) for line in lines)


def _pair(line: str) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in line.partition(":"))
    if not colon or not value or not _NAME.fullmatch(name):
        raise InputError("a header is written header=NAME:VALUE")
    check_header(name, value)
    return name, value


def check_header(name: str, value: str) -> None:
    """Check that the value of a header with a secret's name comes from the environment.

    Raises:
        InputError: it does not.
    """
    if _SECRET.search(name) and not _VARIABLE.search(value):
        raise InputError(
            f"the header {name} holds a secret: put it into an environment "
            f"variable, and write {name}:$VARIABLE"
        )


def fill_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Put the variables' values into headers.

    Raises:
        InputError: a variable is not set, or a value holds a character that no header can carry.
    """
    return {name: _fill(name, value) for name, value in headers.items()}


def _fill(name: str, value: str) -> str:
    text = _VARIABLE.sub(lambda match: _variable(name, match[1] or match[2]), value)
    if not text.isascii() or not text.isprintable():
        raise InputError(f"the header {name} holds a character that no header can carry")
    return text


def _variable(header: str, name: str) -> str:
    if text := os.environ.get(name, "").strip():
        return text
    raise InputError(f"the header {header} needs the environment variable {name}: set it")


def secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """Go through the values of the variables that headers name."""
    for value in headers.values():
        for match in _VARIABLE.finditer(value):
            if text := os.environ.get(match[1] or match[2], "").strip():
                yield text


def public_header(line: str) -> str:
    """A `NAME:VALUE` to show: the value is hidden, unless it is a variable.

    >>> public_header("X-Key:$GATEWAY"), public_header("X-Title:mine")
    ('X-Key:$GATEWAY', 'X-Title:***')
    """
    name, _, value = line.partition(":")
    return line if _PUBLIC.fullmatch(value.strip()) else f"{name}:***"
