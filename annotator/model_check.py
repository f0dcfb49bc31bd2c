"""Ask each model of a preset one real question: a plan, an edit, a verdict. For the day of new weights.

Those that look are then asked what has a known answer: do they look at the pictures that they are sent?
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel import __version__
from goalreel.annotator.plan import make_task
from goalreel.chat.conversation import (
    Chat,
    ChatRequest,
    Conversation,
    Message,
    NoReply,
    Question,
    RecordingChat,
    TokenReply,
    least_tokens,
)
from goalreel.chat.dialects import Dialect
from goalreel.chat.json_reply import Problem, valid
from goalreel.critics.chat import question as critic_question
from goalreel.critics.examiner import examine
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
from goalreel.planners.watch.planner import WatchPlanner
from goalreel.torch_support import free_memory
from goalreel.types import Candidate, Critic, Edit, Failure, Plan, Planner, Role, Task, Verdict

_SIDE = 512
DRAWN_INSTRUCTION = "put the red block in the blue bowl"
_START, _END = (110, 290), (310, 250)
"""Left and upper edge of the block on the table, and in the bowl."""
_FRAMES, _FPS = 60, 10.0


def drawn_scene(block: tuple[int, int] = _START) -> Image:
    """Draw a table with a red block and a blue bowl, 512 x 512."""
    pixels = np.full((_SIDE, _SIDE, 3), (203, 196, 186), np.uint8)
    pixels[: _SIDE // 3] = (228, 230, 232)
    cv2.ellipse(pixels, (350, 340), (90, 62), 0, 0, 360, (44, 84, 190), -1, cv2.LINE_AA)
    cv2.ellipse(pixels, (350, 322), (72, 36), 0, 0, 360, (26, 52, 128), -1, cv2.LINE_AA)
    left, top = block
    cv2.rectangle(pixels, block, (left + 80, top + 80), (196, 44, 40), -1)
    cv2.rectangle(pixels, block, (left + 80, top + 16), (224, 92, 86), -1)
    return Image(pixels)


def critic_sight(critic: Critic, chat: Chat | None, conversation: Conversation | None) -> tuple[str, bool]:
    """Ask a Critic control questions about a drawn scene; return what is found, and whether it looks.

    `conversation` is a question that `chat`, if it is one, was asked before.
    """
    candidate = Candidate(
        task_id="sight",
        step=0,
        source=drawn_scene(),
        image=drawn_scene(_END),
        instruction="The red block lies inside the blue bowl.",
        prompt=DRAWN_INSTRUCTION,
    )
    (first,) = critic.judge([candidate])
    if isinstance(first, Failure):  # refused as by a model that knows its world
        return f"no answer to a question with a known answer: {first.message}", first.refused
    if first.pictures_only:
        return "compares no words with pictures: what it accepts is not verified", True
    answers = examine(critic, "it", [candidate]).kinds
    counted = _counted(chat, conversation) if chat is not None and conversation is not None else ""
    yes = [kind for kind, answer in answers.items() if answer.yes and kind != "true"]
    if false := [counted] * bool(counted) + [f"it accepted {kind}" for kind in yes]:
        return f"it is blind: {'; '.join(false)}", False
    lost = sum(answer.none for answer in answers.values())
    said = "what is true, and nothing else" if first.success else "nothing: a drawing may not pass"
    without = f" ({lost} of {len(answers)} without a usable answer)" if lost else ""
    return f"accepted {said}{without}", True


def _counted(chat: Chat, conversation: Conversation) -> str:
    """Say that the server counts as many tokens with pictures as without; empty where it does not."""
    text = tuple(
        Message(m.role, tuple("" if isinstance(part, Image) else part for part in m.parts))
        for m in conversation
    )
    replies = chat.answer([ChatRequest(conversation), ChatRequest(text)])
    counts = [r.usage.prompt for r in replies if isinstance(r, TokenReply) and r.usage and r.usage.prompt]
    if len(counts) < 2 or counts[0] - counts[1] >= least_tokens(conversation) / 4:
        return ""
    return f"its server counts {counts[0]} tokens with the pictures and {counts[1]} without"


class _Film:
    """A drawn recording, whose block moves into the bowl if the pictures are in `order`."""

    instruction, fps = DRAWN_INSTRUCTION, _FPS
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    timestamps: NDArray[np.float32] = (np.arange(_FRAMES) / _FPS).astype(np.float32)
    state = action = np.zeros((_FRAMES, 0), np.float32)

    def __init__(self, id: str, order: Sequence[int]) -> None:
        self.id, self._order = id, order

    def frames(self, camera: str, indices: Sequence[int]) -> list[Image]:
        way = np.clip((np.asarray(self._order)[list(indices)] - 20) / 20, 0, 1)
        places = np.outer(1 - way, _START) + np.outer(way, _END) - np.outer(np.sin(np.pi * way), (0, 120))
        return [drawn_scene((round(x), round(y))) for x, y in places]


def watcher_sight(chat: Chat) -> tuple[str, bool]:
    """Ask a planner that watches about drawn frames in order, shuffled and frozen; as `critic_sight`."""
    orders = {
        "in order": list(range(_FRAMES)),
        "shuffled": np.random.default_rng(0).permutation(_FRAMES).tolist(),
        "frozen": [0] * _FRAMES,
    }
    films = {name: _Film(name, order) for name, order in orders.items()}
    planner = WatchPlanner(films, chat, ["front"])
    seen, *others = planner.plan([Task(id=name, instruction=DRAWN_INSTRUCTION) for name in films])
    if isinstance(seen, Failure):
        return f"no plan of drawn frames: {seen.message}", False
    same = [name for name, plan in zip(list(films)[1:], others, strict=True) if plan == seen]
    # One step for all that happens may be so in any order.
    if "frozen" in same or (same and len(seen.steps) > 1):
        return f"it is blind: the same steps for frames that are {' or '.join(same)}", False
    answers = sum(isinstance(plan, Plan) for plan in others)
    return f"frames that are shuffled or frozen gave other steps ({answers} of 2 answered)", answers > 0


INSTRUCTION = "put the green block in the purple bowl"
SCENE = Path(str(files("goalreel"))) / "studio/examples/scene_900031.png"
"""The scene of the tabletop that it is about: nano knows no other."""


class HeardReply(NamedTuple):
    """One reply of a chat model, and how it was read: a plan's number of steps, or `yes` or `no`."""

    text: str
    read_as: str | None = None
    problem: str | None = None
    """Reason why it could not be read."""

    @classmethod
    def of(cls, reply: TokenReply | NoReply, question: Question) -> "HeardReply":
        if isinstance(reply, NoReply):
            return cls(reply.cut_off or "", problem=reply.reason)
        match question.read(reply.text):
            case Problem(message=message):
                return cls(reply.text, problem=message)
            case Plan(steps=steps):
                return cls(reply.text, str(len(steps)))
            case Verdict(success=success):
                return cls(reply.text, "yes" if success else "no")
        return cls(reply.text)


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
    sight: str = ""
    """Findings of questions with known answers; empty where none were asked."""
    problem: str | None = None
    """Reason why it could not be used; None where it could."""
    question: Question | None = None
    replies: Sequence[HeardReply] = ()
    recording: RecordingChat | None = None
    loaded: Any = None

    @property
    def model(self) -> str:
        """The model's name without a secret."""
        return ModelName.parse(self.name).public()

    def ready(
        self, role: ChatRole, more: str, ask: Callable[[Dialect], Question | Failure]
    ) -> Dialect | None:
        """Note how and what a chat model is asked; None where it is no chat model."""
        dialect = dialect_of(self.name, role)
        if dialect is not None:
            temperature = ModelName.parse(self.name).options.get("temperature", "0 (greedy)")
            self.how = f"dialect {dialect.name}, temperature {temperature}, {more}"
            self.note = dialect.note
            question = ask(dialect)
            self.question = question if isinstance(question, Question) else None
        return dialect

    def record(self, chat: Chat) -> Chat:
        self.recording = RecordingChat(chat)
        return self.recording

    def call[A: Plan | Image | Verdict](
        self, load: Callable[[], Any], ask: Callable[[Any], A | Failure]
    ) -> A | None:
        """Load the model and ask it; None where it cannot be used, with the problem."""
        started = time.perf_counter()
        try:
            self.loaded = load()
            self.load_s = time.perf_counter() - started
            answer = ask(self.loaded)
            self.ask_s = time.perf_counter() - started - self.load_s
        except (UserError, OSError) as e:
            self.problem = first_line(e)
            return None
        except ModuleNotFoundError as e:
            self.problem = absent(e)
            if self.problem is None:
                raise
            return None
        finally:
            if self.recording and self.question:
                self.replies = [HeardReply.of(reply, self.question) for reply in self.recording.replies]
        if isinstance(answer, Failure):
            self.problem = answer.message
            return None
        return answer

    def look(self, sight: Callable[[], tuple[str, bool]]) -> None:
        """Ask what has a known answer; a model that does not look cannot be used."""
        try:
            found, looks = sight()
        except (UserError, OSError) as e:
            found, looks = first_line(e), False
        self.sight, self.problem = (found, None) if looks else ("", found)


