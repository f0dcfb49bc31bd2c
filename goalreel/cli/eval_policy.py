"""`goalreel eval policy`: a policy on the simulated tabletop, under several kinds of goals."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.bound_options import PresetOptions, with_options
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import First, Json, MeasuredSplit, SubGoalFormChoice, choose_names
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.models.choice import ModelChoice
    from goalreel.tabletop.policy.arms import GoalArm

ARMS = "text,true,predicted,placebo"
EPILOG = """Keys of `--json`: `ARM.success`, `ARM.reached` (share of sub-goals), `ARM.length` (sub-goals a
task), `ARM.first_right` (the first block touched is the right one), each in 0-1 but for the length;
`true_minus_text`, `predicted_minus_true`, `placebo_minus_text`, `predicted_minus_once` and others, in points
of success over the same tasks, and `..._reached`, of sub-goals; each with `KEY_low` and `KEY_high`, its 95 %
interval over tasks; and `condition`, `split`, `first`, `episodes`, `words`, `form` and `policies`.

Examples:

- `goalreel eval policy --policy outputs/train/act/checkpoints/last/pretrained_model --json`

- `goalreel eval policy --policy true=with_goals --policy text=words_alone --arms true,text --episodes 200`

- `goalreel eval policy --policy with_goals --arms true,predicted --preset klein --condition new_word`
"""


@with_options(models=PresetOptions("nano", only=("editor", "critic", "max_attempts")))
def policy(
    policies: Annotated[
        list[str],
        typer.Option(
            "--policy",
            help="Folder of a LeRobot checkpoint, for all arms or, as ARM=FOLDER, for one; may be repeated.",
        ),
    ],
    models: "ModelChoice",
    arms: Annotated[
        str,
        typer.Option(
            help="Of instruction, text, true, predicted, predicted_once, placebo, black; comma-separated."
        ),
    ] = ARMS,
    condition: Annotated[
        Literal["seen", "new_pair", "new_word", "long", "unnamed"],
        typer.Option(help="Which tasks: docs/results/policy-study.md tells what sets them apart."),
    ] = "seen",
    words: Annotated[
        bool, typer.Option("--words/--no-words", help="Tell the sub-task in words beside a picture.")
    ] = True,
    form: SubGoalFormChoice = "bordered",
    tries: Annotated[int, typer.Option(min=1, help="Of a sub-goal, for policies of key poses.")] = 3,
    max_steps: Annotated[int, typer.Option(min=1, help="Control steps a sub-goal, for all others.")] = 150,
    split: MeasuredSplit = "validation",
    episodes: Annotated[int, typer.Option(min=1, help="How many tasks.")] = 100,
    first: First = 0,
    out: Annotated[
        Path, typer.Option(help="Finished work is kept here, so that a stopped run can resume.")
    ] = Path("policy-eval"),
    films: Annotated[
        Path | None, typer.Option(help="Film a success and a failure of every arm, as GIFs in this folder.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Measure what goal pictures, true or predicted, are worth to a LeRobot policy on the simulated tabletop.

    The policy's cameras are observation.images.front, .top, .wrist and the like, its goals come by
    observation.images.subgoal, words by the task or, as a vector, by observation.environment_state; its
    actions are those of `goalreel tabletop record`, (5,), or key poses, (6,). The next sub-goal comes when
    the simulator says that the last is reached.
    """
    with one_line_errors("interrupted; what was done is kept: run the same command again to resume"):
        from rich.console import Console

        from goalreel.cli.console import progress_bars
        from goalreel.models.load import kinds_of

        preset = models.load()
        kinds_of(preset)  # refuses an unknown model before the simulator is imported
        for folder in (text.partition("=")[2] or text for text in policies):
            if Path(folder).is_file():
                raise InputError(f"--policy {folder}: is a file, and a LeRobot checkpoint is a folder")
        from goalreel.tabletop.policy.arms import ARMS as ALL_ARMS
        from goalreel.tabletop.policy.rollout import Bounds
        from goalreel.tabletop.policy.study import PolicyOrder, measure

        chosen = choose_names(arms, ALL_ARMS, "arm")
        order = PolicyOrder(
            policies=_folders(policies, chosen),
            arms=chosen,
            condition=condition,
            split=split,
            episodes=episodes,
            first=first,
            preset=preset,
            form=form,
            words=words,
            bounds=Bounds(tries, max_steps),
            out=out,
            films=films,
        )
        with progress_bars() as progress:
            report = measure(order, progress)
        if json_output:
            typer.echo(report.as_json())
        else:
            Console().print(report.table())


def _folders(policies: Sequence[str], arms: Sequence["GoalArm"]) -> dict["GoalArm", Path]:
    """Read from `--policy` which checkpoint acts in which arm.

    Raises:
        InputError: an arm has none, or one is given for an arm that is not measured.
    """
    from goalreel.tabletop.policy.arms import ARMS as ALL_ARMS

    shared: list[str] = []
    by_arm: dict[str, str] = {}
    for text in policies:
        arm, equals, folder = text.partition("=")
        if equals and arm in ALL_ARMS:
            by_arm[arm] = folder
        else:
            shared.append(text)
    if len(shared) > 1:
        raise InputError("--policy FOLDER is given twice: say ARM=FOLDER for the others")
    if unused := [arm for arm in by_arm if arm not in arms]:
        raise InputError(f"--policy {unused[0]}=...: that arm is not among --arms {','.join(arms)}")
    missing = [arm for arm in arms if arm not in by_arm and not shared]
    if missing:
        raise InputError(f"no --policy for the arm {missing[0]}: give --policy FOLDER or {missing[0]}=FOLDER")
    return {arm: Path(by_arm.get(arm) or shared[0]) for arm in arms}
