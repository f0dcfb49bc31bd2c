"""Low-rank adapters for an image editor, trained on edits: FLUX.2-klein, Qwen-Image-Edit, FLUX.1-Kontext.

The recipe: adapters (arXiv 2106.09685) on the attention layers of the editor's network, which learns the
velocity from the picture after a step to noise (`goalreel.training.editor_velocity`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from peft import LoraConfig, get_peft_model_state_dict, set_peft_model_state_dict
from pydantic import Field
from torch.utils.tensorboard import SummaryWriter

from goalreel.datasets.corpora.edits import STORED_EDITS, StoredEdit
from goalreel.editors.catalogue import LORA_FILE, Entry, find
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.errors import InputError
from goalreel.files import atomic
from goalreel.progress import OnProgress
from goalreel.training.card import Card, write_card
from goalreel.training.config import Count, Positive, TrainingConfig
from goalreel.training.editor_velocity import velocity_error
from goalreel.training.language_config import LoraSettings
from goalreel.training.run import begin
from goalreel.training.stored_rows import StoredRows

CHECKPOINT = "checkpoint.pt"


class EditorLoraConfig(TrainingConfig):
    """How adapters of an editor are trained, on one device."""

    method: Literal["lora"]
    editor: Annotated[str, Field(min_length=1)]
    """The editor by its name in the catalogue, or the folder of its pipeline."""
    weights: str | None = None
    """Train on these weights instead: the adapters of a distilled editor are trained on its base model."""
    data: Path | None = None
    """Folder of a corpus of edits (`goalreel corpus from-storyboards` writes OUT/edits)."""
    lora: LoraSettings = LoraSettings(rank=32, alpha=32)
    targets: tuple[str, ...] = ("to_q", "to_k", "to_v", "to_out.0")
    """Ends of the names of the layers that get adapters."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    steps: Count = 1500
    batch: Count = 4
    """Edits in a step, one after the other."""
    learning_rate: Positive = 1e-4
    warmup: Count = 50
    shift: Positive = 3.0
    """Above 1, noisier levels are drawn more often, as large pictures need it."""
    size: tuple[Count, Count] | None = None
    """Width and height of the largest canvas, in pixels. None takes the editor's own."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    device: str | None = None
    gradient_checkpointing: bool = True
    log_every: Count = 10
    save_every: Count = 100


def train(
    config: EditorLoraConfig,
    out: Path,
    resume: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> dict[str, float]:
    """Train adapters, and leave them in `out` with a model card: `--editor NAME?lora=OUT` uses them.

    Returns:
        `steps`, `edits` and `loss`, the mean over the last tenth of the steps.

    Raises:
        InputError: a setting, the data or the editor cannot be used; `out` holds another run, or, with
            `resume`, none.
    """
    if config.data is None:
        raise InputError("no edits to train on: give --data")
    rows = read_edits(config.data)
    source, entry = _editor(config)
    begin(config, out, resume)
    editor = DiffusersEditor.load(source, entry=entry, device=config.device, dtype=config.dtype)
    network = _add_adapters(editor, config)
    if config.gradient_checkpointing:
        network.enable_gradient_checkpointing()
    adapters = [p for p in network.parameters() if p.requires_grad]
    for parameter in adapters:
        parameter.data = parameter.data.float()
    optimizer = torch.optim.AdamW(adapters, lr=config.learning_rate, weight_decay=1e-4)
    losses = _fit(config, out, editor, rows, optimizer, progress)
    _save_adapters(editor, out)
    tail = losses[-max(1, len(losses) // 10) :]
    numbers = {"steps": config.steps, "edits": len(rows), "loss": sum(tail) / max(1, len(tail))}
    write_card(out, _card(config, numbers))
    return numbers


def read_edits(folder: Path) -> StoredRows[StoredEdit]:
    """Find the edits of a corpus.

    Raises:
        InputError: there is no corpus, or it holds no edits.
    """
    shards = sorted((folder / "data").glob("[!.]*.parquet"))
    if not shards:
        raise InputError(f"{folder} holds no corpus: `goalreel corpus from-storyboards` writes OUT/edits")
    rows = StoredRows(STORED_EDITS, shards)
    if not len(rows):
        raise InputError(f"{folder} holds no edits")
    return rows


def _add_adapters(editor: DiffusersEditor, config: EditorLoraConfig) -> Any:
    """Freeze the network, and put adapters on it that begin the same for the same seed."""
    network = getattr(editor.pipeline, "transformer", None)
    if network is None:
        raise InputError(f"{type(editor.pipeline).__name__} cannot be trained here: it has no transformer")
    network.requires_grad_(False)
    adapters = LoraConfig(
        r=config.lora.rank,
        lora_alpha=config.lora.alpha,  # pyrefly: ignore[bad-argument-type]  (a factor: any number will do)
        lora_dropout=config.lora.dropout,
        init_lora_weights="gaussian",
        target_modules=list(config.targets),
    )
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        network.add_adapter(adapters)
    return network


def _fit(
    config: EditorLoraConfig,
    out: Path,
    editor: DiffusersEditor,
    rows: StoredRows[StoredEdit],
    optimizer: torch.optim.Optimizer,
    progress: OnProgress,
) -> list[float]:
    """Run the steps that are left; each step's randomness follows from the seed and its number alone."""
    network = editor.pipeline.transformer
    first, losses = _restore(out / CHECKPOINT, network, optimizer)
    writer = SummaryWriter(str(out / "logs"))
    network.train()
    for step in range(first, config.steps):
        numbers = _draw(config, step, len(rows))
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * min(1.0, (step + 1) / config.warmup)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for i, number in enumerate(numbers):
            seed = (config.seed * 10**6 + step) * 1000 + i
            torch.manual_seed(seed)  # for dropout
            error = velocity_error(editor, rows[number], config.size, config.shift, seed) / len(numbers)
            error.backward()
            total += float(error.detach())
        torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 1.0)
        optimizer.step()
        losses.append(total)
        done = step + 1
        progress("steps", done, config.steps)
        if done % config.log_every == 0:
            writer.add_scalar("loss", total, done)
        if done % config.save_every == 0 or done == config.steps:
            _keep(out / CHECKPOINT, network, optimizer, done, losses)
    writer.close()
    network.eval()
    return losses