@dataclass(frozen=True)
class Trial:
    """The trials of all models with one task; `edited` is the editor's picture."""

    preset: Preset
    task: Task
    roles: Sequence[RoleTrial]
    edited: Image | None

    @property
    def usable(self) -> bool:
        return all(role.problem is None for role in self.roles)


def trial_task(frame: Image | None = None, instruction: str | None = None) -> Task:
    """Make the task of a trial; without either a scene of the tabletop and what is to be done in it."""
    if instruction is not None:
        return make_task(instruction, frame)
    if frame is not None:
        raise InputError("--frame needs --instruction: say what is to be done in the picture")
    return make_task(INSTRUCTION, Image.of(SCENE))


def try_models(preset: Preset, task: Task, tell: Callable[[RoleTrial], None] = lambda role: None) -> Trial:
    """Ask the three models, each even where another could not be used; `tell` hears of each as it is done."""
    cache: ChatCache = {}
    preset = sampled(preset)
    planner, plan = _try_planner(preset, task, cache)
    tell(planner)
    if preset.planner != preset.critic:
        cache.clear()
        free_memory()
    steps = plan.steps if plan is not None else ()
    prompt, goal = next(((s.prompt, s.instruction) for s in steps if s.prompt is not None), (None, None))
    prompt = prompt or task.instruction
    edit = Edit(task_id=task.id, step=0, attempt=0, image=task.image, prompt=prompt, seed=0)
    editor = RoleTrial("editor", preset.editor)
    edited = editor.call(lambda: build_editor(preset.editor), lambda model: model.edit([edit])[0])
    editor.gave = "" if edited is None else f"a picture of {edited.size[0]} x {edited.size[1]}"
    tell(editor)
    editor.loaded = None
    free_memory()
    candidate = Candidate(
        task_id=task.id,
        step=0,
        source=task.image,
        image=edited or task.image or Image.of(SCENE),
        instruction=goal or task.instruction,
        prompt=prompt,
        first_prompt=prompt,
    )
    critic = _try_critic(preset, candidate, cache)
    tell(critic)
    return Trial(preset, task, (planner, editor, critic), edited)


