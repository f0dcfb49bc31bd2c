"""A model by its name: `hf:DIR`, `openai:MODEL@URL`, `diffusers:DIR`, `server:URL`, or a catalogue name.

What a name needs (torch, diffusers, openai) is imported when the model is built, not before.
"""

from goalreel.annotator.types import Critic, Editor, Planner
from goalreel.planners.chat import Chat


def build_chat(name: str, *, role: str) -> Chat:
    """A vision-language model for a `role` ("planner" or "critic", which a goalreel server is asked for).

    Raises:
        ValueError: no such kind of name.
    """
    kind, _, rest = name.partition(":")
    if kind == "hf" and rest:
        from goalreel.planners.hf import HfChat

        return HfChat.load(rest)
    if kind == "openai" and rest:
        from goalreel.planners.openai import OpenAIChat

        model, at, url = rest.partition("@")
        return OpenAIChat(model, base_url=url if at else None)
    if kind == "server" and rest:
        from goalreel.planners.openai import OpenAIChat

        keys = ("GOALREEL_TOKEN", "GOALREEL_API_KEY")
        return OpenAIChat(role, base_url=f"{rest.rstrip('/')}/v1", key_variables=keys)
    raise ValueError(f"no {role} called {name!r}: use hf:DIR, openai:MODEL@URL or server:URL")


def build_planner(name: str) -> Planner:
    """The Planner agent on the model `name`.

    Raises:
        ValueError: no such kind of name.
    """
    from goalreel.planners.planner import ChatPlanner

    return ChatPlanner(build_chat(name, role="planner"))


def build_critic(name: str, *, mode: str = "strict", scores: bool = False) -> Critic:
    """The Critic agent on the model `name`; `mode` is "strict" (RL checkpoint) or "fast" (SFT checkpoint).

    `scores`: it also gives 0-10 for semantics and quality.

    Raises:
        ValueError: no such kind of name, no such mode.
    """
    from goalreel.planners.critic import ChatCritic

    return ChatCritic(build_chat(name, role="critic"), mode=mode, scores=scores)


def build_editor(name: str) -> Editor:
    """An image editor: `diffusers:DIR`, `openai:MODEL@URL`, `server:URL`, `seed:URL` or a catalogue name.

    `NAME+EDITOR` draws first pictures with the catalogue's NAME and edits with EDITOR.

    Raises:
        ValueError: no such kind of name.
    """
    kind, _, rest = name.partition(":")
    if kind == "diffusers" and rest:
        from goalreel.editors.diffusers import DiffusersEditor

        return DiffusersEditor.load(rest)
    if kind in ("openai", "server", "seed") and rest:
        from goalreel.editors.remote import remote_editor

        return remote_editor(kind, rest)
    from goalreel.editors.catalogue import find

    first, plus, rest = name.partition("+")
    if plus and "@" not in first:
        from goalreel.editors.split import SplitEditor

        return SplitEditor(find(first).build(), build_editor(rest))
    return find(name).build()
