"""Ask each model of a preset one real question: a plan, an edit, a verdict. For the day of new weights.

Those that look are then asked what has a known answer (`model_sight`).

`save_trial` writes a folder, with raw replies under the names that the parser's fixtures have:

plan-3-MODEL.txt, verdict-no-MODEL.txt    a reply that was read: a plan of three steps, a rejection
plan-bad-MODEL-1.txt                      one that could not be read
asked-plan.txt, asked-verdict.txt         what the models were asked; with a clone of InterleaveThinker this
                                          holds its prompts, which have no licence to be published
frame.png, edited.png                     the scene, and the editor's picture
trial.json                                how each model was asked, read, and how long it took
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from goalreel import __version__
from goalreel.annotator.model_sight import critic_sight, watcher_sight
from goalreel.annotator.plan import make_task
from goalreel.chat.ask import Question
from goalreel.chat.conversation import Chat, Conversation, NoReply, RecordingChat, TokenReply
from goalreel.chat.dialects import Dialect
from goalreel.chat.json_reply import Problem, valid
from goalreel.critics.chat import question as critic_question
from goalreel.errors import InputError, UserError, first_line
from goalreel.extras import absent
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.models.load import (
    ChatCache,
    ChatRole,
    build_chat,
    build_critic,
    build_editor,
    build_planner,
    dialect_of,
    sampled,
)
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.planners.chat import question as planner_question
from goalreel.torch_support import free_memory
from goalreel.types import Candidate, Critic, Edit, Failure, Plan, Role, Task, Verdict

INSTRUCTION = "put the green block in the purple bowl"
SCENE = Path(str(files("goalreel"))) / "studio/examples/scene_900031.png"
"""The scene of the tabletop that it is about: nano knows no other."""
_KIND = {"planner": "plan", "critic": "verdict"}
_GONE = re.compile(
    r"\b404\b|not found|no such model|does not exist|(not a valid|invalid|unknown) model"
    r"|no folder|no \w+ called",
    re.IGNORECASE,
)


class HeardReply(NamedTuple):
    """One reply of a chat model, and how it was read: a plan's number of steps, or `yes` or `no`."""

    text: str
    read_as: str | None = None
    problem: str | None = None
    """Reason why it could not be read."""


@dataclass
class RoleTrial:
    """The trial of one model: load it, ask it, and write down how it fared."""

    role: Role
    name: str
    how: str = ""
    """Way in which a chat model was asked: dialect, sampling, and what else decides its answer."""
    note: str | None = None
    load_s: float | None = None
    ask_s: float | None = None
    gave: str = ""
    """The answer in brief."""
    sight: str = ""
    """Findings of questions with known answers; empty where none were asked."""
    problem: str | None = None
    """Reason why it could not be used; None where it could."""
    asked: Question | Failure | None = None
    recording: RecordingChat | None = None

    @property
    def model(self) -> str:
        """The model's name without a secret."""
        return ModelName.parse(self.name).public()

    @property
    def gone(self) -> bool:
        """Return True if the problem is that there is no model of that name."""
        return self.problem is not None and bool(_GONE.search(self.problem))

    @property
    def replies(self) -> list[HeardReply]:
        """Replies of a chat model, in order."""
        return [] if self.recording is None else [self._read(e.reply) for e in self.recording.exchanges]

    def ready(self, more: str) -> Dialect | None:
        """Note how the model is asked; None where it is no chat model."""
        role: ChatRole = "planner" if self.role == "planner" else "critic"
        dialect = dialect_of(self.name, role)
        if dialect is not None:
            temperature = ModelName.parse(self.name).options.get("temperature", "0 (greedy)")
            self.how = f"dialect {dialect.name}, temperature {temperature}, {more}"
            self.note = dialect.note
        return dialect

    def record(self, chat: Chat) -> Chat:
        """Record the exchanges with a chat model."""
        self.recording = RecordingChat(chat)
        return self.recording

    def call[A: Plan | Image | Verdict](self, load: Callable[[], Callable[[], A | Failure]]) -> A | None:
        """Load the model and ask it; None where it cannot be used, with the problem."""
        started = time.perf_counter()
        try:
            ask = load()
            self.load_s = time.perf_counter() - started
            started = time.perf_counter()
            answer = ask()
            self.ask_s = time.perf_counter() - started
        except (UserError, OSError) as e:
            self.problem = first_line(e)
            return None
        except ModuleNotFoundError as e:
            self.problem = absent(e)
            if self.problem is None:
                raise
            return None
        if isinstance(answer, Failure):
            self.problem = answer.message
            return None
        return answer

    def look(self, sight: Callable[[], tuple[str, bool]]) -> None:
        """Ask what has a known answer; a model that does not look cannot be used. No reply is recorded."""
        recorded = len(self.recording.exchanges) if self.recording else 0
        try:
            found, looks = sight()
        except (UserError, OSError) as e:
            found, looks = first_line(e), False
        if self.recording:
            del self.recording.exchanges[recorded:]
        self.sight = found if looks else ""
        self.problem = None if looks else found

    def _read(self, reply: TokenReply | NoReply) -> HeardReply:
        if isinstance(reply, NoReply):
            return HeardReply(reply.cut_off or "", problem=reply.reason)
        match self.asked.read(reply.text) if isinstance(self.asked, Question) else None:
            case Problem(message=message):
                return HeardReply(reply.text, problem=message)
            case Plan(steps=steps):
                return HeardReply(reply.text, str(len(steps)))
            case Verdict(success=success):
                return HeardReply(reply.text, "yes" if success else "no")
        return HeardReply(reply.text)


