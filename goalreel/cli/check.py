"""`goalreel check`. What it needs is imported when it runs."""

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.annotator.options import parse_episodes
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Episodes, Json, complete_cameras
from goalreel.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goalreel.annotator.check import CheckReport
    from goalreel.datasets.health.issues import HealthIssue

EPILOG = (
    "The exit status is 1 where lerobot could not read an annotated copy, or there is nothing to annotate "
    "(`broken`), else 0. docs/reference/dataset-checks.md lists the kinds of issues.\n\n"
    "Keys of `--json`: `dataset`, `robot_type`, `episodes` (how many), `fps`, `camera`; `broken`, "
    "`warnings`, `notes` (how many); `robot`, objects with `field`, `value`, `confidence` and `reason`; "
    "`issues`, objects with `kind`, `level` (broken, warning, note), `group`, `text` and `episodes`; "
    "`sampled`, `named`, `silent` (episodes whose words and motion were compared, will be named, will "
    "have no names), `reasons`, why and how many, and `readings`, objects with `instruction`, "
    "`episodes`, `clauses` and `is_read`, and `to_label`, instructions with the episodes to label first; "
    "`policy`, with `--policy`: `policy`, `inputs`, `unseen`, `arguments` and `words`; `audit`, with "
    "`--audit`: `episodes` and `labels` (how many), `faults` (how many of each), `critic`, `unread` and "
    "`findings`, objects with `episode`, `step`, `name`, `start_s`, `end_s`, `fault`, `why` and `sure`. "
    "With `--fix`, all of it is about the copy, and "
    "`mended` holds a line for each thing that was mended.\n\n"
    "Examples:\n\n"
    "- `goalreel check droid`\n\n"
    "- `goalreel check droid --episodes 0-99 --layout gripper=6,closed=high`\n\n"
    "- `goalreel check droid-goals --policy outputs/train/checkpoints/last/pretrained_model`\n\n"
    "- `goalreel check droid-goals --audit`\n\n"
    "- `goalreel check droid --json`\n\n"
    "- `goalreel check droid --fix --out droid-mended`"
)
_STYLES = {"broken": "red", "warning": "yellow", "note": "dim", "unknown": "yellow"}
_MOST = 10
"""Instructions, or episodes, that are shown."""
_ALIKE = 3
"""Issues of one kind that are shown."""


def check(
    dataset: Annotated[
        Path, typer.Argument(help="A LeRobot v3.0 dataset, or its name on the Hub; it is only read.")
    ],
    episodes: Episodes = None,
    camera: Annotated[
        str | None,
        typer.Option(
            help="Camera of the goal images. [default: one that stands still]",
            autocompletion=complete_cameras,
        ),
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="As for annotate, such as gripper=6,position=0:3,closed=high.")
    ] = None,
    steps: Annotated[
        Path | None, typer.Option(metavar="FILE", help="As for annotate: the steps of instructions.")
    ] = None,
    write_steps: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write how instructions are read, as a file for --steps."),
    ] = None,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="Repair what can be repaired without asking, in a copy, and check the copy."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="With --fix: the copy, a new folder.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKPOINT|TYPE", help="Also say what this policy of lerobot would see of the dataset."
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Also look for spoiled labels in those that the dataset has.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Say what goalreel understands of a dataset, and what is wrong with it."""
    with one_line_errors("interrupted; nothing was written: run the same command again"):
        from goalreel.annotator.check import check as check_dataset
        from goalreel.cli.console import print_json, progress_bars

        mended: tuple[str, ...] = ()
        if fix != (out is not None):
            raise InputError("--fix and --out COPY go together: the dataset itself is never changed")
        if write_steps and write_steps.exists():  # before all is looked at in vain
            raise InputError(f"{write_steps}: exists already")
        with progress_bars() as progress:
            if out is not None:
                from goalreel.datasets.health.repair import repair
                from goalreel.datasets.hub import local_folder

                mended, dataset = repair(local_folder(dataset), out, progress=progress), out
            report = check_dataset(
                dataset,
                episodes=parse_episodes(episodes),
                layout=layout,
                camera=camera,
                steps=steps,
                policy=policy,
                audit=audit,
                progress=progress,
            )
        if write_steps:
            from goalreel.annotator.readings import write_steps as write

            write(write_steps, report.readings, report.dataset)
    broken = report.count("broken")
    if json_output:
        counts = {"broken": broken, "warnings": report.count("warning"), "notes": report.count("note")}
        print_json({**counts, **report.model_dump(), **({"mended": mended} if fix else {})})
    else:
        for line in mended:
            typer.echo(f"mended  {line}")
        if fix and not mended:
            typer.echo("nothing that --fix can repair")
        _show(report)
    if broken:
        raise typer.Exit(1)


def _show(report: "CheckReport") -> None:
    """Print a table: what there is to say of each group, its issues last, the worst first."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = {
        "Robot": [
            ("", report.robot_type or "of no type that meta/info.json names"),
            *((f.confidence, f"{f.found}: {f.reason}") for f in report.robot),
        ],
        "Dataset": [("", line) for line in _dataset_lines(report)],
        "Episodes": [],
        "Instructions": [("", line) for line in _instruction_lines(report)],
        "Labels": [("", line) for line in _label_lines(report)],
        "Policy": [("", line) for line in _policy_lines(report)],
    }
    for issue in _shown(report.issues):
        lines[issue.group].append((issue.level, issue.text))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for group, rows in lines.items():
        if rows:
            table.add_row(Text(group, "bold"), "")
        for mark, text in rows:
            table.add_row(Text(mark, _STYLES.get(mark, "")), Text(text, overflow="fold"))
    console = Console(highlight=False)
    console.print(table)
    if report.policy is not None and report.policy.arguments:
        typer.echo(f"add to lerobot-train:  {report.policy.arguments}")
    if broken := report.count("broken"):
        refuses = any(issue.level == "broken" and issue.kind != "policy" for issue in report.issues)
        then = "; annotate refuses this dataset" if refuses else ""
        console.print(f"broken: {broken}{then}", style="red")
    else:
        console.print(f"nothing is broken; warnings: {report.count('warning')}")


