"""The questions that InterleaveThinker's published checkpoints were trained on (arXiv 2606.13679).

The published prompts have no licence, so we do not ship them: they are read, as data, from a clone of the
reference repository (`UEval/system.py`). Without a clone, our own prompts take the same form.
"""

import ast
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from goalreel.chat.conversation import MARK, Conversation, Message, interleave, plain
from goalreel.chat.dialects.own import DialectName, Mode, task_images
from goalreel.chat.prompts import render
from goalreel.chat.verdict import PUBLISHED_FORMAT
from goalreel.errors import InputError
from goalreel.files import read_file
from goalreel.image import Image
from goalreel.types import Candidate, DoneStep, ReplanContext, Task

log = logging.getLogger(__name__)

VARIABLE = "GOALREEL_INTERLEAVETHINKER"
CLONE = "git clone https://github.com/zhengdian1/InterleaveThinker"
FILE = "UEval/system.py"
MAX_BYTES = 4096 * 1024
WHITE = 1024
"""The side, in pixels, of the white square that is the source of a picture made from text."""
_TASK, _FIRST, _PRESENT = "{text_input}", "{original_instruction}", "{rewritten_prompt}"
_NOTE = (
    "the published prompts are not at hand: InterleaveThinker's checkpoints are asked in other words than "
    f"they were trained on, and the paper's numbers cannot be expected. {CLONE}, "
    f"and set {VARIABLE} to its folder"
)


@dataclass(frozen=True)
class _Prompts:
    narrative: str
    guidance: str
    critic: str


class InterleaveThinkerDialect:
    """Asks as the reference code does; `interleavethinker` makes it.

    A Critic's mode is ignored: strict and fast are two checkpoints, Critic-8B and Critic-SFT-8B, with one
    prompt. The published prompts name no limit of steps; a longer plan is still rejected.
    """

    name: DialectName = "interleavethinker"
    scored = False
    repeats = True
    trained_steps = None
    verdict_format = PUBLISHED_FORMAT

    def __init__(self, prompts: _Prompts | None) -> None:
        self._published = prompts
        self.note: str | None = None if prompts else _NOTE

    def plan(self, task: Task, max_steps: int) -> Conversation:
        scene, images = task_images(task)
        first, now = (None, scene) if task.done else (scene, None)
        return self._planner(task.instruction, first, images, task.done, now, max_steps)

    def replan(self, progress: ReplanContext, max_steps: int) -> Conversation:
        """Ask for the remaining steps. The published form has no place for the earlier plan of them."""
        task, steps = progress.storyboard.task, progress.storyboard.steps[: progress.done]
        scene, images = task_images(task)
        done = [DoneStep(instruction=s.step.instruction, image=s.goal_image) for s in steps]
        return self._planner(task.instruction, scene, images, (*task.done, *done), progress.image, max_steps)

    def judge(self, candidate: Candidate, *, mode: Mode, scores: bool) -> Conversation:
        texts = {_FIRST: plain(candidate.first_prompt or candidate.prompt), _PRESENT: plain(candidate.prompt)}
        source = candidate.source or _white()
        text = "\n" + _filled(self._prompts(1).critic, texts)
        return (Message("user", (source, candidate.image, text)),)

    def _planner(
        self,
        instruction: str,
        first: Image | None,
        images: Sequence[Image],
        done: Sequence[DoneStep],
        now: Image | None,
        max_steps: int,
    ) -> Conversation:
        """One turn: the instruction, a line for each done step, the present scene."""
        prompts = self._prompts(max_steps)
        lines = [instruction if first is None else f"{MARK}. {instruction}"]
        lines += [_line(number, step) for number, step in enumerate(done, 1)]
        lines += [] if now is None else [f"Now: {MARK}"]
        pictures = [p for p in (first, *images, *(s.image for s in done), now) if p is not None]
        prompt = prompts.guidance if pictures or done else prompts.narrative
        text = _filled(plain(prompt), {_TASK: "\n".join(lines)})
        return (Message("user", interleave(text, pictures)),)

    def _prompts(self, max_steps: int) -> _Prompts:
        if self._published:
            return self._published
        values = {"max_steps": max_steps, "task": _TASK}
        narrative, guidance = (
            render("interleavethinker/planner", values | {"guided": guided}) for guided in (False, True)
        )
        critic = render("interleavethinker/critic", {"first": _FIRST, "present": _PRESENT})
        return _Prompts(narrative, guidance, critic)


