"""The kinds of models that come with goalreel. What one needs is imported when it is built, not before."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from goalreel import checkpoints
from goalreel.chat.conversation import Chat
from goalreel.claims import WATCHED
from goalreel.http.calls import probe
from goalreel.http.endpoint import SERVER_KEYS
from goalreel.image import Image
from goalreel.models.names import (
    EditorOptions,
    HfOptions,
    HttpOptions,
    ModelName,
    ModelOptions,
    RemoteEditorOptions,
    ServiceEditorOptions,
)
from goalreel.models.registry import CATALOGUE, SPLIT, ModelSpec, chats, critics, editors, planners
from goalreel.types import Critic, Edit, Editor, Failure, Planner

OPENAI = "An OpenAI-compatible server; without @URL, OpenAI's own."
SERVER = "A goalreel server (`goalreel serve`), asked for the role."


@chats.kind(
    "hf:DIR", "A vision-language checkpoint, loaded by transformers.", HfOptions, extra="gpu", shared=True
)
def _hf(spec: ModelSpec[HfOptions]) -> Chat:
    from goalreel.chat.hf import HfChat

    spec.name.check_folders()
    return HfChat.load(checkpoints.located(spec.name.target), **spec.options.loading)


@chats.kind("openai:MODEL@URL", OPENAI, HttpOptions, extra="api", remote=True)
def _openai(spec: ModelSpec[HttpOptions]) -> Chat:
    from goalreel.chat.openai import OpenAIChat

    return OpenAIChat(spec.name.model, base_url=spec.name.url, **spec.options.loading)


@chats.kind("server:URL", SERVER, HttpOptions, extra="api", remote=True)
def _server(spec: ModelSpec[HttpOptions]) -> Chat:
    from goalreel.chat.openai import OpenAIChat

    url = f"{spec.name.target.rstrip('/')}/v1"
    return OpenAIChat(spec.role, base_url=url, key_variables=SERVER_KEYS, **spec.options.loading)


@planners.kind("kinematic", "Reads the steps off a recording's motion.", ModelOptions, needs_recording=True)
def _kinematic(spec: ModelSpec[ModelOptions]) -> Planner:
    from goalreel.planners.kinematic.planner import KinematicPlanner

    asked = spec.required_recordings
    return KinematicPlanner(
        asked.recordings,
        granularity=asked.granularity,
        layout=asked.layout,
        camera=asked.camera,
        with_phases=asked.with_phases,
        last_retreat=asked.last_retreat,
        steps=asked.steps,
    )


@planners.kind(
    "examples",
    "Carries over the steps of labelled episodes (`--examples`), and reads other instructions by motion.",
    ModelOptions,
    needs_recording=True,
)
def _examples(spec: ModelSpec[ModelOptions]) -> Planner:
    from goalreel.planners.examples.hand_cues import cues_of
    from goalreel.planners.examples.planner import ExamplesPlanner

    asked = spec.required_recordings
    return ExamplesPlanner(asked.recordings, asked.examples, _kinematic(spec), cues_of(asked.layout))


@planners.kind(
    "rows",
    "Takes the sub-task labels that the dataset has, in any form, and leaves them as they are.",
    ModelOptions,
    needs_recording=True,
)
def _rows(spec: ModelSpec[ModelOptions]) -> Planner:
    from goalreel.planners.rows import RowsPlanner

    return RowsPlanner(spec.required_recordings.recordings, spec.required_recordings.labels)


@planners.kind(
    "watch:CHAT",
    "A chat model that looks at the recorded frames: CHAT is its name, such as `hf:DIR`.",
    ModelOptions,
    needs_recording=True,
    asks_chat=True,
)
def _watch(spec: ModelSpec[ModelOptions]) -> Planner:
    from goalreel.planners.watch.planner import WatchPlanner

    context, chat = spec.required_recordings, spec.chat
    assert chat is not None, "a kind that asks a chat model gets one"
    return WatchPlanner(
        context.recordings,
        chat,
        context.watched,
        context.layout,
        examples=context.examples,
        details=set(context.details).intersection(WATCHED),
        examine=True,
    )


@planners.kind("instruction", "Makes one step of the whole instruction.", ModelOptions, predicts=False)
def _instruction(spec: ModelSpec[ModelOptions]) -> Planner:
    from goalreel.planners.chat import InstructionPlanner

    return InstructionPlanner()


@critics.kind("accept", "Accepts every picture unseen.", ModelOptions, predicts=False)
def _accept(spec: ModelSpec[ModelOptions]) -> Critic:
    from goalreel.critics.difference import AcceptCritic

    return AcceptCritic()


@critics.kind(
    "difference", "Rejects pictures that are unusable or show no change.", ModelOptions, predicts=False
)
def _difference(spec: ModelSpec[ModelOptions]) -> Critic:
    from goalreel.critics.difference import DifferenceCritic

    if spec.recordings is None:
        return DifferenceCritic()
    from goalreel.critics.motion import MotionCritic

    return MotionCritic(spec.recordings.recordings, spec.recordings.layout)


def _works(name: ModelName) -> Collection[str]:
    from goalreel.editors.catalogue import works_of

    return works_of(checkpoints.located(name.target) if name.kind else name.target, by_name=not name.kind)


_LOCAL: dict[str, Any] = {"options": EditorOptions, "extra": "gpu", "shared": True, "works": _works}


@editors.kind("diffusers:DIR", "A diffusers pipeline that takes a prompt and a picture.", **_LOCAL)
def _diffusers(spec: ModelSpec[EditorOptions]) -> Editor:
    from goalreel.editors.diffusers import DiffusersEditor

    return DiffusersEditor.load(checkpoints.located(spec.name.target), **spec.options.loading)


_ALL_WORKS = ("text-to-image", "edit", "references")


def _register_remote(
    form: str,
    help: str,
    options: type[RemoteEditorOptions] = RemoteEditorOptions,
    works: Collection[str] = _ALL_WORKS,
) -> None:
    """Register a kind of editor behind HTTP, one that `remote_editor` knows by the same word."""

    @editors.kind(form, help, options, extra="api", remote=True, works=lambda name: works)
    def build(spec: ModelSpec[RemoteEditorOptions]) -> Editor:
        from goalreel.editors.remote import remote_editor

        return remote_editor(form.partition(":")[0], spec.name.target, **spec.options.loading)


_register_remote("openai:MODEL@URL", OPENAI, ServiceEditorOptions)
_register_remote("gemini:MODEL@URL", "Gemini's image API; without @URL, Google's own.", ServiceEditorOptions)
_register_remote("server:URL", "A goalreel server (`goalreel serve`).")
_register_remote("interleavethinker:URL", "InterleaveThinker's own edit server.", works=_ALL_WORKS[:2])


@editors.kind(
    CATALOGUE, "An editor of the catalogue, such as flux2-klein-4b; FOLDER holds its weights.", **_LOCAL
)
def _catalogue(spec: ModelSpec[EditorOptions]) -> Editor:
    from goalreel.editors.diffusers import DiffusersEditor

    return DiffusersEditor.from_catalogue(spec.name.target, **spec.options.loading)


class SplitEditor:
    """Two editors as one: sends edits without a source to `draw`, and the others to `edit`."""

    def __init__(self, draw: Editor, edit: Editor) -> None:
        self._models = {True: draw, False: edit}

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i belongs to edit i, from either model."""
        answers: dict[bool, Iterator[Image | Failure]] = {}
        for draws, model in self._models.items():
            group = [e for e in edits if (e.image is None) == draws]
            answers[draws] = iter(model.edit(group) if group else ())
        return [next(answers[e.image is None]) for e in edits]

    def probe(self) -> str | None:
        """Ask both editors' servers whether they are there (`goalreel.http.calls.probe`)."""
        remarks = [r for model in self._models.values() if (r := probe(model)) is not None]
        return "; ".join(filter(None, remarks)) if remarks else None


@editors.kind(SPLIT, "NAME of the catalogue draws first pictures, EDITOR edits.", ModelOptions)
def _split(spec: ModelSpec[ModelOptions]) -> Editor:
    first, second = spec.editors
    return SplitEditor(first, second)


@editors.kind("hindsight", "Takes goal images from the recording.", ModelOptions, needs_recording=True)
def _hindsight(spec: ModelSpec[ModelOptions]) -> Editor:
    from goalreel.editors.hindsight import HindsightEditor

    return HindsightEditor(spec.required_recordings.recordings, spec.required_recordings.camera)
