"""The nano editor: a diffusers pipeline with small parts, and what training has to know of its class."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from diffusers.configuration_utils import ConfigMixin
from torch import Tensor, nn

from goalreel.checkpoints import located
from goalreel.editors.catalogue import Entry
from goalreel.editors.loading import model_index
from goalreel.errors import InputError
from goalreel.tabletop.nano.editor_config import EditorConfig, EditorShape
from goalreel.training.precision import half


class NanoEditor[P](ABC):
    """A pipeline of class `P`, to train or to save."""

    pipeline_class: ClassVar[Any]
    denoiser_name: ClassVar[str]
    """The pipeline's part that is asked at every step."""

    def __init__(self, pipeline: P, config: EditorConfig) -> None:
        self.pipeline: P = pipeline
        self.config = config

    @classmethod
    @abstractmethod
    def build(cls, config: EditorConfig, texts: Iterable[str]) -> Self:
        """Make one with random weights, the same for the same seed, on the CPU in float32.

        `texts`: what the tokenizer learns its words from.
        """

    @classmethod
    def load(cls, config: EditorConfig) -> Self:
        """Load the pipeline that `config.model` names, to go on with it on the CPU in float32.

        Raises:
            InputError: there is none, or it is of another class or shape.
        """
        source, kind = located(str(config.model)), cls.pipeline_class
        if not Path(source).is_dir():
            raise InputError(f"no folder {source}: name one that holds an editor, or nano-editor")
        if (name := model_index(source).get("_class_name")) != kind.__name__:
            raise InputError(f"{source} is a {name}: the configuration trains a {kind.__name__}")
        try:
            pipeline = kind.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
        except (OSError, ValueError) as e:
            raise InputError(
                f"cannot load {source} to train it: {str(e).strip().splitlines()[0][:300]}"
            ) from e
        with torch.device("meta"):
            wanted = cls.parts(config.shape, pipeline.tokenizer)
        for part, model in wanted.items():
            sizes, found = (
                {k: v.shape for k, v in m.state_dict().items()} for m in (model, getattr(pipeline, part))
            )
            if sizes != found:
                raise InputError(f"{source} is of another shape than the configuration's: see its {part}")
        pipeline.set_progress_bar_config(disable=True)
        return cls(pipeline, config)

    @staticmethod
    @abstractmethod
    def parts(shape: EditorShape, tokenizer: Any) -> dict[str, nn.Module]:
        """Make its parts that hold weights, by the pipeline's names."""

    @property
    def vae(self) -> Any:
        return self.pipeline.vae  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def denoiser(self) -> nn.Module:
        """What is asked at every step."""
        return getattr(self.pipeline, self.denoiser_name)

    @property
    @abstractmethod
    def cell(self) -> int:
        """Pixels along the side of what one weight of the loss stands for."""

    @abstractmethod
    def entry(self) -> Entry:
        """Say how the editor calls the pipeline: steps, size, arguments."""

    @abstractmethod
    def tokens(self, prompts: Iterable[str]) -> tuple[Tensor, ...]:
        """Prompts as `loss` takes them, (n, length) each.

        Raises:
            InputError: a prompt is longer than the configuration's `prompt_tokens`.
        """

    def check_length(self, ids: Tensor) -> None:
        """Refuse token ids (n, longest) that are longer than prompts may be."""
        longest, length = ids.shape[1], self.config.shape.prompt_tokens
        if longest > length:
            raise InputError(f"a prompt has {longest} tokens: raise prompt_tokens, which is {length}")

    @abstractmethod
    def measure_latents(self, pictures: Tensor) -> None:
        """Set the VAE's scale from pictures (b, 3, size, size) uint8."""

    def encoded(self, pictures: Tensor) -> Tensor:
        """The means of the latents (b, channels, h, w) of pictures (b, 3, size, size) uint8."""
        vae = self.vae
        with half(vae.device, wanted=self.config.precision == "bf16"):
            return encoded(vae, pictures)

    def redraw(self, pictures: Tensor) -> Tensor:
        """Pictures (b, 3, size, size) uint8 as they come out of the VAE."""
        with half(self.vae.device, wanted=self.config.precision == "bf16"):
            return redraw(self.vae, pictures)

    @abstractmethod
    def encode(self, pictures: Tensor) -> Tensor:
        """Latents (b, ...) as `loss` takes them, of pictures (b, 3, size, size) uint8."""

    @abstractmethod
    def loss(self) -> nn.Module:
        """The loss of (source, target, noise, level, *tokens, weight): latents, latents, noise of their
        shape, noise levels (b,) from 0, the picture, to 1, noise alone, and weights (b, cells)."""

    def save(self, folder: Path) -> None:
        """Write what `diffusers:FOLDER` loads. The pipeline's weights take the type they are saved in."""
        pipeline: Any = self.pipeline
        pipeline.to(getattr(torch, self.config.dtype))
        for part in (pipeline, *pipeline.components.values()):
            if isinstance(part, ConfigMixin):
                # diffusers would write the folder that it was loaded from, which names this machine's disk.
                part.register_to_config(_name_or_path="")
        pipeline.save_pretrained(folder, safe_serialization=True)
        self.entry().save(folder)


def encoded(vae: Any, pictures: Tensor) -> Tensor:
    """The means of a VAE's latents (b, channels, h, w) of pictures (b, 3, size, size) uint8."""
    return vae.encode(to_model(pictures, vae.device), return_dict=False)[0].mean


@torch.no_grad()
def redraw(vae: Any, pictures: Tensor) -> Tensor:
    """Pictures (b, 3, size, size) uint8 after encoding and decoding."""
    drawn = vae.decode(encoded(vae, pictures), return_dict=False)[0]
    return ((drawn.float() + 1) * 127.5).round().clamp(0, 255).byte().cpu()


def to_model(pictures: Tensor, device: torch.device) -> Tensor:
    """Pixels as the VAE takes them, float32 from -1 to 1."""
    return pictures.to(device).float() / 127.5 - 1
