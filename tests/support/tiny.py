"""Tiny vision-language checkpoints with random weights, in the real classes, saved as a user's would be."""

from pathlib import Path

import torch
import transformers as hf

from goalreel_lab.nano.language import CHAT_TEMPLATE, PICTURE, SPECIAL, byte_level_bpe

SENTENCES = (
    "put the blue block in the yellow bowl, then close the drawer",
    "<think>the gripper holds the block</think><answer>{'execution_plan': [{'step_number': 1}]}</answer>",
    "move the end effector over the red bowl; everything else stays where it is",
    '{"previous_step_success": true, "refine_prompt": "lift the block higher"}',
)

VISION = {
    **{"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"image_size": 64, "patch_size": 16},
}
"""The tower of models that see a picture at one size."""


def tokenizer(
    special: tuple[str, ...] = SPECIAL,
    *,
    image: str,
    eos: str = "<|im_end|>",
    named: dict[str, str] | None = None,
) -> hf.TokenizersBackend:
    """A byte-level BPE of its own; `image` is what its chat template writes for a picture.

    `named` are special tokens that are attributes too.
    """
    made = hf.PreTrainedTokenizerFast(
        tokenizer_object=byte_level_bpe(SENTENCES, 400, special),
        eos_token=eos,
        pad_token=special[0],
        extra_special_tokens=named or list(special[3:]),
    )
    made.chat_template = CHAT_TEMPLATE.replace(PICTURE, image)
    return made


def _save(model: hf.PreTrainedModel, processor: hf.ProcessorMixin, path: Path) -> Path:
    tokens = processor.tokenizer
    model.generation_config = hf.GenerationConfig(
        eos_token_id=tokens.eos_token_id,
        pad_token_id=tokens.pad_token_id,
        # The published Qwen-VL checkpoints ship sampling settings like these.
        do_sample=True,
        temperature=0.7,
        top_k=20,
        top_p=0.8,
        repetition_penalty=1.05,
    )
    # Freshly drawn output rows are nearly alike: spread, so that greedy choices are not a matter of rounding.
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(8)
    model.save_pretrained(path)
    processor.save_pretrained(path)
    return path


def _text(vocabulary: int, **more: object) -> dict:
    return {
        "vocab_size": vocabulary,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
        **more,
    }


def tiny_vlm(path: Path, *, seed: int = 0) -> Path:
    """A `Qwen3VLForConditionalGeneration` of about a million parameters, the published agents' class."""
    torch.manual_seed(seed)
    made = tokenizer(image=PICTURE)
    marks = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"}
    marks |= {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    vision = {"depth": 3, "hidden_size": 96, "intermediate_size": 192, "num_heads": 3, "out_hidden_size": 128}
    vision |= {"patch_size": 8, "spatial_merge_size": 2, "temporal_patch_size": 2}
    vision |= {"num_position_embeddings": 400, "deepstack_visual_indexes": [1]}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 5, 5]}
    text = _text(len(made), head_dim=32, rope_parameters=rope | {"mrope_interleaved": True})
    ids = {name: made.convert_tokens_to_ids(token) for name, token in marks.items()}
    config = hf.Qwen3VLConfig(text_config=text, vision_config=vision, **ids)
    processor = hf.Qwen3VLProcessor(
        tokenizer=made,
        image_processor=hf.Qwen2VLImageProcessor(
            patch_size=8,
            merge_size=2,
            temporal_patch_size=2,
            size={"shortest_edge": 32**2, "longest_edge": 160**2},
            image_mean=[0.5] * 3,
            image_std=[0.5] * 3,
        ),
        chat_template=made.chat_template,
        video_processor=hf.Qwen3VLVideoProcessor(patch_size=8, merge_size=2),
    )
    return _save(hf.Qwen3VLForConditionalGeneration(config), processor, path)


def tiny_idefics3(path: Path) -> Path:
    """The class of Idefics3 and, but for its name, SmolVLM: pictures are cut into tiles."""
    torch.manual_seed(0)
    special = (*SPECIAL[:3], "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
    made = tokenizer(special, image="<image>")
    still = hf.Idefics3ImageProcessor(size={"longest_edge": 128}, max_image_size={"longest_edge": 64})
    processor = hf.Idefics3Processor(still, made, image_seq_len=4, chat_template=made.chat_template)
    config = hf.Idefics3Config(
        text_config={"model_type": "llama", **_text(len(made))},
        vision_config=VISION,
        scale_factor=2,
        image_token_id=made.convert_tokens_to_ids("<image>"),
        pad_token_id=made.pad_token_id,
    )
    return _save(hf.Idefics3ForConditionalGeneration(config), processor, path)


def tiny_smolvlm(path: Path) -> Path:
    """What SmolVLA is built on, without weights: the configuration of a SmolVLM, and its tokenizer.

    Idefics3's processor stands in for SmolVLM's own, which wants num2words: SmolVLA takes its tokenizer only.
    """
    named = {
        "image_token": "<image>",
        "fake_image_token": "<fake_token_around_image>",
        "global_image_token": "<global-img>",
    }
    made = tokenizer((*SPECIAL[:3], *named.values()), image="<image>", named=named)
    text = {"model_type": "llama", **_text(len(made))}
    hf.SmolVLMConfig(text_config=text, vision_config=VISION, scale_factor=2).save_pretrained(path)
    hf.Idefics3Processor(hf.Idefics3ImageProcessor(), made, image_seq_len=4).save_pretrained(path)
    return path


def tiny_llava(path: Path) -> Path:
    """The class of LLaVA 1.5: a CLIP tower, every picture of one size."""
    torch.manual_seed(0)
    made = tokenizer((*SPECIAL[:3], "<image>"), image="<image>")
    still = hf.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = hf.LlavaProcessor(
        still,
        made,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=made.chat_template,
    )
    vision = {**VISION, "model_type": "clip_vision_model", "image_size": 32, "patch_size": 8}
    config = hf.LlavaConfig(
        text_config={"model_type": "llama", **_text(len(made))},
        vision_config=vision | {"num_hidden_layers": 3},
        image_token_id=made.convert_tokens_to_ids("<image>"),
    )
    return _save(hf.LlavaForConditionalGeneration(config), processor, path)
