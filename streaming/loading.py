"""Builds the three models that the settings name."""

import re

from goalreel.annotator import presets
from goalreel.annotator.models import build_chat, build_critic, build_editor, build_planner
from goalreel.planners.critic import ChatCritic
from goalreel.planners.planner import ChatPlanner
from goalreel.streaming.board import Models
from goalreel.streaming.caller import Trio
from goalreel.streaming.settings import Settings


def preset_of(settings: Settings) -> presets.Preset:
    """The preset with the settings' own models in it.

    Raises:
        ValueError: no such preset, or one that only reads recordings.
    """
    own = {role: getattr(settings, role) or None for role in ("planner", "editor", "critic")}
    preset = presets.load(settings.preset, **own)
    if not preset.predictive:
        raise ValueError(f"preset {settings.preset!r} only reads recordings: choose another")
    return preset


def names_of(preset: presets.Preset) -> Models:
    """Names to publish: without the credentials that an address may carry."""
    return Models(*(re.sub(r"//[^@/]*@", "//", n) for n in (preset.planner, preset.editor, preset.critic)))


def load(preset: presets.Preset) -> Trio:
    """Build the models; takes as long as the weights take to load.

    Raises:
        ValueError, OSError, BackendError, ModuleNotFoundError: a model cannot be built.
    """
    editor = build_editor(preset.editor)
    if preset.planner == preset.critic and preset.planner.startswith("hf:"):
        chat = build_chat(preset.planner, role="planner")  # one model in memory, not two
        critic = ChatCritic(chat, mode=preset.critic_mode, scores=preset.critic_scores)
        return Trio(ChatPlanner(chat), editor, critic)
    critic = build_critic(preset.critic, mode=preset.critic_mode, scores=preset.critic_scores)
    return Trio(build_planner(preset.planner), editor, critic)
