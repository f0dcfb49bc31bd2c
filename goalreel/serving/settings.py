"""The models of a server, and its limits."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from goalreel.chat.conversation import Chat
from goalreel.chat.dialects import OWN, Dialect
from goalreel.http.access import check_token
from goalreel.models.presets import LoopOptions
from goalreel.settings import Panel, settings
from goalreel.types import Editor, Role

_LOAD = Panel("Load")


@dataclass(frozen=True)
class Models:
    """The models of one server; None is not served. Planner and Critic may be the same object.

    `/v1/models` lists `planner_name` and the like with the roles.
    """

    planner: Chat | None = None
    critic: Chat | None = None
    editor: Editor | None = None
    planner_name: str = "planner"
    critic_name: str = "critic"
    editor_name: str = "editor"
    references: bool = False
    """The editor takes more pictures beside the one that it edits."""
    remote: frozenset[Role] = frozenset()
    """Roles whose models are behind servers of their own: they are sent each request by itself."""
    planner_dialect: Dialect = OWN
    critic_dialect: Dialect = OWN
    """The wording of the questions of the storyboard agents."""

    def __post_init__(self) -> None:
        if self.planner is None and self.critic is None and self.editor is None:
            raise ValueError("nothing to serve: name a planner, a critic or an editor")


@settings
class ServeSettings:
    """Limits of one server process.

    Raises:
        SettingError: a value does not fit.
        InputError: an address other than loopback without a token, or a token that no header carries.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen at; 0 takes a free one.")] = 8000
    token: str | None = None
    """Bearer token every request but /health must carry; required for any address but loopback."""
    batch_size: Annotated[int, Field(ge=1, description="Requests in one model call, at most."), _LOAD] = 16
    batch_wait_ms: Annotated[
        int,
        Field(ge=0, description="How long a request may wait for others to join its batch, in ms."),
        _LOAD,
    ] = 20
    queue_size: Annotated[
        int, Field(ge=1, description="Requests that may wait for a model; one more is answered 429."), _LOAD
    ] = 256
    max_requests: Annotated[int, Field(ge=1)] = 256
    """HTTP requests in progress at once; one more is answered 429."""
    max_body_bytes: Annotated[int, Field(ge=1)] = 32 * 2**20
    max_pixels: Annotated[int, Field(ge=1)] = 16_000_000
    """Pixels of all images of one request together."""
    loop: LoopOptions = LoopOptions(max_attempts=3)
    """How storyboards are made; a request may name its own number of attempts."""
    max_running: Annotated[int, Field(ge=1)] = 16
    """Storyboards in progress at once."""
    max_stored: Annotated[int, Field(ge=0)] = 256
    max_stored_bytes: Annotated[int, Field(ge=0)] = 2**30
    """Finished storyboards in memory, in number and in bytes of JSON; the least recently used goes first."""
    stuck_seconds: Annotated[
        int,
        Field(ge=1, description="Seconds without a token, or an answer, after which /health says Stuck."),
        _LOAD,
    ] = 300
    drain_seconds: Annotated[
        int, Field(ge=0, description="Seconds that SIGTERM waits for what is under way."), _LOAD
    ] = 30

    def __post_init__(self) -> None:
        check_token(self.token, self.host, "serving")
