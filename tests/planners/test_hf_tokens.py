"""How likely HfChat says its tokens were: what a plain forward pass of the model says."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support import tiny

from goalreel.chat.conversation import ChatRequest, Message
from goalreel.chat.hf import HfChat
from goalreel.image import Image

WORDS = 24
CONVERSATIONS = (
    (
        Message("system", ("be brief",)),
        Message("user", ("look at", Image(np.full((48, 64, 3), 90, np.uint8)))),
    ),
    (Message("user", ("no picture, and a rather longer text about the red bowl and the drawer",)),),
    (Message("user", ("lift it",)),),
)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    return tiny.tiny_vlm(tmp_path_factory.mktemp("qwen"))


def load(path, max_new_tokens=WORDS, **settings) -> HfChat:
    """A model that writes so many tokens and then its end, which random weights hardly ever do."""
    chat = HfChat.load(path, device="cpu", max_new_tokens=max_new_tokens + 1, **settings)
    ends = chat.model.generation_config.eos_token_id
    chat._generation["forced_eos_token_id"] = ends if isinstance(ends, int) else ends[0]
    return chat


@torch.inference_mode()
def forward(chat: HfChat, conversation) -> tuple[list[int], torch.Tensor]:
    """The ids of the greedy reply and, by one pass over it all, the probabilities (ids, words)."""
    inputs = chat.template.inputs([conversation])
    ids = chat.model.generate(**inputs, **chat._generation)
    new = ids[0, inputs["input_ids"].shape[1] :]
    more = {k: v for k, v in inputs.items() if k not in ("input_ids", "attention_mask", "mm_token_type_ids")}
    if "mm_token_type_ids" in inputs:
        kinds = inputs["mm_token_type_ids"]
        more["mm_token_type_ids"] = torch.nn.functional.pad(kinds, (0, len(new)))
    logits = chat.model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits
    return new.tolist(), logits[0, -len(new) - 1 : -1].softmax(-1)


def with_tokens(chat: HfChat, conversations):
    return chat.answer([ChatRequest(conversation, tokens=True) for conversation in conversations])


def test_alternatives_agree_with_a_plain_forward_pass(qwen):
    chat = load(qwen)
    special = set(chat.processor.tokenizer.all_special_ids)
    for conversation in CONVERSATIONS:
        ids, chances = forward(chat, conversation)
        shown = [(i, row) for i, row in zip(ids, chances, strict=True) if i not in special]
        (reply,) = with_tokens(chat, [conversation])
        assert len(reply.tokens) == len(shown) > 5
        for token, (word, row) in zip(reply.tokens, shown, strict=True):
            # Halves of signs have one text, so that they count together.
            assert sum(token.alternatives.values()) == pytest.approx(
                float(row.topk(5).values.sum()), abs=1e-5
            )
            assert sum(token.alternatives.values()) <= 1 + 1e-6
            assert token.alternatives[token.text] == pytest.approx(float(row[word]), abs=1e-5)
            for other in row.topk(5).indices.tolist():
                text = chat.processor.tokenizer.decode([other])
                assert other == word or token.alternatives[text] >= float(row[other]) - 1e-5


def test_the_texts_of_the_tokens_are_the_reply_and_a_batch_says_what_one_alone_says(qwen):
    chat = load(qwen)
    together = with_tokens(chat, CONVERSATIONS)
    assert [r.text for r in together] == chat.complete(CONVERSATIONS)
    for conversation, reply in zip(CONVERSATIONS, together, strict=True):
        assert "".join(t.text for t in reply.tokens) == reply.text
        (alone,) = with_tokens(chat, [conversation])
        assert [t.text for t in alone.tokens] == [t.text for t in reply.tokens]
        for a, b in zip(alone.tokens, reply.tokens, strict=True):
            assert max(a.alternatives.values()) == pytest.approx(max(b.alternatives.values()), abs=1e-4)


def generating(model: Path, folder: Path, **settings: object) -> Path:
    """A copy of a checkpoint that comes with these settings too."""
    shutil.copytree(model, folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    return folder


@pytest.mark.parametrize("settings", [{"num_beams": 2}, {"num_beams": 2, "num_return_sequences": 2}])
def test_beams_of_the_checkpoints_are_not_searched(qwen, tmp_path, settings):
    chat = load(generating(qwen, tmp_path / "model", **settings))
    expected = load(qwen).complete(CONVERSATIONS)
    assert [r.text for r in with_tokens(chat, CONVERSATIONS)] == chat.complete(CONVERSATIONS) == expected


def test_a_row_that_ends_early_has_no_tokens_of_its_padding(qwen, tmp_path):
    chat = load(qwen)
    ids, _ = forward(chat, CONVERSATIONS[1])
    end = ids[8]
    chat = load(generating(qwen, tmp_path / "model", eos_token_id=[end]))
    replies = with_tokens(chat, CONVERSATIONS)
    assert [r.text for r in replies] == chat.complete(CONVERSATIONS)
    assert len(replies[1].tokens) == ids.index(end) + 1 < max(len(r.tokens) for r in replies)


def test_sampling_does_not_change_what_the_model_would_say(qwen):
    chat = load(qwen, max_new_tokens=1, temperature=3.0, top_p=0.3)
    (greedy,) = with_tokens(load(qwen, max_new_tokens=1), CONVERSATIONS[1:2])
    expected = greedy.tokens[0].alternatives
    torch.manual_seed(0)
    (said,) = with_tokens(chat, CONVERSATIONS[1:2])
    for text in expected.keys() & said.tokens[0].alternatives.keys():
        assert said.tokens[0].alternatives[text] == pytest.approx(expected[text], abs=1e-6)
    assert len(expected.keys() & said.tokens[0].alternatives.keys()) >= 4


def test_signs_of_several_tokens_are_not_lost_and_special_ones_are(qwen):
    """Let the model write given bytes: an umlaut of two, a sign of four, and half a sign at the end."""
    chat = load(qwen)
    tokenizer = chat.processor.tokenizer
    ids = tokenizer(" grün 🙂 «ö").input_ids[:-1]
    special = tokenizer.convert_tokens_to_ids("<|vision_start|>")
    (reply,) = with_tokens(_force(chat, [*ids[:3], special, *ids[3:]]), [CONVERSATIONS[2]])
    assert reply.text == tokenizer.decode(ids).strip()
    assert "".join(t.text for t in reply.tokens) == reply.text
    assert {"ü", "🙂"} <= {t.text.strip() for t in reply.tokens}
    assert len(reply.tokens) == len(ids)


def _force(chat: HfChat, ids: list[int]) -> HfChat:
    """Let every step's likeliest word be the next of `ids`, and then the end."""
    at = iter(ids)
    chat._generation["max_new_tokens"] = len(ids) + 1

    def bias(_module, _inputs, output):
        if (word := next(at, None)) is not None:
            output.logits[:, -1, word] += 1000
        return output

    chat.model.register_forward_hook(bias)
    return chat
