"""What is served, and within which bounds."""

from dataclasses import dataclass

from goalreel.errors import InputError
from goalreel.http import check_token
from goalreel.loop import Keep
from goalreel.planners.agents.critic import Mode
from goalreel.planners.agents.dialects import OWN, Dialect
from goalreel.planners.chat.conversation import Chat
from goalreel.types import Editor


@dataclass(frozen=True)
class Models:
    """The models of one server; None is not served. Planner and Critic may be one and the same object.

    `planner_name` and the like are what `/v1/models` lists beside the roles.
    """

    planner: Chat | None = None
    critic: Chat | None = None
    editor: Editor | None = None
    planner_name: str = "planner"
    critic_name: str = "critic"
    editor_name: str = "editor"
    critic_mode: Mode = "strict"
    critic_scores: bool = False
    critic_threshold: float | None = None
    planner_dialect: Dialect = OWN
    critic_dialect: Dialect = OWN
    """In what words the agents of storyboards ask."""

    def __post_init__(self) -> None:
        if self.planner is None and self.critic is None and self.editor is None:
            raise ValueError("nothing to serve: name a planner, a critic or an editor")


@dataclass(frozen=True)
class ServeSettings:
    """Bounds of one server process.

    Raises:
        InputError: an address other than loopback without a token, a token no header carries, or a bound
            below 1.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    """Bearer token every request but /health must carry; required for any address but loopback."""
    batch_size: int = 16
    """Requests in one model call, at most."""
    batch_wait_ms: int = 20
    """How long a request may wait for others to join its batch."""
    queue_size: int = 64
    """Requests waiting for one model; one more is answered 429."""
    max_requests: int = 256
    """HTTP requests under way at once; one more is answered 429."""
    max_body_bytes: int = 32 * 2**20
    max_pixels: int = 16_000_000
    """Pixels of all images of one request together."""
    max_attempts: int = 3
    """Attempts a step of a storyboard, where the request does not say."""
    max_steps: int = 50
    """Steps of a storyboard, at most: of a longer plan the planner is told so, and asked again."""
    keep: Keep = "best"
    """The picture that is kept of a step without an accepted one."""
    max_running: int = 16
    """Storyboards under way at once."""
    max_stored: int = 256
    max_stored_bytes: int = 2**30
    """Finished storyboards kept (the least recently used goes first), in number and in bytes of JSON."""
    drain_seconds: int = 30
    """How long SIGTERM waits for what is under way."""

    def __post_init__(self) -> None:
        check_token(self.token, self.host, "serving")
        for name in ("batch_size", "queue_size", "max_requests", "max_body_bytes", "max_pixels"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