@dataclass(frozen=True)
class Trial:
    """The trials of all models with one task; `edited` is the editor's picture."""

    preset: Preset
    task: Task
    roles: Sequence[RoleTrial]
    edited: Image | None

    @property
    def usable(self) -> bool:
        """Return True if every model could be used."""
        return all(role.problem is None for role in self.roles)


def trial_task(frame: Image | None = None, instruction: str | None = None) -> Task:
    """Make the task of a trial; without either a scene of the tabletop and what is to be done in it.

    Raises:
        InputError: a frame without an instruction.
    """
    if instruction is not None:
        return make_task(instruction, frame)
    if frame is not None:
        raise InputError("--frame needs --instruction: say what is to be done in the picture")
    return make_task(INSTRUCTION, Image.of(SCENE))


def try_models(preset: Preset, task: Task, tell: Callable[[RoleTrial], None] = lambda role: None) -> Trial:
    """Ask the three models, each even where another could not be used; `tell` hears of each as it is done."""
    cache: ChatCache = {}
    preset = sampled(preset)
    tried: list[RoleTrial] = []

    def done(trial: RoleTrial, gave: str) -> None:
        trial.gave = gave
        tried.append(trial)
        tell(trial)

    trial, plan = _plan(preset, task, cache)
    steps = plan.steps if plan is not None else ()
    done(trial, "; ".join(f"{n}. {s.name}" for n, s in enumerate(steps, start=1)))
    if preset.planner != preset.critic:
        cache.clear()
        free_memory()
    prompt, goal = next(((s.prompt, s.instruction) for s in steps if s.prompt is not None), (None, None))
    edit = Edit(
        task_id=task.id, step=0, attempt=0, image=task.image, prompt=prompt or task.instruction, seed=0
    )
    trial = RoleTrial("editor", preset.editor)
    edited = trial.call(partial(_editing, preset.editor, edit))
    done(trial, "" if edited is None else f"a picture of {edited.size[0]} x {edited.size[1]}")
    free_memory()
    candidate = Candidate(
        task_id=task.id,
        step=0,
        source=task.image,
        image=edited or task.image or Image.of(SCENE),
        instruction=goal or task.instruction,
        prompt=edit.prompt,
        first_prompt=edit.prompt,
    )
    done(*_judge(preset, candidate, cache))
    return Trial(preset, task, tried, edited)


