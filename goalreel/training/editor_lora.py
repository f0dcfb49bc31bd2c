"""Low-rank adapters for an image editor, trained on edits: FLUX.2-klein, Qwen-Image-Edit, FLUX.1-Kontext.

What the editor's network is given beside the noisy picture is taken from the pipeline itself: one call is
begun for each edit and broken off at the network. So a prompt and a source are encoded exactly as they are
when the editor is used. The network learns velocities (flow matching, arXiv 2403.03206).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import PIL.Image
import torch
from peft import LoraConfig, get_peft_model_state_dict, set_peft_model_state_dict
from pydantic import Field
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from goalreel.datasets.corpora.columns import from_columns
from goalreel.datasets.corpora.edits import STORED_EDITS, StoredEdit
from goalreel.editors.catalogue import LORA_FILE, find
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.editors.sizes import Placement, placement
from goalreel.errors import InputError
from goalreel.files import atomic
from goalreel.image import Image
from goalreel.progress import OnProgress
from goalreel.training.card import Card, write_card
from goalreel.training.config import Count, Positive, TrainingConfig
from goalreel.training.language_config import LoraSettings
from goalreel.training.run import begin

log = logging.getLogger(__name__)

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
    rows = EditRows(config.data)
    begin(config, out, resume)
    editor = _load(config)
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


class EditRows:
    """The edits of a corpus, by number; a picture is decoded when it is read.

    Raises:
        InputError: there is no corpus, or it holds no edits.
    """

    def __init__(self, folder: Path) -> None:
        import datasets

        shards: list[Any] = [str(shard) for shard in sorted((folder / "data").glob("[!.]*.parquet"))]
        if not shards:
            raise InputError(f"{folder} holds no corpus: `goalreel corpus from-storyboards` writes OUT/edits")
        stored: Any = datasets.Dataset.from_parquet(shards)
        if missing := STORED_EDITS.columns.keys() - set(stored.column_names):
            raise InputError(f"{folder} holds no edits: no column {', '.join(sorted(missing))}")
        if not len(stored):
            raise InputError(f"{folder} holds no edits")
        for name in STORED_EDITS.pictures:
            stored = stored.cast_column(name, datasets.Image(decode=False))
        self._stored = stored

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, number: int) -> StoredEdit:
        """Read the edit of this number."""
        return from_columns(STORED_EDITS, self._stored[number])


@dataclass(frozen=True)
class NetworkInputs:
    """What the network is given for one edit, without the noisy picture: `arguments`, and the source's
    latents (1, n, channels) where there is one picture."""

    arguments: Mapping[str, Any]
    source: Tensor


class _NetworkReached(Exception):
    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments


def network_inputs(editor: DiffusersEditor, image: Image, prompt: str, place: Placement) -> NetworkInputs:
    """Begin an edit, and take what its pipeline gives the network.

    Raises:
        InputError: the pipeline is of a kind whose source is not read this way.
    """
    pipeline, lengths = editor.pipeline, list[int]()

    def stop(_: object, args: object, arguments: dict[str, Any]) -> None:
        raise _NetworkReached(arguments)

    prepare = pipeline.prepare_latents

    def prepare_latents(*args: Any, **options: Any) -> Any:
        prepared = prepare(*args, **options)
        lengths.append(prepared[0].shape[1])
        return prepared

    arguments = editor.arguments(place.canvas)
    picture = PIL.Image.fromarray(place.place(image).pixels)
    generator = torch.Generator("cpu").manual_seed(0)
    hook = pipeline.transformer.register_forward_pre_hook(stop, with_kwargs=True)
    pipeline.prepare_latents = prepare_latents
    try:
        pipeline(prompt=prompt, image=picture, generator=generator, **arguments)
    except _NetworkReached as reached:
        given = dict(reached.arguments)
    else:
        raise InputError(f"{type(pipeline).__name__} cannot be trained here: it has no transformer to reach")
    finally:
        hook.remove()
        del pipeline.prepare_latents
    hidden, timestep = given.pop("hidden_states"), given.pop("timestep")
    if not lengths or hidden.shape[1] != 2 * lengths[0] or not 0.9 <= float(timestep.flatten()[0]) <= 1:
        raise InputError(
            f"{type(pipeline).__name__} cannot be trained here: it does not see its source beside what it "
            "draws, in the same size"
        )
    return NetworkInputs(given, hidden[:, lengths[0] :])


def loss(editor: DiffusersEditor, row: StoredEdit, config: EditorLoraConfig, seed: int) -> Tensor:
    """Compute the mean squared error of the velocity at a random noise level, which follows from `seed`."""
    entry = editor.entry
    place = placement(row.source.size, config.size or entry.size, entry.multiple, entry.square)
    with torch.no_grad():
        given = network_inputs(editor, row.source, row.prompt, place)
        target = network_inputs(editor, row.target.resized(row.source.size), row.prompt, place).source
    generator = torch.Generator("cpu").manual_seed(seed)
    level = torch.sigmoid(torch.randn((), generator=generator))
    level = config.shift * level / (1 + (config.shift - 1) * level)
    noise = torch.randn(target.shape, generator=generator).to(target)
    noisy = (1 - level) * target + level * noise
    network = editor.pipeline.transformer
    hidden = torch.cat([noisy, given.source], 1).to(network.dtype)
    timestep = torch.full((1,), float(level), device=hidden.device, dtype=hidden.dtype)
    velocity = network(hidden_states=hidden, timestep=timestep, **given.arguments)[0][:, : target.shape[1]]
    return torch.nn.functional.mse_loss(velocity.float(), (noise - target).float())


def _fit(
    config: EditorLoraConfig,
    out: Path,
    editor: DiffusersEditor,
    rows: EditRows,
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
            error = loss(editor, rows[number], config, (config.seed * 10**6 + step) * 1000 + i) / len(numbers)
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


def _load(config: EditorLoraConfig) -> DiffusersEditor:
    """Load the editor to train.

    Raises:
        InputError: it cannot be loaded, or adapters are on it already.
    """
    options = {"device": config.device, "dtype": config.dtype}
    if Path(config.editor).is_dir():
        return DiffusersEditor.load(config.weights or config.editor, **options)
    entry = find(config.editor)
    if entry.pipeline is None or entry.lora is not None:
        raise InputError(f"{config.editor} cannot be trained: name an editor without adapters of its own")
    return DiffusersEditor.load(config.weights or entry.repository, entry=entry, **options)


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
