"""Every way in which the catalogue calls a model, with a tiny checkpoint of its class and the real loader."""

import json
import sys
from functools import wraps
from pathlib import Path

import diffusers
import numpy as np
import peft
import pytest
import safetensors.torch
import torch
from support.tiny_pipelines import clip_text, clip_tokenizer, reference_area, tiny_pipeline, unet, vae_kl

from goalreel.editors.catalogue import Entry, LoraWeights, catalogue, find
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.editors.loading import PAIR_BATCHES, Flux2KleinPairs
from goalreel.editors.sizes import placement
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.types import Edit, Failure


def called(entry: Entry) -> str:
    """All that a call depends on; tiny checkpoints of models that are called alike are the same."""
    named = {"name", "repository", "size", "steps", "lora", "weights_gb", "licence", "note"}
    return entry.model_dump_json(exclude=named)


DISTINCT = list({called(entry): name for name, entry in reversed(catalogue().items())}.values())[::-1]
CLASSES = list({entry.pipeline: name for name, entry in reversed(catalogue().items())}.values())[::-1]
EDITS = [name for name in DISTINCT if "edit" in find(name).kinds]
DRAWS = [name for name in DISTINCT if "text-to-image" in find(name).kinds]
PROMPTS = ("put the red block in the bowl", "move it", "push the green block to the left edge of the table")


@pytest.fixture(scope="module", autouse=True)
def _quiet_with_small_references():
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    with reference_area(64 * 64):
        yield


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The folder of a tiny checkpoint by its class's name. Read only."""
    root, made = tmp_path_factory.mktemp("tiny"), {}

    def checkpoint(pipeline: str) -> Path:
        if pipeline not in made:
            made[pipeline] = tiny_pipeline(pipeline, root / pipeline)
        return made[pipeline]

    return checkpoint


def small(name: str, **changes: object) -> Entry:
    """A catalogue entry as it is, but for its size, steps and LoRA."""
    return find(name).model_copy(update={"size": (96, 96), "steps": 2, "lora": None, **changes})


@pytest.fixture(scope="module")
def load(checkpoints):
    loaded = {}

    def editor(name: str, **options: object) -> DiffusersEditor:
        key = (name, *options.items())
        if key not in loaded:
            entry = small(name)
            loaded[key] = DiffusersEditor.load(checkpoints(entry.pipeline), entry=entry, **options)
        return loaded[key]

    return editor


def edit(seed: int = 0, *, prompt: str = PROMPTS[0], size: tuple[int, int] | None = (100, 75)) -> Edit:
    image = None
    if size:
        pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), np.uint8)
        image = Image(pixels)
    return Edit(task_id=str(seed), step=0, attempt=0, image=image, prompt=prompt, seed=seed)


def counting(editor: DiffusersEditor, monkeypatch) -> list[int]:
    calls, call = [], editor._call
    monkeypatch.setattr(editor, "_call", lambda edits, size: calls.append(len(edits)) or call(edits, size))
    return calls


def floats(editor: DiffusersEditor, edits: list[Edit]) -> np.ndarray:
    image = edits[0].image
    return editor._call(edits, None if image is None else editor._placement(image))


@pytest.mark.parametrize("name", EDITS)
def test_edits_a_picture_in_its_working_size_and_keeps_that(load, name):
    editor = load(name)
    (answer,) = editor.edit([edit()])
    place = placement((100, 75), (96, 96), editor.entry.multiple, editor.entry.square)
    assert answer.size == place.content
    (again,) = editor.edit([edit().model_copy(update={"image": answer})])
    assert again.size == answer.size


PAIRED = [name for name in EDITS if find(name).pipeline in PAIR_BATCHES | {"Flux2KleinPipeline"}]
"""Editors that take several pictures a call, each with its own prompt."""


@pytest.mark.parametrize(("name", "size"), [(n, (100, 75)) for n in PAIRED] + [(n, None) for n in DRAWS])
def test_a_batch_gives_what_single_calls_give(load, name, size):
    """Three pictures, prompts and seeds in one call; a mix-up of any of them would be far above the noise."""
    editor = load(name)
    edits = [edit(i, prompt=p, size=size) for i, p in enumerate(PROMPTS)]
    together = floats(editor, edits)
    alone = np.concatenate([floats(editor, [e]) for e in edits])
    noise = np.abs(together - alone).max()
    assert noise < 2e-4

    def changed(**update: object) -> float:
        return np.abs(floats(editor, [edits[0].model_copy(update=update)]) - alone[0]).max()

    assert changed(prompt=PROMPTS[2]) > 10 * noise
    assert changed(seed=1) > 10 * noise
    if size:
        assert changed(image=edits[1].image) > 10 * noise


