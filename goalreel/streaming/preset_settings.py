"""The preset that the settings name."""

from goalreel.errors import InputError
from goalreel.models import presets
from goalreel.models.names import ModelName
from goalreel.settings import is_read_only
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.step_panel import ModelNames


def preset_of(settings: EngineSettings) -> presets.Preset:
    """Read the preset, and put the settings' own models into it.

    Raises:
        InputError: no such preset, or one that only reads recordings.
    """
    preset = settings.models.load()
    if not preset.predictive:
        raise InputError(f"preset {settings.models.preset!r} only reads recordings: choose another")
    return preset


def preset_of_task(settings: EngineSettings, preset: presets.Preset) -> presets.Preset:
    """Give the preset of the next task: `preset` with what may change while the models are loaded."""
    changes = {
        name: value
        for name, value in settings.models.overrides.items()
        if not is_read_only(presets.Preset.model_fields[name])
    }
    return preset.model_copy(update=changes)


def attempts_of(number: int, preset: presets.Preset) -> int:
    """Give the pictures a step, of all editors together; a `number` of -1 stands for the preset's."""
    attempts = preset.max_attempts if number < 0 else number
    return attempts * len(preset.model_name("editor").alternatives)


def names_of(preset: presets.Preset) -> ModelNames:
    """Give the names to publish: without the credentials that an address may carry."""
    names = (preset.planner, preset.editor, preset.critic)
    return ModelNames(*(ModelName.parse(name).public() for name in names))