def _plan(preset: Preset, task: Task, cache: ChatCache) -> tuple[RoleTrial, Plan | None]:
    name = ModelName.parse(preset.planner)
    # One that watches has no recording here, so its chat model is asked for a plan.
    trial = RoleTrial("planner", name.inner.text if name.kind == "watch" else preset.planner)

    def load() -> Callable[[], Plan | Failure]:
        dialect = trial.ready(f"at most {preset.max_steps} steps")
        if dialect is not None:
            trial.asked = planner_question(task, dialect=dialect, max_steps=preset.max_steps)
        model = build_planner(
            trial.name, None, cache, max_steps=preset.max_steps, dialect=dialect, wrap_chat=trial.record
        )
        return lambda: model.plan([task])[0]

    plan = trial.call(load)
    if plan is not None and name.kind == "watch":
        trial.look(lambda: watcher_sight(build_chat(trial.name, role="planner", cache=cache)))
    return trial, plan


def _editing(name: str, edit: Edit) -> Callable[[], Image | Failure]:
    model = build_editor(name)
    return lambda: model.edit([edit])[0]


def _judge(preset: Preset, candidate: Candidate, cache: ChatCache) -> tuple[RoleTrial, str]:
    trial = RoleTrial("critic", preset.critic)
    mode, scores, threshold = preset.critic_mode, preset.critic_scores, preset.critic_threshold

    loaded: list[Critic] = []

    def load() -> Callable[[], Verdict | Failure]:
        limit = "" if threshold is None else f", threshold {threshold:g}"
        dialect = trial.ready(f"{mode}{', scores' if scores else ''}{limit}")
        if dialect is not None:
            trial.asked = critic_question(candidate, mode=mode, scores=scores, dialect=dialect)
        model = build_critic(
            preset.critic,
            None,
            cache,
            mode=mode,
            scores=scores,
            threshold=threshold,
            dialect=dialect,
            wrap_chat=trial.record,
        )
        loaded.append(model)
        return lambda: model.judge([candidate])[0]

    verdict = trial.call(load)
    if verdict is None:
        return trial, ""
    chat, conversation = trial.recording, None
    if isinstance(trial.asked, Question):
        conversation = trial.asked.conversation
    trial.look(lambda: critic_sight(loaded[0], chat and chat.chat, conversation))
    sure = "" if verdict.probability is None else f", probability of success {verdict.probability:.3f}"
    refined = f"; prompt anew: {verdict.refined_prompt}" if verdict.refined_prompt else ""
    return trial, f"{'accepted' if verdict.success else 'rejected'}{sure}{refined}"


def _as_text(conversation: Conversation) -> str:
    turns = []
    for message in conversation:
        parts = [p if isinstance(p, str) else f"[{p.size[0]} x {p.size[1]} picture]" for p in message.parts]
        turns.append(f"--- {message.role}\n" + "\n".join(parts))
    return "\n".join(turns)


def save_trial(trial: Trial, out: Path) -> dict[str, Any]:
    """Write a trial into `out`, and return what trial.json holds; files of those names are replaced.

    Raises:
        DatasetError: the disk is full.
    """
    for name, image in (("frame.png", trial.task.image), ("edited.png", trial.edited)):
        if image is not None:
            write_bytes(out / name, image.png())
    roles = []
    for role in trial.roles:
        replies = []
        brief = re.sub(r"[^A-Za-z0-9._-]+", "-", ModelName.parse(role.model).brief()) or role.role
        for number, reply in enumerate(role.replies, start=1):
            end = f"bad-{brief}-{number}" if reply.read_as is None else f"{reply.read_as}-{brief}"
            name = f"{_KIND[role.role]}-{end}.txt" if reply.text else None
            if name is not None:
                write_bytes(out / name, valid(reply.text).encode())
            replies.append({"file": name, "read_as": reply.read_as, "problem": reply.problem})
        if isinstance(role.asked, Question):
            asked = _as_text(role.asked.conversation)
            write_bytes(out / f"asked-{_KIND[role.role]}.txt", valid(asked).encode())
        fields = ("role", "model", "how", "note", "load_s", "ask_s", "gave", "sight", "problem")
        roles.append({name: getattr(role, name) for name in fields} | {"replies": replies})
    record = {
        "goalreel": __version__,
        "preset": trial.preset.name,
        "instruction": trial.task.instruction,
        "usable": trial.usable,
        "models": roles,
    }
    write_bytes(out / "trial.json", json.dumps(record, indent=1).encode() + b"\n")
    return record
