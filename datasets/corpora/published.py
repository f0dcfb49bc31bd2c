"""Training data as others publish them, as corpora: rows for the Critic's GRPO, and conversations to learn.

A file is told by the fields of its rows, as the public code that reads it has them:

critiques      `origin_prompt`, `rewritten_prompt`, `origin_image_path`, `edited_image_path`, and `evaluation`
               with `success`, `semantics` and `quality`: InterleaveThinker's `critic_rl.jsonl`
conversations  `messages` or `conversations`, and `images`: ShareGPT as LLaMA-Factory reads it, such as
               InterleaveThinker's `planner_sft.json`
guides         `title` and `step_info`: CoMM (arXiv 2406.10462), cut at a random step as the paper cuts (3.2)
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goalreel.chat.conversation import MARK, plain, shrink
from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.json_reply import Problem
from goalreel.chat.plan import MAX_STEPS, parse_plan, plan_reply
from goalreel.datasets.corpora.critic_rows import CRITIQUES, CritiqueRow
from goalreel.datasets.corpora.planner_rows import brief_reasoning
from goalreel.datasets.corpora.rows import (
    Corpus,
    RowKind,
    TalkRow,
    decode_lesson,
    shard_ranges,
    talks,
    write_corpus,
)
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import check_file, file_digest, find, read_file, read_json, write_bytes
from goalreel.image import Image
from goalreel.planners.chat import question
from goalreel.progress import OnCount
from goalreel.torch_support import read_plain_data
from goalreel.types import Attempt, DoneStep, Failure, Plan, Step, Storyboard, StoryboardStep, Task, Verdict

LARGEST_AREA = 1024 * 1024
"""Pixels; larger pictures are scaled down: the published Critic is trained on at most that much."""
_ROLES = {"human": "user", "gpt": "assistant"}
"""ShareGPT's older names of the speakers."""
_NAME_WORDS = 8

type PublishedKind = Literal["critiques", "conversations", "guides"]
type Fields = Mapping[str, Any]


class RowFaultError(ValueError):
    """A row that becomes no training row, and the reason."""


@dataclass(frozen=True)
class ImportConfig:
    """Rows to import. `images` is the folder that the rows' pictures lie below.

    `seed` and `dialect` are for guides: where they are cut, and in which words a planner is asked.
    """

    file: Path
    images: Path
    seed: int = 0
    dialect: Dialect = OWN


@dataclass(frozen=True)
class ImportReport:
    """Counts of the rows that became training rows, and of the others by reason."""

    kind: PublishedKind
    rows: int
    dropped: Mapping[str, int]


def import_corpus(
    config: ImportConfig, out: Path, *, workers: int = 1, progress: OnCount = lambda done, total: None
) -> ImportReport:
    """Write the rows of a published file as a corpus in `out`; a second run resumes.

    A row that cannot be used is left out and counted. `progress` counts rows.

    Raises:
        InputError: the file cannot be read, holds no such rows, or none that can be used.
        DatasetError: see `write_corpus`.
    """
    rows = _read(config.file)
    kind = _kind(config.file, rows)
    if kind != "guides" and config.dialect is not OWN:
        raise InputError(f"{config.file} has the questions of {kind} in its rows: leave out --dialect")
    request = {"file": config.file.name, "digest": file_digest(config.file), "seed": config.seed}
    corpus = Corpus(
        kind=_KINDS[kind],
        split="train",
        shards=shard_ranges(len(rows)),
        make=partial(_make, kind, config, out / "dropped"),
        request={**request, "dialect": config.dialect.name},
        about=f"{len(rows)} rows of {config.file.name}, imported by `goalreel corpus import`.",
    )
    count = write_corpus(corpus, out, workers=workers, text=kind != "critiques", progress=progress)
    dropped = Counter[str]()
    for part in find(out / "dropped", "*.json"):
        dropped.update(json.loads(read_file(part)))
    if not count:
        raise InputError(f"{config.file}: no row can be used; most often: {dropped.most_common(1)[0][0]}")
    return ImportReport(kind, count, dict(dropped.most_common()))


