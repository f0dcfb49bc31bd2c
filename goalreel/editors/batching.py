"""Several (image, prompt, seed) edits in one call of a diffusers pipeline.

Kontext, Fill and InstructPix2Pix pair images with prompts themselves. FLUX.2-klein takes several images as
references of every prompt; Qwen-Image-Edit, Edit-Plus, LongCat and ChronoEdit take one image a call. Their
subclasses here encode prompt, image and noise one edit at a time, exactly as a single call does, and put them
together before the denoising loop. Classes of diffusers 0.42; all pictures of a call have one size.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import PIL.Image
import torch
from diffusers.pipelines.chronoedit.pipeline_chronoedit import ChronoEditPipeline
from diffusers.pipelines.flux2.pipeline_flux2_klein import Flux2KleinPipeline
from diffusers.pipelines.longcat_image.pipeline_longcat_image_edit import LongCatImageEditPipeline
from diffusers.pipelines.pipeline_utils import DiffusionPipeline
from diffusers.pipelines.qwenimage.pipeline_qwenimage_edit import QwenImageEditPipeline
from diffusers.pipelines.qwenimage.pipeline_qwenimage_edit_plus import QwenImageEditPlusPipeline
from torch.nn.functional import pad

if TYPE_CHECKING:

    class _Pipeline(DiffusionPipeline):
        """The common methods of these pipelines; diffusers has no class for them."""

        def __call__(self, *args: Any, **options: Any) -> Any: ...
        def encode_prompt(self, *args: Any, **options: Any) -> Any: ...
        def prepare_latents(self, *args: Any, **options: Any) -> Any: ...
else:
    _Pipeline = DiffusionPipeline

_PAIRS = "\0pairs"
"""A placeholder for the prompts of all pairs, as the stock call expects one prompt."""

TEXT_BATCHES = frozenset({"Flux2KleinPipeline", "FluxPipeline", "FluxKontextPipeline", "QwenImagePipeline"})
PAIR_BATCHES = frozenset(
    {"FluxKontextPipeline", "FluxFillPipeline", "StableDiffusionInstructPix2PixPipeline"}
)


class _Pairs(_Pipeline):
    """Makes a one-image pipeline draw B pictures of one prompt, and gives each its own image and prompt."""

    copies = "num_images_per_prompt"
    _pairs: list[tuple[PIL.Image.Image, str]] | None = None

    def edit_pairs(
        self,
        images: Sequence[PIL.Image.Image],
        prompts: Sequence[str],
        generator: Sequence[torch.Generator],
        **arguments: Any,
    ) -> Any:
        """Run the stock call on B edits and return its output. `images` all have one size."""
        self._pairs = list(zip(images, prompts, strict=True))
        try:
            return self(
                image=images[0],
                prompt=_PAIRS,
                generator=list(generator),
                **{self.copies: len(images)},
                **arguments,
            )
        finally:
            self._pairs = None

    def _texts(self, prompt: str | list[str]) -> list[str]:
        """The text of each pair: its own prompt for the placeholder, else the shared negative prompt."""
        prompt = prompt[0] if isinstance(prompt, list) else prompt
        return [pair_text if prompt == _PAIRS else prompt for _, pair_text in self._pairs or ()]

    def prepare_latents(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        """Prepare noise and source latents one pair at a time, and join them along the batch."""
        if self._pairs is None:
            return super().prepare_latents(*args, **options)
        image, _, *middle, generators, latents = args
        parts = [
            super(_Pairs, self).prepare_latents(
                self._preprocess(picture, image), 1, *middle, generator, latents
            )
            for (picture, _), generator in zip(self._pairs, generators, strict=True)
        ]
        joined = tuple(torch.cat([p[k] for p in parts]) for k in range(2))
        return joined + parts[0][2:]

    def _preprocess(self, picture: PIL.Image.Image, like: Any) -> Any:
        """Preprocess `picture` as the stock call made `like` from the first picture."""
        return self.image_processor.preprocess(picture, *like.shape[-2:])


class _QwenPairs(_Pairs):
    def encode_prompt(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        if self._pairs is None:
            return super().encode_prompt(*args, **options)
        prompt, image = options.pop("prompt"), options.pop("image")
        options["num_images_per_prompt"] = 1
        embeds = [
            super(_QwenPairs, self).encode_prompt([text], self._resized(picture, image), **options)[0]
            for text, (picture, _) in zip(self._texts(prompt), self._pairs, strict=True)
        ]
        longest = max(e.shape[1] for e in embeds)
        mask = torch.zeros(len(embeds), longest, dtype=torch.long, device=embeds[0].device)
        for row, e in zip(mask, embeds, strict=True):
            row[: e.shape[1]] = 1
        joined = torch.cat([pad(e, (0, 0, 0, longest - e.shape[1])) for e in embeds])
        return joined, None if bool(mask.all()) else mask

    def _resized(self, picture: PIL.Image.Image, like: Any) -> Any:
        if isinstance(like, list):
            return [self._resized(picture, like[0])]
        return self.image_processor.resize(picture, like.height, like.width)

    def _preprocess(self, picture: PIL.Image.Image, like: Any) -> Any:
        if isinstance(like, list):
            return [self._preprocess(picture, like[0])]
        return super()._preprocess(picture, like).unsqueeze(2)


class QwenImageEditPairs(_QwenPairs, QwenImageEditPipeline):
    """Qwen-Image-Edit with one image a prompt."""


class QwenImageEditPlusPairs(_QwenPairs, QwenImageEditPlusPipeline):
    """Qwen-Image-Edit-Plus (2509, 2511), which refuses batches, with one image a prompt."""


class LongCatImageEditPairs(_Pairs, LongCatImageEditPipeline):
    """LongCat-Image-Edit, which refuses batches, with one image a prompt."""

    def encode_prompt(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        """Encode each prompt with its own picture; texts are padded to one length, so embeddings join."""
        if self._pairs is None:
            return super().encode_prompt(*args, **options)
        prompt, image = options.pop("prompt"), options.pop("image")
        options["num_images_per_prompt"] = 1
        parts = []
        for text, (picture, _) in zip(self._texts(prompt), self._pairs, strict=True):
            resized: Any = self.image_processor.resize(picture, image.height * 2, image.width * 2)
            resized = self.image_processor.resize(resized, image.height, image.width)
            parts.append(super().encode_prompt(prompt=[text], image=resized, **options))
        return torch.cat([embeds for embeds, _ in parts]), parts[0][1]


class ChronoEditPairs(_Pairs, ChronoEditPipeline):
    """ChronoEdit, which takes one image a call, with one image a prompt."""

    copies = "num_videos_per_prompt"

    def encode_prompt(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        """Encode each prompt of the pairs, and the negative prompt that they share."""
        if self._pairs is None:
            return super().encode_prompt(*args, **options)
        texts = self._texts(options.pop("prompt"))
        options["num_videos_per_prompt"] = 1
        parts = [super(ChronoEditPairs, self).encode_prompt(text, **options) for text in texts]
        return tuple(None if p[0] is None else torch.cat(p) for p in zip(*parts, strict=True))

    def encode_image(self, image: Any, device: Any = None) -> torch.Tensor:
        """Encode each source picture with CLIP, one row a pair."""
        if self._pairs is None:
            return super().encode_image(image, device)
        return torch.cat([super(ChronoEditPairs, self).encode_image(p, device) for p, _ in self._pairs])

    def _preprocess(self, picture: PIL.Image.Image, like: Any) -> Any:
        return self.video_processor.preprocess(picture, *like.shape[-2:]).to(like.device, like.dtype)


class Flux2KleinPairs(Flux2KleinPipeline):
    """FLUX.2-klein with one image a prompt."""

    _paired = False

    def edit_pairs(
        self,
        images: Sequence[PIL.Image.Image],
        prompts: Sequence[str],
        generator: Sequence[torch.Generator],
        **arguments: Any,
    ) -> Any:
        """Run the stock call on B edits and return its output. `images` all have one size."""
        self._paired = True
        try:
            return self(image=list(images), prompt=list(prompts), generator=list(generator), **arguments)
        finally:
            self._paired = False

    def prepare_image_latents(
        self, images: list[torch.Tensor], batch_size: int, generator: Any, device: Any, dtype: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Make image i the only reference of prompt i, at the place of a first reference."""
        if not self._paired:
            return super().prepare_image_latents(images, batch_size, generator, device, dtype)
        single = super().prepare_image_latents
        # No generator: the latents of a source are their distribution's mode, and nothing is drawn.
        parts = [single([i], 1, None, device, dtype) for i in images]  # pyrefly: ignore[bad-argument-type]
        return torch.cat([latents for latents, _ in parts]), torch.cat([ids for _, ids in parts])


PAIRED: dict[str, type[DiffusionPipeline]] = {
    "Flux2KleinPipeline": Flux2KleinPairs,
    "QwenImageEditPipeline": QwenImageEditPairs,
    "QwenImageEditPlusPipeline": QwenImageEditPlusPairs,
    "LongCatImageEditPipeline": LongCatImageEditPairs,
    "ChronoEditPipeline": ChronoEditPairs,
}
"""Stock class -> the class that it is loaded as."""
