"""Which models the settings name."""

from goalreel.errors import InputError
from goalreel.models import presets
from goalreel.models.names import ModelName
from goalreel.streaming.board import ModelNames
from goalreel.streaming.settings import EngineSettings


def preset_of(settings: EngineSettings) -> presets.Preset:
    """Read the preset, and put the settings' own models into it.

    Raises:
        InputError: no such preset, or one that only reads recordings.
    """
    preset = presets.load(
        settings.preset,
        planner=settings.planner or None,
        editor=settings.editor or None,
        critic=settings.critic or None,
    )
    if not preset.predictive:
        raise InputError(f"preset {settings.preset!r} only reads recordings: choose another")
    return preset


def names_of(preset: presets.Preset) -> ModelNames:
    """Give the names to publish: without the credentials that an address may carry."""
    names = (preset.planner, preset.editor, preset.critic)
    return ModelNames(*(ModelName.parse(name).public() for name in names))
