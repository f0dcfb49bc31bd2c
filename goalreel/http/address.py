"""How a model and the address of its server are written as one name."""

import re

_AT_ADDRESS = re.compile(r"@(?=[A-Za-z][\w+.-]*://)")
_AT_HOST = re.compile(r"(?<=.)@(?=localhost\b|\[|[\w.-]+:\d+(/|$)|[\w-]+(\.[\w-]+)+/)")
"""An address without its scheme, which a message should speak of."""


def split_model(name: str) -> tuple[str, str | None]:
    """Split MODEL@URL into both, the URL None where it is missing. A model's own name may hold an @, too.

    >>> split_model("claude@2025@http://127.0.0.1:8000/v1")
    ('claude@2025', 'http://127.0.0.1:8000/v1')
    >>> split_model("@cf/meta/llama")
    ('@cf/meta/llama', None)
    """
    at = _AT_ADDRESS.search(name) or _AT_HOST.search(name)
    return (name[: at.start()], name[at.end() :]) if at else (name, None)