def _draw(config: EditorLoraConfig, step: int, count: int) -> Sequence[int]:
    """Number the edits of a step: every epoch has each edit once, in an order of its own."""
    places = range(step * config.batch, (step + 1) * config.batch)
    numbers = []
    for place in places:
        generator = torch.Generator().manual_seed(config.seed * 10**6 + place // count)
        numbers.append(int(torch.randperm(count, generator=generator)[place % count]))
    return numbers


def _keep(
    path: Path, network: Any, optimizer: torch.optim.Optimizer, step: int, losses: Sequence[float]
) -> None:
    state = {
        "step": step,
        "losses": list(losses),
        "adapters": get_peft_model_state_dict(network),
        "optimizer": optimizer.state_dict(),
    }
    with atomic(path) as part:
        torch.save(state, part)


def _restore(path: Path, network: Any, optimizer: torch.optim.Optimizer) -> tuple[int, list[float]]:
    if not path.is_file():
        return 0, []
    state = torch.load(path, map_location="cpu", weights_only=True)
    set_peft_model_state_dict(network, state["adapters"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["losses"]


def _editor(config: EditorLoraConfig) -> tuple[str, Entry | None]:
    """Find the weights to train on, and how the editor is called; None says that its folder tells.

    Raises:
        InputError: there is no such editor, or adapters are on it already.
    """
    if Path(config.editor).is_dir():
        return config.weights or config.editor, None
    entry = find(config.editor)
    if entry.pipeline is None or entry.lora is not None:
        raise InputError(f"{config.editor} cannot be trained: name an editor without adapters of its own")
    return config.weights or entry.repository, entry


def _save_adapters(editor: DiffusersEditor, out: Path) -> None:
    state = get_peft_model_state_dict(editor.pipeline.transformer)
    type(editor.pipeline).save_lora_weights(
        out, transformer_lora_layers={k: v.detach().cpu() for k, v in state.items()}, weight_name=LORA_FILE
    )


def _card(config: EditorLoraConfig, numbers: Mapping[str, float]) -> Card:
    return Card(
        title=f"Adapters for {config.editor}",
        summary=f"Low-rank adapters for the editor {config.editor}, trained on {numbers['edits']:,} edits.",
        use=f"goalreel plan --editor {config.editor}?lora=DIR",
        library="diffusers",
        task="image-to-image",
        base_model=config.weights or config.editor,
        seed=config.seed,
        numbers=numbers,
        limits="What the editor cannot do without them, and scenes unlike those of the edits.",
    )
