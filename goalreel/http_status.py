"""What an HTTP status says about a request."""

REFUSED = frozenset({400, 413, 422})
"""The server is well, but will not take this very request, now or later."""
UNANSWERED = 424
"""`goalreel serve` is well, but the model behind it failed at this very request: no refusal."""
_BUSY = frozenset({408, 409, 429})


def is_transient(status: int) -> bool:
    """Whether the same request may be answered soon: any 5xx, Cloudflare's 520 to 524 too, but not 501."""
    return status in _BUSY or (status >= 500 and status != 501)
