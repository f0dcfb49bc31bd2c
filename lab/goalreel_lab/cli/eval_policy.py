"""`goalreel eval policy`: a policy on the simulated tabletop, under several kinds of goals."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import First, Json, PresetOptions, SubGoalFormChoice, with_options
from goalreel.errors import InputError
from goalreel_lab.cli.options import MeasuredSplit, choose_names

if TYPE_CHECKING:
    from goalreel.models.presets import ModelChoice
    from goalreel_lab.policy.arms import GoalArm
    from goalreel_lab.policy.study import PolicyEntry

ARMS = "text,true,predicted,placebo"
EPILOG = """Keys of `--json`: `ARM.success`, `ARM.reached` (share of sub-goals), `ARM.exact` (share
reached with the block within 1.5 cm of where the true goal image shows it), `ARM.length` (sub-goals a task),
`ARM.first_right` (the first block touched is the right one), each in 0-1 but for the length;
`true_minus_text`, `predicted_minus_true`, `placebo_minus_text`, `predicted_minus_once` and others, in points
of success over the same tasks and seeds, and `..._reached` and `..._exact`, of sub-goals; each with `KEY_low`
and `KEY_high`, its 95 % interval over tasks and training seeds together; and `condition`, `split`, `first`,
`episodes`, `seeds`, `words`, `form` and `policies`. With NAME:ARM=FOLDER the keys are `NAME.success` and so
on, and `FIRST_minus_SECOND` for each two of them.

The arms `open`, `gate` and `truth` carry out a storyboard of the whole preset, and the simulator does not
say when a sub-goal is reached: nobody does, the Critic on the live view, or the simulator in its place. Their
keys are `ARM.success`; `ARM.steps` (control steps), `ARM.looks` and `ARM.replans`, a task each;
`ARM.false_stops`, `ARM.false_passes` and `ARM.unanswered`, shares of the looks, null where nobody looks;
`ARM.stopped` (share of tasks that ended before their last step was reached); `gate_minus_open`,
`truth_minus_gate` and `gate_over_open_steps`. lab/docs/policy-experiments.md, part 5, says more.

An arm that is given several folders has several training seeds, in their order; all arms have as many.

Examples:

- `goalreel eval policy --policy outputs/train/act/checkpoints/last/pretrained_model --json`

- `goalreel eval policy --policy true=with_goals --policy text=words_alone --arms true,text --episodes 200`

- `goalreel eval policy --policy with_goals --arms true,predicted --preset klein --condition new_word`

- `goalreel eval policy --policy with_goals --arms open,gate,truth --json`

- `goalreel eval policy --policy g:true=g0 --policy g:true=g1 --policy mix:text=m0 --policy mix:text=m1`
"""


@with_options(models=PresetOptions("nano", only=("planner", "editor", "critic", "max_attempts")))
def policy(
    policies: Annotated[
        list[str],
        typer.Option(
            "--policy",
            help="Folder of a LeRobot checkpoint, for all arms or, as ARM=FOLDER, for one; may be repeated. "
            "NAME:ARM=FOLDER measures an arm once more, under a name, with another policy.",
        ),
    ],
    models: "ModelChoice",
    arms: Annotated[
        str | None,
        typer.Option(
            help="Of instruction, text, true, predicted, predicted_once, placebo, black, spot, open, gate, "
            f"truth; comma-separated. [default: {ARMS}; none beside NAME:ARM=FOLDER alone]"
        ),
    ] = None,
    condition: Annotated[
        Literal["seen", "new_pair", "new_word", "long", "unnamed"],
        typer.Option(help="Which tasks: lab/docs/policy-study.md tells what sets them apart."),
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
    the simulator says that the last is reached, but for the arms open and gate.
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
        from goalreel_lab.policy.rollout import Bounds
        from goalreel_lab.policy.study import PolicyConfig, measure

        order = PolicyConfig(
            entries=_entries(policies, arms),
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


def _entries(policies: Sequence[str], arms: str | None) -> "list[PolicyEntry]":
    """Read from `--policy` and `--arms` what is measured, and which checkpoints act in it.

    Raises:
        InputError: an arm has none, one is given for an arm that is not measured, or a name is taken.
    """
    from goalreel_lab.policy.arms import ARMS as ALL_ARMS
    from goalreel_lab.policy.study import PolicyEntry

    shared: list[str] = []
    by_arm: dict[str, list[Path]] = {}
    by_label: dict[tuple[str, GoalArm], list[Path]] = {}
    for text in policies:
        key, equals, folder = text.partition("=")
        label, _, arm = key.rpartition(":")
        if not equals or arm not in ALL_ARMS:
            shared.append(text)
        elif not label:
            by_arm.setdefault(arm, []).append(Path(folder))
        elif re.fullmatch(r"[a-z]\w*", label) is None or label in ALL_ARMS:
            raise InputError(
                f"--policy {text}: {label} is no name: give letters and digits, and no arm's name"
            )
        else:
            by_label.setdefault((label, arm), []).append(Path(folder))
    if len(shared) > 1:
        raise InputError("--policy FOLDER is given twice: say ARM=FOLDER for the others")
    if len({label for label, _ in by_label}) < len(by_label):
        raise InputError("one NAME of --policy NAME:ARM=FOLDER stands for two arms: give each its own")
    plain = ARMS if arms is None and (shared or by_arm or not by_label) else arms
    chosen = [] if plain is None else choose_names(plain, ALL_ARMS, "arm")
    if unused := [arm for arm in by_arm if arm not in chosen]:
        raise InputError(f"--policy {unused[0]}=...: that arm is not among --arms {','.join(chosen)}")
    missing = [arm for arm in chosen if arm not in by_arm and not shared]
    if missing:
        raise InputError(f"no --policy for the arm {missing[0]}: give --policy FOLDER or {missing[0]}=FOLDER")
    entries = [PolicyEntry(arm, tuple(by_arm.get(arm) or map(Path, shared))) for arm in chosen]
    return entries + [PolicyEntry(arm, tuple(f), label) for (label, arm), f in by_label.items()]
