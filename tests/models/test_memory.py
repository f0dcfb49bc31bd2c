"""What the models of a preset take on a GPU, by tiny checkpoints in its place: from their files alone."""

import json
import re
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file
from support import tiny
from support.cli import invoke
from support.tiny_pipelines import tiny_pipeline

from goalreel.models import presets
from goalreel.models.memory import CHAT_GB, CONTEXT_GB, EDIT_GB, memory_of, model_gb, quantized_gb

LOCAL = ("klein", "klein-4b", "klein-48gb", "klein-24gb")


@pytest.fixture(scope="module")
def tiny_models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    planner = tiny.tiny_vlm(folder / "planner")
    shutil.copytree(planner, folder / "critic")
    editor = tiny_pipeline("Flux2KleinPipeline", folder / "editor")
    return {"planner": planner, "critic": folder / "critic", "editor": editor}


def names(preset: str, folders: dict[str, Path]) -> dict[str, str]:
    """The preset's models from these folders, with the preset's own options."""
    chosen = presets.load(preset)
    queries = {role: getattr(chosen, role).partition("?")[2] for role in folders}
    forms = {"planner": "hf:", "critic": "hf:", "editor": "flux2-klein-4b@"}
    return {role: f"{forms[role]}{folder}?{queries[role]}".rstrip("?") for role, folder in folders.items()}


def elements(folder: Path) -> int:
    files = folder.rglob("*.safetensors")
    return sum(tensor.numel() for file in files for tensor in load_file(file).values())


@pytest.mark.parametrize("preset", LOCAL)
def test_the_files_of_each_preset_are_counted(preset, tiny_models):
    memory = memory_of(presets.load(preset, **names(preset, tiny_models)))
    assert memory.plans_first
    assert [model.origin for model in memory.models] == ["its files"] * 3
    for model in memory.models:
        whole = elements(tiny_models[model.role]) * 2 / 1e9
        if preset == "klein-24gb":
            assert whole / 2 < model.weights_gb < whole, "matrices in fp8, embeddings as they are"
        else:
            assert model.weights_gb == pytest.approx(whole)
    planner, editor, critic = (model.weights_gb for model in memory.models)
    work = 2 * max(editor, critic)  # so small models work in as much as they weigh
    assert memory.needed_gb == pytest.approx(CONTEXT_GB + editor + critic + work / 2)
    assert planner == critic


@pytest.mark.parametrize(
    ("preset", "gpu", "says"),
    [
        ("klein", 80, ": fits in 80.0 GB"),
        ("klein", 70, ": fits in 70.0 GB, in smaller batches (?batch_size=)"),
        ("klein", 48, ": does not fit in 48.0 GB; use"),
        ("klein-4b", 48, ": fits in 48.0 GB, in smaller batches (?batch_size=)"),
        ("klein-48gb", 48, ": fits in 48.0 GB"),
        ("klein-48gb", 24, ": does not fit in 24.0 GB; use"),
        ("klein-24gb", 24, ": fits in 24.0 GB"),
        ("klein-vllm", 24, ": fits in 24.0 GB, in smaller batches (?batch_size=)"),
    ],
)
def test_each_preset_fits_where_its_name_says(preset, gpu, says):
    """By the published sizes, as nothing is downloaded here."""
    memory = memory_of(presets.load(preset))
    assert memory.fits(gpu) == ("fits" in says)
    line = memory.line(gpu)
    assert "published sizes, as not downloaded" in line
    assert line.endswith(says) or (says.endswith("use") and says in line)


@pytest.mark.parametrize(("preset", "measured"), [("klein-4b", 50.9), ("klein", 69.6)])
def test_full_batches_take_what_was_measured(preset, measured):
    """Critic and editor of random weights, in batches of 8 (docs/results/models.md)."""
    assert memory_of(presets.load(preset)).batched_gb == pytest.approx(measured, rel=0.03)


def test_a_quantised_size_is_that_of_the_loaded_model(tiny_models, tmp_path):
    pytest.importorskip("torchao")
    from goalreel.chat.hf import HfChat

    both = shutil.copytree(tiny_models["planner"], tmp_path / "both")
    shutil.copy(both / "model.safetensors", both / "model.fp16.safetensors")
    assert model_gb(both, itemsize=2) == model_gb(tiny_models["planner"], itemsize=2), "a variant's files"
    loaded = HfChat.load(tiny_models["planner"], quantize="fp8", dtype="bfloat16").model
    expected = 0
    for tensor in loaded.state_dict().values():
        parts = [getattr(tensor, name) for name in getattr(tensor, "tensor_data_names", ())] or [tensor]
        expected += sum(part.numel() * part.element_size() for part in parts)
    estimate = model_gb(tiny_models["planner"], itemsize=2, quantize="fp8")
    assert estimate * 1e9 == pytest.approx(expected, rel=0.1), "scales come on top"


