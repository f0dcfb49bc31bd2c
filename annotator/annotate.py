"""Annotate a recorded LeRobot dataset: make a storyboard of each episode, save it, then write a new dataset.

The answers of models that predict are kept in OUT's LOCAL/answers, so that a run that is killed asks no
model twice. The answers of an episode are removed once its record is written, the folder with the last ones.
"""

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from goalreel import __version__, claims, terms
from goalreel.annotator import examples, existing_words
from goalreel.annotator.guards import GuardedModels, accepted_steps, rule_roles, to_retry, watches
from goalreel.annotator.job import AnnotationJob, Summary, log_cost_estimate, log_spent
from goalreel.annotator.options import Options, Retry, RunOptions
from goalreel.annotator.robot import read_robot, stored_layout
from goalreel.critics.examination import read_examination
from goalreel.datasets import hub, info_file
from goalreel.datasets.health.inspect import refuse_broken
from goalreel.datasets.parquet import read_table
from goalreel.datasets.records import FOLDER, LOCAL, Records, check_own
from goalreel.datasets.source import Source
from goalreel.datasets.writing import files, pipeline, plan
from goalreel.errors import DatasetError, InputError
from goalreel.files import atomic, copy, exclusive, files_below
from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.load import as_folder, choose_models, type_name
from goalreel.models.model_set import ModelSet
from goalreel.models.registry import RecordingContext
from goalreel.planners.examples.carry import Measurement
from goalreel.planners.kinematic.robot import Robot
from goalreel.progress import OnProgress
from goalreel.types import Critic, Editor, Failure, Plan, Planner, Role, Status, Task

log = logging.getLogger(__name__)


def open_dataset(root: Path | str) -> Source:
    """Open the LeRobot v3.0 dataset in the folder `root`, or of that name on the Hub.

    Only its metadata is read. One on the Hub is downloaded first, its videos too.

    Raises:
        DatasetError: there is no dataset, or its metadata cannot be read.
    """
    return Source.open(Path(root))


def annotate(
    source: Source | str | PathLike[str],
    out: str | PathLike[str],
    models: ModelSet | None = None,
    options: Options | None = None,
    run: RunOptions | None = None,
    *,
    preset: str | presets.Preset | None = None,
    planner: Planner | str | None = None,
    editor: Editor | str | None = None,
    critic: Critic | str | None = None,
    progress: OnProgress = lambda stage, done, total: None,
    **run_options: Any,
) -> Summary:
    """Annotate a recorded LeRobot dataset: write a copy with steps and goal images to `out`.

    `source` is never written to. Each finished episode is saved at once. After a kill, the same call resumes.
    An episode that cannot be read, whose models failed, or that meets a bug is left unannotated and reported
    in the summary. Where a person has corrected an episode, their steps are the plan.

    Examples:
        >>> goalreel.annotate("pusht", "pusht-goals", preset="hindsight")  # doctest: +SKIP

    Args:
        source: folder of a LeRobot v3.0 dataset, its name on the Hub, or the result of
            `goalreel.open_dataset`.
        out: folder of the new dataset.
        models: all three models. Leave it out to choose them by `preset`, `planner`, `editor` and `critic`.
        options: settings that decide the result, such as `goalreel.Options(granularity="phase")`.
        run: the episodes to work on and how.
        preset: name or path of the preset for the models that are not given (default: `hindsight`).
        planner: a Planner, or the name of one as on the command line.
        editor: an Editor, or the name of one.
        critic: a Critic, or the name of one.
        progress: called with a stage's name, the amount that is done, and the total.
        run_options: fields of `RunOptions` that replace those of `run`, such as `episodes` and `batch_size`.

    Returns:
        Counts of episodes and steps. `failures` names the episodes whose models failed;
        `stopped` says why the run ended early.

    Raises:
        InputError: there is no such preset or model, an option does not fit, the episodes have sub-task
            labels that would be lost (`Options.replace_rows`), the data tell too little of the robot for a
            planner that reads its motion, or too few boundaries of the examples are found again.
        DatasetError: `source` is no dataset or cannot be read, or `out` cannot be written.
        TypeError: an argument has another type.
        UserError, OSError: a model cannot be loaded.
    """
    if not isinstance(options, Options | None):
        raise TypeError(f"options is a goalreel.Options, not {type_name(options)}")
    options, folder = options or Options(), as_folder(out, "out")
    run = (run or RunOptions()).but(**run_options)
    if not isinstance(source, Source):
        source = Source.open(hub.local_folder(as_folder(source, "source"), episodes=run.episodes))
    recorded = options.recorded(source)
    named: dict[Role, Any] = {"planner": planner, "editor": editor, "critic": critic}
    if run.examples is not None and (models is not None or not isinstance(planner, str | None)):
        raise InputError(
            "examples are for planners by their names: leave out models, and a planner of your own"
        )
    if (labelled := run.examples) and run.to_watch:
        watching = choose_models(None, preset, named, "hindsight", recorded)
        check_watching(watching, options, run)
        _check(source, folder, source.select(run.episodes), watching, options)
        labelled = watch_examples(source, folder, watching, recorded, options, run)
        named["planner"] = "examples"
    if labelled is not None:  # whose numbers are those that the layout names
        options = options.but(labelled=examples.read_examples(labelled, source))
        recorded = replace(recorded, examples=options.labelled)
    chosen = choose_models(models, preset, named, "hindsight", recorded)
    return _annotate(source, folder, chosen, options, run, recorded, progress)


