"""Every way in which the catalogue calls a model, with a tiny checkpoint of its class and the real loader."""

import inspect
import json
import sys
from collections.abc import Sequence
from functools import wraps
from math import prod
from pathlib import Path

import diffusers
import numpy as np
import peft
import pytest
import safetensors.torch
import torch
from diffusers.image_processor import VaeImageProcessor
from diffusers.pipelines.pipeline_utils import DiffusionPipeline
from diffusers.utils.outputs import BaseOutput
from hypothesis import example, given, strategies as st
from support.image_server import picture
from support.tiny_pipelines import clip_text, clip_tokenizer, reference_area, tiny_pipeline, unet, vae_kl

from goalreel.drivers import run
from goalreel.editors.catalogue import Entry, LoraWeights, catalogue, find, like, stored
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.editors.loading import PAIR_BATCHES, Flux2KleinPairs
from goalreel.editors.sizes import LARGEST, from_canvas, on_canvas, placement
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.load import build_editor
from goalreel.types import Candidate, Edit, Failure, Plan, Step, Task, Verdict


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


class SamePictures(BaseOutput):
    images: np.ndarray


class SamePicturePipeline(DiffusionPipeline):
    """Draws its picture as it is, at the size it is asked for: what it loses is lost by resizing alone."""

    def __init__(self) -> None:
        super().__init__()
        self.image_processor = VaeImageProcessor(vae_scale_factor=16)

    def __call__(self, prompt, image, width, height, generator=None, output_type="np") -> SamePictures:
        drawn = self.image_processor.preprocess(image, height=height, width=width)
        return SamePictures(images=self.image_processor.postprocess(drawn, output_type=output_type))


def same_picture_editor(
    size: tuple[int, int], multiple: int = 16, *, square: bool = False
) -> DiffusersEditor:
    entry = Entry(kinds=("edit",), size=size, multiple=multiple, square=square)
    return DiffusersEditor(SamePicturePipeline(), entry)


STEPS = 10
sides = st.integers(1, 4000)
sizes = st.tuples(sides, sides)
areas = st.sampled_from([(1024, 1024), (1328, 1328), (512, 768), (128, 128), (96, 96), (1, 1)])
multiples = st.sampled_from([1, 8, 14, 16, 28, 32, 64, 112])


@given(sizes, st.none() | areas, multiples, st.booleans())
@example((1280, 720), (1024, 1024), 16, False)
@example((641, 99), (1024, 1024), 32, False)
@example((4000, 1), (96, 96), 64, True)
def test_a_placement_fits_the_model_and_is_its_own(source, size, multiple, square):
    place = placement(source, size, multiple, square)
    assert not any(side % multiple for side in place.canvas)
    assert prod(place.canvas) <= max(prod(size or LARGEST), multiple**2)
    assert max(place.canvas) <= 8 * min(place.canvas)
    assert not square or place.canvas[0] == place.canvas[1]
    assert all(a <= b for a, b in zip(place.content, place.canvas, strict=True))
    assert placement(place.content, size, multiple, square).content == place.content
    scale = max(place.content) / max(source)
    assert all(abs(a - b * scale) <= 1 for a, b in zip(place.content, source, strict=True)), "no stretching"


@pytest.mark.parametrize("source", [(672, 376), (256, 320), (96, 96), (1, 16), (97, 31)])
@pytest.mark.parametrize(("size", "multiple", "square"), [((256, 256), 16, False), ((256, 256), 64, True)])
def test_an_editor_that_changes_nothing_gives_back_the_source(source, size, multiple, square):
    picture = smooth(*source)
    editor = same_picture_editor(size, multiple, square=square)
    (answer,) = editor.edit([keep(picture)])
    assert answer.size == placement(source, size, multiple, square).content
    difference = np.abs(picture.pixels.astype(int) - answer.resized(source).pixels)
    assert difference.mean() < 1.5, "shifted by a tenth of a pixel of the canvas, it is more"
    editor.entry = editor.entry.model_copy(update={"size": None})
    assert max(source) > max(LARGEST) or editor.edit([keep(picture)]) == [picture]


def keep(image: Image) -> Edit:
    return Edit(task_id="t", step=0, attempt=0, image=image, prompt="keep it", seed=0)


def smooth(width: int, height: int) -> Image:
    """Slopes across and down."""
    y, x = np.mgrid[:height, :width]
    across, down = (x + 0.5) / width, (y + 0.5) / height
    pixels = np.stack([across, down, (across + down) / 2], axis=2)
    return Image((pixels * 255).round().astype(np.uint8))


class Unchanged:
    """A plan of STEPS steps and a Critic that accepts every picture."""

    def plan(self, tasks):
        steps = tuple(Step(name=f"{i}", instruction=f"{i}", prompt="keep it") for i in range(STEPS))
        return [Plan(steps=steps) for _ in tasks]

    def judge(self, candidates: Sequence[Candidate]):
        return [Verdict(success=True)] * len(candidates)


