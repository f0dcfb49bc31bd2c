"""Annotate a recorded LeRobot dataset: make a storyboard of each episode, save it, then write a new dataset.

The answers of models that predict are kept in OUT's LOCAL/answers, so that a run that is killed asks no
model twice. The answers of an episode are removed once its record is written, the folder with the last ones.
"""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from goalreel import __version__
from goalreel.annotator.circuit_breaker import Retry, rule_roles, to_retry
from goalreel.annotator.corrected_plans import corrected_plans, take_corrections
from goalreel.annotator.cost_estimate import say_cost
from goalreel.annotator.job import AnnotationJob
from goalreel.annotator.label_guard import check_labels
from goalreel.annotator.options import Options
from goalreel.annotator.robot import question, read_robot
from goalreel.annotator.summary import Summary
from goalreel.datasets.episode import Episode
from goalreel.datasets.health.inspect import refuse_broken
from goalreel.datasets.records import Records, Shard
from goalreel.datasets.source import Source
from goalreel.datasets.stored_files import check_links
from goalreel.datasets.writing.files import check_apart, check_edits
from goalreel.datasets.writing.frame_columns import check_progress
from goalreel.datasets.writing.pipeline import build
from goalreel.datasets.writing.plan import check_form
from goalreel.drivers import Limits
from goalreel.errors import InputError
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.planners.kinematic.robot import Robot
from goalreel.progress import OnProgress
from goalreel.terms import LabelForm
from goalreel.types import ROLES, Status, Storyboard

if TYPE_CHECKING:
    from goalreel.annotator.workers import Workers

log = logging.getLogger(__name__)


def open_dataset(root: Path | str) -> Source:
    """Open the LeRobot v3.0 dataset in the folder `root`. Only its metadata is read.

    Raises:
        DatasetError: there is no dataset, or its metadata cannot be read.
    """
    return Source.open(Path(root))