@pytest.mark.parametrize("name", CLASSES)
def test_works_in_bfloat16(load, name):
    """What a GPU loads by default."""
    sizes = [s for s, kind in (((100, 75), "edit"), (None, "text-to-image")) if kind in find(name).kinds]
    editor = load(name, dtype="bfloat16")
    answers = editor.edit([edit(i, size=s) for s in sizes for i in range(2)])
    assert not [a for a in answers if isinstance(a, Failure)]


def test_groups_by_size_and_answers_in_order(load, monkeypatch):
    editor = load("flux1-kontext-dev")
    calls = counting(editor, monkeypatch)
    edits = [edit(0), edit(1, size=(80, 120)), edit(2), edit(3, size=None), edit(4, size=(80, 120))]
    answers = editor.edit(edits)
    assert sorted(calls) == [1, 2, 2]
    assert [a.size for a in answers] == [(107, 80), (75, 112), (107, 80), (96, 96), (75, 112)]
    for e, a in zip(edits, answers, strict=True):
        (alone,) = editor.edit([e])
        assert np.abs(alone.pixels.astype(int) - a.pixels).max() <= 1


def test_what_a_model_cannot_do_fails_that_item_alone(load):
    refused, done = load("instruct-pix2pix").edit([edit(size=None), edit()])
    assert "instruct-pix2pix edits pictures and cannot draw one from text alone" in refused.message
    assert refused.refused
    assert isinstance(done, Image)
    (refused,) = load("qwen-image").edit([edit()])
    assert "qwen-image draws from text alone and cannot edit" in refused.message
    assert refused.refused
    shown = edit().model_copy(update={"references": (edit(5).image,)})
    (refused,) = load("qwen-image-edit").edit([shown])
    assert "takes one picture an edit" in refused.message
    assert refused.refused


@pytest.mark.parametrize("name", ["flux2-klein-4b", "qwen-image-edit-2509"])
def test_an_edit_with_more_pictures_looks_at_all_of_them(load, name):
    """They change the picture and not its size; in one call with others each edit has its own."""
    editor, plain = load(name), edit()
    shown = plain.model_copy(update={"references": (edit(5, size=(60, 80)).image,)})
    other = plain.model_copy(update={"references": (edit(6, size=(60, 80)).image,)})
    first, alone, second = editor.edit([shown, plain, other])
    assert first.size == alone.size == second.size
    assert first != alone
    assert first != second
    assert editor.edit([shown]) == [first]


@pytest.fixture(scope="module")
def wrapped(checkpoints):
    """FLUX.2-klein whose call is wrapped: its `call(prompts)` may raise; and the sizes of its calls."""
    sizes = []

    class Wrapped(Flux2KleinPairs):
        @wraps(Flux2KleinPairs.__call__)
        def __call__(self, *args, **named):
            prompts = [named["prompt"]] if isinstance(named["prompt"], str) else named["prompt"]
            sizes.append(len(prompts))
            self.call(prompts)
            output = super().__call__(*args, **named)
            for i, prompt in enumerate(prompts):
                output.images[i] *= {"nan": np.nan, "black": 0.0}.get(prompt, 1.0)
            return output

    return Wrapped.from_pretrained(checkpoints("Flux2KleinPipeline")), sizes


@pytest.fixture
def klein(wrapped):
    """An editor of that pipeline, klein(call, **options), and the sizes of its calls."""
    pipeline, sizes = wrapped
    sizes.clear()

    def editor(call, **options: object) -> tuple[DiffusersEditor, list[int]]:
        pipeline.call = call
        return DiffusersEditor(pipeline, small("flux2-klein-4b", steps=1), **options), sizes

    return editor


