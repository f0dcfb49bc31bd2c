"""What an HTTP status says about a request."""

REFUSED = frozenset({400, 413, 422})
"""The server is well, but will not take this very request, now or later."""
