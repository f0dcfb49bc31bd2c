"""The one seam inside goalreel: `ask(stage, requests) -> answers`, and what is put around it.

Users hand over a Planner, an Editor and a Critic, of one method each. Inside, the three are one function. A
journal or a circuit breaker is a middleware: it takes such a function and returns another one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from goalreel.image import Image
from goalreel.types import (
    Answer,
    Ask,
    Candidate,
    Critic,
    Edit,
    Editor,
    Failure,
    Plan,
    Planner,
    Request,
    Stage,
    Task,
    Verdict,
)

type Middleware = Callable[[Ask], Ask]


def ask_model(
    model: Planner | Editor | Critic, stage: Stage, requests: Sequence[Request]
) -> Sequence[Answer]:
    """Ask a model by the method of the stage."""
    method: Callable[[Sequence[Request]], Sequence[Answer]] = getattr(model, stage)
    return method(requests)


def ask_models(planner: Planner, editor: Editor, critic: Critic) -> Ask:
    """Return the function that asks each of three models for its stage."""
    if isinstance(planner, AskAdapter) and planner is editor is critic:
        return planner.ask
    models: Mapping[Stage, Planner | Editor | Critic] = {"plan": planner, "edit": editor, "judge": critic}
    return lambda stage, requests: ask_model(models[stage], stage, requests)


def use_known_answers(known: Callable[[Stage, Request], Answer | None]) -> Middleware:
    """Make middleware that gives the answers that are `known`, and asks for all others in one call."""

    def answer(ask: Ask, stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
        answers = [known(stage, request) for request in requests]
        open_requests = [r for r, a in zip(requests, answers, strict=True) if a is None]
        fresh = ask(stage, open_requests) if open_requests else ()
        if len(fresh) != len(open_requests):
            return fresh  # which whoever counts the answers refuses
        others = iter(fresh)
        return [next(others) if a is None else a for a in answers]

    return lambda ask: partial(answer, ask)


def compose(ask: Ask, middleware: Iterable[Middleware]) -> Ask:
    """Put middleware around `ask`, the innermost first."""
    for layer in middleware:
        ask = layer(ask)
    return ask


class AskAdapter:
    """Planner, Editor and Critic in one: an Ask in the form that users know."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def ask(self, stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
        return self._ask(stage, requests)

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        return cast(Any, self.ask("plan", tasks))

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        return cast(Any, self.ask("edit", edits))

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        return cast(Any, self.ask("judge", candidates))
