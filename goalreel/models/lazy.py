"""Models that are loaded when they are first asked."""

from collections.abc import Callable
from functools import cached_property

from goalreel.device_memory import free_memory
from goalreel.http.probe import probe
from goalreel.middleware import AskAdapter, ask_model
from goalreel.types import Critic, Editor, Planner


class Lazy[M: Planner | Editor | Critic](AskAdapter):
    """A model that is loaded when it is first asked; it answers for the stages that the model has."""

    def __init__(self, build: Callable[[], M], release: Callable[[], None] = lambda: None) -> None:
        """`release` drops what else holds the model, when it is freed."""
        super().__init__(lambda stage, requests: ask_model(self.model, stage, requests))
        self._build, self._release = build, release

    @cached_property
    def model(self) -> M:
        """The model itself, loaded now if it has not been asked yet."""
        return self._build()

    def probe(self) -> str | None:
        """Ask the model's server whether it is there, as `goalreel.http.probe.ServerModel` says."""
        return probe(self.model)

    def free(self) -> None:
        """Give back the model's memory. It is loaded anew if it is asked again."""
        self.__dict__.pop("model", None)
        self._release()
        free_memory()
