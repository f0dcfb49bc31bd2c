"""Low-rank adapters for an image editor, trained on edits: FLUX.2-klein, Qwen-Image-Edit, FLUX.1-Kontext.

The recipe: adapters (arXiv 2106.09685) on the attention layers of the editor's network, which learns the
velocity from the picture after a step to noise (flow matching, arXiv 2403.03206). The pipeline itself says
what it gives its network beside the noisy picture: one call is begun for each edit, and broken off at the
network. So a prompt and a source are encoded exactly as they are when the editor is used.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import PIL.Image
import torch
from peft import LoraConfig, get_peft_model_state_dict, set_peft_model_state_dict
from pydantic import Field
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from goalreel.datasets.corpora.rows import StoredRows, shards_of
from goalreel.datasets.corpora.trajectories import STORED_EDITS, StoredEdit
from goalreel.editors.catalogue import LORA_FILE, Entry, find
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.editors.sizes import Placement, Size, placement
from goalreel.errors import InputError
from goalreel.files import atomic
from goalreel.image import Image
from goalreel.progress import OnProgress
from goalreel.settings import Frozen
from goalreel.training.card import Card, write_card
from goalreel.training.config import Count, LoraSettings, Positive
from goalreel.training.run import begin

CHECKPOINT = "checkpoint.pt"


class _NetworkReached(Exception):
    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments


def network_inputs(
    editor: DiffusersEditor, image: Image, prompt: str, place: Placement, encoded: list[Any] | None = None
) -> tuple[dict[str, Any], Tensor]:
    """Begin an edit, and take what its pipeline gives the network, without the noisy picture.

    Gives its arguments, and the source's latents (1, n, channels). `encoded` takes what the prompt was
    encoded to; where it holds that already, nothing is encoded again.

    Raises:
        InputError: the pipeline is of a kind whose source is not read this way.
    """
    pipeline, lengths = editor.pipeline, list[int]()

    def stop(_: object, args: object, arguments: dict[str, Any]) -> None:
        raise _NetworkReached(arguments)

    encoded = [] if encoded is None else encoded
    encode, values = pipeline.encode_prompt, iter(tuple(encoded))

    def encode_prompt(*args: Any, **options: Any) -> Any:
        for value in values:
            return value
        encoded.append(encode(*args, **options))
        return encoded[-1]

    prepare = pipeline.prepare_latents

    def prepare_latents(*args: Any, **options: Any) -> Any:
        prepared = prepare(*args, **options)
        lengths.append(prepared[0].shape[1])
        return prepared

    arguments = editor.arguments(place.canvas)
    picture = PIL.Image.fromarray(place.place(image).pixels)
    generator = torch.Generator("cpu").manual_seed(0)
    hook = pipeline.transformer.register_forward_pre_hook(stop, with_kwargs=True)
    pipeline.encode_prompt, pipeline.prepare_latents = encode_prompt, prepare_latents
    try:
        pipeline(prompt=prompt, image=picture, generator=generator, **arguments)
    except _NetworkReached as reached:
        arguments = dict(reached.arguments)
    else:
        raise InputError(f"{type(pipeline).__name__} cannot be trained here: it has no transformer to reach")
    finally:
        hook.remove()
        del pipeline.encode_prompt, pipeline.prepare_latents
    hidden, timestep = arguments.pop("hidden_states"), arguments.pop("timestep")
    if not lengths or hidden.shape[1] != 2 * lengths[0] or not 0.9 <= float(timestep.flatten()[0]) <= 1:
        raise InputError(
            f"{type(pipeline).__name__} cannot be trained here: it does not see its source beside what it "
            "draws, in the same size"
        )
    return arguments, hidden[:, lengths[0] :]


def velocity_error(
    editor: DiffusersEditor, edit: StoredEdit, size: Size | None, shift: float, seed: int
) -> Tensor:
    """Compute the mean squared error of the velocity at a random noise level, which follows from `seed`.

    `size` is the largest canvas, width and height in pixels; None takes the editor's own. Above 1, `shift`
    draws noisier levels more often.
    """
    entry = editor.entry
    place = placement(edit.source.size, size or entry.size, entry.multiple, entry.square)
    encoded: list[Any] = []
    with torch.no_grad():
        arguments, source = network_inputs(editor, edit.source, edit.prompt, place, encoded)
        goal = edit.target.resized(edit.source.size)
        _, target = network_inputs(editor, goal, edit.prompt, place, encoded)
    generator = torch.Generator("cpu").manual_seed(seed)
    level = torch.sigmoid(torch.randn((), generator=generator))
    level = shift * level / (1 + (shift - 1) * level)
    noise = torch.randn(target.shape, generator=generator).to(target)
    noisy = (1 - level) * target + level * noise
    network = editor.pipeline.transformer
    hidden = torch.cat([noisy, source], 1).to(network.dtype)
    timestep = torch.full((1,), float(level), device=hidden.device, dtype=hidden.dtype)
    velocity = network(hidden_states=hidden, timestep=timestep, **arguments)[0][:, : target.shape[1]]
    return torch.nn.functional.mse_loss(velocity.float(), (noise - target).float())


class EditorLoraConfig(Frozen):
    """Settings by which adapters of an editor are trained, on one device."""

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
    state = get_peft_model_state_dict(network)
    layers = {name: value.detach().cpu() for name, value in state.items()}
    type(editor.pipeline).save_lora_weights(out, transformer_lora_layers=layers, weight_name=LORA_FILE)
    tail = losses[-max(1, len(losses) // 10) :]
    numbers = {"steps": config.steps, "edits": len(rows), "loss": sum(tail) / max(1, len(tail))}
    write_card(out, _card(config, numbers))
    return numbers


def read_edits(folder: Path) -> StoredRows[StoredEdit]:
    """Find the edits of a corpus.

    Raises:
        InputError: there is no corpus, or it holds no edits.
    """
    rows = StoredRows(STORED_EDITS, shards_of(folder, "from-storyboards"))
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
    first, losses = 0, list[float]()
    if (out / CHECKPOINT).is_file():
        state = torch.load(out / CHECKPOINT, map_location="cpu", weights_only=True)
        set_peft_model_state_dict(network, state["adapters"])
        optimizer.load_state_dict(state["optimizer"])
        first, losses = state["step"], state["losses"]
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
            state = {"step": done, "losses": losses, "adapters": get_peft_model_state_dict(network)}
            with atomic(out / CHECKPOINT) as part:
                torch.save(state | {"optimizer": optimizer.state_dict()}, part)
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