def annotate(
    source: Source,
    out: Path | str,
    models: ModelSet,
    options: Options | None = None,
    *,
    episodes: Sequence[int] | None = None,
    retry: Retry | None = None,
    limits: Limits | None = None,
    shard: Shard | None = None,
    workers: "Workers | None" = None,
    corrections: Path | None = None,
    overwrite: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> Summary:
    """Annotate `episodes` (default: all) of the dataset `source` into the new dataset `out`.

    Finished episodes are saved at once; run again after a kill, it goes on where it stopped. An episode
    that cannot be read, whose models failed, or that meets a bug, is left unannotated and reported in the
    summary. When a model answers nobody any more, the run stops, and `Summary.stopped` says so. `retry`
    tries recorded episodes again (see `to_retry`); one that then has fewer accepted pictures keeps its
    record. Where a person has corrected an episode, their steps are the plan, and stay; `corrections` names
    another annotated dataset whose corrections to take over first. Files of `out` that somebody changed by
    hand are refused, or with `overwrite` written anew. `source` is never written to. Of a
    `shard`, one of several processes at once, only the records are written;
    `goalreel.annotator.shards.build_records` makes the dataset of all of them. With `workers` these ask the
    models, not this process; `models` then says what they are called.

    Raises:
        InputError: an episode has sub-task labels, and the models would replace them unasked; or what the
            data tell of the robot is too little for a planner that reads its motion.
        DatasetError: the dataset as a whole cannot be read, or `out` cannot be written.
        UserError, OSError: a model cannot be loaded.
    """
    options, out = options or Options(), Path(out)
    recorded = options.recorded(source)
    selected = source.select(episodes)
    selected = shard.of(selected) if shard else selected
    labels = _check(source, out, selected, models, options)
    if shard is None:  # else it is `build_records` that reads the files of all shards
        refuse_broken(source, selected)
    robot = read_robot(source, options.state_layout, options.camera)
    _ask(robot, models)
    summary = Summary(
        out=out, camera=recorded.camera, shard=str(shard) if shard else None, robot=robot, labels=labels
    )
    fingerprint = source.fingerprint()
    with Records.open(out, _facts(models, options, recorded.camera, robot), fingerprint, shard) as records:
        records.remember(source.root)
        if corrections is not None:
            take_corrections(records, corrections)
        done = records.done(selected if shard else None)
        retries = _retries(records, sorted(done & set(selected)), models, retry)
        todo = {index: retries.get(index) for index in selected if index not in done or index in retries}
        summary.resumed = len(selected) - len(todo)
        before = records.recorded()
        reported, is_replaced = before - done, not before.isdisjoint(todo)
        del before
        journal = Journal(records.answers, fingerprint.recording)
        if shard is None:  # before models are asked
            check_edits(source, out, options.subgoal_key, overwrite=overwrite)
        if todo:
            say_cost(models, source, recorded, list(todo))
        if todo and workers:
            workers.run(records, source, options, limits or Limits(), todo, summary, progress)
        elif todo:
            models.prepare(roles=("planner",) if models.plans_first else ROLES)
            plans = corrected_plans(records, source, todo)
            job = AnnotationJob(source, recorded, models, options, limits, journal, plans)
            annotate_episodes(job, records, journal, todo, summary, progress)
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
            summary.dataset_steps = write_dataset(
                source, out, records, options, recorded.camera, done, overwrite, progress
            )
    return summary


def annotate_episodes(
    job: AnnotationJob,
    records: Records,
    journal: Journal,
    todo: Mapping[int, int | None],
    summary: Summary,
    progress: OnProgress = lambda stage, done, total: None,
) -> None:
    """Annotate episodes, record each when it is finished, and count it in `summary`.

    `todo` maps an episode to the number of accepted pictures in the record that it has, if any.
    """

    def save(episode: Episode, board: Storyboard) -> Storyboard | None:
        saved_board = _commit(records, episode.index, board, todo[episode.index] or 0)
        journal.forget(episode.id)
        return saved_board

    if todo:
        progress("annotate", 0, len(todo))  # planning alone may take minutes
    for board in job.run(list(todo), save, lambda done, total: progress("plan", done, total)):
        summary.add_board(board)
        progress("annotate", job.finished, len(todo))
    summary.failures |= job.failures
    summary.stopped = job.stopped


def write_dataset(
    source: Source,
    out: Path,
    records: Records,
    options: Options,
    camera: str,
    episodes: Collection[int],
    overwrite: bool,
    progress: OnProgress,
) -> Counter[Status]:
    """Write the dataset `out` from `source` and what is recorded, with goal images of `camera`'s size.

    `episodes` are those whose records count (`Records.done`). `overwrite` writes anew what somebody changed
    there by hand. Returns how many steps have each status, as `build`.

    Raises:
        DatasetError: as `build`.
    """
    return build(
        source,
        out,
        records,
        camera_key=options.subgoal_key,
        camera=camera,
        episodes=episodes,
        use_unverified=options.use_unverified,
        text=options.text,
        form=options.subgoal_form,
        follow_links=options.follow_links,
        overwrite=overwrite,
        progress=lambda done, total: progress("write", done, total),
    )


def _check(
    source: Source, out: Path, selected: Sequence[int], models: ModelSet, options: Options
) -> dict[LabelForm, int]:
    """Check that `source` is whole and can be annotated so, and find its labels (`check_labels`)."""
    check_apart(source.root, out)
    if not options.follow_links:
        check_links(source.root)
    source.check_data(selected)
    check_form(source, options.subgoal_key, options.subgoal_form)
    if options.text.progress:
        check_progress(source)
    planner = models.provenance.preset.planner
    return check_labels(source, selected, planner, replace=options.replace_rows, form=options.labels)


def _retries(records: Records, done: Sequence[int], models: ModelSet, retry: Retry | None) -> dict[int, int]:
    """Map each recorded episode to try again to the number of accepted pictures in its record."""
    if retry is None:
        return {}
    boards = ((index, records.outline(index)) for index in done)
    return {index: _accepted(board) for index, board in boards if to_retry(board, retry, rule_roles(models))}


def _commit(records: Records, index: int, board: Storyboard, accepted_before: int) -> Storyboard | None:
    """Record an episode; None where its record has more accepted pictures (`accepted_before`), and stays."""
    if _accepted(board) < accepted_before:
        log.info("episode %d keeps its earlier record, which has more accepted pictures", index)
        return None
    records.commit(index, board)
    return board


def _accepted(board: Storyboard) -> int:
    return sum(step.accepted for step in board.steps)


def _ask(robot: Robot, models: ModelSet) -> None:
    """Refuse a run whose planner reads a motion that is not understood."""
    if models.provenance.preset.planner == "kinematic" and (line := question(robot)):
        raise InputError(line)


def _facts(models: ModelSet, options: Options, camera: str, robot: Robot) -> dict[str, object]:
    """Everything that decides the result. Another version may cut or name otherwise, so it counts too."""
    settings = asdict(options)
    del settings["accepted"]  # the digest of what is accepted is with the models
    settings |= {"details": ",".join(options.detail_names)}
    if not options.detail_names:
        del settings["details"]  # as before there were any
    if not options.follow_links:
        del settings["follow_links"]
    return {
        **settings,
        **models.provenance.identified().settings(),
        "camera": camera,
        "robot": robot.settings(),
        "goalreel": __version__,
    }
