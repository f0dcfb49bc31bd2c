"""A planner, an editor and a critic together, and where their answers come from."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from goalreel.device_memory import has_gpu
from goalreel.middleware import AskAdapter, Middleware, ask_model, ask_models, compose
from goalreel.models.journal import Journal
from goalreel.models.lazy import Lazy
from goalreel.models.provenance import Provenance
from goalreel.types import ROLES, STAGE_OF_ROLE, Ask, Critic, Editor, Planner, Role, Stage


@dataclass(frozen=True)
class Trio:
    """A Planner, an Editor and a Critic."""

    planner: Planner
    editor: Editor
    critic: Critic
    names: Provenance | None = None
    """Where the answers come from; None for objects of your own, which have no names."""
    remote: frozenset[Stage] = frozenset()
    """The stages whose models answer from servers. They are called from several threads, while other models
    work."""
    live_critic: Critic | None = None
    """Judges what a camera sees while a robot works; None leaves that to `critic`."""
    planner_apart: bool = False
    """Whether the planner's model shares this process with others, and no other role asks it."""

    @property
    def provenance(self) -> Provenance:
        """Where the answers come from. Models without names go by their classes; no journal keeps their
        answers."""
        models: dict[Role, object] = {"planner": self.planner, "editor": self.editor, "critic": self.critic}
        return self.names or Provenance.of_classes(models)

    @property
    def ask(self) -> Ask:
        """The three models as one function."""
        return ask_models(self.planner, self.editor, self.critic)

    def with_models(self, models: Mapping[Role, Any]) -> "Trio":
        """Replace models in some roles by objects of your own. They go by their classes; no journal keeps
        their answers."""
        if not models:
            return self
        names = self.provenance.with_classes(models)
        remote = self.remote - {STAGE_OF_ROLE[role] for role in models}
        live_critic = None if "critic" in models else self.live_critic
        return replace(self, **models, names=names, remote=remote, live_critic=live_critic)

    @property
    def plans_first(self) -> bool:
        """Whether to make all plans first and then free the planner, which takes GPU memory from the others.
        It never sees a generated picture."""
        return self.planner_apart and isinstance(self.planner, Lazy) and has_gpu()

    def free_planner(self) -> None:
        """Free the planner's memory."""
        if isinstance(self.planner, Lazy):
            self.planner.free()

    def prepare(
        self, loading: Callable[[Role], object] | None = None, roles: Collection[Role] = ROLES
    ) -> None:
        """Load those models of `roles` that are not loaded yet. `loading` is called before each.

        Raises:
            UserError, OSError, ModuleNotFoundError: one of them cannot be loaded.
        """
        models = (self.planner, self.editor, self.critic, self.live_critic)
        for role, model in zip(ROLES, models, strict=False):
            if isinstance(model, Lazy) and self.names is not None:  # all of them, before the first is loaded
                self.names.preset.model_name(role).check_folders()
        loaded: tuple[Role, ...] = (*ROLES, "critic")
        for role, model in zip(loaded, models, strict=True):
            if isinstance(model, Lazy) and role in roles:
                if loading is not None:
                    loading(role)
                _ = model.model

    def with_middleware(self, *middleware: Middleware) -> "Trio":
        """Put middleware before the three models, the innermost first. The live critic stays as it is."""
        model = AskAdapter(compose(self.ask, middleware))
        return replace(self, planner=model, editor=model, critic=model, names=self.provenance)

    def with_journal(self, journal: Journal) -> "Trio":
        """Let the journal answer what it holds; the models are asked the rest."""
        keys, live_critic = self.provenance.keys(), self.live_critic
        if live_critic is not None and "judge" in keys:
            live_journal = journal.middleware({"judge": f"{keys['judge']} live"})
            live_critic = AskAdapter(live_journal(partial(ask_model, live_critic)))
        return replace(self.with_middleware(journal.middleware(keys)), live_critic=live_critic)
