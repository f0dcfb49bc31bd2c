"""A model by its name: `hf:DIR`, `openai:MODEL@URL`, `diffusers:DIR`, `server:URL`, or a catalogue name.

A DIR is a folder, a repository OWNER/NAME, or one of the checkpoints that come with goalreel, such as
`hf:nano-planner` (see `goalreel.checkpoints`).

Models that run in this process take options after a question mark: `hf:DIR?dtype=bfloat16&batch_size=16`,
`flux2-klein-4b?offload=model&vae_tiling=true`. What a name needs (torch, diffusers, openai) is imported
when the model is built, not before.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, ValidationError

from goalreel.checkpoints import located
from goalreel.models.presets import Preset
from goalreel.planners.chat import Chat
from goalreel.types import Critic, Editor, Planner


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid")

    device: str | None = None
    dtype: str | None = None
    batch_size: int | None = None


class ChatOptions(_Options):
    """What may follow `hf:DIR?`; see `goalreel.planners.hf.HfChat.load`."""

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None


class EditorOptions(_Options):
    """What may follow `diffusers:DIR?` or a catalogue name; see `goalreel.editors.diffusers`."""

    offload: str | None = None
    vae_tiling: bool | None = None
    quantize: str | None = None


def split_options(name: str, kind: type[_Options]) -> tuple[str, dict[str, Any]]:
    """`NAME?key=value&...` -> (NAME, options of the right types).

    Raises:
        ValueError: an option that models of this kind do not have, or a value that does not fit it.
    """
    bare, _, query = name.partition("?")
    try:
        given = kind.model_validate(dict(parse_qsl(query, strict_parsing=bool(query))))
    except ValidationError as e:
        wrong = ".".join(map(str, e.errors()[0]["loc"]))
        raise ValueError(f"{name}: {wrong} is wrong: there are {', '.join(kind.model_fields)}") from e
    except ValueError as e:
        raise ValueError(f"{name}: options are written as ?key=value&key=value") from e
    return bare, given.model_dump(exclude_none=True)


def build_chat(name: str, *, role: str) -> Chat:
    """A vision-language model for a `role` ("planner" or "critic", which a goalreel server is asked for).

    Raises:
        ValueError: no such kind of name.
    """
    kind, _, rest = name.partition(":")
    if kind == "hf" and rest:
        from goalreel.planners.hf import HfChat

        folder, options = split_options(rest, ChatOptions)
        return HfChat.load(located(folder), **options)
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
    """An image editor: `diffusers:DIR`, `openai:MODEL@URL`, `server:URL`, `interleavethinker:URL` or a name
    of the catalogue.

    `NAME+EDITOR` draws first pictures with the catalogue's NAME and edits with EDITOR.

    Raises:
        ValueError: no such kind of name.
    """
    kind, _, rest = name.partition(":")
    if kind == "diffusers" and rest:
        from goalreel.editors.diffusers import DiffusersEditor

        folder, options = split_options(rest, EditorOptions)
        return DiffusersEditor.load(located(folder), **options)
    if kind in ("openai", "server", "interleavethinker", "seed") and rest:
        from goalreel.editors.remote import remote_editor

        return remote_editor(kind, rest)
    from goalreel.editors.diffusers import DiffusersEditor

    first, plus, rest = name.partition("+")
    if plus and "@" not in first:
        from goalreel.editors.split import SplitEditor

        return SplitEditor(build_editor(first), build_editor(rest))
    known, options = split_options(name, EditorOptions)
    return DiffusersEditor.from_catalogue(known, **options)


@dataclass(frozen=True)
class Trio:
    """The three models."""

    planner: Planner
    editor: Editor
    critic: Critic


def build_trio(preset: Preset) -> Trio:
    """The models of a predictive preset; an `hf:` model named for both agents is loaded once.

    Raises:
        ValueError, OSError, BackendError, ModuleNotFoundError: one of them cannot be built.
    """
    editor = build_editor(preset.editor)
    how = {"mode": preset.critic_mode, "scores": preset.critic_scores}
    if preset.planner != preset.critic or not preset.planner.startswith("hf:"):
        return Trio(build_planner(preset.planner), editor, build_critic(preset.critic, **how))
    from goalreel.planners.critic import ChatCritic
    from goalreel.planners.planner import ChatPlanner

    chat = build_chat(preset.planner, role="planner")
    return Trio(ChatPlanner(chat), editor, ChatCritic(chat, **how))
