"""Plan many prompts: a storyboard for each row of a JSONL file, by the batch driver.

OUT/settings.json        the settings, which must be the same in a second run
OUT/storyboards/ID/      a row's storyboard, and row.json: the row
OUT/examination/         the critic's answers to control questions
OUT/answers/             answers about unfinished rows, so that a killed run goes on where it stopped
OUT/report.json          numbers, and OUT/index.html shows the storyboards; written by a run without a shard
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from goalreel.annotator.corpus.make import check_settings
from goalreel.annotator.guards import GuardedModels, ModelUnavailableError
from goalreel.annotator.plan import make_task
from goalreel.annotator.report.cards import EpisodeView
from goalreel.annotator.report.write import write_report
from goalreel.claims import ClaimTotals, add_counts, count
from goalreel.critics.examiner import FOLDER, read_examination
from goalreel.datasets.records import Shard
from goalreel.drivers import Limits
from goalreel.errors import InputError, UserError
from goalreel.files import digest, exclusive, read_file, write_bytes
from goalreel.image import Image
from goalreel.loop import OnRejected
from goalreel.models.journal import Journal
from goalreel.models.load import check_first, load
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.progress import OnProgress
from goalreel.storyboard_io import load_storyboard, save_storyboard
from goalreel.types import ROLES, Failure, Plan, Status, Storyboard, Task

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")


@dataclass(frozen=True)
class PromptRow:
    """One prompt to plan."""

    number: int
    """Its line, from 0."""
    id: str
    prompt: str
    picture: Path | None
    values: Mapping[str, Any]
    """The row as it was read."""

    def task(self, seed: int) -> Task:
        """Make the task for the models.

        Raises:
            InputError: the picture cannot be read, or does not fit the marks in the prompt.
        """
        image = None if self.picture is None else Image.of(self.picture)
        task = make_task(self.prompt, image, seed=seed + self.number)
        return task.model_copy(update={"id": self.id})


def read_rows(path: Path, images: Path | None = None) -> tuple[list[PromptRow], dict[int, str]]:
    """Read prompts; returns also why lines were left out, by their numbers from 1.

    A row has `prompt` and maybe `id` and `image`, a file in the folder `images`; or, as InterleaveThinker's
    prompts, `user_input` and maybe `user_input_image`.

    Raises:
        InputError: the file cannot be read, or no line of it can be used.
    """
    try:
        lines = read_file(path).splitlines()
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    rows: dict[str, PromptRow] = {}
    faults: dict[int, str] = {}
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            row = _read(number, line, images)
            if row.id in rows:
                raise ValueError(f"the id {row.id} is that of line {rows[row.id].number + 1} too")
            rows[row.id] = row
        except ValueError as e:
            faults[number + 1] = str(e)
    if not rows:
        first = next(iter(faults.items()), None)
        reason = f"line {first[0]}: {first[1]}" if first else "it is empty"
        raise InputError(f'{path}: holds no prompt ({reason}): write one {{"prompt": "..."}} a line')
    return list(rows.values()), faults


def _read(number: int, line: bytes, images: Path | None) -> PromptRow:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    prompt = values.get("prompt", values.get("user_input"))
    name = values.get("image", values.get("user_input_image") or None)
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("it has no prompt")
    id = values.get("id", digest(prompt, str(name))[:12])
    id = str(id) if isinstance(id, int) else id
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise ValueError("its id can be no folder's name: use letters, digits, - and _")
    return PromptRow(number, id, prompt, _picture(name, images), values)


def _picture(name: object, images: Path | None) -> Path | None:
    if name is None:
        return None
    if images is None or not isinstance(name, str):
        raise ValueError("it names an image: give their folder with --images")
    path = (images / name).resolve()
    if not path.is_relative_to(images.resolve()) or not path.is_file():
        raise ValueError(f"there is no image {name} in {images}")
    return path


@dataclass(frozen=True)
class PlanConfig:
    """Which rows are planned, and by which models."""

    rows: Sequence[PromptRow]
    preset: Preset
    seed: int = 0
    on_rejected: OnRejected = "continue"
    limits: Limits = field(default_factory=Limits)
    shard: Shard | None = None
    bad_lines: Mapping[int, str] = field(default_factory=dict)
    """Those that were left out, for the report."""


@dataclass
class PlanSummary:
    """Counts of a run."""

    rows: int = 0
    """Rows that could be read."""
    planned: int = 0
    """In this run."""
    resumed: int = 0
    """Rows that had a storyboard already."""
    bad_lines: dict[int, str] = field(default_factory=dict)
    """Line -> why it was left out."""
    failures: dict[str, str] = field(default_factory=dict)
    """Row -> why it has no storyboard. The same call tries it again."""
    steps: Counter[Status] = field(default_factory=Counter)
    """Status -> steps; of this run and those before, as all that follows."""
    claims: ClaimTotals = field(default_factory=dict)
    """The steps' claims by maker and by checker (`goalreel.claims.count`)."""
    end_checked: Counter[str] = field(default_factory=Counter)
    """`Storyboard.end_checked` -> storyboards."""
    doubtful: int = 0
    """Steps whose words may be untrue."""
    ends_in_doubt: int = 0
    """Storyboards whose end was refused."""
    examination: dict[str, Any] | None = None
    """The critic's answers to control questions (`Examination.summary`); None where it was asked none."""
    stopped: str | None = None