def _try_planner(preset: Preset, task: Task, cache: ChatCache) -> tuple[RoleTrial, Plan | None]:
    name = ModelName.parse(preset.planner)
    # One that watches has no recording here, so its chat model is asked for a plan.
    trial = RoleTrial("planner", name.inner.text if name.kind == "watch" else preset.planner)
    most = preset.max_steps

    def load() -> Planner:
        dialect = trial.ready(
            "planner",
            f"at most {most} steps",
            lambda dialect: planner_question(task, dialect=dialect, max_steps=most),
        )
        return build_planner(trial.name, None, cache, max_steps=most, dialect=dialect, wrap_chat=trial.record)

    plan = trial.call(load, lambda model: model.plan([task])[0])
    trial.loaded = trial.recording = None  # or their memory is not free for the others
    if plan is not None:
        trial.gave = "; ".join(f"{n}. {s.name}" for n, s in enumerate(plan.steps, start=1))
        if name.kind == "watch":
            trial.look(lambda: watcher_sight(build_chat(trial.name, role="planner", cache=cache)))
    return trial, plan


def _try_critic(preset: Preset, candidate: Candidate, cache: ChatCache) -> RoleTrial:
    trial = RoleTrial("critic", preset.critic)
    mode, scores, threshold = preset.critic_mode, preset.critic_scores, preset.critic_threshold

    def load() -> Critic:
        limit = "" if threshold is None else f", threshold {threshold:g}"
        dialect = trial.ready(
            "critic",
            f"{mode}{', scores' if scores else ''}{limit}",
            lambda dialect: critic_question(candidate, mode=mode, scores=scores, dialect=dialect),
        )
        return build_critic(
            preset.critic,
            None,
            cache,
            mode=mode,
            scores=scores,
            threshold=threshold,
            dialect=dialect,
            wrap_chat=trial.record,
        )

    verdict = trial.call(load, lambda model: model.judge([candidate])[0])
    if verdict is not None:
        sure = "" if verdict.probability is None else f", probability of success {verdict.probability:.3f}"
        refined = f"; prompt anew: {verdict.refined_prompt}" if verdict.refined_prompt else ""
        trial.gave = f"{'accepted' if verdict.success else 'rejected'}{sure}{refined}"
        chat = trial.recording.chat if trial.recording else None
        asked = trial.question.conversation if trial.question else None
        trial.look(lambda: critic_sight(trial.loaded, chat, asked))
    return trial


def save_trial(trial: Trial, out: Path) -> dict[str, Any]:
    """Write trial.json and the pictures into `out`, and return what trial.json holds.

    The questions lie apart, in asked.json: with a clone of InterleaveThinker they hold its prompts, which
    have no licence to be published.
    """
    for name, image in (("frame.png", trial.task.image), ("edited.png", trial.edited)):
        if image is not None:
            write_bytes(out / name, image.png())
    record = {
        "goalreel": __version__,
        "preset": trial.preset.name,
        "instruction": trial.task.instruction,
        "usable": trial.usable,
        "models": [_as_json(role) for role in trial.roles],
    }
    asked = {role.role: _asked(role.question) for role in trial.roles if role.question}
    write_bytes(out / "asked.json", json.dumps(asked, indent=1).encode() + b"\n")
    write_bytes(out / "trial.json", json.dumps(record, indent=1).encode() + b"\n")
    return record


def _as_json(role: RoleTrial) -> dict[str, Any]:
    fields = ("role", "model", "how", "note", "load_s", "ask_s", "gave", "sight", "problem")
    replies = [reply._replace(text=valid(reply.text))._asdict() for reply in role.replies]
    return {name: getattr(role, name) for name in fields} | {"replies": replies}


def _asked(question: Question) -> list[str]:
    return [f"{turn.role}: {valid('\n'.join(map(_shown, turn.parts)))}" for turn in question.conversation]


def _shown(part: str | Image) -> str:
    return part if isinstance(part, str) else f"[{part.size[0]} x {part.size[1]} picture]"