def _annotate(
    source: Source,
    out: Path,
    models: ModelSet,
    options: Options,
    run: RunOptions,
    recorded: RecordingContext,
    progress: OnProgress,
) -> Summary:
    selected, shard = source.select(run.episodes), run.shard
    selected = shard.of(selected) if shard else selected
    labels = _check(source, out, selected, models, options)
    if shard is None:  # else it is `build_records` that reads the files of all shards
        refuse_broken(source, selected)
    robot = read_robot(source, options.state_layout, options.camera)
    if models.provenance.preset.planner == "kinematic" and robot.unknown:
        from goalreel.annotator.questions import find_question, with_picture

        if asks := find_question(robot, options.layout):
            raise InputError(str(with_picture(asks, source, robot, recorded.camera)))
    measured = examples.measure(models, recorded.examples, source, selected, anyway=run.examples_anyway)
    summary = Summary(out, recorded.camera, robot=robot, labels=labels, measured=measured)
    summary.shard = str(shard) if shard else None
    facts, fingerprint = _facts(models, options, recorded.camera, robot, measured), source.fingerprint()
    with Records.open(out, facts, fingerprint, shard) as records:
        records.remember(source.root)
        done = records.done(selected if shard else None)
        retries = _retries(records, sorted(done & set(selected)), models, run.retry)
        todo = {index: retries.get(index) for index in selected if index not in done or index in retries}
        summary.resumed = len(selected) - len(todo)
        reported = records.recorded() - done
        is_replaced = bool(retries) or not reported.isdisjoint(todo)
        journal = Journal(records.answers, fingerprint.recording)
        if shard is None:  # before models are asked
            files.check_edits(source, out, options.subgoal_key, overwrite=run.overwrite)
        job = AnnotationJob(source, recorded, models, options, run, records, journal, summary, progress)
        if todo:
            log_cost_estimate(models, source, recorded, list(todo))
            job.run(todo, len(selected))
            log_spent(models)
        else:
            job.forget_starts()
        summary.examination = read_examination(records.examination)
        summary.failures = dict(sorted(summary.failures.items()))
        summary.not_begun = len(selected) - summary.ended
        if shard:
            return summary
        if summary.failures or summary.not_begun or set(source.indices) - done - todo.keys():
            journal.remove_if_empty()
        else:
            journal.remove()
        if is_replaced:
            records.drop_unused_images()
        done -= todo.keys()
        done |= records.done(records.recorded() - done, corrected=True, reported=reported)
        if not summary.stopped or done:
            summary.dataset_steps = _write(
                source, out, records, options, recorded.camera, done, run.overwrite, progress
            )
    if models.provenance.preset.planner == "kinematic":
        tasks = examples.by_task(examples.by_instruction(source, selected))
        summary.to_label = examples.to_label(source, tasks[:1])
    return summary


