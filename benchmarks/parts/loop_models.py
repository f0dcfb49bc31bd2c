"""The checkpoints of `benchmarks/loop.py`: tiny ones, saved and loaded."""

from pathlib import Path

from support import tiny, tiny_pipelines

from goalreel.chat.hf import HfChat
from goalreel.editors.catalogue import Entry
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.types import Editor

SIDE = 96
TINY_CALL = Entry(
    pipeline="Flux2KleinPipeline",
    kinds=("edit",),
    steps=4,
    guidance={"guidance_scale": 1.0},
    arguments={"max_sequence_length": 64},
)


def build(folder: Path, batch: int, tokens: int) -> tuple[HfChat, Editor, int]:
    """Build (chat, editor, side of the pictures); every reply has exactly `tokens` new tokens."""
    chat = HfChat.load(tiny.tiny_vlm(folder / "vlm"), batch_size=batch, max_new_tokens=tokens)
    chat.model.generation_config.min_new_tokens = tokens
    path = tiny_pipelines.tiny_pipeline("Flux2KleinPipeline", folder / "editor")
    return chat, DiffusersEditor.load(path, entry=TINY_CALL, batch_size=batch), SIDE
