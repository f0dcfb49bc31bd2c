"""`goalreel rollout`. What it needs is imported when it runs."""

import threading
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.errors import fail, one_line_errors
from goalreel.cli.options import Json, PresetOptions, SubGoalFormChoice, with_options
from goalreel.errors import InputError
from goalreel.models.presets import ModelChoice

if TYPE_CHECKING:
    from goalreel.streaming.request import TaskOutcome
    from goalreel.streaming.settings import EngineSettings

EPILOG = (
    "Examples:\n\n"
    "- `goalreel rollout 'put the red block in the bowl' --preset server -- --policy.path=my_policy "
    "--robot.type=so101_follower --robot.port=/dev/ttyACM0 "
    '--robot.cameras="{front: {type: opencv, index_or_path: 0, width: 640, height: 480, fps: 30}}"`\n\n'
    "- `goalreel rollout 'open the drawer' --preset klein --camera front -p stall_timeout=20 -- "
    "--config_path=rollout.yaml --inference.type=rtc`\n\n"
    "- `goalreel rollout 'anything' -- --help` for lerobot's own options"
)


@with_options(models=PresetOptions("nano", live=True))
def rollout(
    instruction: Annotated[str, typer.Argument(help="What the robot should do.")],
    models: ModelChoice,
    lerobot_options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- LEROBOT-ROLLOUT'S OPTIONS",
            help="Options of lerobot-rollout: policy, robot and all others but --task.",
        ),
    ] = None,
    camera: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The robot's camera to plan from and to watch. [default: the only one]"
        ),
    ] = None,
    subgoal_camera: Annotated[
        str,
        typer.Option(metavar="NAME", help="The policy's camera for goal images: observation.images.NAME."),
    ] = "subgoal",
    subgoal_form: SubGoalFormChoice = "bordered",
    text: Annotated[
        Literal["subgoal", "instruction"],
        typer.Option(help="What the policy gets as its task, as in its training."),
    ] = "subgoal",
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", "-p", metavar="NAME=VALUE", help="A parameter of the node (launch/goalreel.yaml)."
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Give a LeRobot policy sub-goals while it acts, in lerobot's own rollout, without ROS.

    The policy gets each sub-goal as a text and as the picture of one more camera. The Critic watches a
    camera of the robot; when a sub-goal is reached, the next one follows, and where nothing moves the rest is
    planned anew. Between sub-goals the robot holds still. It ends with the task, or by Ctrl-C.
    """
    with one_line_errors():
        from goalreel.annotator.plan import check_instruction

        settings = _settings(models, parameter or [])
        if instruction.startswith("--"):
            raise InputError("there is no instruction: say what the robot should do, before the --")
        check_instruction(instruction)
        from goalreel.cli.console import results_alone
        from goalreel.models.load import kinds_of, load
        from goalreel.streaming.request import preset_of

        preset = preset_of(settings)
        kinds_of(preset, recordings=False)  # refuses an unknown model before lerobot is imported
        from lerobot.utils.process import ProcessSignalHandler

        from goalreel.streaming.rollout import RolloutRequest, lead, read_options

        config = read_options(instruction, lerobot_options or [])
        model_set = load(preset)
        # From here on a signal lets lerobot bring the robot to rest first.
        signals = ProcessSignalHandler(use_threads=True)
        stop = signals.shutdown_event
        assert isinstance(stop, threading.Event)
        request = RolloutRequest(instruction, settings, camera, subgoal_camera, text, subgoal_form)
        with results_alone(json_output):
            outcome = lead(config, request, model_set, stop, lambda line: typer.echo(line, err=True))
        if signals.counter:
            raise KeyboardInterrupt
        _report(outcome, json_output)


def _settings(models: ModelChoice, assignments: list[str]) -> "EngineSettings":
    from goalreel.settings import SettingError
    from goalreel.streaming.settings import engine_settings, parameter_values

    values = {"preset": models.preset, **parameter_values(models.overrides)}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise InputError(f"-p takes NAME=VALUE, not {assignment!r}")
        values[name] = value
    try:
        return engine_settings(values)
    except SettingError as e:
        raise InputError(f"-p {e}") from e


def _report(outcome: "TaskOutcome | None", json_output: bool) -> None:
    if outcome is None:
        fail("lerobot's rollout ended before the task did: see --duration, and what it logged (goalreel -v)")
    steps = len(outcome.board.steps)
    if json_output:
        from goalreel.cli.console import print_json

        numbers = {"steps": steps, "elapsed_s": outcome.elapsed, "replans": outcome.replans}
        checked = outcome.verdict is not None
        error, degraded = outcome.error.name if outcome.error else None, outcome.board.degraded
        print_json({"error": error, "checked": checked, "degraded": degraded, **numbers})
    if outcome.error:
        fail(f"{outcome.error.name}: {outcome.message}")
    if not json_output:
        typer.echo(f"done: {steps} sub-goals in {outcome.elapsed:.0f} s, re-planned {outcome.replans} times")
        if outcome.message:
            typer.echo(outcome.message)
