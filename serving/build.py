"""The models of a server by their names (see `goalreel.models.load`)."""

from goalreel.models.load import build_chat, build_editor
from goalreel.serving.settings import Models


def build_models(planner: str | None, critic: str | None, editor: str | None, *, critic_mode: str) -> Models:
    """Load what is named. One chat model named for both roles is loaded once.

    Raises:
        ValueError: nothing is named, or no such kind of name.
    """
    planner_chat = build_chat(planner, role="planner") if planner else None
    # Only a goalreel server is asked for a role; any other name is the same model in both.
    shared = critic == planner and not (critic or "").startswith("server:")
    critic_chat = planner_chat if shared else build_chat(critic, role="critic") if critic else None
    return Models(
        planner=planner_chat,
        critic=critic_chat,
        editor=build_editor(editor) if editor else None,
        planner_name=_public(planner),
        critic_name=_public(critic),
        editor_name=_public(editor),
        critic_mode=critic_mode,
    )


def _public(name: str | None) -> str:
    """The name without its kind, and without the folder or address it is kept in."""
    return (name or "").partition("@")[0].rstrip("/").rpartition("/")[2].rpartition(":")[2]
