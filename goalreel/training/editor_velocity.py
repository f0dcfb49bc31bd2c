"""What an image editor's network is given for an edit, and how far its answer is from the target.

The pipeline itself says what it gives its network beside the noisy picture: one call is begun for each edit,
and broken off at the network. So a prompt and a source are encoded exactly as they are when the editor is
used. The network learns velocities (flow matching, arXiv 2403.03206).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import PIL.Image
import torch
from torch import Tensor

from goalreel.datasets.corpora.edits import StoredEdit
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.editors.sizes import Placement, Size, placement
from goalreel.errors import InputError
from goalreel.image import Image


@dataclass(frozen=True)
class NetworkInputs:
    """What the network is given for one edit, without the noisy picture: `arguments`, and the source's
    latents (1, n, channels) where there is one picture."""

    arguments: Mapping[str, Any]
    source: Tensor


class _NetworkReached(Exception):
    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments


def network_inputs(
    editor: DiffusersEditor, image: Image, prompt: str, place: Placement, encoded: list[Any] | None = None
) -> NetworkInputs:
    """Begin an edit, and take what its pipeline gives the network.

    `encoded` takes what the prompt was encoded to; where it holds that already, nothing is encoded again.

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
    return NetworkInputs(arguments, hidden[:, lengths[0] :])


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
        inputs = network_inputs(editor, edit.source, edit.prompt, place, encoded)
        goal = edit.target.resized(edit.source.size)
        target = network_inputs(editor, goal, edit.prompt, place, encoded).source
    generator = torch.Generator("cpu").manual_seed(seed)
    level = torch.sigmoid(torch.randn((), generator=generator))
    level = shift * level / (1 + (shift - 1) * level)
    noise = torch.randn(target.shape, generator=generator).to(target)
    noisy = (1 - level) * target + level * noise
    network = editor.pipeline.transformer
    hidden = torch.cat([noisy, inputs.source], 1).to(network.dtype)
    timestep = torch.full((1,), float(level), device=hidden.device, dtype=hidden.dtype)
    velocity = network(hidden_states=hidden, timestep=timestep, **inputs.arguments)[0][:, : target.shape[1]]
    return torch.nn.functional.mse_loss(velocity.float(), (noise - target).float())
