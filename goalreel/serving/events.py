"""What every stream of server-sent events has: its headers, and its description in OpenAPI."""

from typing import Any

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_EVENT = {"type": "object", "properties": {k: {"type": "string"} for k in ("id", "event", "data")}}
EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": _EVENT}}}}
