"""Answers kept on disk, so that a killed run asks no model twice.

The loop is a pure function of its answers: with those of the killed run at hand it goes through the same
states again and calls a model only where it had not got to. Failures are not kept: they are worth a retry.
"""

import hashlib
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.types import (
    Candidate,
    Critic,
    Edit,
    Editor,
    Failure,
    Plan,
    Planner,
    Task,
    Verdict,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Journal:
    """A folder of answers by what was asked, of which model. Safe to kill at any moment."""

    folder: Path
    about: Callable[[str], str] = str
    """Task -> what its answers depend on beside the question, such as a recording's fingerprint."""
    _asked: dict[str, set[Path]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def planner(self, model: Planner, name: str) -> Planner:
        """A Planner that asks `model`, called `name`, only what the journal does not know."""
        return _KeptPlanner(self, model, name)

    def editor(self, model: Editor, name: str) -> Editor:
        """An Editor that asks `model`, called `name`, only what the journal does not know."""
        return _KeptEditor(self, model, name)

    def critic(self, model: Critic, name: str) -> Critic:
        """A Critic that asks `model`, called `name`, only what the journal does not know."""
        return _KeptCritic(self, model, name)

    def ask[Q: BaseModel, A](
        self,
        name: str,
        kind: type[A],
        model: Callable[[Sequence[Q]], Sequence[A | Failure]],
        asked: Sequence[Q],
    ) -> list[A | Failure]:
        """Answers from the journal where it has them, from one call of the model where not."""
        adapter = TypeAdapter(kind)
        paths = [self._path(name, question) for question in asked]
        for question, path in zip(asked, paths, strict=True):
            self._asked.setdefault(_task_id(question), set()).add(path)
        found: list[A | Failure | None] = [_read(path, adapter) for path in paths]
        missing = [i for i, answer in enumerate(found) if answer is None]
        fresh = model([asked[i] for i in missing]) if missing else []
        if len(fresh) != len(missing):
            raise ValueError(f"{name}: {len(missing)} requests but {len(fresh)} answers")
        for i, answer in zip(missing, fresh, strict=True):
            found[i] = answer
            if not isinstance(answer, Failure):
                write_bytes(paths[i], adapter.dump_json(answer))
        return [answer for answer in found if answer is not None]

    def forget(self, task_id: str) -> None:
        """Remove the answers that were asked for about one task: its storyboard is safe elsewhere."""
        for path in self._asked.pop(task_id, ()):
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the whole folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_if_empty(self) -> None:
        """Remove the folder where no answer is left in it."""
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _path(self, name: str, question: BaseModel) -> Path:
        about = self.about(_task_id(question))
        text = f"{name}\n{about}\n{type(question).__name__}\n{question.model_dump_json()}"
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


@dataclass(frozen=True)
class _KeptPlanner:
    journal: Journal
    model: Planner
    name: str

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        return self.journal.ask(self.name, Plan, self.model.plan, tasks)


@dataclass(frozen=True)
class _KeptEditor:
    journal: Journal
    model: Editor
    name: str

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        return self.journal.ask(self.name, Image, self.model.edit, edits)


@dataclass(frozen=True)
class _KeptCritic:
    journal: Journal
    model: Critic
    name: str

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        return self.journal.ask(self.name, Verdict, self.model.judge, candidates)


def _task_id(question: BaseModel) -> str:
    return question.id if isinstance(question, Task) else getattr(question, "task_id", "")


def _read[A](path: Path, adapter: TypeAdapter[A]) -> A | None:
    try:
        return adapter.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValidationError, OSError) as e:
        log.warning("%s: damaged, asking again (%s)", path, type(e).__name__)
        return None
