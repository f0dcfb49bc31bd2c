"""The nano editor: built, trained on a handful of edits, stopped and resumed, saved, loaded and used."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from goalreel.datasets.corpora.rows import Corpus, write_corpus
from goalreel.datasets.corpora.trajectories import STORED_EDITS, StoredEdit
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.tabletop.env import Tabletop, teleport
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.scene import SubGoal, TabletopScene
from goalreel.training.config import read_config
from goalreel.types import Edit
from goalreel_lab.corpora.rows import EditRow, Origin
from goalreel_lab.nano import editor_training as trainer
from goalreel_lab.nano.config import EditorConfig, Schedule
from goalreel_lab.nano.editor import NanoEditor
from goalreel_lab.nano.editor_training import latents, read_edits
from goalreel_lab.nano.training_loop import fit

SIZE = 64
DENOISER = "diffusion_pytorch_model.safetensors"
SHAPE = {
    "size": SIZE,
    "vae_encoder": (16, 16, 24),
    "unet": (16, 32),
    "text_width": 64,
    "vocabulary": 640,
    "prompt_tokens": 24,
}


def config(**changes) -> EditorConfig:
    vae = {"steps": 240, "batch": 3, "ema": 0.98, "warmup": 20, "log_every": 20}
    denoiser = {"steps": 260, "batch": 4, "ema": 0.95, "warmup": 20, "log_every": 20}
    values = {"shape": SHAPE, "vae": vae, "denoiser": denoiser, "dtype": "float32", "precision": "float32"}
    for name, value in changes.items():
        values[name] = {**values[name], **value} if isinstance(values.get(name), dict) else value
    return EditorConfig.model_validate(values)


def edit_row(seed: int, goal: SubGoal, prompt: str, register: str) -> EditRow:
    with Tabletop(sample_episode(seed).scene) as env:
        source = Image(env.render("front", SIZE))
        teleport(env, goal)
        target = Image(env.render("front", SIZE))
    return EditRow(source, prompt, register, goal.text, goal, target, Origin(seed, 0))


@pytest.fixture(scope="module")
def plain() -> list[EditRow]:
    """The first sub-goal of two training episodes."""
    goals = {seed: sample_episode(seed).goals[0] for seed in (1, 2)}
    return [edit_row(seed, goal, goal.text, "explicit") for seed, goal in goals.items()]


@pytest.fixture(scope="module")
def forked() -> list[EditRow]:
    """One picture and one prompt with two right answers."""
    seed, scene = next((n, e.scene) for n in range(3, 99) for e in [sample_episode(n)] if free_bowl(e.scene))
    goals = [SubGoal("inside", block.name, scene.bowls[0].name) for block in scene.blocks[:2]]
    return [edit_row(seed, goal, "Fill the bowl.", "terse") for goal in goals]


def free_bowl(scene: TabletopScene) -> bool:
    return bool(scene.bowls) and all(b.z == scene.blocks[0].z for b in scene.blocks)


@pytest.fixture(scope="module")
def rows(plain, forked) -> list[EditRow]:
    return [*plain, *forked]


@pytest.fixture(scope="module")
def trained(rows, tmp_path_factory):
    """An editor after some steps, which has learned hardly anything, and the folder of its training."""
    out = tmp_path_factory.mktemp("editor")
    torch.set_num_threads(1)
    return trainer.train(config(vae={"steps": 6}, denoiser={"steps": 6}), out, rows=rows), out


def scalars(folder, name="loss") -> list[float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return [e.value for e in events.Scalars(name)]


def error(a: Image, b: Image, where: np.ndarray | bool = True) -> float:
    """Mean absolute difference of the pixels `where`, 0-255."""
    return float(np.abs(a.pixels.astype(float) - b.pixels).mean(-1).mean(where=where))


def test_both_losses_fall_and_the_editor_edits_better_than_copying(rows, plain, tmp_path):
    folder = trainer.train(config(), tmp_path, rows=rows)
    for part in ("vae", "denoiser"):
        losses = scalars(tmp_path / part)
        assert np.mean(losses[-3:]) < 0.5 * losses[0], part
    editor = DiffusersEditor.load(folder, device="cpu")
    assert editor.entry.steps == 4
    asked = [Edit(task_id="t", step=1, attempt=1, image=r.source, prompt=r.prompt, seed=5) for r in plain]
    for answer, row in zip(editor.edit(asked), plain, strict=True):
        assert answer.size == (SIZE, SIZE)
        moved = np.abs(row.source.pixels.astype(int) - row.target.pixels).max(-1) > 24
        assert error(answer, row.target, moved) < 0.5 * error(row.source, row.target, moved)
        assert error(answer, row.target, ~moved) < 10


def test_training_goes_on_from_an_editor(trained, plain, tmp_path):
    """With rates of nothing it is that editor."""
    still = {"steps": 1, "batch": 1, "learning_rate": 1e-12, "muon_learning_rate": 1e-12}
    settings = config(model=str(trained[0]), denoiser=still, seed=9)
    out = trainer.train(settings, tmp_path / "on", rows=plain)
    assert not (tmp_path / "on" / "vae").exists()
    for part in ("vae", "unet", "text_encoder"):
        before, after = (load_file(next((f / part).glob("*.safetensors"))) for f in (trained[0], out))
        for name in before:
            torch.testing.assert_close(after[name], before[name], msg=f"{part}: {name}")
    texts = {f.relative_to(out): f.read_text() for f in out.rglob("*.json")}
    words = Path("tokenizer/tokenizer.json")
    assert texts[words] == (trained[0] / words).read_text()
    assert not [f for f, text in texts.items() if str(tmp_path) in text or str(trained[0]) in text]
    card = (out / "README.md").read_text()
    assert "trained further on 2 edits" in card
    assert f"| went on from | editor/unet/{DENOISER}, " in card


def test_training_sees_what_the_pipeline_computes(trained, plain):
    """One sampling step from noise alone ends where the velocity says."""
    made = NanoEditor.load(config(model=str(trained[0])))
    row, edits = plain[0], read_edits(plain, SIZE)
    noise = torch.randn(1, 8, 16, 16, generator=torch.Generator().manual_seed(4))
    arguments = {"output_type": "latent", "num_inference_steps": 1, **made.entry().guidance}
    picture = PIL.Image.fromarray(row.source.pixels)
    sampled = made.pipeline(prompt=row.prompt, image=picture, latents=noise.clone(), **arguments)[0]
    ids, source = made.token_ids([row.prompt]), latents(made, edits, None)[edits.source[:1]].float()
    with torch.no_grad():
        states = made.pipeline.text_encoder(input_ids=ids)[0]
        velocity = made.denoiser(torch.cat([noise, source], 1), 999, states, return_dict=False)[0]
    torch.testing.assert_close(sampled, -velocity, atol=2e-2, rtol=1e-2)


def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path):
    schedule = Schedule(steps=7, batch=2, warmup=2, save_every=3)

    def run(folder, *, stop: int = 99, resume: bool = False) -> nn.Module:
        model, calls = NanoEditor.build(config(), ["Move it."]).loss(), 0

        def batch(step, count, generator):
            nonlocal calls
            calls += 1
            if calls > stop:
                raise KeyboardInterrupt
            source, target, noise = torch.randn(3, count, 8, 16, 16, generator=generator)
            level = trainer.noise_levels(count, config().denoiser, generator)
            ids = torch.randint(200, (count, 24), generator=generator)
            return source, target, noise, level, ids, torch.ones(count, 256)

        fit(model, batch, schedule, folder, seed=1, resume=resume)
        return model

    whole = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", stop=5)
    again = run(tmp_path / "stopped", resume=True)
    for (name, a), b in zip(whole.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b), name
    with pytest.raises(InputError, match="resume it, or choose another folder"):
        run(tmp_path / "stopped")
    with pytest.raises(InputError, match="other settings"):
        longer = schedule.model_copy(update={"steps": 8})
        fit(again, lambda *_: (), longer, tmp_path / "stopped", seed=1, resume=True)


@pytest.mark.parametrize(("balance", "share"), [(0.0, 0.1), (0.5, 0.25), (1.0, 0.5)])
def test_rare_kinds_are_drawn_more_often_when_balanced(rows, balance, share):
    explicit = torch.tensor([True] * 10 + [False] * 4)
    kinds = torch.tensor([1] + [0] * 9 + [2] * 4)
    edits = replace(read_edits(rows, SIZE), prompts=("",) * 14, explicit=explicit, kinds=kinds)
    chances = edits.chances(0.6, balance)
    assert chances[:10].sum() == pytest.approx(0.6)
    assert chances[0] == pytest.approx(0.6 * share)
    assert len(set(chances[1:10].tolist())) == len(set(chances[10:].tolist())) == 1
    for alone in (explicit | True, explicit & False):
        assert replace(edits, explicit=alone).chances(0.6, balance).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("denoiser: {stepps: 3}", r"bad\.yaml: denoiser\.stepps: there is no such setting$"),
        ("shape: {size: 100}", "shape: size 100 is not a multiple of 8"),
        ("shape: {text_width: 100}", "text_width of 32"),
        ("vae: {crop: 20}", r"vae\.crop"),
    ],
)
def test_a_bad_configuration_is_one_clear_line(tmp_path, text, message):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(InputError, match=rf"\A.*{message}.*\Z"):
        read_config(str(tmp_path / "bad.yaml"), EditorConfig)


def test_bad_data_is_one_clear_line(rows, tmp_path, trained):
    def refused(settings: EditorConfig, data, message: str) -> None:
        with pytest.raises(ValueError, match=rf"\A.*{message}.*\Z"):
            trainer.train(settings, tmp_path / "out", rows=data)

    refused(config(), None, "names no data")
    refused(config(data=tmp_path / "none"), None, "is not a corpus")
    refused(config(), [], "no edits")
    refused(config(shape={"size": 128}), rows, "works at 128x128 px, a picture has 64x64")
    refused(config(), [replace(rows[0], prompt="zyx " * 60)], "raise prompt_tokens")
    refused(config(model=str(tmp_path)), rows, "no readable model_index.json")
    (tmp_path / "model_index.json").write_text('{"_class_name": "FluxPipeline"}')
    refused(
        config(model=str(tmp_path)), rows, "is a FluxPipeline: the configuration trains a StableDiffusionI"
    )
    smaller = config(model=str(trained[0]), shape={"vae_encoder": (16, 16, 32)})
    refused(smaller, rows, "of another shape than the configuration's: see its vae")
    broken = tmp_path / "broken"
    shutil.copytree(trained[0], broken)
    (broken / "unet" / DENOISER).write_bytes(b"rubbish")
    refused(config(model=str(broken)), rows, "cannot load .* to train it")
    with pytest.raises(InputError, match="resume it, or choose"):
        trainer.train(config(), trained[1], rows=rows)


def test_edits_of_stored_storyboards_are_read_in_the_editors_size(tmp_path):
    """Of a real camera: another size than the editor's, no register and no kind of goal."""
    pictures = [Image(np.full((30, 40, 3), value, np.uint8)) for value in (50, 200)]
    row = StoredEdit("lab/episode_000000", 0, *pictures, "lift the cup", "the cup is up", "observed", 0)
    corpus = Corpus(STORED_EDITS, "train", {"train-00000": range(1)}, lambda part: [row], {}, "edits")
    write_corpus(corpus, tmp_path, text=False)
    edits = read_edits(tmp_path, 64)
    assert edits.pictures.shape == (2, 3, 64, 64)
    assert edits.prompts == ("lift the cup",)
    assert edits.explicit.tolist() == [True]
    middle = edits.pictures[:, 0, 32, 32]
    assert middle[edits.source].tolist() == [50]
    assert middle[edits.target].tolist() == [200]
