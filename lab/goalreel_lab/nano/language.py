"""Passages that are one token each for nano models: names, places, and the words between."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from goalreel.chat.conversation import MARK, Chat, ChatRequest, Conversation, NoReply
from goalreel.critics.chat import ChatCritic
from goalreel.image import Image
from goalreel.planners.chat import ChatPlanner
from goalreel.tabletop.scene import COLOURS
from goalreel.terms import Mode
from goalreel.types import Candidate, ReplanContext, Step, Storyboard, StoryboardStep, Task
from goalreel_lab.corpora.grounding import COLUMNS, ROWS
from goalreel_lab.corpora.prompts import UNMOVED
from goalreel_lab.nano.config import HEAD, NanoShape

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def tabletop_words() -> tuple[str, ...]:
    """List objects' names, cells of the table, and how every explicit order ends."""
    names = [f"{colour} {kind}" for colour, kind in product(COLOURS, ("block", "bowl"))]
    objects = [form.format(name) for form in ("{}", " {}", ", the {}") for name in names]
    cells = [*(f" c{n}" for n in range(COLUMNS)), *(f" r{n}" for n in range(ROWS))]
    return (*objects, *cells, f", the {UNMOVED} as they are.")


def token_id(tokenizer: "PreTrainedTokenizerBase", token: str) -> int:
    """Give the number of one token."""
    number = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(number, int)
    return number


SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
CHAT_TEMPLATE = """{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.content is string -%}{{- message.content -}}{%- else -%}
{%- for part in message.content -%}
{{- '<|vision_start|><|image_pad|><|vision_end|>' if part.type == 'image' else part.text -}}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"""
PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"
"""Mark that the chat template writes for a picture."""
PATCH, MERGE = 8, 2
SHORTEST = 8
"""Characters from which on a constant passage is worth a token."""
MOST = 64
"""Passages of replies that become tokens, the most frequent first."""
_HOLE = "\ue000"
_VALUE = re.compile(r'(?<=": ")(?:[^"\\]|\\.)*(?=")')
"""A string value in a reply's JSON."""


class _Listener(Chat):
    """A chat that answers nothing and remembers what it was asked."""

    def __init__(self) -> None:
        self.heard: list[Conversation] = []

    def answer(self, requests: Sequence[ChatRequest]) -> list[NoReply]:
        self.heard += [request.conversation for request in requests]
        return [NoReply("only listening")] * len(requests)


def prompt_passages() -> tuple[str, ...]:
    """List the constant passages of what Planner and Critic ask first, as the agents themselves say them."""
    chat, image = _Listener(), Image(np.zeros((16, 16, 3), np.uint8))
    planner = ChatPlanner(chat, replies=1)
    with_image = Task(id="t", instruction=_HOLE, image=image)
    planner.plan([with_image, Task(id="t", instruction=_HOLE)])
    step = StoryboardStep(step=Step(name=_HOLE, instruction=_HOLE, prompt=_HOLE))
    board = Storyboard(task=with_image, steps=(step, step))
    planner.continue_plan([ReplanContext(board, done, image) for done in (0, 1, 2)])
    modes: tuple[Mode, ...] = ("strict", "fast")
    for mode, scores in product(modes, (False, True)):
        candidates = [
            Candidate(task_id="t", step=0, source=s, image=image, instruction=_HOLE, prompt=_HOLE)
            for s in (image, None)
        ]
        ChatCritic(chat, mode=mode, scores=scores, replies=1).judge(candidates)
    texts = [p for conversation in chat.heard for m in conversation for p in m.parts if isinstance(p, str)]
    return _pieces(texts)


def reply_passages(replies: Sequence[str]) -> tuple[str, ...]:
    """List what the replies say around the values of their JSON, from the end of the thinking on."""
    count: Counter[str] = Counter()
    for text in replies:
        answer = text[text.find("</think>") :] if "</think>" in text else text
        count.update(_pieces([_VALUE.sub(_HOLE, answer)]))
    return tuple(piece for piece, _ in count.most_common(MOST))


def _pieces(texts: Sequence[str]) -> tuple[str, ...]:
    pieces = (piece for text in texts for piece in text.split(_HOLE))
    return tuple(dict.fromkeys(p for p in pieces if len(p) >= SHORTEST))


def byte_level_bpe(texts: Iterable[str], vocabulary: int, special: Sequence[str]) -> Tokenizer:
    """Train a byte-level BPE of `vocabulary` entries, the special ones first."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return bpe


def build_tokenizer(rows: Sequence[Mapping[str, Any]], vocabulary: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE over what rows say between the constant passages, which are tokens themselves.

    Args:
        rows: as `training.conversations.read_rows` gives them.
        vocabulary: entries but for the passages.
    """
    replies = [r["messages"][-1]["content"] for r in rows]
    passages = tuple(dict.fromkeys((*prompt_passages(), *reply_passages(replies), *tabletop_words())))
    apart = re.compile("|".join(re.escape(p) for p in sorted((*passages, MARK), key=len, reverse=True)))
    texts = (piece for r in rows for m in r["messages"] for piece in apart.split(m["content"]))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_level_bpe(texts, vocabulary, SPECIAL),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=list(SPECIAL[3:]),
        clean_up_tokenization_spaces=False,
    )
    added = [AddedToken(p, normalized=False, special=False) for p in passages]
    tokenizer.add_tokens(added)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def build_processor(tokenizer: PreTrainedTokenizerFast, side: int) -> Qwen3VLProcessor:
    """Make a processor that scales pictures to about `side` x `side` pixels, their shape kept."""
    picture = {
        "patch_size": PATCH,
        "merge_size": MERGE,
        "temporal_patch_size": 2,
        "size": {"shortest_edge": side**2, "longest_edge": side**2},  # areas, by Qwen's convention
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**picture),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**picture),
        chat_template=CHAT_TEMPLATE,
    )


def build_model(
    tokenizer: PreTrainedTokenizerFast, shape: NanoShape, seed: int
) -> Qwen3VLForConditionalGeneration:
    """Make a model of the shape, its weights drawn from `seed`."""
    config = Qwen3VLConfig(
        text_config=_text(tokenizer, shape),
        vision_config=_vision(shape),
        tie_word_embeddings=True,
        image_token_id=token_id(tokenizer, "<|image_pad|>"),
        video_token_id=token_id(tokenizer, "<|video_pad|>"),
        vision_start_token_id=token_id(tokenizer, "<|vision_start|>"),
        vision_end_token_id=token_id(tokenizer, "<|vision_end|>"),
    )
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=False
    )
    return model


def _text(tokenizer: PreTrainedTokenizerFast, shape: NanoShape) -> dict[str, Any]:
    heads = shape.hidden // HEAD
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": shape.hidden,
        "intermediate_size": shape.hidden * 8 // 3 // HEAD * HEAD,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": HEAD,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [6, 5, 5],  # sums to half the head's width
            "mrope_interleaved": True,
        },
    }


def _vision(shape: NanoShape) -> dict[str, Any]:
    return {
        "depth": shape.vision_layers,
        "hidden_size": shape.vision_hidden,
        "intermediate_size": shape.vision_hidden * 3,
        "num_heads": shape.vision_hidden // HEAD,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "out_hidden_size": shape.hidden,
        "num_position_embeddings": (shape.side // PATCH) ** 2,
        "deepstack_visual_indexes": [shape.vision_layers // 2],
    }
