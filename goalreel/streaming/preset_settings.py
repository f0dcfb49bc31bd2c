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
        critic_mode=None if settings.critic_mode == "preset" else settings.critic_mode,
        critic_scores=None if settings.critic_scores == "preset" else settings.critic_scores == "with",
        critic_threshold=settings.critic_threshold if settings.critic_threshold >= 0 else None,
        critic_live=None if settings.critic_live == "preset" else settings.critic_live,
        max_steps=settings.max_steps or None,
    )
    if not preset.predictive:
        raise InputError(f"preset {settings.preset!r} only reads recordings: choose another")
    return preset


def completed(settings: EngineSettings, preset: presets.Preset) -> EngineSettings:
    """Give settings of a task that leave nothing to the preset."""
    return settings.model_copy(
        update={
            "max_attempts": settings.max_attempts or preset.max_attempts,
            "max_steps": settings.max_steps or preset.max_steps,
            "keep": preset.keep if settings.keep == "preset" else settings.keep,
            "confirm": ("with" if preset.confirm else "without")
            if settings.confirm == "preset"
            else settings.confirm,
        }
    )


def names_of(preset: presets.Preset) -> ModelNames:
    """Give the names to publish: without the credentials that an address may carry."""
    names = (preset.planner, preset.editor, preset.critic)
    return ModelNames(*(ModelName.parse(name).public() for name in names))