@lru_cache(1)
def _read(path: Path) -> list[Any]:
    """Read all rows; a line of a .jsonl file that is no JSON is None."""
    try:
        check_file(path)
        if path.suffix == ".pth":
            rows = read_plain_data(path)
        elif path.suffix == ".jsonl":
            lines = read_file(path).split(b"\n")
            rows = [_parsed(line) for line in lines if line.strip()]
        else:
            rows = read_json(path)
    except (OSError, ValueError) as e:
        raise InputError(f"{path}: cannot be read as JSON: {e}") from e
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: holds no list of rows")
    return rows


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _kind(path: Path, rows: Sequence[Any]) -> PublishedKind:
    for row in rows:
        if isinstance(row, dict):
            if "evaluation" in row:
                return "critiques"
            if "messages" in row or "conversations" in row:
                return "conversations"
            if "step_info" in row:
                return "guides"
    raise InputError(
        f"{path}: no row has evaluation (critiques), messages or conversations (chats), or step_info (guides)"
    )


def _make(kind: PublishedKind, config: ImportConfig, dropped: Path, part: range) -> list[Any]:
    """Make the rows of one shard, and write down why others are left out."""
    faults, rows = Counter[str](), []
    for number in part:
        row = _read(config.file)[number]
        try:
            if not isinstance(row, dict):
                raise RowFaultError("not a JSON object")
            rows.append(_MAKERS[kind](row, number, config))
        except RowFaultError as e:
            faults[str(e)] += 1
    dropped.mkdir(parents=True, exist_ok=True)
    write_bytes(dropped / f"{part.start:07d}.json", json.dumps(faults).encode())
    return rows


class _Evaluation(BaseModel):
    model_config = ConfigDict(strict=True)

    success: bool
    semantics: Annotated[float, Field(ge=0, le=10)]
    quality: Annotated[float, Field(ge=0, le=10)]


def _critique(row: Fields, number: int, config: ImportConfig) -> CritiqueRow:
    try:
        marks = _Evaluation.model_validate(row.get("evaluation"))
    except ValidationError as e:
        raise RowFaultError("no evaluation with success, semantics and quality (0 to 10)") from e
    first, present = _text(row, "origin_prompt"), row.get("rewritten_prompt")
    source = _picture(row.get("origin_image_path"), config.images)
    return CritiqueRow(
        task_id=f"{config.file.stem}-{number}",
        step=0,
        attempt=0,
        source=source,
        candidate=_picture(row.get("edited_image_path"), config.images),
        drawn=bool((source.pixels == 255).all()),
        instruction=first,
        first_prompt=first,
        prompt=present.strip() if isinstance(present, str) else first,
        **marks.model_dump(),
    )


def _conversation(row: Fields, number: int, config: ImportConfig) -> TalkRow:
    turns = row.get("messages", row.get("conversations"))
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise RowFaultError("no list of messages")
    messages = [_message(turn) for turn in turns]
    if isinstance(row.get("system"), str) and row["system"].strip():
        messages.insert(0, {"role": "system", "content": row["system"]})
    if len(messages) < 2 or messages[-1]["role"] != "assistant" or not messages[-1]["content"].strip():
        raise RowFaultError("does not end with a reply of the assistant")
    paths = row.get("images") or []
    if not isinstance(paths, list) or sum(m["content"].count(MARK) for m in messages[:-1]) != len(paths):
        raise RowFaultError(f"its {MARK} marks do not fit its pictures")
    images = [_picture(path, config.images) for path in paths]
    lesson = decode_lesson({"messages": messages, "images": images})
    return TalkRow(f"{config.file.stem}-{number}", 0, lesson)


def _message(turn: Fields) -> dict[str, str]:
    role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
    role = _ROLES.get(str(role), role)
    if role not in ("system", "user", "assistant") or not isinstance(content, str):
        raise RowFaultError("a message without a role or without text")
    return {"role": role, "content": content}


