"""The kinds of models that come with goalreel. What one needs is imported when it is built, not before."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from goalreel.checkpoints import located
from goalreel.models.registry import Asked, DialectOptions, ModelOptions, chats, critics, editors, planners
from goalreel.planners.chat.conversation import Chat
from goalreel.types import Critic, Editor, Planner

CATALOGUE, SPLIT = "NAME[@FOLDER]", "NAME+EDITOR"
"""The editors' kinds without a kind in front."""


class HfOptions(DialectOptions):
    """What may follow `hf:DIR?`; see `goalreel.planners.chat.hf.HfChat.load`."""

    device: str | None = None
    dtype: str | None = None
    batch_size: int | None = None
    max_new_tokens: int | None = None
    temperature: float | Literal["checkpoint"] | None = None
    top_p: float | None = None
    top_k: int | None = None
    processor: str | None = None


class HttpOptions(DialectOptions):
    """What may follow `openai:MODEL@URL?` and `server:URL?`; see `planners.chat.openai.OpenAIChat`."""

    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    max_tokens: int | None = None
    concurrency: int | None = None
    timeout_s: float | None = None
    retries: Annotated[int, Field(ge=0)] | None = None
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] | None = None


class EditorOptions(ModelOptions):
    """What may follow `diffusers:DIR?` or a catalogue name; see `goalreel.editors.diffusers`."""

    device: str | None = None
    dtype: str | None = None
    batch_size: int | None = None
    offload: Literal["model", "sequential"] | None = None
    vae_tiling: bool | None = None
    quantize: Literal["fp8", "int8"] | None = None


class RemoteEditorOptions(ModelOptions):
    """What may follow the address of an editor; see `goalreel.editors.remote.RemoteEditor` and `Patience`."""

    concurrency: Annotated[int, Field(ge=1)] | None = None
    timeout_s: Annotated[float, Field(gt=0)] | None = None
    retries: Annotated[int, Field(ge=0)] | None = None


@chats.kind(
    "hf:DIR", "A vision-language checkpoint, loaded by transformers.", HfOptions, extra="gpu", shared=True
)
def _hf(asked: Asked[HfOptions]) -> Chat:
    from goalreel.planners.chat.hf import HfChat

    return HfChat.load(located(asked.name.target), **asked.options.loading)


@chats.kind(
    "openai:MODEL@URL",
    "An OpenAI-compatible server; without @URL, OpenAI's own.",
    HttpOptions,
    extra="api",
    remote=True,
)
def _openai(asked: Asked[HttpOptions]) -> Chat:
    from goalreel.planners.chat.openai import OpenAIChat

    return OpenAIChat(asked.name.model, base_url=asked.name.url, **asked.options.loading)


@chats.kind(
    "server:URL",
    "A goalreel server (`goalreel serve`), asked for the role.",
    HttpOptions,
    extra="api",
    remote=True,
)
def _server(asked: Asked[HttpOptions]) -> Chat:
    from goalreel.planners.chat.openai import OpenAIChat

    keys = ("GOALREEL_TOKEN", "GOALREEL_API_KEY")
    url = f"{asked.name.target.rstrip('/')}/v1"
    return OpenAIChat(asked.role, base_url=url, key_variables=keys, **asked.options.loading)


@planners.kind("kinematic", "Reads the steps off a recording's motion.", ModelOptions, needs_recording=True)
def _kinematic(asked: Asked[ModelOptions]) -> Planner:
    from goalreel.planners.kinematic import KinematicPlanner

    given = asked.recorded
    return KinematicPlanner(
        given.recordings, given.granularity, given.layout, given.camera, given.words, given.with_phases
    )


@planners.kind(
    "rows",
    "Takes the subtask rows that the dataset has, and leaves them as they are.",
    ModelOptions,
    needs_recording=True,
)
def _rows(asked: Asked[ModelOptions]) -> Planner:
    from goalreel.planners.recorded.rows import RowsPlanner

    return RowsPlanner(asked.recorded.recordings)


