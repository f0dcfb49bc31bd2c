"""Ask each model of a preset one real question: a plan, an edit, a verdict. For the day of new weights."""

from collections.abc import Callable

from goalreel.annotator.role_check import RoleCheck, RoleTrial
from goalreel.annotator.task_input import make_task
from goalreel.critics.chat import question as critic_question
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.load import ChatCache, build_critic, build_editor, build_planner
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.planners.chat import question as planner_question
from goalreel.settings import Frozen
from goalreel.torch_support import free_memory
from goalreel.types import Candidate, Edit, Failure, Plan, Task, Verdict

INSTRUCTION = "put the red block in the blue bowl"
SIDE = 512


class Trial(Frozen):
    """How all three fared with one task; `edited` is the editor's picture."""

    preset: Preset
    task: Task
    roles: tuple[RoleTrial, ...]
    edited: Image | None = None

    @property
    def usable(self) -> bool:
        """Whether every model could be used."""
        return all(role.problem is None for role in self.roles)


def trial_task(frame: Image | None = None, instruction: str | None = None) -> Task:
    """Make the task of a trial; without either a drawn scene and what is to be done in it.

    Raises:
        InputError: a frame without an instruction.
    """
    if instruction is not None:
        return make_task(instruction, frame)
    if frame is not None:
        raise InputError("--frame needs --instruction: say what is to be done in the picture")
    return make_task(INSTRUCTION, drawn_scene())


def drawn_scene() -> Image:
    """A table with a red block and a blue bowl, SIDE x SIDE."""
    import cv2
    import numpy as np

    pixels = np.full((SIDE, SIDE, 3), (203, 196, 186), np.uint8)
    pixels[: SIDE // 3] = (228, 230, 232)
    cv2.rectangle(pixels, (110, 290), (190, 370), (196, 44, 40), -1)
    cv2.rectangle(pixels, (110, 290), (190, 306), (224, 92, 86), -1)
    cv2.ellipse(pixels, (350, 340), (90, 62), 0, 0, 360, (44, 84, 190), -1, cv2.LINE_AA)
    cv2.ellipse(pixels, (350, 322), (72, 36), 0, 0, 360, (26, 52, 128), -1, cv2.LINE_AA)
    return Image(pixels)


def try_models(preset: Preset, task: Task, tell: Callable[[RoleTrial], None] = lambda role: None) -> Trial:
    """Ask the three models, each even where another could not be used; `tell` hears of each as it is done."""
    cache: ChatCache = {}
    tried: list[RoleTrial] = []

    def done(role: RoleTrial) -> None:
        tried.append(role)
        tell(role)

    plan = _plan(preset, task, cache, done)
    if preset.planner != preset.critic:
        cache.clear()
        free_memory()
    steps = plan.steps if plan is not None else ()
    prompt, goal = next(((s.prompt, s.instruction) for s in steps if s.prompt is not None), (None, None))
    edit = Edit(
        task_id=task.id, step=0, attempt=0, image=task.image, prompt=prompt or task.instruction, seed=0
    )
    edited = _edit(preset, edit, done)
    free_memory()
    picture = edited or task.image or drawn_scene()
    candidate = Candidate(
        task_id=task.id,
        step=0,
        source=task.image,
        image=picture,
        instruction=goal or task.instruction,
        prompt=edit.prompt,
        first_prompt=edit.prompt,
    )
    _judge(preset, candidate, cache, done)
    return Trial(preset=preset, task=task, roles=tuple(tried), edited=edited)


def _plan(preset: Preset, task: Task, cache: ChatCache, done: Callable[[RoleTrial], None]) -> Plan | None:
    name = ModelName.parse(preset.planner)
    # One that watches has no recording here, so its chat model is asked for a plan.
    chat_name = name.inner.text if name.kind == "watch" else preset.planner
    check = RoleCheck("planner", chat_name)

    def load() -> Callable[[], Plan | Failure]:
        dialect = check.ready(f"at most {preset.max_steps} steps")
        if dialect is not None:
            check.question = planner_question(task, dialect=dialect, max_steps=preset.max_steps)
        model = build_planner(
            chat_name, None, cache, max_steps=preset.max_steps, dialect=dialect, wrap_chat=check.record
        )
        return lambda: model.plan([task])[0]

    plan = check.call(load)
    outline = "" if plan is None else "; ".join(f"{n}. {s.name}" for n, s in enumerate(plan.steps, start=1))
    done(check.outcome(outline))
    return plan


def _edit(preset: Preset, edit: Edit, done: Callable[[RoleTrial], None]) -> Image | None:
    """The first picture that one of the editors gave; each is asked."""
    names = [name.text for name in preset.model_name("editor").alternatives]
    pictures = [_edit_by(name, edit, done) for name in names]
    return next((picture for picture in pictures if picture is not None), None)


def _edit_by(name: str, edit: Edit, done: Callable[[RoleTrial], None]) -> Image | None:
    check = RoleCheck("editor", name)

    def load() -> Callable[[], Image | Failure]:
        model = build_editor(name)
        return lambda: model.edit([edit])[0]

    picture = check.call(load)
    done(check.outcome("" if picture is None else f"a picture of {picture.size[0]} x {picture.size[1]}"))
    return picture


def _judge(preset: Preset, candidate: Candidate, cache: ChatCache, done: Callable[[RoleTrial], None]) -> None:
    check = RoleCheck("critic", preset.critic)
    mode, scores, threshold = preset.critic_mode, preset.critic_scores, preset.critic_threshold

    def load() -> Callable[[], Verdict | Failure]:
        limit = "" if threshold is None else f", threshold {threshold:g}"
        dialect = check.ready(f"{mode}{', scores' if scores else ''}{limit}")
        if dialect is not None:
            check.question = critic_question(candidate, mode=mode, scores=scores, dialect=dialect)
        model = build_critic(
            preset.critic,
            None,
            cache,
            mode=mode,
            scores=scores,
            threshold=threshold,
            dialect=dialect,
            wrap_chat=check.record,
        )
        return lambda: model.judge([candidate])[0]

    verdict = check.call(load)
    done(check.outcome("" if verdict is None else _told(verdict)))


def _told(verdict: Verdict) -> str:
    sure = "" if verdict.probability is None else f", probability of success {verdict.probability:.3f}"
    refined = f"; prompt anew: {verdict.refined_prompt}" if verdict.refined_prompt else ""
    return f"{'accepted' if verdict.success else 'rejected'}{sure}{refined}"