def plan_rows(
    config: PlanConfig, out: Path, progress: OnProgress = lambda stage, done, total: None
) -> PlanSummary:
    """Plan every row that has no storyboard in `out` yet; a row that comes to nothing costs no other one.

    Raises:
        DatasetError: another run is writing there, with other settings, or the disk is full.
        UserError, OSError: a model cannot be loaded.
    """
    local, summary = out / "answers", PlanSummary(bad_lines=dict(config.bad_lines))
    shard = config.shard
    with shard.lock(local, out) if shard else exclusive(local, out):
        writer = "run" if shard is None else f"{shard.number}-of-{shard.count}"
        job = _Job(config, out, summary, writer)
        check_settings(out, job.settings())
        rows = shard.of(range(len(config.rows))) if shard else range(len(config.rows))
        selected = [config.rows[i] for i in rows]
        todo = [row for row in selected if not job.has(row)]
        summary.rows, summary.resumed = len(selected), len(selected) - len(todo)
        job.run(todo, progress)
        if (examination := read_examination(out / FOLDER)) is not None:
            summary.examination = examination.summary()
        if shard is None:
            _report(config, out, summary, progress)
    return summary


class _Job:
    """Plans rows of a configuration in this process, and counts them in `summary`."""

    def __init__(self, config: PlanConfig, out: Path, summary: PlanSummary, writer: str = "run") -> None:
        self.config, self.out, self.summary, self._writer = config, out, summary, writer
        self._journal = Journal(out / "answers")

    @cached_property
    def _model_set(self) -> ModelSet:
        return load(self.config.preset, roles=())

    def has(self, row: PromptRow) -> bool:
        """Tell whether a row has its storyboard."""
        return (self.out / "storyboards" / row.id / "storyboard.json").is_file()

    def settings(self) -> dict[str, Any]:
        """All that decides the storyboards, if the editor can begin with the rows."""
        config = self.config
        check_first(self._model_set, (row.picture is not None for row in config.rows))
        rows = (json.dumps([row.id, row.prompt, str(row.values.get("image"))]) for row in config.rows)
        return {
            "prompts": digest(*rows),
            "models": self._model_set.provenance.identified().settings(),
            "seed": config.seed,
            "on_rejected": config.on_rejected,
        }

    def run(self, rows: Sequence[PromptRow], progress: OnProgress) -> None:
        """Plan the rows."""
        total, failures, models = len(rows), self.summary.failures, self._guarded
        progress("plan", 0, total)
        try:
            if rows and self._model_set.plans_first:
                plans = self._plan_first(rows, progress)
                failures |= {id: plan.message for id, plan in plans.items() if isinstance(plan, Failure)}
                rows = [row for row in rows if row.id not in failures]
            if rows:
                self._model_set.prepare(roles=("editor", "critic") if self._model_set.plans_first else ROLES)
            own = {row.id: row for row in rows}
            for board in models.boards(self._tasks(rows)):
                self._keep(own[board.task.id], board, models)
                progress("plan", self.summary.planned + len(failures), total)
        except ModelUnavailableError as e:
            self.summary.stopped = str(e)

    @cached_property
    def _guarded(self) -> GuardedModels:
        config, models = self.config, self._model_set
        return GuardedModels(
            models,
            self._journal,
            config.limits,
            config.on_rejected,
            len(config.rows),
            confirm=True,
            examiner=models.examiner(self.out / FOLDER, writer=self._writer),
        )

    def _tasks(self, rows: Iterable[PromptRow]) -> Iterator[Task]:
        for row in rows:
            try:
                yield row.task(self.config.seed)
            except UserError as e:
                self.summary.failures[row.id] = str(e)

    def _plan_first(self, rows: Sequence[PromptRow], progress: OnProgress) -> Mapping[str, Plan | Failure]:
        """Make all plans, which the journal keeps, free the planner's memory, and return what failed."""
        models, done = self._guarded, 0

        def planned(_: Task) -> None:
            nonlocal done
            done += 1
            progress("first plans", done, len(rows))

        models.plan_first(self._tasks(rows), planned)
        return models.plans

    def _keep(self, row: PromptRow, board: Storyboard, models: GuardedModels) -> None:
        if reason := models.problem(board):
            self.summary.failures[row.id] = reason
            return
        folder = self.out / "storyboards" / row.id
        write_bytes(folder / "row.json", json.dumps(row.values, indent=1).encode())
        save_storyboard(models.signed(board), folder)
        self._journal.forget(row.id)
        self.summary.planned += 1


def _report(config: PlanConfig, out: Path, summary: PlanSummary, progress: OnProgress) -> None:
    examination = read_examination(out / FOLDER)

    def views() -> Iterator[EpisodeView]:
        for done, row in enumerate(config.rows):
            folder = out / "storyboards" / row.id
            if (folder / "storyboard.json").is_file():
                board = load_storyboard(folder)
                summary.steps.update(step.status for step in board.steps)
                summary.end_checked[board.end_checked] += 1
                summary.ends_in_doubt += bool(board.end_doubt)
                add_counts(summary.claims, count(board.steps))
                summary.doubtful += sum(step.in_doubt for step in board.steps)
                yield EpisodeView(row.number, row.id, row.prompt, board, examination=examination)
            progress("report", done + 1, len(config.rows))

    counts = {"rows": str(len(config.rows)), "failed": str(len(summary.failures))}
    about = {} if examination is None else {"examination": examination.line}
    write_report(views(), out, title="Storyboards of prompts", summary=counts, about=about)
    write_bytes(out / "report.json", (json.dumps(vars(summary), indent=1) + "\n").encode())
