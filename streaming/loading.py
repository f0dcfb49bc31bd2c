"""Which models the settings name."""

import re

from goalreel.models import presets
from goalreel.streaming.board import Models
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