def _dataset_lines(report: "CheckReport") -> "Iterator[str]":
    if report.fps:
        yield f"{report.episodes} episodes at {report.fps:g} frames a second"
    if report.camera:
        yield f"goal images from {report.camera}"


def _instruction_lines(report: "CheckReport") -> "Iterator[str]":
    if report.sampled:
        yield f"words for {report.named} of {report.sampled} episodes"
    yield from _first(
        sorted(report.readings, key=lambda reading: reading.is_read),
        "more instructions: --json or --write-steps lists them",
    )
    for text, (first, *others) in report.to_label.items():
        yield f'to label "{text}": episode {first} first, then {" and ".join(map(str, others))}'


def _label_lines(report: "CheckReport") -> "Iterator[str]":
    if (audit := report.audit) is None:
        return
    found = ", ".join(f"{fault} {count}" for fault, count in audit.faults.items())
    counts = f"{audit.labels} in {audit.episodes} episodes, {len(audit.findings)} of them may be wrong"
    yield f"{counts}: {found}" if found else counts
    if audit.critic:
        yield audit.critic
    yield from map(str, audit.findings)
    yield from _first(audit.unread, "more episodes are left out: --json lists them")


def _policy_lines(report: "CheckReport") -> "Iterator[str]":
    if (seen := report.policy) is None:
        return
    yield f"{seen.policy} reads {seen.words}"
    then = " with the arguments below" if seen.arguments else ""
    for slot, key in seen.inputs.items():
        yield f"{slot} gets {key or 'no camera'}{then}"


def _first(items: "Sequence[object]", more: str) -> "Iterator[str]":
    yield from map(str, items[:_MOST])
    if rest := items[_MOST:]:
        yield f"{len(rest)} {more}"


def _shown(issues: "Sequence[HealthIssue]") -> "Iterator[HealthIssue]":
    """The issues; of many of one kind the first, the last of which says how many there are."""
    for _, alike in groupby(sorted(issues, key=_rank), _rank):
        kind = list(alike)
        yield from kind[:_ALIKE]
        if rest := kind[_ALIKE:]:
            text = f"{len(rest)} more like the last one: --json lists them"
            yield kind[0].model_copy(update={"text": text})


def _rank(issue: "HealthIssue") -> tuple[int, str]:
    return list(_STYLES).index(issue.level), issue.kind