def detailed(width: int, height: int) -> Image:
    """Edges of all directions and a little noise."""
    y, x = np.mgrid[:height, :width]
    rings = 127 + 90 * np.sin(((x - width / 3) ** 2 + (y - height / 2) ** 2) / width / 3)
    noise = np.random.default_rng(0).normal(0, 6, (height, width, 3))
    return Image((rings[..., None] * (1, 0.8, 0.6) + noise).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("size", [(320, 180), (101, 333), (256, 256)])
def test_a_long_storyboard_loses_nothing_from_step_to_step(size):
    task, models = Task(id="t", instruction="keep it", image=detailed(*size)), Unchanged()
    board = next(run([task], models, same_picture_editor((256, 256)), models, max_attempts=1))
    pictures = [step.goal_image for step in board.steps]
    assert pictures[0].size == placement(size, (256, 256), 16).content
    assert all(picture == pictures[0] for picture in pictures), "nothing was resized again"
    handed_out = board.goal_images()
    assert {picture.size for picture in handed_out} == {size}
    assert handed_out[-1] == handed_out[0]


# A picture goes onto a canvas of another shape and comes back as it was.

SQUARE, WIDE, TALL = (1024, 1024), (1536, 1024), (1024, 1536)
ASPECTS = pytest.mark.parametrize("aspect", [SQUARE, WIDE, TALL, (16, 9), (21, 9)])


@ASPECTS
@pytest.mark.parametrize("size", [(64, 48), (48, 64), (33, 64), (64, 64), (1, 7)])
def test_onto_a_canvas_and_back_is_the_picture(size, aspect):
    source = picture(*size)
    assert from_canvas(on_canvas(source, aspect), size, aspect) == source


@pytest.mark.parametrize("aspect", [SQUARE, WIDE, TALL])
@pytest.mark.parametrize("size", [(640, 480), (33, 64), (641, 99), (1000, 1)])
def test_what_is_cut_keeps_its_size_from_step_to_step(size, aspect):
    """The second step's source is the first one's picture, at the server's scale."""
    source = picture(*size)
    once = from_canvas(on_canvas(source, aspect).resized(aspect), size, aspect)
    assert any(abs(cut - drawn) <= 1 for cut, drawn in zip(once.size, aspect, strict=True))
    expected = source.resized(once.size).pixels.astype(int)
    assert np.abs(once.pixels - expected).mean() < 1.5
    assert from_canvas(on_canvas(once, aspect), once.size, aspect) == once


@pytest.mark.parametrize("drawn", [(1536, 1024), (1024, 1536), (900, 1024)])
def test_an_answer_of_another_shape_is_not_stretched(drawn):
    canvas = np.zeros((drawn[1], drawn[0], 3), np.uint8)
    x, y = drawn[0] // 2, drawn[1] // 2
    canvas[y - 100 : y + 100, x - 100 : x + 100] = 255
    for size in ((320, 192), (640, 480)):
        shown = from_canvas(Image(canvas), size, SQUARE).pixels[..., 0] > 128
        assert (shown.any(0).sum(), shown.any(1).sum()) == (200, 200)


@pytest.mark.parametrize("name", catalogue())
def test_the_call_fits_the_class(name):
    entry = find(name)
    accepted = inspect.signature(getattr(diffusers, entry.pipeline).__call__).parameters
    assert set(entry.arguments) | set(entry.guidance) | {"num_inference_steps"} <= set(accepted)
    assert ("image" in accepted) == ("edit" in entry.kinds)
    assert all(side % entry.multiple == 0 for side in entry.size)
    assert entry.licence
    assert entry.weights_gb


def test_a_name_is_an_entry_from_its_repository_or_a_folder():
    entry = find("qwen-image-edit-lightning@/models/edit")
    assert entry == find("qwen-image-edit-lightning").model_copy(update={"repository": "/models/edit"})
    with pytest.raises(InputError, match=r"no editor called 'klein': .*flux2-klein-4b"):
        find("klein")


def test_a_checkpoint_keeps_its_own_entry(tmp_path):
    entry = Entry(kinds=("edit",), steps=1, size=(128, 128), guidance={"guidance_scale": 1.0})
    assert stored(tmp_path) is None
    entry.save(tmp_path)
    assert stored(tmp_path) == entry
    (tmp_path / "goalreel.json").write_text('{"kinds": ["paint"]}')
    with pytest.raises(InputError, match=r"goalreel\.json is not an editor's settings: kinds\.0"):
        stored(tmp_path)


def test_a_plain_folder_is_called_like_the_catalogue_model_of_its_class():
    assert like("Flux2KleinPipeline").name == "flux2-klein-4b"
    assert like("QwenImagePipeline").lora is None
    assert like("KolorsPipeline") is None


def test_one_model_draws_and_another_edits(monkeypatch):
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def edit(self, edits):
            return [Failure(stage="edit", message=f"{self.name} {e.task_id}") for e in edits]

    monkeypatch.setattr(DiffusersEditor, "from_catalogue", Named)
    editor = build_editor("qwen-image+qwen-image-edit")
    image = Image(np.zeros((8, 8, 3), np.uint8))
    sources = (image, None, None, image)
    asked = {"step": 0, "attempt": 0, "prompt": "p", "seed": 0}
    said = [
        a.message
        for a in editor.edit([Edit(task_id=str(i), image=s, **asked) for i, s in enumerate(sources)])
    ]
    assert said == ["qwen-image-edit 0", "qwen-image 1", "qwen-image 2", "qwen-image-edit 3"]
    assert editor.edit([]) == []