def _guide(row: Fields, number: int, config: ImportConfig) -> TalkRow:
    """An illustrated guide, cut at a random step: the beginning in, the other steps out."""
    title, steps = _text(row, "title"), row.get("step_info")
    if not isinstance(steps, list) or not 0 < len(steps) <= MAX_STEPS:
        raise RowFaultError(f"not 1 to {MAX_STEPS} steps")
    texts = [_step_text(step) for step in steps]
    done = int(np.random.default_rng([config.seed, number]).integers(len(steps)))
    done_steps = tuple(
        DoneStep(instruction=text, image=_step_picture(step, config.images))
        for text, step in zip(texts[:done], steps[:done], strict=True)
    )
    rest = Plan(
        steps=tuple(Step(name=_short(t), instruction=t, prompt=t, auxiliary_text=t) for t in texts[done:])
    )
    name = f"{config.file.stem}-{row.get('data_id') or number}"
    query = question(Task(id=name, instruction=plain(title), done=done_steps), dialect=config.dialect)
    if isinstance(query, Failure):
        raise RowFaultError(query.message)
    reply = plan_reply(rest, brief_reasoning([step.name for step in rest.steps], done), done + 1)
    return TalkRow(name, done, (query.conversation, reply))


def _step_text(step: object) -> str:
    items = step if isinstance(step, list) else []
    texts = [i.get("content") for i in items if isinstance(i, dict) and i.get("type") == "text"]
    text = plain(" ".join(text.strip() for text in texts if isinstance(text, str)).strip())
    if not text:
        raise RowFaultError("a step without words")
    return text


def _step_picture(step: Sequence[Fields], folder: Path) -> Image | None:
    paths = [i.get("image_path") for i in step if isinstance(i, dict) and i.get("type") == "image"]
    return _picture(paths[-1], folder) if paths else None


def _short(text: str) -> str:
    words = text.split()
    return " ".join(words[:_NAME_WORDS]) + (" ..." if len(words) > _NAME_WORDS else "")


def _text(row: Fields, name: str) -> str:
    text = row.get(name)
    if not isinstance(text, str) or not text.strip():
        raise RowFaultError(f"no {name}")
    return text.strip()


def _picture(name: object, folder: Path) -> Image:
    if not isinstance(name, str) or not name:
        raise RowFaultError("a picture without a path")
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise RowFaultError("a picture outside the folder of pictures (--images)")
    try:
        return shrink(Image.decode(read_file(path)), LARGEST_AREA)
    except FileNotFoundError as e:
        raise RowFaultError("a picture that is not there (--images)") from e
    except (OSError, ValueError) as e:
        raise RowFaultError("a picture that cannot be read") from e


TRAJECTORY = "execution_record.json"


def read_trajectory(folder: Path) -> Storyboard:
    """Read what InterleaveThinker's data generation wrote: its record, and the pictures beside it.

    Each entry has the Critic's words about one picture, and the prompt for the next.

    Raises:
        DatasetError: it is no such record, or a picture is not there.
    """
    try:
        record = read_json(folder / TRAJECTORY)
        context, told = record["global_context"], record["steps"]
        plan = parse_plan(json.dumps({"execution_plan": context["execution_plan"]}))
        if isinstance(plan, Problem):
            raise ValueError(plan.message)
        steps = tuple(
            _told(step, [one for one in told if one["step"] == number], folder)
            for number, step in enumerate(plan.steps, 1)
        )
        task = Task(id=folder.name, instruction=record["user_input"])
        return Storyboard(task=task, steps=steps, reasoning=context.get("reasoning") or "")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as e:
        raise DatasetError(f"{folder / TRAJECTORY}: cannot be read: {first_line(e)}") from e


def _told(step: Step, entries: Sequence[Fields], folder: Path) -> StoryboardStep:
    if step.prompt is None or not entries:
        return StoryboardStep(step=step, status="skipped" if step.prompt else "text")
    attempts, prompt = list[Attempt](), step.prompt
    for one in entries:
        refined = one["refine_prompt"] or None
        verdict = Verdict(success=one["success"], reasoning=one["reasoning"] or "", refined_prompt=refined)
        image = _picture(Path(one["target_img"]).name, folder)  # a path of another machine
        attempts.append(Attempt(prompt=prompt, seed=0, image=image, verdict=verdict))
        prompt = refined or prompt
    last, status = len(attempts) - 1, attempts[-1].status
    return StoryboardStep(step=step, attempts=tuple(attempts), status=status, chosen=last)


_KINDS: Mapping[PublishedKind, RowKind[Any]] = {
    "critiques": CRITIQUES,
    "conversations": talks("conversations"),
    "guides": talks("guides"),
}
_MAKERS: Mapping[PublishedKind, Callable[[Fields, int, ImportConfig], CritiqueRow | TalkRow]] = {
    "critiques": _critique,
    "conversations": _conversation,
    "guides": _guide,
}