@planners.kind(
    "watch:CHAT",
    "A chat model that looks at the recorded frames: CHAT is its name, such as `hf:DIR`.",
    ModelOptions,
    needs_recording=True,
    asks_chat=True,
)
def _watch(asked: Asked[ModelOptions]) -> Planner:
    from goalreel.planners.watch.planner import WatchPlanner

    given = asked.recorded
    return WatchPlanner(
        given.recordings, asked.asked_chat, given.watched, given.layout, exemplars=given.exemplars
    )


@critics.kind(
    "difference", "Rejects pictures that are unusable or show no change.", ModelOptions, predicts=False
)
def _difference(asked: Asked[ModelOptions]) -> Critic:
    from goalreel.planners.recorded.difference import DifferenceCritic

    if asked.given is None:
        return DifferenceCritic()
    from goalreel.planners.recorded.motion_critic import MotionCritic

    return MotionCritic(asked.given.recordings, asked.given.layout)


@editors.kind(
    "diffusers:DIR",
    "A diffusers pipeline that takes a prompt and a picture.",
    EditorOptions,
    extra="gpu",
    shared=True,
)
def _diffusers(asked: Asked[EditorOptions]) -> Editor:
    from goalreel.editors.diffusers import DiffusersEditor

    return DiffusersEditor.load(located(asked.name.target), **asked.options.model_dump(exclude_none=True))


@editors.kind(
    "openai:MODEL@URL",
    "An OpenAI-compatible server; without @URL, OpenAI's own.",
    RemoteEditorOptions,
    extra="api",
    remote=True,
)
def _openai_editor(asked: Asked[RemoteEditorOptions]) -> Editor:
    return _remote("openai", asked)


@editors.kind(
    "server:URL", "A goalreel server (`goalreel serve`).", RemoteEditorOptions, extra="api", remote=True
)
def _server_editor(asked: Asked[RemoteEditorOptions]) -> Editor:
    return _remote("server", asked)


@editors.kind(
    "interleavethinker:URL",
    "InterleaveThinker's own edit server.",
    RemoteEditorOptions,
    extra="api",
    remote=True,
)
def _interleavethinker(asked: Asked[RemoteEditorOptions]) -> Editor:
    return _remote("interleavethinker", asked)


def _remote(kind: str, asked: Asked[RemoteEditorOptions]) -> Editor:
    from goalreel.editors.remote import CONCURRENCY, Patience, remote_editor

    given, usual = asked.options, Patience()
    patience = replace(
        usual,
        tries=usual.tries if given.retries is None else given.retries + 1,
        reply_s=given.timeout_s or usual.reply_s,
    )
    concurrency = given.concurrency or CONCURRENCY
    return remote_editor(kind, asked.name.target, concurrency=concurrency, patience=patience)


@editors.kind(
    CATALOGUE,
    "An entry of the catalogue (docs/editors.md), such as flux2-klein-4b; FOLDER holds its weights.",
    EditorOptions,
    extra="gpu",
    shared=True,
)
def _catalogue(asked: Asked[EditorOptions]) -> Editor:
    from goalreel.editors.diffusers import DiffusersEditor

    return DiffusersEditor.from_catalogue(asked.name.target, **asked.options.model_dump(exclude_none=True))


@editors.kind(SPLIT, "NAME of the catalogue draws first pictures, EDITOR edits.", ModelOptions)
def _split(asked: Asked[ModelOptions]) -> Editor:
    from goalreel.editors.split import SplitEditor
    from goalreel.models.load import build_editor

    draw, edit = asked.name.parts or (asked.name, asked.name)
    return SplitEditor(build_editor(draw.text, asked.given), build_editor(edit.text, asked.given))


@editors.kind("hindsight", "Takes goal images from the recording.", ModelOptions, needs_recording=True)
def _hindsight(asked: Asked[ModelOptions]) -> Editor:
    from goalreel.editors.hindsight import HindsightEditor

    return HindsightEditor(asked.recorded.recordings, asked.recorded.camera)