def _write(
    source: Source,
    out: Path,
    records: Records,
    options: Options,
    camera: str,
    episodes: Collection[int],
    overwrite: bool,
    progress: OnProgress,
) -> Counter[Status]:
    """Write the dataset `out`, with goal images of `camera`'s size; returns the steps by status."""
    return pipeline.build(
        source,
        out,
        records,
        camera_key=options.subgoal_key,
        camera=camera,
        episodes=episodes,
        use_rejected=options.use_rejected,
        text=options.text,
        form=options.subgoal_form,
        follow_links=options.follow_links,
        overwrite=overwrite,
        progress=partial(progress, "write"),
    )


def _check(
    source: Source, out: Path, selected: Sequence[int], models: ModelSet, options: Options
) -> dict[terms.LabelForm, int]:
    """Check that `source` is whole and can be annotated so, and find its labels (`check_labels`)."""
    files.check_apart(source.root, out)
    if not options.follow_links:
        info_file.check_links(source.root)
    source.check_data(selected)
    plan.check_form(source, options.subgoal_key, options.subgoal_form)
    planner = models.provenance.preset.planner
    kept = {e.numbers for e in options.labelled if e.by == claims.ROWS} if planner == "examples" else ()
    return existing_words.check_labels(
        source, selected, planner, replace=options.replace_rows, form=options.labels, kept=kept
    )


def _retries(records: Records, done: Sequence[int], models: ModelSet, retry: Retry | None) -> dict[int, int]:
    """Map each recorded episode to try again to the number of accepted pictures in its record."""
    if retry is None:
        return {}
    boards, rules = ((index, records.outline(index)) for index in done), rule_roles(models)
    return {index: accepted_steps(board) for index, board in boards if to_retry(board, retry, rules)}


def _facts(
    models: ModelSet, options: Options, camera: str, robot: Robot, measured: Sequence[Measurement]
) -> dict[str, object]:
    """Everything that decides the result. Another version may cut or name otherwise, so it counts too."""
    settings = options.model_dump(exclude={"labelled"})  # a digest of those is with the models
    settings["details"] = ",".join(options.detail_names)
    lately = ("details", "follow_links", "steps")  # left out as before there were any
    return {
        **{name: value for name, value in settings.items() if value or name not in lately},
        **models.provenance.identified().settings(),
        "camera": camera,
        "robot": robot.settings(),
        **({"measured": [asdict(one) for one in measured]} if measured else {}),
        "goalreel": __version__,
    }


def build_records(
    out: Path,
    source: Path | None = None,
    gathered: Sequence[Path] = (),
    progress: OnProgress = lambda stage, done, total: None,
    *,
    overwrite: bool = False,
) -> list[int]:
    """Write the dataset `out` from the recorded episodes in it, as `annotate` does at its end.

    Args:
        out: the folder that the shards wrote to; where they wrote to several, a new one.
        source: the dataset annotated; None: where it was when the shards ran.
        gathered: folders of other shards, on no file system in common, whose records are copied into `out`.
        progress: told as files are written.
        overwrite: write files anew that somebody changed in `out` by hand.

    Returns:
        The episodes without a record, in order. They are in the dataset, without goal images.
    """
    settings, root = {}, source
    for folder in (out, *gathered):
        noted = Records(folder / FOLDER, source="")
        if (noted.folder / "settings.json").is_file():
            settings, root = settings or noted.settings(), root or noted.source_root()
        elif folder != out or not gathered:
            raise DatasetError(f"{folder}: no records there: run goalreel annotate --shard first")
    if "camera" not in settings:
        raise DatasetError(f"{out}: its records were not written by goalreel annotate")
    if root is None:
        raise DatasetError(f"{out}: the path of the annotated dataset is not known: name it with --source")
    dataset = Source.open(root)
    files.check_apart(root, out)
    fingerprint = dataset.fingerprint()
    stored_layout(dataset, settings)
    if measured := examples.measure_reviewed(dataset, Records(out / FOLDER, source="")):
        settings["measured"] = [asdict(one) for one in measured]
    with Records.open(out, settings, fingerprint) as records:
        for folder in gathered:
            with Records.open(folder, settings, fingerprint):
                _gather(folder / FOLDER, records.folder)
        records.remember(root)
        records.drop_unused_images()
        done = records.done(corrected=True)
        missing = sorted(set(dataset.indices) - done)
        refuse_broken(dataset, sorted(done))
        options = Options.of(settings)
        _write(dataset, out, records, options, settings["camera"], done, overwrite, progress)
    if not missing:
        Journal(records.answers).remove()
    return missing


