"""An option is declared once: presets, command lines, parameters, servers and records take it from there."""

import pytest
import typer.main

from goalreel.annotator.options import Options
from goalreel.cli.main import app
from goalreel.datasets.bags import TopicRequest
from goalreel.drivers import Limits
from goalreel.errors import InputError
from goalreel.models.presets import FIELDS, ModelChoice, Preset
from goalreel.serving.settings import ServeSettings
from goalreel.streaming.settings import EngineSettings, engine_parameters, engine_settings

COMMANDS = {
    "annotate": (),
    "plan": (),
    "node": (),
    "rollout": (),
    "doctor": ("max_attempts", "keep"),
    "serve": ("max_attempts",),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_asks_models_has_the_options_of_presets(command):
    real = typer.main.get_command(app).get_command(None, command)
    options = {
        param.name: param for param in real.get_params(real.make_context(command, [], resilient_parsing=True))
    }
    live = command in ("node", "rollout")
    fields = [name for name in FIELDS if live or name not in ("critic_live", "confirm", "confirm_steps")]
    for name in fields:
        assert (name in options) == (name not in COMMANDS[command]), name


def test_every_option_is_described_and_every_field_of_presets_a_parameter():
    parameters = engine_parameters()
    for name in FIELDS:
        assert parameters[name].optional
        assert Preset.model_fields[name].description
    assert all(info.description for name, info in Options.model_fields.items() if name != "labelled")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Options(seed=-1), "seed: Input should be greater than or equal to 0"),
        (lambda: Options(layout="gripper"), "layout 'gripper' cannot be read"),
        (lambda: Options(colour="red"), "colour: there is no such setting"),
        (lambda: Options.of({"on_rejected": "weep"}), "on_rejected: Input should be"),
        (lambda: ModelChoice.of("nano", keep="first"), "keep: Input should be 'best' or 'last'"),
        (lambda: Preset(planner="", editor="e", critic="c", max_attempts=1), "planner: String should have"),
        (lambda: ServeSettings(port=70000), "port: Input should be less than or equal to 65535"),
        (lambda: EngineSettings(gate=float("nan")), "gate: Input should be"),
        (lambda: engine_settings({"critic_scores": "maybe"}), "critic_scores: Input should be one of preset"),
        (lambda: Limits(batch_size=0), "batch_size and in_flight must be at least 1"),
        (lambda: TopicRequest(clock="wall"), "clock: Input should be 'received' or 'header'"),
    ],
)
def test_settings_are_checked_when_they_are_made(make, says):
    with pytest.raises(InputError) as caught:
        make()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_of_the_engine_have_no_value_that_stands_for_none():
    settings = engine_settings({"critic_threshold": -1.0, "max_steps": 0, "task_timeout": 0.0, "planner": ""})
    assert settings == EngineSettings()
    assert settings.task_timeout is None
    given = {"critic_threshold": "0.5", "max_steps": "7", "confirm": "without", "task_timeout": "3"}
    settings = engine_settings({"preset": "klein", **given})
    assert settings.models == ModelChoice(
        "klein", {"critic_threshold": 0.5, "confirm": False, "max_steps": 7}
    )
    assert settings.task_timeout == 3
