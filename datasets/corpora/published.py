"""Training data as others publish them, as corpora: rows for the Critic's GRPO, and conversations to learn.

A file is told by the fields of its rows, as the public code that reads it has them:

critiques      `origin_prompt`, `rewritten_prompt`, `origin_image_path`, `edited_image_path`, and `evaluation`
               with `success`, `semantics` and `quality`: InterleaveThinker's `critic_rl.jsonl`
conversations  `messages` or `conversations`, and `images`: ShareGPT as LLaMA-Factory reads it, such as
               InterleaveThinker's `planner_sft.json`
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from goalreel.chat.conversation import MARK, shrink
from goalreel.chat.json_reply import Problem
from goalreel.chat.plan import parse_plan
from goalreel.datasets.corpora import critic_rows, rows as corpora
from goalreel.datasets.corpora.rows import Corpus, RowKind, TalkRow, decode_lesson
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import file_digest, find, read_file, read_json, write_bytes
from goalreel.image import Image
from goalreel.progress import OnCount
from goalreel.types import Attempt, Step, Storyboard, StoryboardStep, Task, Verdict

type PublishedKind = Literal["critiques", "conversations"]
type Fields = Mapping[str, Any]


class RowFaultError(ValueError):
    """A row that becomes no training row, and the reason."""


@dataclass(frozen=True)
class ImportReport:
    """Counts of the rows that became training rows, and of the others by reason."""

    kind: PublishedKind
    rows: int
    dropped: Mapping[str, int]


def import_corpus(
    file: Path, images: Path, out: Path, *, workers: int = 1, progress: OnCount = lambda done, total: None
) -> ImportReport:
    """Write the rows of a published file as a corpus in `out`; a second run resumes.

    `images` is the folder that the rows' pictures lie below. A row that cannot be used is left out and
    counted. `progress` counts rows.

    Raises:
        InputError: the file cannot be read, holds no such rows, or none that can be used.
        DatasetError: see `write_corpus`.
    """
    rows = _read(file)
    kind = _kind(file, rows)
    make, stored = _KINDS[kind]
    corpus = Corpus(
        kind=stored,
        split="train",
        shards=corpora.shard_ranges(len(rows)),
        make=partial(_make, make, file, images, out / "dropped"),
        request={"file": file.name, "digest": file_digest(file)},
        about=f"{len(rows)} rows of {file.name}, imported by `goalreel corpus import`.",
    )
    text = kind != "critiques"
    count = corpora.write_corpus(corpus, out, workers=workers, text=text, progress=progress)
    dropped = Counter[str]()
    for part in find(out / "dropped", "*.json"):
        dropped.update(json.loads(read_file(part)))
    if not count:
        raise InputError(f"{file}: no row can be used; most often: {dropped.most_common(1)[0][0]}")
    return ImportReport(kind, count, dict(dropped.most_common()))


@lru_cache(1)
def _read(path: Path) -> list[Any]:
    """Read all rows; a line of a .jsonl file that is no JSON is None."""
    try:
        if path.suffix == ".jsonl":
            rows = [_parsed(line) for line in read_file(path).split(b"\n") if line.strip()]
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
    for row in (row for row in rows if isinstance(row, dict)):
        if "evaluation" in row:
            return "critiques"
        if "messages" in row or "conversations" in row:
            return "conversations"
    raise InputError(f"{path}: no row has evaluation (critiques), or messages or conversations (chats)")


def _make(
    make: Callable[[Fields, str, Path], Any], file: Path, images: Path, dropped: Path, part: range
) -> list[Any]:
    """Make the rows of one shard, and write down why others are left out."""
    faults, rows = Counter[str](), []
    for number in part:
        row = _read(file)[number]
        try:
            if not isinstance(row, dict):
                raise RowFaultError("not a JSON object")
            rows.append(make(row, f"{file.stem}-{number}", images))
        except RowFaultError as e:
            faults[str(e)] += 1
    dropped.mkdir(parents=True, exist_ok=True)
    write_bytes(dropped / f"{part.start:07d}.json", json.dumps(faults).encode())
    return rows


class _Evaluation(BaseModel, strict=True):
    success: bool
    semantics: Annotated[float, Field(ge=0, le=10)]
    quality: Annotated[float, Field(ge=0, le=10)]


def _critique(row: Fields, task_id: str, images: Path) -> critic_rows.CritiqueRow:
    try:
        marks = _Evaluation.model_validate(row.get("evaluation"))
    except ValidationError as e:
        raise RowFaultError("no evaluation with success, semantics and quality (0 to 10)") from e
    first, present = _text(row, "origin_prompt"), row.get("rewritten_prompt")
    source = _picture(row.get("origin_image_path"), images)
    return critic_rows.CritiqueRow(
        task_id=task_id,
        step=0,
        attempt=0,
        source=source,
        candidate=_picture(row.get("edited_image_path"), images),
        drawn=bool((source.pixels == 255).all()),
        instruction=first,
        first_prompt=first,
        prompt=present.strip() if isinstance(present, str) else first,
        **marks.model_dump(),
    )


def _conversation(row: Fields, task_id: str, images: Path) -> TalkRow:
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
    pictures = [_picture(path, images) for path in paths]
    return TalkRow(task_id, 0, decode_lesson({"messages": messages, "images": pictures}))


def _message(turn: Fields) -> dict[str, str]:
    role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
    role = {"human": "user", "gpt": "assistant"}.get(str(role), role)  # ShareGPT's older names
    if role not in ("system", "user", "assistant") or not isinstance(content, str):
        raise RowFaultError("a message without a role or without text")
    return {"role": role, "content": content}


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
        return shrink(Image.decode(read_file(path)), 1024 * 1024)  # as the published Critic was trained
    except FileNotFoundError as e:
        raise RowFaultError("a picture that is not there (--images)") from e
    except (OSError, ValueError) as e:
        raise RowFaultError("a picture that cannot be read") from e


_KINDS: Mapping[PublishedKind, tuple[Callable[[Fields, str, Path], Any], RowKind[Any]]] = {
    "critiques": (_critique, critic_rows.CRITIQUES),
    "conversations": (_conversation, corpora.talks("conversations")),
}
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