def test_out_of_memory_halves_the_batch_for_good_and_fails_for_one_edit_alone(klein):
    def call(prompts):
        if len(prompts) > 2 or "huge" in prompts:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    editor, sizes = klein(call, batch_size=8)
    assert all(isinstance(a, Image) for a in editor.edit([edit(i) for i in range(8)]))
    assert sizes == [8, 4, 2, 2, 4, 2, 2]
    sizes.clear()
    *done, huge = editor.edit([*(edit(i) for i in range(4)), edit(4, prompt="huge")])
    assert sizes == [2, 2, 1]
    assert all(isinstance(a, Image) for a in done)
    assert huge.message.startswith("out of memory for a single edit: use offload")
    assert not huge.refused


def test_a_bad_item_never_fails_its_batch(klein):
    def call(prompts):
        if "bad" in prompts:
            raise ValueError("no such thing\nand more")

    editor, sizes = klein(call)
    prompts = ("a", "b", "bad", "nan", "black", "c")
    answers = editor.edit([edit(i, prompt=p) for i, p in enumerate(prompts)])
    failed = {p: a.message for p, a in zip(prompts, answers, strict=True) if isinstance(a, Failure)}
    assert failed == {
        "bad": "ValueError: no such thing",
        "nan": "the model's output is not a number: try another seed or dtype='float32'",
        "black": "the model's output is black: try another seed or prompt",
    }
    assert sizes == [6, 3, 1, 2, 1, 1, 3]


@pytest.mark.parametrize("error", [ValueError, RuntimeError, TypeError, IndexError])
def test_what_the_pipeline_breaks_on_is_no_refusal_but_what_it_does_not_take_is(klein, error):
    def call(prompts):
        raise error("no such thing")

    editor, _ = klein(call)
    (failure,) = editor.edit([edit()])
    assert (failure.message, failure.refused) == (f"{error.__name__}: no such thing", error is ValueError)


@pytest.mark.parametrize("name", CLASSES)
def test_a_prompt_too_long_harms_no_other(load, name):
    """Pipelines cut it; LongCat's breaks (diffusers 0.42 counts an int's length)."""
    size = (100, 75) if "edit" in find(name).kinds else None
    short, long = load(name).edit([edit(size=size), edit(1, size=size, prompt="put it down, " * 60)])
    assert isinstance(short, Image)
    assert isinstance(long, Failure if name == "longcat-image-edit" else Image)


