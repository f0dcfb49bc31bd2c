"""The models of a server, and its limits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import Field

from goalreel.http.access import check_token
from goalreel.models import model_set, presets
from goalreel.settings import Settings, setting
from goalreel.terms import Role

if TYPE_CHECKING:
    from goalreel.chat.conversation import Chat
    from goalreel.chat.dialects import Dialect
    from goalreel.types import Editor

_LOAD = "Load"


def _own_dialect() -> "Dialect":
    from goalreel.chat.dialects import OWN

    return OWN


@dataclass(frozen=True)
class Models:
    """The models of one server; None is not served. Planner and Critic may be the same object.

    `/v1/models` lists `planner_name` and the like with the roles.
    """

    planner: "Chat | None" = None
    critic: "Chat | None" = None
    editor: "Editor | None" = None
    planner_name: str = "planner"
    critic_name: str = "critic"
    editor_name: str = "editor"
    references: bool = False
    """The editor takes more pictures beside the one that it edits."""
    remote: frozenset[Role] = frozenset()
    """Roles whose models are behind servers of their own: they are sent each request by itself."""
    planner_dialect: "Dialect" = field(default_factory=_own_dialect)
    critic_dialect: "Dialect" = field(default_factory=_own_dialect)
    """The wording of the questions of the storyboard agents."""
    critic_steps: Callable[[], int | None] = model_set.no_limit
    """Tells the longest task, in steps, that the critic can judge as a whole; None: any."""

    def names(self) -> dict[Role, str]:
        """The models' names by their roles."""
        return {"planner": self.planner_name, "critic": self.critic_name, "editor": self.editor_name}


class ServeSettings(Settings):
    """Limits of one server process.

    Raises:
        SettingError: a value does not fit.
        InputError: an address other than loopback without a token, or a token that no header carries.
    """

    host: str = "127.0.0.1"
    port: int = setting(8000, "Port to listen at; 0 takes a free one.", ge=0, le=65535)
    token: str | None = None
    """Bearer token every request but /health must carry; required for any address but loopback."""
    batch_size: int = setting(16, "Requests in one model call, at most.", ge=1, panel=_LOAD)
    batch_wait_ms: int = setting(
        20, "How long a request may wait for others to join its batch, in ms.", ge=0, panel=_LOAD
    )
    queue_size: int = setting(
        256, "Requests that may wait for a model; one more is answered 429.", ge=1, panel=_LOAD
    )
    max_requests: int = Field(256, ge=1)
    """HTTP requests in progress at once; one more is answered 429."""
    max_body_bytes: int = Field(32 * 2**20, ge=1)
    max_pixels: int = Field(16_000_000, ge=1)
    """Pixels of all images of one request together."""
    loop: presets.LoopOptions = presets.LoopOptions(max_attempts=3)
    """Arguments of the loop; a request may name its own number of attempts."""
    max_running: int = Field(16, ge=1)
    """Storyboards in progress at once."""
    stuck_seconds: int = setting(
        1800, "Seconds without an answer, while at work, after which /health says Stuck.", ge=1, panel=_LOAD
    )
    drain_seconds: int = setting(30, "Seconds that SIGTERM waits for what is under way.", ge=0, panel=_LOAD)

    def model_post_init(self, context: Any) -> None:
        check_token(self.token, self.host, "serving")
