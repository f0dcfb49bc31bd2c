"""Adapters of an editor: trained on edits with tiny pipelines of the real classes, resumed, and used."""

import json

import numpy as np
import pytest

pytest.importorskip("diffusers", reason="needs diffusers: pip install 'goalreel[gpu]'")
pytest.importorskip("peft", reason="needs peft: pip install 'goalreel[train]'")

import torch
from support.cli import fails
from support.tiny_pipelines import tiny_pipeline

from goalreel.datasets.corpora.trajectories import STORED_EDITS, StoredEdit
from goalreel.datasets.corpora.write import Corpus, write_corpus
from goalreel.editors.catalogue import LORA_FILE, like
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.editors.sizes import placement
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.training import editor_lora
from goalreel.training.editor_lora import (
    CHECKPOINT,
    EditorLoraConfig,
    network_inputs,
    read_edits,
    train,
    velocity_error,
)
from goalreel.types import Edit

TINY = {"size": (64, 64), "dtype": "float32", "device": "cpu", "batch": 2, "warmup": 1, "save_every": 2}
TINY |= {"learning_rate": 1e-2}  # a few steps have to change a picture
CLASSES = ("Flux2KleinPipeline", "QwenImageEditPipeline", "QwenImageEditPlusPipeline", "FluxKontextPipeline")


@pytest.fixture(scope="module")
def edits(tmp_path_factory):
    """Three edits of a camera of 4:3."""
    folder = tmp_path_factory.mktemp("edits")
    rng = np.random.default_rng(0)
    pictures = [Image(rng.integers(0, 255, (48, 64, 3), np.uint8)) for _ in range(4)]
    rows = [
        StoredEdit("t", n, pictures[n], pictures[n + 1], f"do step {n}", f"step {n} is done", "observed", 0)
        for n in range(3)
    ]
    corpus = Corpus(STORED_EDITS, "train", {"train-00000": range(1)}, lambda part: rows, {}, "edits")
    write_corpus(corpus, folder, text=False)
    return folder


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    """Class -> folder of a tiny pipeline of it, made once, that draws small pictures in two steps."""
    folders = {}

    def folder(name):
        if name not in folders:
            folders[name] = tiny_pipeline(name, tmp_path_factory.mktemp(name))
            like(name).model_copy(update={"size": (64, 64), "steps": 2}).save(folders[name])
        return folders[name]

    return folder


@pytest.fixture(autouse=True)
def small_references(monkeypatch):
    """Qwen's pipelines bring a source to a megapixel: here to the size of the canvas."""
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus

    monkeypatch.setattr(pipeline_qwenimage_edit_plus, "VAE_IMAGE_SIZE", 64 * 64)
    monkeypatch.setattr(pipeline_qwenimage_edit_plus, "CONDITION_IMAGE_SIZE", 64 * 64)
    original = pipeline_qwenimage_edit.calculate_dimensions
    monkeypatch.setattr(
        pipeline_qwenimage_edit, "calculate_dimensions", lambda area, ratio: original(64 * 64, ratio)
    )


def lora(pipelines, edits, name: str = "Flux2KleinPipeline", **changes: object) -> EditorLoraConfig:
    settings = {
        "method": "lora",
        "editor": str(pipelines(name)),
        "data": edits,
        "steps": 2,
        **TINY,
        **changes,
    }
    return EditorLoraConfig(**settings)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_are_trained_saved_and_used(name, dtype, edits, pipelines, tmp_path):
    if dtype == "bfloat16" and name != CLASSES[0]:
        pytest.skip("one class is enough")
    numbers = train(lora(pipelines, edits, name, dtype=dtype), tmp_path / "out")
    assert numbers["edits"] == 3
    assert np.isfinite(numbers["loss"])
    state = torch.load(tmp_path / "out" / CHECKPOINT, weights_only=True)
    assert {value.dtype for value in state["adapters"].values()} == {torch.float32}
    assert all("lora" in key for key in state["adapters"])
    assert (tmp_path / "out" / LORA_FILE).is_file()
    assert "Low-rank adapters" in (tmp_path / "out/README.md").read_text()
    edit = Edit(task_id="t", step=0, attempt=0, image=read_edits(edits)[0].source, prompt="do step 0", seed=1)
    plain = DiffusersEditor.load(pipelines(name), device="cpu")
    tuned = DiffusersEditor.load(pipelines(name), device="cpu", lora=str(tmp_path / "out"))
    before, after = plain.edit([edit])[0], tuned.edit([edit])[0]
    assert isinstance(before, Image)
    assert isinstance(after, Image)
    assert before != after