def test_an_unknown_pipeline_is_called_one_edit_at_a_time(tmp_path, monkeypatch):
    """Any class with a prompt and an image: here Stable Diffusion, image to image, at the source's size."""
    torch.manual_seed(0)
    parts = {"vae": vae_kl(4), "text_encoder": clip_text(), "tokenizer": clip_tokenizer()}
    unchecked = {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
    pipeline = diffusers.StableDiffusionImg2ImgPipeline(
        unet=unet(4, 1, 2),
        scheduler=diffusers.DDIMScheduler(steps_offset=1, clip_sample=False),
        **parts,
        **unchecked,
    )
    pipeline.save_pretrained(tmp_path)
    Entry(kinds=("edit",), steps=4, arguments={"strength": 0.5}).save(tmp_path)
    editor = DiffusersEditor.load(tmp_path)
    assert editor.entry.steps == 4
    calls = counting(editor, monkeypatch)
    answers = editor.edit([edit(0, size=(64, 48)), edit(1, size=(64, 48))])
    assert calls == [1, 1]
    assert [a.size for a in answers] == [(64, 48)] * 2


@pytest.mark.parametrize("name", [n for n, e in catalogue().items() if e.lora])
def test_a_lora_is_laid_over_the_weights(checkpoints, tmp_path, name):
    folder = checkpoints(find(name).pipeline)
    transformer = diffusers.QwenImageTransformer2DModel.from_pretrained(folder / "transformer")
    adapted = peft.get_peft_model(transformer, peft.LoraConfig(r=2, target_modules=["to_v"]))
    weights = {
        f"transformer.{k.removeprefix('base_model.model.')}": 3 * torch.randn_like(v)
        for k, v in peft.get_peft_model_state_dict(adapted).items()
    }
    safetensors.torch.save_file(weights, tmp_path / "tiny.safetensors")
    with_lora = small(name, lora=LoraWeights(repository=str(tmp_path), weight="tiny.safetensors"))
    size = (100, 75) if "edit" in with_lora.kinds else None
    plain, laid = (DiffusersEditor.load(folder, entry=e) for e in (small(name), with_lora))
    assert np.abs(floats(plain, [edit(size=size)]) - floats(laid, [edit(size=size)])).max() > 1e-3
    if name == "qwen-image-edit-lightning":
        config = laid.pipeline.scheduler.config
        assert (config.base_shift, config.shift_terminal) == (pytest.approx(np.log(3)), None)


@pytest.mark.parametrize("name", ["qwen-image-edit", "qwen-image-edit-2509", "longcat-image-edit"])
def test_the_text_encoder_is_told_which_tokens_are_pictures(load, name, monkeypatch):
    editor, seen = load(name), []
    encoder = editor.pipeline.text_encoder
    forward = encoder.model.forward
    monkeypatch.setattr(encoder.model, "forward", lambda **named: seen.append(named) or forward(**named))
    editor.edit([edit()])
    assert seen
    for named in seen:
        pictures = named["input_ids"] == encoder.config.image_token_id
        assert torch.equal(named["mm_token_type_ids"].bool(), pictures)
        assert pictures.any()


def test_weights_may_be_fp8(load, checkpoints):
    plain = load("flux1-kontext-dev")
    quantized = load("flux1-kontext-dev", quantize="fp8")
    weight = quantized.pipeline.transformer.transformer_blocks[0].attn.to_q.weight
    assert type(weight).__name__ == "Float8Tensor"
    difference = np.abs(floats(plain, [edit()]) - floats(quantized, [edit()]))
    assert 0 < difference.mean() < 0.1


def test_one_clear_line_when_it_cannot_be_loaded(checkpoints, tmp_path, monkeypatch):
    folder = checkpoints("Flux2KleinPipeline")

    def message(source, **options) -> str:
        with pytest.raises(InputError) as e:
            DiffusersEditor.load(source, **options)
        assert "\n" not in str(e.value)
        return str(e.value)

    assert message(tmp_path / "none").startswith(f"no folder '{tmp_path / 'none'}'")
    assert "no readable model_index.json" in message(tmp_path)
    assert "hf download owner/name" in message("owner/name")
    assert "offload needs a GPU" in message(folder, device="cpu", offload="model")
    assert "no torch dtype 'float3'" in message(folder, dtype="float3")
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        assert message(folder, quantize="fp8") == "quantize='fp8' needs torchao: pip install torchao"


def test_never_runs_a_checkpoints_own_code_nor_unpickles_it(checkpoints, tmp_path):
    index = json.loads((checkpoints("Flux2KleinPipeline") / "model_index.json").read_text())

    def refused(**changes: object) -> str:
        (tmp_path / "model_index.json").write_text(json.dumps({**index, **changes}))
        (tmp_path / "mine.py").write_text("raise SystemExit('ran')")
        with pytest.raises(InputError) as e:
            DiffusersEditor.load(tmp_path)
        return str(e.value)

    assert "brings its own code" in refused(_class_name=["mine", "Pipeline"])
    assert "brings its own code" in refused(transformer=["mine", "Transformer"])
    assert "has no pipeline MinePipeline" in refused(_class_name="MinePipeline")
    for part in ("vae", "text_encoder", "transformer", "scheduler", "tokenizer"):
        (tmp_path / part).symlink_to(checkpoints("Flux2KleinPipeline") / part)
    (tmp_path / "vae").unlink()
    vae = diffusers.AutoencoderKLFlux2.from_pretrained(checkpoints("Flux2KleinPipeline") / "vae")
    vae.save_pretrained(tmp_path / "vae", safe_serialization=False)
    assert "safetensors only" in refused()


@pytest.mark.parametrize("source", [(640, 480), (1280, 800), (1920, 1080), (480, 640), (641, 99), (333, 320)])
def test_qwens_pipelines_see_the_source_at_the_size_that_they_draw(source):
    for name in ("qwen-image-edit", "qwen-image-edit-2511"):
        width, height = placement(source, find(name).size, find(name).multiple).canvas
        pipeline = getattr(diffusers, find(name).pipeline)
        dimensions = sys.modules[pipeline.__module__].calculate_dimensions
        seen = dimensions(1024**2 * 1024**2 / 64**2, width / height)  # the fixture views it at 64 x 64
        assert seen[:2] == (width, height)