def _gather(folder: Path, into: Path) -> None:
    """Pictures first: a record is there only with all that it names."""
    info_file.check_links(folder)
    for path in sorted(files_below(folder), key=lambda path: path.suffix == ".json"):
        if path.name != "settings.json" and not path.is_relative_to(folder / files.MARKS.name):
            copy(path, into / path.relative_to(folder))


WATCHED_TABLE = FOLDER / "watched.parquet"
"""Labels by a model that watches, as a table that `--examples` takes."""


def check_watching(models: ModelSet, options: Options, run: RunOptions) -> None:
    """Refuse a run in which no model can label `run.to_watch` episodes of each instruction."""
    if not watches(models):
        raise InputError(f"--examples {run.to_watch}: no model watches: add --preset watch, or name LABELLED")
    if run.shard:
        raise InputError(f"--examples {run.to_watch} watches in one process: leave out --shard")
    if several := {"scene", "reasoning"}.intersection(options.detail_names):
        raise InputError(f"--details {min(several)} is of one episode: leave out --examples {run.to_watch}")


def watch_examples(
    source: Source, out: Path, models: ModelSet, recorded: RecordingContext, options: Options, run: RunOptions
) -> Path:
    """Have a model label `run.to_watch` episodes of each instruction; returns the table of their steps.

    They are those that `goalreel check` names and, in place of one that the model cannot label, that fails or
    that is not as instructed, the next one. The model is asked for none in the table.
    """
    table, maker = out / WATCHED_TABLE, claims.makers(models.provenance.identities().get)["planner"]
    check_own(out)
    with exclusive(out / LOCAL, out):
        rows: list[dict[str, Any]] = read_table(table).to_pylist() if table.is_file() else []
        journal = Journal(Records(out / FOLDER, source="").answers, source.fingerprint().recording)
        guarded = GuardedModels(models, journal, run.limits, options.on_rejected, run.to_watch)
        tried = {row["episode"] for row in rows}
        selected = {text for text, _ in examples.by_instruction(source, source.select(run.episodes))}
        groups = {text: e for text, e in examples.by_instruction(source, source.indices) if text in selected}
        orders = examples.to_label(source, groups.items(), 2 * run.to_watch)

        def next_ones() -> list[int]:
            labelled = {row["episode"] for row in rows}
            found: list[int] = []
            for text, episodes in groups.items():
                missing = run.to_watch - len(labelled.intersection(episodes))
                untried = [e for e in orders.get(text, episodes[: 2 * run.to_watch]) if e not in tried]
                found += untried[: max(0, missing)]
            return found

        while todo := next_ones():
            log_cost_estimate(models, source, recorded, todo)
            tried.update(todo)
            episodes = {e.id: e for e in examples.readable(source, todo)}  # open as long as they are watched
            tasks = [Task(id=id, instruction=e.instruction) for id, e in episodes.items()]
            for task, plan in guarded.plans_of(tasks):
                rows += _example_rows(episodes[task.id].index, task, plan, maker)
            rows.sort(key=lambda row: row["episode"])
            if rows:
                with atomic(table) as part:
                    pq.write_table(pa.Table.from_pylist(rows), part)
        log_spent(models)
    if not rows:
        raise InputError(f"the model labelled none of {len(tried)} episodes: look at what it answers")
    return table


def _example_rows(index: int, task: Task, plan: Plan | Failure, maker: str) -> list[dict[str, Any]]:
    """The steps of a plan as rows of a table; none where others are not to be labelled from them."""
    why = plan.message if isinstance(plan, Failure) else "a step failed, is in doubt or not as instructed"
    if isinstance(plan, Failure) or any(
        s.outcome == "failed" or s.auxiliary_text or s.doubts for s in plan.steps
    ):
        log.warning("episode %d is no example: %s", index, why)
        return []
    return [
        {
            "episode": index,
            "instruction": task.instruction,
            "name": step.name,
            "sub_goal": step.instruction,
            "prompt": step.prompt,
            "start_frame": segment.start,
            "end_frame": segment.end,
            "what_by": maker,
            "when_by": maker,
        }
        for step, segment in zip(plan.steps, plan.segments or (), strict=True)
    ]
