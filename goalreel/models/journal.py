"""Answers on disk, so that a run that was killed asks no model twice.

The loop is a pure function of its answers. With those of the killed run it goes through the same states,
and calls a model only from where that run had stopped. Failures are not written: they are worth another try.
"""

import hashlib
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from goalreel.files import read_file, write_bytes
from goalreel.middleware import Middleware
from goalreel.types import ANSWER_TYPES, Answer, Ask, Failure, Request, Stage, Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Journal:
    """A folder of answers, by the request and the model. It can be killed at any moment."""

    folder: Path
    context: Callable[[str], str] = str
    """Task -> what its answers depend on beside the request, such as a recording's fingerprint."""
    _paths: dict[str, set[Path]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def middleware(self, keys: Mapping[Stage, str]) -> Middleware:
        """Make middleware that asks a model only what the journal does not hold.

        `keys` has what tells a model from others, for each stage whose answers are to be held.
        """

        def answer(ask: Ask, stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
            if stage not in keys:
                return ask(stage, requests)
            return self.ask(keys[stage], ANSWER_TYPES[stage], partial(ask, stage), requests)

        return lambda ask: partial(answer, ask)

    def ask[Q: BaseModel, A](
        self,
        name: str,
        answer_type: type[A],
        model: Callable[[Sequence[Q]], Sequence[A | Failure]],
        requests: Sequence[Q],
    ) -> list[A | Failure]:
        """Read the answers that the journal holds, and ask the model for all others in one call."""
        adapter = TypeAdapter(answer_type)
        paths = [self._path(name, request) for request in requests]
        for request, path in zip(requests, paths, strict=True):
            self._paths.setdefault(_task_id(request), set()).add(path)
        answers: list[A | Failure | None] = [_read(path, adapter) for path in paths]
        missing = [i for i, answer in enumerate(answers) if answer is None]
        fresh = model([requests[i] for i in missing]) if missing else []
        if len(fresh) != len(missing):
            raise ValueError(f"{name}: {len(missing)} requests but {len(fresh)} answers")
        for i, answer in zip(missing, fresh, strict=True):
            answers[i] = answer
            if not isinstance(answer, Failure):
                write_bytes(paths[i], adapter.dump_json(answer))
        return [answer for answer in answers if answer is not None]

    def forget(self, task_id: str) -> None:
        """Remove the answers of one task, whose storyboard is saved elsewhere."""
        for path in self._paths.pop(task_id, ()):
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the whole folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_if_empty(self) -> None:
        """Remove the folder where no answer is left in it."""
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _path(self, name: str, request: BaseModel) -> Path:
        context = self.context(_task_id(request))
        text = f"{name}\n{context}\n{type(request).__name__}\n{request.model_dump_json()}"
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def _task_id(request: BaseModel) -> str:
    return request.id if isinstance(request, Task) else getattr(request, "task_id", "")


def _read[A](path: Path, adapter: TypeAdapter[A]) -> A | None:
    try:
        return adapter.validate_json(read_file(path))
    except FileNotFoundError:
        return None
    except (ValidationError, OSError) as e:
        log.warning("%s: damaged, asking again (%s)", path, type(e).__name__)
        return None
