"""Models by name: the options a name carries, and names that are none."""

import pytest

from goalreel.models.load import (
    ChatOptions,
    EditorOptions,
    build_chat,
    build_editor,
    split_options,
)
from goalreel.models.presets import load, names
from goalreel.streaming.engine_loop import one_line


def test_options_follow_a_question_mark():
    assert split_options("some/repo", ChatOptions) == ("some/repo", {})
    assert split_options("dir?dtype=float32&batch_size=4&temperature=0.5", ChatOptions) == (
        "dir",
        {"dtype": "float32", "batch_size": 4, "temperature": 0.5},
    )
    assert split_options("klein@dir?offload=model&vae_tiling=true", EditorOptions) == (
        "klein@dir",
        {"offload": "model", "vae_tiling": True},
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dir?quantize=int8", "quantize is wrong: there are device, dtype, batch_size, max_new_tokens"),
        ("dir?batch_size=many", "batch_size is wrong"),
        ("dir?fast", r"options are written as \?key=value"),
    ],
)
def test_wrong_options_get_one_line(name, said):
    with pytest.raises(ValueError, match=said) as caught:
        split_options(name, ChatOptions)
    assert "\n" not in str(caught.value)


def test_options_reach_the_model(tmp_path):
    from support.tiny import tiny_vlm
    from support.tiny_pipelines import tiny_pipeline

    chat = build_chat(f"hf:{tiny_vlm(tmp_path / 'vlm')}?batch_size=3&dtype=bfloat16", role="planner")
    assert chat.batch_size == 3
    assert str(chat.model.dtype) == "torch.bfloat16"
    folder = tiny_pipeline("StableDiffusionInstructPix2PixPipeline", tmp_path / "editor")
    editor = build_editor(f"diffusers:{folder}?vae_tiling=true&dtype=float32")
    assert editor.pipeline.vae.use_tiling


@pytest.mark.parametrize("name", ["gpt", "hf:", "openai:", ""])
def test_names_that_are_none(name):
    with pytest.raises(ValueError, match="no planner called"):
        build_chat(name, role="planner")


def test_a_package_that_is_missing_is_named_with_its_extra():
    torch = ModuleNotFoundError("No module named 'torch'", name="torch")
    assert one_line(torch) == "torch is not installed: pip install 'goalreel[gpu]'"
    assert one_line(ModuleNotFoundError("No module named 'own'", name="own")) == "No module named 'own'"


@pytest.mark.parametrize("name", names())
def test_every_preset_reads(name):
    assert load(name).max_attempts >= 1
    assert load(name, max_attempts=9, editor="server:http://x").max_attempts == 9
    with pytest.raises(ValueError, match="no preset 'magic'"):
        load("magic")