def test_the_tuned_editor_is_nearer_to_the_edits(edits, pipelines, tmp_path):
    """Measured at the same noise before and after, on the editor as it is loaded for use."""
    folder, rows = pipelines("Flux2KleinPipeline"), read_edits(edits)
    train(lora(pipelines, edits, steps=16, learning_rate=3e-2, save_every=16), tmp_path / "out")

    def error(**more):
        editor = DiffusersEditor.load(folder, device="cpu", **more)
        with torch.no_grad():
            return sum(float(velocity_error(editor, rows[n], (64, 64), 3.0, n)) for n in range(len(rows)))

    assert error(lora=str(tmp_path / "out")) < 0.98 * error()


def test_a_killed_run_goes_on_as_an_unbroken_one(edits, pipelines, tmp_path, monkeypatch):
    config = lora(pipelines, edits, steps=4)
    train(config, tmp_path / "whole")
    calls = []

    def dying(*args):
        calls.append(args)
        if len(calls) > 6:
            raise KeyboardInterrupt
        return velocity_error(*args)

    monkeypatch.setattr(editor_lora, "velocity_error", dying)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "broken")
    monkeypatch.setattr(editor_lora, "velocity_error", velocity_error)
    with pytest.raises(InputError, match="not empty"):
        train(config, tmp_path / "broken")
    train(config, tmp_path / "broken", resume=True)
    whole, broken = (
        torch.load(tmp_path / run / CHECKPOINT, weights_only=True)["losses"] for run in ("whole", "broken")
    )
    assert whole == pytest.approx(broken, rel=1e-4)


def test_the_target_is_in_the_space_that_the_editor_draws_in(edits, pipelines):
    """What the network sees of a picture, drawn without any noise, is that picture."""
    editor = DiffusersEditor.load(pipelines("Flux2KleinPipeline"), device="cpu")
    row = read_edits(edits)[0]
    place = editor._placement(row.source)
    _, latents = network_inputs(editor, row.source, row.prompt, place)
    _, again = network_inputs(editor, row.source, "another prompt", place)
    assert torch.equal(latents, again)
    shown = editor.pipeline.image_processor.preprocess(
        torch.from_numpy(place.place(row.source).pixels.copy()).permute(2, 0, 1)[None] / 255
    )
    encoded = editor.pipeline._encode_vae_image(shown, torch.Generator().manual_seed(0))
    assert torch.allclose(latents, editor.pipeline._pack_latents(encoded), atol=2e-3)


@pytest.mark.parametrize("name", ["Flux2KleinPipeline", "QwenImageEditPlusPipeline"])
def test_a_prompt_is_encoded_once_for_both_pictures(edits, pipelines, name):
    editor, row = DiffusersEditor.load(pipelines(name), device="cpu"), read_edits(edits)[0]
    place = placement(row.source.size, (64, 64), editor.entry.multiple, editor.entry.square)
    calls = []
    editor.pipeline.text_encoder.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        network_inputs(editor, row.source, row.prompt, place)
        once, before = len(calls), float(velocity_error(editor, row, (64, 64), 3.0, 0))
        assert len(calls) == 2 * once > 0
        assert float(velocity_error(editor, row, (64, 64), 3.0, 0)) == before


def test_what_cannot_be_trained_is_one_line(edits, pipelines, tmp_path):
    base = {"method": "lora", "editor": str(pipelines("Flux2KleinPipeline"))}
    with pytest.raises(InputError, match="give --data"):
        train(EditorLoraConfig(**base), tmp_path / "a")
    with pytest.raises(InputError, match="holds no corpus"):
        train(EditorLoraConfig(**base, data=tmp_path), tmp_path / "b")
    with pytest.raises(InputError, match="cannot be trained here"):
        train(lora(pipelines, edits, "StableDiffusionInstructPix2PixPipeline"), tmp_path / "c")
    with pytest.raises(InputError, match="without adapters of its own"):
        train(lora(pipelines, edits, editor="qwen-image-edit-lightning"), tmp_path / "d")
    assert not (tmp_path / "d").exists(), "the same folder is free for a better try"
    with pytest.raises(InputError, match="holds no pytorch_lora_weights"):
        DiffusersEditor.load(pipelines("Flux2KleinPipeline"), device="cpu", lora=str(tmp_path))
    (tmp_path / "lora.yaml").write_text(json.dumps(base | {"steps": 0}))
    assert "steps" in fails(
        "train", "editor", "--config", tmp_path / "lora.yaml", "--data", edits, "--out", tmp_path / "e"
    )