def test_where_one_chat_is_planner_and_critic_it_counts_once(tiny_models):
    chat = f"hf:{tiny_models['planner']}"
    memory = memory_of(presets.load("klein", planner=chat, critic=chat, editor="server:http://h"))
    assert [model.role for model in memory.models] == ["planner", "editor"]
    assert not memory.plans_first


def test_offloaded_weights_count_during_a_call_alone(tiny_models):
    chosen = names("klein", tiny_models)
    moved = {**chosen, "editor": f"{chosen['editor']}?offload=model"}
    memory = memory_of(presets.load("klein", **moved))
    planner, editor, critic = memory.models
    assert (editor.resident_gb, critic.resident_gb) == (0, critic.weights_gb)
    assert editor.call_gb < 2 * editor.weights_gb, "its largest part, and the work"
    most = max(planner.call_gb, critic.weights_gb + editor.call_gb)
    assert memory.needed_gb == pytest.approx(CONTEXT_GB + most)


def test_the_second_system_of_the_paper_has_its_denoiser_on_the_gpu_at_a_time():
    """Beside the Critic; of Qwen-Image's 58 GB its denoiser has 41."""
    memory = memory_of(presets.load("qwen"))
    assert memory.needed_gb == pytest.approx(CONTEXT_GB + 17.5 + 41 + EDIT_GB, rel=0.01)
    line = memory.line(80)
    assert line.endswith(": fits in 80.0 GB")
    assert "not downloaded: planner, editor, critic)" in line


def test_a_size_that_nothing_tells_is_not_guessed(tmp_path):
    memory = memory_of(presets.load("klein", planner="hf:some/model"))
    assert memory.needed_gb is None
    assert memory.line(80).endswith("download it first to know: hf:some/model")
    (tmp_path / "model.safetensors").write_bytes(b"\x05\0\0\0\0\0\0\0[1,2]")
    assert model_gb(tmp_path, itemsize=2) is None


def test_the_index_of_a_download_that_is_not_whole_and_the_hubs_cache(tmp_path, monkeypatch):
    from huggingface_hub import constants

    repository = tmp_path / "models--InterleaveThinker--InterleaveThinker-Planner-8B"
    snapshot = repository / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text("{}")
    weights = {"a": "model-00001-of-00004.safetensors"}
    index = {"metadata": {"total_size": 17_534_247_392}, "weight_map": weights}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    planner = memory_of(presets.load("klein")).models[0]
    assert (planner.origin, planner.weights_gb) == ("its files", pytest.approx(17.53, abs=0.01))
    quantised = memory_of(presets.load("klein-24gb")).models[0]
    assert quantised.weights_gb == pytest.approx(quantized_gb(17.534, "fp8"), abs=0.01)


def test_doctor_says_whether_a_preset_fits_and_asks_no_model(tiny_models, monkeypatch):
    monkeypatch.setattr("goalreel.annotator.model_check.try_models", pytest.fail)
    roles = [word for role, name in names("klein-24gb", tiny_models).items() for word in (f"--{role}", name)]
    fits = invoke("doctor", "--models", "klein-24gb", *roles, "--gpu", "24")
    assert fits.exit_code == 0
    assert re.fullmatch(
        r"memory: planner \d MB, editor \d+ MB, critic \d MB; at most 0\.6 GB for one request, "
        r"0\.\d GB in full batches, as all plans are made first "
        r"\(serve and rollout: 0\.6 GB, 0\.\d GB\): fits in 24\.0 GB\n",
        fits.stdout,
    ), fits.stdout
    tiny_editor = ("--editor", f"flux2-klein-4b@{tiny_models['editor']}")
    beside = invoke("doctor", "--models", "klein-vllm", *tiny_editor, "--gpu", "24")
    assert beside.stdout.startswith("memory: planner a server, editor "), beside.output
    assert beside.stdout.endswith("fits in 24.0 GB\n")
    published = invoke("doctor", "--models", "klein", "--gpu", "24", "--json")
    assert published.exit_code == 1
    memory = json.loads(published.stdout)["memory"]
    assert (memory["fits"], memory["gpu_gb"], memory["plans_first"]) == (False, 24, True)
    assert memory["needed_gb"] == pytest.approx(CONTEXT_GB + 35 + 17.5 + max(CHAT_GB, EDIT_GB))
    assert "--models PRESET" in invoke("doctor", "--gpu", "24").stderr
    assert "no editor called" in invoke("doctor", "--models", "klein", "--editor", "x", "--gpu", "24").stderr
