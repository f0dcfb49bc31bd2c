"""Plan many prompts: a storyboard for each row of a JSONL file, by the batch driver.

OUT/settings.json        the settings, which must be the same in a second run
OUT/storyboards/ID/      a row's storyboard, and row.json: the row
OUT/examination/         the critic's answers to control questions
OUT/answers/             answers about unfinished rows, so that a killed run goes on where it stopped
OUT/report.json          numbers, and OUT/index.html shows the storyboards
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalreel import drivers, files, loop, storyboard_io
from goalreel.annotator.corpus.make import check_settings
from goalreel.annotator.guards import GuardedModels, ModelUnavailableError
from goalreel.annotator.plan import make_task
from goalreel.annotator.report import cards, write
from goalreel.claims import ClaimTotals, add_counts, count
from goalreel.critics.examination import FOLDER, Examination, read_examination
from goalreel.errors import InputError, UserError
from goalreel.image import Image
from goalreel.models import model_set, presets
from goalreel.models.journal import Journal
from goalreel.models.load import check_first, load
from goalreel.progress import OnProgress
from goalreel.types import ROLES, Failure, Status, Task

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
        image = None if self.picture is None else Image.of(self.picture)
        return make_task(self.prompt, image, seed=seed + self.number).model_copy(update={"id": self.id})


def read_rows(path: Path, images: Path | None = None) -> tuple[list[PromptRow], dict[int, str]]:
    """Read prompts; returns also why lines were left out, by their numbers from 1.

    A row has `prompt` and maybe `id` and `image`, a file in the folder `images`; or, as InterleaveThinker's
    prompts, `user_input` and maybe `user_input_image`.
    """
    try:
        lines = files.read_file(path).splitlines()
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
        values = None
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    prompt = values.get("prompt", values.get("user_input"))
    name = values.get("image", values.get("user_input_image") or None)
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("it has no prompt")
    id = values.get("id")
    id = files.digest(prompt, str(name))[:12] if id is None else str(id)
    if not _ID.fullmatch(id):
        raise ValueError("its id can be no folder's name: use letters, digits, - and _")
    if name is None:
        return PromptRow(number, id, prompt, None, values)
    if images is None or not isinstance(name, str):
        raise ValueError("it names an image: give their folder with --images")
    path = (images / name).resolve()
    if not path.is_relative_to(images.resolve()) or not path.is_file():
        raise ValueError(f"there is no image {name} in {images}")
    return PromptRow(number, id, prompt, path, values)


@dataclass(frozen=True)
class PlanConfig:
    """Which rows are planned, and by which models."""

    rows: Sequence[PromptRow]
    preset: presets.Preset
    seed: int = 0
    on_rejected: loop.OnRejected = "continue"
    limits: drivers.Limits = field(default_factory=drivers.Limits)
    bad_lines: Mapping[int, str] = field(default_factory=dict)
    """Those that were left out, for the report."""
    num_draws: int = 1


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
    """Plan every row that has no storyboard in `out` yet; a row that comes to nothing costs no other one."""
    with files.exclusive(out / "answers", out):
        models = load(config.preset, roles=())
        check_settings(out, _settings(config, models))
        todo = {row.id: row for row in config.rows if not (_folder(out, row) / "storyboard.json").is_file()}
        count = len(config.rows)
        summary = PlanSummary(count, resumed=count - len(todo), bad_lines=dict(config.bad_lines))
        try:
            _plan(todo, config, models, out, summary, progress)
        except ModelUnavailableError as e:
            summary.stopped = str(e)
        if (examination := read_examination(out / FOLDER)) is not None:
            summary.examination = examination.summary()
        _report(config, out, summary, examination, progress)
    return summary


def _folder(out: Path, row: PromptRow) -> Path:
    return out / "storyboards" / row.id


def _settings(config: PlanConfig, models: model_set.ModelSet) -> dict[str, Any]:
    """All that decides the storyboards, if the editor can begin with the rows."""
    check_first(models, (row.picture is not None for row in config.rows))
    rows = (json.dumps([row.id, row.prompt, str(row.values.get("image"))]) for row in config.rows)
    return {
        "prompts": files.digest(*rows),
        "models": models.provenance.identified().settings(),
        "seed": config.seed,
        "on_rejected": config.on_rejected,
        **({} if config.num_draws == 1 else {"num_draws": config.num_draws}),
    }


def _plan(
    todo: Mapping[str, PromptRow],
    config: PlanConfig,
    models: model_set.ModelSet,
    out: Path,
    summary: PlanSummary,
    progress: OnProgress,
) -> None:
    """Plan the rows `todo` (by their ids), and count them in `summary`."""
    journal, examiner = Journal(out / "answers"), models.examiner(out / FOLDER)
    guarded = GuardedModels(
        models, journal, config.limits, config.on_rejected, len(config.rows), confirm=True, examiner=examiner
    )

    def tasks() -> Iterator[Task]:  # called twice where plans come first: then without rows that failed
        for row in todo.values():
            try:
                if row.id not in summary.failures:
                    yield row.task(config.seed)
            except UserError as e:
                summary.failures[row.id] = str(e)

    progress("plan", 0, len(todo))
    if todo and models.plans_first:
        for done, _ in enumerate(guarded.plan_first(tasks()), start=1):
            progress("first plans", done, len(todo))
        models.free_planner()
        failed = {id: plan.message for id, plan in guarded.plans.items() if isinstance(plan, Failure)}
        summary.failures |= failed
    if len(summary.failures) < len(todo):
        models.prepare(roles=("editor", "critic") if models.plans_first else ROLES)
    for board in guarded.boards(tasks(), config.num_draws):
        row = todo[board.task.id]
        if reason := guarded.problem(board):
            summary.failures[row.id] = reason
        else:
            files.write_bytes(_folder(out, row) / "row.json", json.dumps(row.values, indent=1).encode())
            storyboard_io.save_storyboard(guarded.signed(board), _folder(out, row))
            journal.forget(row.id)
            summary.planned += 1
        progress("plan", summary.planned + len(summary.failures), len(todo))


def _report(
    config: PlanConfig, out: Path, summary: PlanSummary, examination: Examination | None, progress: OnProgress
) -> None:
    def views() -> Iterator[cards.EpisodeView]:
        for done, row in enumerate(config.rows):
            if (_folder(out, row) / "storyboard.json").is_file():
                board = storyboard_io.load_storyboard(_folder(out, row))
                summary.steps.update(step.status for step in board.steps)
                summary.end_checked[board.end_checked] += 1
                summary.ends_in_doubt += bool(board.end_doubt)
                add_counts(summary.claims, count(board.steps))
                summary.doubtful += sum(step.in_doubt for step in board.steps)
                yield cards.EpisodeView(row.number, row.id, row.prompt, board, examination=examination)
            progress("report", done + 1, len(config.rows))

    counts = {"rows": str(len(config.rows)), "failed": str(len(summary.failures))}
    about = {} if examination is None else {"examination": examination.line}
    write.write_report(views(), out, title="Storyboards of prompts", summary=counts, about=about)
    files.write_bytes(out / "report.json", (json.dumps(vars(summary), indent=1) + "\n").encode())