def interleavethinker(folder: Path | None = None) -> InterleaveThinkerDialect:
    """Make the dialect with the prompts of a clone: `folder`, else $GOALREEL_INTERLEAVETHINKER.

    Without either it has our own prompts, says so in `note`, and logs a warning.

    Raises:
        InputError: the folder lacks the file, or the file lacks a prompt or a mark in one.
    """
    clone = folder or os.environ.get(VARIABLE)
    if clone:
        return InterleaveThinkerDialect(_read(Path(clone).expanduser()))
    log.warning("%s", _NOTE)
    return InterleaveThinkerDialect(None)


def _read(folder: Path) -> _Prompts:
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"{folder}: no {FILE} in it; it has to be a clone: {CLONE}")
    texts = string_constants(path)

    def text(name: str, *marks: str) -> str:
        if name not in texts:
            raise InputError(f"{path}: no text {name} in it; take the repository as published: {CLONE}")
        if missing := [mark for mark in marks if mark not in texts[name]]:
            raise InputError(f"{path}: {name} lacks {missing[0]}; take the repository as published: {CLONE}")
        return texts[name]

    return _Prompts(
        narrative=text("NARRATIVE_PROMPT_JSON", _TASK),
        guidance=text("GUIDANCE_GLOBAL_PROMPT_JSON", _TASK),
        critic=text("Iterative_T2I_PROMPT_QWEN", _FIRST, _PRESENT),
    )


def _line(number: int, step: DoneStep) -> str:
    return f"Step {number}: {plain(step.instruction)}{'' if step.image is None else f' {MARK}'}"


@cache
def _white() -> Image:
    return Image(np.full((WHITE, WHITE, 3), 255, np.uint8))


def _filled(prompt: str, texts: Mapping[str, str]) -> str:
    """Replace every mark by its text, at once: a mark within a text stays as it is."""
    return re.sub("|".join(map(re.escape, texts)), lambda mark: texts[mark[0]], prompt)


# -- strings in the Python source of others, read as data: nothing of it is imported or run


def string_constants(path: Path | str) -> dict[str, str]:
    """Map every name that a Python file assigns a string to, at any depth, to its first such string.

    An f-string keeps its expressions in braces, as they are written: `f"a {b[0]}"` is `"a {b[0]}"`.

    Raises:
        InputError: there is no such file, or it is no Python source.
    """
    return dict(reversed(named_strings(Path(path), _assignments)))


type Named = Iterator[tuple[object, ast.expr]]


def named_strings(path: Path, find: Callable[[ast.AST], Named]) -> list[tuple[str, str]]:
    """List the (name, string) that `find` sees, in the order of a file; raises as `string_constants`."""
    try:
        source = read_file(path, MAX_BYTES)
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    try:
        named = [pair for node in ast.walk(ast.parse(source)) for pair in find(node)]
        texts = [(name, _string(value)) for name, value in sorted(named, key=lambda pair: pair[1].lineno)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise InputError(f"{path}: is no Python source ({type(e).__name__})") from e
    return [(name, text) for name, text in texts if isinstance(name, str) and text is not None]


def _assignments(node: ast.AST) -> Named:
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield getattr(target, "id", None), node.value


def _string(value: ast.expr) -> str | None:
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                "{" + ast.unparse(p.value) + "}" if isinstance(p, ast.FormattedValue) else _string(p) or ""
                for p in parts
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            a, b = _string(left), _string(right)
            return None if a is None or b is None else a + b
        case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[], keywords=[]):
            return None if (a := _string(inner)) is None else a.strip()
    return None
